"""Published results beside the engine's own predictions of them: what an answer's interval and neighbours rest on.

An interval is the spread of measured over predicted among results whose source was left out of the
fit, taken from results as near to the rest as the question is: the further from data, the wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.hardware.achieved import vendor_of
from app.sizing.hardware.engines import engine_named

LOW, HIGH = 0.1, 0.9  # of what is measured, an interval leaves out a tenth on either side
FEWEST = 40  # results that a spread is taken from
# Without any evidence: measured over predicted, 10th and 90th percentile of the uncalibrated engine.
UNKNOWN = (0.4, 1.9)
# At this distance a result is of the same model size, stack, layout and load.
SAME = 0.2
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
    set_aside: bool
    model: str
    setting: Setting

    @property
    def kind(self) -> str:
        return kind_of(self.metric, self.setting)

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
        self._usable: Mask = np.array([not r.set_aside for r in rows], dtype=bool)
        self._kind = np.array([r.kind for r in rows])
        self._near: Codes = np.array([int(r.near) for r in rows], dtype=np.int64)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._off: Column = np.array([r.measured / r.held_out for r in rows], dtype=np.float64)
        self._source = np.array([r.source for r in rows])
        self._quantiles: dict[tuple[str, Near, str], tuple[float, float]] = {}
        self._widening: dict[str, float] = {}

    def near(self, setting: Setting, *, training: bool = False) -> Near:
        return nearness(setting.engine, setting.family, setting.format_class, self.seen[training])

    def spread(self, kind: str, near: Near, *, unseen: str = "") -> tuple[float, float]:
        """Measured over predicted, 10th and 90th percentile: of results as near as this, wider company where they are
        few.

        Sources differ from one another more than the results of one do, so the percentiles are widened
        until they hold four fifths of every source's results when they are taken from the other sources.
        `unseen` leaves one source out, as the accuracy report does.
        """
        low, high = self.quantiles(kind, near, unseen)
        widening = self.widening(kind)
        return low**widening, high**widening

    def quantiles(self, kind: str, near: Near, unseen: str) -> tuple[float, float]:
        """The percentiles before they are widened."""
        if (kind, near, unseen) not in self._quantiles:
            self._quantiles[kind, near, unseen] = self._found(kind, near, unseen)
        return self._quantiles[kind, near, unseen]

    def _found(self, kind: str, near: Near, unseen: str) -> tuple[float, float]:
        of_kind = (self._kind == kind) & self._usable & (self._source != unseen)
        for level in range(near, -1, -1):  # what is further away than any result gets the furthest there is
            chosen = of_kind & (self._near == level)
            if chosen.sum() >= FEWEST:
                low, high = np.quantile(self._off[chosen], (LOW, HIGH))
                return float(min(low, 0.95)), float(max(high, 1.05))
        return UNKNOWN

    def widening(self, kind: str) -> float:
        """The power of the percentiles that holds four fifths of unseen sources' results; at least 1."""
        if kind not in self._widening:
            rows = np.flatnonzero((self._kind == kind) & self._usable)
            needed = [1.0]
            for i in rows.tolist():
                low, high = self.quantiles(kind, Near(self._near[i]), str(self._source[i]))
                off = np.log(self._off[i])
                needed.append(float(off / np.log(high if off > 0 else low)))
            self._widening[kind] = max(1.0, float(np.quantile(needed, HIGH - LOW)))
        return self._widening[kind]

    def neighbours(self, setting: Setting, count: int = 3, *, training: bool = False) -> tuple[Neighbour, ...]:
        """The nearest results of serving, or of training, each measurement once."""
        return self._nearest[training].to(setting, count)


# What a difference counts for: words by whether they agree, numbers by powers of two.
WEIGHTS = {
    "vendor": 1.0,
    "family": 0.5,
    "accelerator": 0.2,
    "runtime": 0.5,
    "engine": 0.3,
    "format_class": 0.3,
    "load": 0.3,
}
SCALES = np.array([0.4, 0.3, 0.15, 0.1, 0.1])


def word(setting: Setting, name: str) -> str:
    if name == "vendor":
        return vendor_of(setting.family)
    return engine_named(setting.engine).runtime if name == "runtime" else str(getattr(setting, name))


def numbers_of(s: Setting) -> Column:
    values = (s.params, s.devices, s.in_flight, s.input_tokens, s.output_tokens)
    return np.log2(np.maximum(np.array(values, dtype=np.float64), 1.0))


class Nearest:
    """Results of one phase as columns, one row for each measurement and setting: of its figures its rate, where it has one.

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
        said = [tuple(word(r.setting, name) for name in WEIGHTS) for r in self.rows]
        self._combinations = sorted(set(said))
        index = {words: i for i, words in enumerate(self._combinations)}
        self._combination: Codes = np.array([index[words] for words in said], dtype=np.int64)
        self._words = np.array(self._combinations).reshape(len(self._combinations), len(WEIGHTS)).T.copy()

    def to(self, setting: Setting, count: int) -> tuple[Neighbour, ...]:
        """The nearest to a setting, each measurement once."""
        if not self.rows:
            return ()
        apart = np.zeros(len(self._combinations))
        for said, (name, weight) in zip(self._words, WEIGHTS.items(), strict=True):
            apart += weight * (said != word(setting, name))
        off = self._numbers - scaled(setting)[:, None]
        distance = np.sqrt(np.einsum("ij,ij->j", off, off)) + apart[self._combination]
        near = np.argpartition(distance + self._behind, min(len(distance) - 1, 8 * count))[: 8 * count + 1]
        found: dict[str, Neighbour] = {}
        for i in near[np.lexsort((near, np.round(distance[near], 9) + self._behind[near]))].tolist():
            found.setdefault(self.rows[i].measurement, Neighbour(self.rows[i], float(distance[i])))
            if len(found) == count:
                break
        return tuple(found.values())


def scaled(setting: Setting) -> Column:
    """Numbers of a setting such that distances add."""
    values: Column = numbers_of(setting) * SCALES
    return values
