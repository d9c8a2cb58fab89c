"""Published results beside the engine's own predictions of them, and how near one setting is to another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.hardware.achieved import vendor_of
from app.sizing.hardware.engines import engine_named

RATES = ("output_tokens_per_s", "total_tokens_per_s", "decode_tokens_per_s")
TRAINING_KINDS = {
    "training_tokens_per_s": "training",
    "training_samples_per_s": "training_samples",
    "peak_memory_bytes": "training_memory",
}


class Near(IntEnum):
    """How much of a stack is known from elsewhere."""

    STACK = 0  # the engine on the family in the format class
    ENGINE_ON_FAMILY = 1
    ENGINE_AND_FAMILY = 2  # each, but not together
    FAR = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """What was run, as far as distances go."""

    engine: str
    family: str
    format_class: str
    accelerator: str
    load: str
    params: float
    devices: float
    in_flight: float
    input_tokens: float
    output_tokens: float


def kind_of(metric: str, setting: Setting) -> str:
    """The quantity errors are reported for: one stream's rate apart from throughput."""
    if metric in TRAINING_KINDS:
        return TRAINING_KINDS[metric]
    if metric in RATES:
        return "single_stream" if setting.load == "closed" and setting.in_flight <= 1 else "throughput"
    return metric.removesuffix("_tokens_per_s").removesuffix("_s")


def is_cost(metric: str) -> bool:
    """Whether less of it is better: a time or a size, rather than a rate."""
    return not metric.endswith("per_s")


