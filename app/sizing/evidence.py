"""Published results with the engine's own predictions of them, and a distance between settings."""

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


class Familiarity(IntEnum):
    """How much other published results say about a software stack."""

    STACK = 0  # the engine on the hardware family in the format class
    ENGINE_ON_FAMILY = 1  # the engine on the family in another format class
    ENGINE_AND_FAMILY = 2  # the engine and the family, but not together
    FAR = 3  # the engine or the family is missing


@dataclass(frozen=True, slots=True)
class Setting:
    """What was run, as far as distances between results depend on it."""

    engine: str
    family: str  # hardware family
    format_class: str  # class of the weight format
    accelerator: str  # slug of the accelerator
    load: str  # kind of load, such as "closed"
    params: float  # parameters of the model
    devices: float  # number of accelerators
    in_flight: float  # concurrent requests
    input_tokens: float  # tokens of a prompt
    output_tokens: float  # tokens of an output


def reported_quantity(metric: str, setting: Setting) -> str:
    """Quantity that errors are reported for; the rate of a single stream is separate from throughput."""
    if metric in TRAINING_KINDS:
        return TRAINING_KINDS[metric]
    if metric in RATES:
        return "single_stream" if setting.load == "closed" and setting.in_flight <= 1 else "throughput"
    return metric.removesuffix("_tokens_per_s").removesuffix("_s")


def lower_is_better(metric: str) -> bool:
    """Whether less is better: true for a time or a size, false for a rate."""
    return not metric.endswith("per_s")


