"""Published peaks of memory: prediction errors, and runs that /estimate reports as not fitting."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from app.sizing.evidence import Compared
from calibration.training.answered import AnsweredRun, false_misfits
from calibration.training.recipes import recipe_of

PEAK = "training_memory"
TOO_LOW = 0.9  # predicted over measured below which a plan may run out of memory

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks of one part of the published runs, predicted by a fit and a spread that never saw their source.

    `too_low` is the share predicted more than a tenth too low. `too_low_with_reserve` is the same share for the
    prediction plus the reserve that a recommended plan keeps free.
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


def recomputation_of(row: Row) -> str:
    """Recomputation of a run, from its row or its source."""
    said = recipe_of(row).said
    return row["activation_checkpointing"] or (said and said.recomputation_layout) or "not said"


PARTS: Mapping[str, Callable[[Row], str]] = MappingProxyType(
    {
        "all": lambda _row: "all",
        "recipe": lambda row: recipe_of(row).open or "published",
        "method": lambda row: str(row["method"]),
        "recomputation": recomputation_of,
        "figure": lambda row: recipe_of(row).figure.value,
        "source": lambda row: str(row["source_key"]),
    }
)


def peaks_of(part: str, value: str, rows: Sequence[Compared]) -> Peaks:
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


def summarize_peaks(compared: Iterable[Compared], published: Iterable[Row]) -> list[Peaks]:
    """Errors of all peaks and of every part of the published runs, largest parts first."""
    said = {row["id"]: row for row in published}
    found = [r for r in compared if r.kind == PEAK]
    peaks: list[Peaks] = []
    for part, value_of in PARTS.items():
        groups: dict[str, list[Compared]] = defaultdict(list)
        for r in found:
            groups[value_of(said[r.measurement])].append(r)
        peaks += [peaks_of(part, value, groups[value]) for value in sorted(groups, key=lambda v: (-len(groups[v]), v))]
    return peaks


def summarize_runs(answers: Sequence[AnsweredRun]) -> dict[str, Any]:
    """Number of published runs asked of /estimate with their own layouts, and of those reported as not fitting."""
    lost = false_misfits(answers)
    asked, by_source = Counter(a.source for a in answers), Counter(a.source for a in lost)
    return {
        "asked": len(answers),
        "misfits": len(lost),
        "by_source": {source: [count, asked[source]] for source, count in by_source.most_common()},
    }
