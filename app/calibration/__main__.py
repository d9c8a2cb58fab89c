"""`python -m app.calibration`: fit the factors again and report the error; nothing is written.

A median error of unseen sources that rose by more than a tenth over the committed one is a failure.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from app.calibration.calibrate import DATA, Calibration, calibrated, notes_of

WORSE = 1.1


def lines(found: Calibration) -> Iterator[str]:
    """The errors of a run, a line a quantity."""
    notes = notes_of(found)
    for kind, figures in notes["headline"].items():
        errors = f"unseen source {figures['held_out']:6.1%}   in sample {figures['in_sample']:6.1%}"
        yield f"{kind:16} {figures['rows']:6.0f} rows   {errors}"
    off_by = f"{notes['scaling']['median_points']:.1f} points in the median"
    far = notes["scaling"]["p90_points"]
    yield f"{'scale-ups':16} {len(found.ups):6} pairs  off by {off_by}, 90th percentile {far:.1f}"
    off = np.abs([log.off for log in found.logs])
    middle, far = np.median(off), np.quantile(off, 0.9)
    yield f"{'kv cache':16} {len(off):6} logs   median {middle:6.1%}   90th percentile {far:6.1%}"


def risen(committed: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Median errors of unseen sources that are worse than committed by more than a tenth, in words."""
    return [
        f"{kind}: {now[kind]['held_out']:.1%} is more than a tenth above the committed {figures['held_out']:.1%}"
        for kind, figures in committed.items()
        if now[kind]["held_out"] > WORSE * figures["held_out"]
    ]


def main() -> int:
    found = calibrated()
    print("\n".join(lines(found)))
    worse = risen(json.loads((DATA / "accuracy.json").read_text())["headline"], notes_of(found)["headline"])
    print("\n".join(worse) or "No error rose by more than a tenth.")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