@dataclass(frozen=True, slots=True)
class Compared:
    """One published result in base units, with the engine's predictions of it."""

    measurement: str  # key of the measurement
    source: str  # key of the source
    reference: str  # citation of the source
    metric: str  # what was measured
    measured: float  # published value
    predicted: float  # prediction of the current fit
    held_out: float  # prediction of a fit without this source
    near: Familiarity  # what other sources say about the stack
    neighbor_sources: float  # other sources for the same runtime on the same family
    distance: float  # distance to the nearest result of another source
    low: float  # lower end of the 80 % interval around `held_out`, from spreads without this source
    high: float  # upper end of that interval
    promised: float  # value at 80 % confidence, which a plan would rely on
    excluded: bool  # excluded from fits
    model: str  # name of the model
    setting: Setting

    @property
    def kind(self) -> str:
        """Quantity that errors are reported for."""
        return reported_quantity(self.metric, self.setting)

    @property
    def log_shortfall(self) -> float:
        """Logarithm of how much slower, or larger, the result is than the held-out prediction."""
        off = math.log(self.measured / self.held_out)
        return off if lower_is_better(self.metric) else -off

    @property
    def unit(self) -> str:
        """Unit of the result and the predictions."""
        if self.metric.endswith("bytes"):
            return "B"
        if self.metric.endswith("per_s"):
            return "samples/s" if "samples" in self.metric else "tokens/s"
        return "s"


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A published result near a question."""

    compared: Compared  # the result
    distance: float  # distance from the question; 0 is the same setting


@dataclass(frozen=True, slots=True)
class AttributeWeight:
    """Weight of one attribute in the distance between two results."""

    weight: float  # contribution to the distance
    reason: str  # justification of the weight


# Assumed weights, which rank results by relevance to an engineer. A categorical attribute that differs adds its weight;
# a number adds its weight per factor of two.
CATEGORICAL_WEIGHTS: Mapping[str, AttributeWeight] = MappingProxyType(
    {
        "vendor": AttributeWeight(1.0, "each vendor has its own software stack"),
        "family": AttributeWeight(0.5, "hardware generations differ in rates and kernels"),
        "accelerator": AttributeWeight(0.2, "types of one family differ in memory and power"),
        "runtime": AttributeWeight(0.5, "runtimes issue work in different ways"),
        "engine": AttributeWeight(0.3, "engines of one runtime differ in their schedulers"),
        "format_class": AttributeWeight(0.3, "formats differ in kernels and rates"),
        "load": AttributeWeight(0.3, "one stream and many streams are different tests"),
    }
)
NUMERIC_WEIGHTS: Mapping[str, AttributeWeight] = MappingProxyType(
    {
        "params": AttributeWeight(0.4, "the model size determines most of the time"),
        "devices": AttributeWeight(0.3, "communication grows with the number of devices"),
        "in_flight": AttributeWeight(0.15, "the batch size decides whether memory or compute limits a step"),
        "input_tokens": AttributeWeight(0.1, "prompts of similar length behave alike"),
        "output_tokens": AttributeWeight(0.1, "outputs of similar length behave alike"),
    }
)
NUMERIC_SCALES: Column = np.array([d.weight for d in NUMERIC_WEIGHTS.values()])


def stack_familiarity(engine: str, family: str, format_class: str, seen: set[tuple[str, str, str]]) -> Familiarity:
    """How much of a stack appears in the results seen."""
    if (engine, family, format_class) in seen:
        return Familiarity.STACK
    if any(e == engine and f == family for e, f, _ in seen):
        return Familiarity.ENGINE_ON_FAMILY
    if any(e == engine for e, _, _ in seen) and any(f == family for _, f, _ in seen):
        return Familiarity.ENGINE_AND_FAMILY
    return Familiarity.FAR


class Evidence:
    """All results of a catalog, as columns that can be searched and fitted."""

    def __init__(self, rows: Sequence[Compared]) -> None:
        rows = sorted(rows, key=lambda r: (r.measurement, r.metric))
        self.rows = tuple(rows)
        self.seen = {
            trains: {
                (r.setting.engine, r.setting.family, r.setting.format_class)
                for r in rows
                if not r.excluded and (r.metric in TRAINING_KINDS) == trains
            }
            for trains in (False, True)
        }
        self._nearest = {
            trains: NearestIndex([r for r in rows if (r.metric in TRAINING_KINDS) == trains])
            for trains in (False, True)
        }

    def get_familiarity(self, setting: Setting, *, training: bool = False) -> Familiarity:
        """How much other published results say about the stack of a setting."""
        return stack_familiarity(setting.engine, setting.family, setting.format_class, self.seen[training])

    def find_neighbors(self, setting: Setting, count: int = 3, *, training: bool = False) -> tuple[Neighbor, ...]:
        """The nearest results of serving, or of training; each measurement appears once."""
        return self._nearest[training].find_nearest(setting, count)


def stack_attribute(name: str, engine: str, family: str, format_class: str) -> str:
    """One categorical attribute of a stack."""
    if name == "vendor":
        return vendor_of(family)
    if name == "runtime":
        return engine_named(engine).runtime
    return {"engine": engine, "family": family, "format_class": format_class}[name]


def runtime_and_family(engine: str, family: str) -> tuple[str, str]:
    """Runtime and hardware family, which engines that issue work in the same way share."""
    return engine_named(engine).runtime, family


def setting_attribute(setting: Setting, name: str) -> str:
    """One categorical attribute of a setting."""
    if name in ("accelerator", "load"):
        return str(getattr(setting, name))
    return stack_attribute(name, setting.engine, setting.family, setting.format_class)


def scale_numbers(setting: Setting) -> Column:
    """Numbers of a setting as weighted binary logarithms, so that distances add."""
    values: Column = np.log2(
        np.maximum(np.array([getattr(setting, name) for name in NUMERIC_WEIGHTS], dtype=np.float64), 1.0)
    )
    return values * NUMERIC_SCALES


def index_values(words: Iterable[str]) -> dict[str, int]:
    """An index for each distinct value, in sorted order."""
    return {word: i for i, word in enumerate(sorted(set(words)))}


class NearestIndex:
    """Results of one phase as columns: one row per measurement and setting, a rate where one was published.

    Distances in categorical attributes are computed once per combination; there are far fewer combinations than
    results.
    """

    def __init__(self, rows: Sequence[Compared]) -> None:
        first_by_setting: dict[tuple[str, Setting], Compared] = {}
        for r in sorted(rows, key=lambda r: not r.metric.endswith("tokens_per_s")):
            first_by_setting.setdefault((r.measurement, r.setting), r)
        self.rows = sorted(first_by_setting.values(), key=lambda r: r.measurement)
        self._numbers: Column = (
            np.array([scale_numbers(r.setting) for r in self.rows]).reshape(len(self.rows), 5).T.copy()
        )
        # At the same distance, a rate comes before other metrics.
        self._behind: Column = np.array([0.0 if r.metric.endswith("tokens_per_s") else 1e-6 for r in self.rows])
        attributes = [tuple(setting_attribute(r.setting, name) for name in CATEGORICAL_WEIGHTS) for r in self.rows]
        self._combinations = sorted(set(attributes))
        index = {words: i for i, words in enumerate(self._combinations)}
        self._combination: Codes = np.array([index[words] for words in attributes], dtype=np.int64)
        self._codes = [index_values(words[i] for words in self._combinations) for i in range(len(CATEGORICAL_WEIGHTS))]
        self._words: list[Codes] = [
            np.array([known[words[i]] for words in self._combinations], dtype=np.int64)
            for i, known in enumerate(self._codes)
        ]

    def find_nearest(self, setting: Setting, count: int) -> tuple[Neighbor, ...]:
        """The results nearest to a setting; each measurement appears once."""
        if not self.rows:
            return ()
        categorical = np.zeros(len(self._combinations))
        for codes, known, (name, counts) in zip(self._words, self._codes, CATEGORICAL_WEIGHTS.items(), strict=True):
            categorical += counts.weight * (codes != known.get(setting_attribute(setting, name), -1))
        off = self._numbers - scale_numbers(setting)[:, None]
        distance = np.sqrt(np.einsum("ij,ij->j", off, off)) + categorical[self._combination]
        near = np.argpartition(distance + self._behind, min(len(distance) - 1, 8 * count))[: 8 * count + 1]
        found: dict[str, Neighbor] = {}
        for i in near[np.lexsort((near, np.round(distance[near], 9) + self._behind[near]))].tolist():
            found.setdefault(self.rows[i].measurement, Neighbor(self.rows[i], float(distance[i])))
            if len(found) == count:
                break
        return tuple(found.values())
