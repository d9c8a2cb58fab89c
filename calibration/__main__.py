"""`python -m calibration`: refits the factors and reports the error; writes no file.

The exit status is 1 in three cases: a median error or an interval score of unseen sources is more than a tenth above
the committed one, so is a share of pairs in the wrong order, or the 80 % intervals of a quantity hold a share of
results outside `COVERAGE_BOUNDS`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from app.compiled import compile_simulation
from app.sizing.accuracy import WIDEST_INTERVALS
from app.sizing.question import CONFIDENCE_LEVELS
from app.sizing.words import percent
from calibration.back_test import BackTest, back_test
from calibration.calibrate import DATA, Calibration, accuracy_notes, calibrate_data_files
from calibration.ordering import ALL

REGRESSION_FACTOR = 1.1
COVERAGE_BOUNDS = (0.70, 0.90)
CHECKED_FIGURES = {"held_out": "the median error", "interval_score": "the interval score"}


def report_lines(found: Calibration, notes: Mapping[str, Any]) -> Iterator[str]:
    """The errors of a fit and the quality of its intervals, one line per quantity."""
    for kind, figures in notes["headline"].items():
        errors = f"unseen source {figures['held_out']:6.1%}   in sample {figures['in_sample']:6.1%}"
        inside = f"80 % interval holds {figures['coverage']:4.0%}   high/low {figures['width']:5.2f}"
        worth = f"score {figures['interval_score']:5.2f}   kept {figures['kept']:4.0%}"
        yield f"{kind:16} {figures['rows']:6.0f} rows   {errors}   {inside}   {worth}"
    for shares in notes["order"]:
        if shares["metric"] == ALL:
            right = f"unseen source {shares['unseen_source']:6.1%}   in sample {shares['in_sample']:6.1%}"
            yield f"order by {shares['compared']:26} {shares['pairs']:6} pairs   {right}"
    off_by = f"{notes['scaling']['median_points']:.1f} points (median)"
    far = notes["scaling"]["p90_points"]
    yield f"{'scale-ups':16} {len(found.ups):6} pairs  error {off_by}, 90th percentile {far:.1f}"
    off = np.abs([log.relative_error for log in found.logs])
    middle, far = np.median(off), np.quantile(off, 0.9)
    yield f"{'kv cache':16} {len(off):6} logs   median {middle:6.1%}   90th percentile {far:6.1%}"


def back_test_lines(tried: Iterable[BackTest]) -> Iterator[str]:
    """Share of results that met the guaranteed value, one line per quantity, one column per confidence level."""
    yield f"{'sized at':44}" + "".join(f"{level:8.0%}" for level in CONFIDENCE_LEVELS)
    for t in tried:
        yield f"{t.quantity + ', ' + t.family:44}" + "".join(f"{share:8.0%}" for share in t.kept_shares)


def regressions(committed: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Median errors and interval scores of unseen sources that are more than a tenth above the committed ones."""
    return [
        f"{kind}: {words} is {now[kind][name]:.3f}, more than a tenth above the committed {figures[name]:.3f}"
        for kind, figures in committed.items()
        for name, words in CHECKED_FIGURES.items()
        if now[kind][name] > REGRESSION_FACTOR * figures[name]
    ]


def disordered(committed: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> list[str]:
    """Comparisons with a share of pairs in the wrong order that is more than a tenth above the committed one."""
    before, after = (
        {s["compared"]: 1 - s["unseen_source"] for s in order if s["metric"] == ALL} for order in (committed, now)
    )
    return [
        f"order by {compared}: {percent(after[compared], 1)} of the pairs are wrong, more than a tenth above "
        f"the committed {percent(wrong, 1)}"
        for compared, wrong in before.items()
        if after[compared] > REGRESSION_FACTOR * wrong
    ]


def miscalibrated_intervals(now: Mapping[str, Any]) -> list[str]:
    """Quantities whose 80 % intervals hold too few results of unseen sources, or too many because they are too wide."""
    low, high = COVERAGE_BOUNDS
    return [
        f"{kind}: 80 % intervals hold {percent(now[kind]['coverage'])} of results, "
        f"outside {percent(low)} to {percent(high)}"
        for kind in WIDEST_INTERVALS
        if not low <= now[kind]["coverage"] <= high
    ]


def main() -> int:
    compile_simulation()
    found = calibrate_data_files()
    notes = accuracy_notes(found)
    print("\n".join(report_lines(found, notes)))
    print("\n".join(back_test_lines(back_test(found.compared))))
    committed = json.loads((DATA / "accuracy.json").read_text())
    worse = [
        *regressions(committed["headline"], notes["headline"]),
        *disordered(committed["order"], notes["order"]),
        *miscalibrated_intervals(notes["headline"]),
    ]
    passed = (
        "No error, interval score or share of pairs in the wrong order rose by more than a tenth, and all intervals "
        "have the required coverage."
    )
    print("\n".join(worse) or passed)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