@dataclass(frozen=True, slots=True)
class Compared:
    """One published figure, in base units, with the engine's prediction of it.

    `held_out` is the prediction of a fit that never saw the figure's source.
    """

    measurement: str
    source: str
    reference: str
    metric: str
    measured: float
    predicted: float
    held_out: float
    near: Near
    sources_beside: float  # others' of the same runtime on the same family
    distance: float  # to others' nearest result
    low: float  # of the 80 % interval about `held_out`, by spreads that never saw the source either
    high: float
    promised: float  # what would have been planned for at 80 %
    set_aside: bool
    model: str
    setting: Setting

    @property
    def kind(self) -> str:
        return kind_of(self.metric, self.setting)

    @property
    def worse(self) -> float:
        """Logarithm of how much slower, or larger, the result is than the prediction that never saw its source."""
        off = math.log(self.measured / self.held_out)
        return off if is_cost(self.metric) else -off

    @property
    def unit(self) -> str:
        """Of `measured` and of the predictions."""
        if self.metric.endswith("bytes"):
            return "B"
        if self.metric.endswith("per_s"):
            return "samples/s" if "samples" in self.metric else "tokens/s"
        return "s"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A published result near a question."""

    compared: Compared
    distance: float


@dataclass(frozen=True, slots=True)
class Difference:
    """What a disagreement counts for in the distance between two results."""

    weight: float
    reason: str


# Chosen so that results come in the order in which a person would look at them; a word counts whole, a number by the
# powers of two it is apart.
WORDS: Mapping[str, Difference] = MappingProxyType(
    {
        "vendor": Difference(1.0, "another vendor is another software stack"),
        "family": Difference(0.5, "another generation has other rates and kernels"),
        "accelerator": Difference(0.2, "types of one family differ in memory and power"),
        "runtime": Difference(0.5, "work is issued in another way"),
        "engine": Difference(0.3, "engines of one runtime differ by their schedulers"),
        "format_class": Difference(0.3, "other kernels, another rate"),
        "load": Difference(0.3, "one stream and many are different tests"),
    }
)
NUMBERS: Mapping[str, Difference] = MappingProxyType(
    {
        "params": Difference(0.4, "the size of the model sets most of the time"),
        "devices": Difference(0.3, "communication grows with them"),
        "in_flight": Difference(0.15, "the batch moves a step between memory and arithmetic"),
        "input_tokens": Difference(0.1, "prompts of one order of length are alike"),
        "output_tokens": Difference(0.1, "outputs of one order of length are alike"),
    }
)
SCALES: Column = np.array([d.weight for d in NUMBERS.values()])


def nearness(engine: str, family: str, format_class: str, seen: set[tuple[str, str, str]]) -> Near:
    """How much of a stack others have measured."""
    if (engine, family, format_class) in seen:
        return Near.STACK
    if any(e == engine and f == family for e, f, _ in seen):
        return Near.ENGINE_ON_FAMILY
    if any(e == engine for e, _, _ in seen) and any(f == family for _, f, _ in seen):
        return Near.ENGINE_AND_FAMILY
    return Near.FAR


class Evidence:
    """All comparisons of a catalogue, as columns to search and to take spreads from."""

    def __init__(self, rows: Sequence[Compared]) -> None:
        rows = sorted(rows, key=lambda r: (r.measurement, r.metric))
        self.rows = tuple(rows)
        self.seen = {
            trains: {
                (r.setting.engine, r.setting.family, r.setting.format_class)
                for r in rows
                if not r.set_aside and (r.metric in TRAINING_KINDS) == trains
            }
            for trains in (False, True)
        }
        self._nearest = {
            trains: Nearest([r for r in rows if (r.metric in TRAINING_KINDS) == trains]) for trains in (False, True)
        }

    def near(self, setting: Setting, *, training: bool = False) -> Near:
        return nearness(setting.engine, setting.family, setting.format_class, self.seen[training])

    def neighbours(self, setting: Setting, count: int = 3, *, training: bool = False) -> tuple[Neighbour, ...]:
        """The nearest results of serving, or of training, each measurement once."""
        return self._nearest[training].to(setting, count)


def word_of(name: str, engine: str, family: str, format_class: str) -> str:
    """One word about a stack."""
    if name == "vendor":
        return vendor_of(family)
    if name == "runtime":
        return engine_named(engine).runtime
    return {"engine": engine, "family": family, "format_class": format_class}[name]


def runtime_on(engine: str, family: str) -> tuple[str, str]:
    """What engines share that issue work alike on one family."""
    return engine_named(engine).runtime, family


def word(setting: Setting, name: str) -> str:
    if name in ("accelerator", "load"):
        return str(getattr(setting, name))
    return word_of(name, setting.engine, setting.family, setting.format_class)


def scaled(setting: Setting) -> Column:
    """Numbers of a setting such that distances add: powers of two, by what they count for."""
    values: Column = np.log2(np.maximum(np.array([getattr(setting, name) for name in NUMBERS], dtype=np.float64), 1.0))
    return values * SCALES


def indexed(words: Iterable[str]) -> dict[str, int]:
    """A number for each word."""
    return {word: i for i, word in enumerate(sorted(set(words)))}


class Nearest:
    """Results of one phase as columns, one row for each measurement and setting: its rate, where it has one.

    What words count for is worked out once per combination of words, of which there are far fewer than results.
    """

    def __init__(self, rows: Sequence[Compared]) -> None:
        first: dict[tuple[str, Setting], Compared] = {}
        for r in sorted(rows, key=lambda r: not r.metric.endswith("tokens_per_s")):
            first.setdefault((r.measurement, r.setting), r)
        self.rows = sorted(first.values(), key=lambda r: r.measurement)
        self._numbers: Column = np.array([scaled(r.setting) for r in self.rows]).reshape(len(self.rows), 5).T.copy()
        # A rate stands before other figures at the same distance.
        self._behind: Column = np.array([0.0 if r.metric.endswith("tokens_per_s") else 1e-6 for r in self.rows])
        said = [tuple(word(r.setting, name) for name in WORDS) for r in self.rows]
        self._combinations = sorted(set(said))
        index = {words: i for i, words in enumerate(self._combinations)}
        self._combination: Codes = np.array([index[words] for words in said], dtype=np.int64)
        self._codes = [indexed(words[i] for words in self._combinations) for i in range(len(WORDS))]
        self._words: list[Codes] = [
            np.array([known[words[i]] for words in self._combinations], dtype=np.int64)
            for i, known in enumerate(self._codes)
        ]

    def to(self, setting: Setting, count: int) -> tuple[Neighbour, ...]:
        """The nearest to a setting, each measurement once."""
        if not self.rows:
            return ()
        apart = np.zeros(len(self._combinations))
        for said, known, (name, counts) in zip(self._words, self._codes, WORDS.items(), strict=True):
            apart += counts.weight * (said != known.get(word(setting, name), -1))
        off = self._numbers - scaled(setting)[:, None]
        distance = np.sqrt(np.einsum("ij,ij->j", off, off)) + apart[self._combination]
        near = np.argpartition(distance + self._behind, min(len(distance) - 1, 8 * count))[: 8 * count + 1]
        found: dict[str, Neighbour] = {}
        for i in near[np.lexsort((near, np.round(distance[near], 9) + self._behind[near]))].tolist():
            found.setdefault(self.rows[i].measurement, Neighbour(self.rows[i], float(distance[i])))
            if len(found) == count:
                break
        return tuple(found.values())
