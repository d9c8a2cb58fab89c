"""Published peaks of memory and the runs behind them: how far predictions are, and what is answered not to fit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from app.calibration.training.answered import Answered, misfits
from app.calibration.training.sources import recipe_of
from app.sizing.evidence import Compared

PEAK = "training_memory"
TOO_LOW = 0.9  # what is predicted by so much less is an out-of-memory error

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks of one part of the published runs, each predicted by a fit and a spread that never saw its source.

    `too_low` is the share predicted more than a tenth too low, `too_low_with_reserve` the same with what a recommended
    plan keeps free.
    """

    part: str
    value: str
    rows: int
    sources: int
    median: float
    p90: float
    bias: float
    too_low: float
    too_low_with_reserve: float
    inside: float
    width: float


def recomputed(row: Row) -> str:
    """What a run recomputes, as its row or its source says."""
    said = recipe_of(row).said
    return row["activation_checkpointing"] or (said and said.layout) or "not said"


PARTS: Mapping[str, Callable[[Row], str]] = MappingProxyType(
    {
        "all": lambda _row: "all",
        "recipe": lambda row: recipe_of(row).open or "published",
        "method": lambda row: str(row["method"]),
        "recomputation": recomputed,
        "figure": lambda row: recipe_of(row).figure.value,
        "source": lambda row: str(row["source_key"]),
    }
)


def peaks_of(part: str, value: str, rows: Sequence[Compared]) -> Peaks:
    """How far the peaks of one part are off."""
    ratio = np.array([r.held_out / r.measured for r in rows])
    off = np.abs(ratio - 1)
    reserved = np.array([r.promised / r.measured for r in rows])
    inside = [r.low <= r.measured <= r.high for r in rows]
    width = [r.high / r.low for r in rows]
    figures = {
        "median": np.median(off),
        "p90": np.quantile(off, 0.9),
        "bias": np.median(ratio),
        "too_low": np.mean(ratio < TOO_LOW),
        "too_low_with_reserve": np.mean(reserved < TOO_LOW),
        "inside": np.mean(inside),
        "width": np.median(width),
    }
    sources = len({r.source for r in rows})
    return Peaks(part, value, len(rows), sources, **{name: round(float(v), 4) for name, v in figures.items()})


def every_peak(compared: Iterable[Compared], published: Iterable[Row]) -> list[Peaks]:
    """All peaks, and those of every part of the published runs, the largest first."""
    said = {row["id"]: row for row in published}
    found = [r for r in compared if r.kind == PEAK]
    told: list[Peaks] = []
    for part, value_of in PARTS.items():
        groups: dict[str, list[Compared]] = defaultdict(list)
        for r in found:
            groups[value_of(said[r.measurement])].append(r)
        told += [peaks_of(part, value, groups[value]) for value in sorted(groups, key=lambda v: (-len(groups[v]), v))]
    return told


def every_run(answers: Sequence[Answered]) -> dict[str, Any]:
    """How many published runs were asked as /estimate is, with their own layouts, and which are answered not to fit."""
    lost = misfits(answers)
    asked, by_source = Counter(a.source for a in answers), Counter(a.source for a in lost)
    return {
        "asked": len(answers),
        "misfits": len(lost),
        "by_source": {source: [count, asked[source]] for source, count in by_source.most_common()},
    }
