"""`make trace-grid`: traces every case of the grid, and those that came from elsewhere, and writes the file again.

A row that is there already is kept where `--new` is given.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

from app.calibration.tracing.grid import cases
from app.calibration.tracing.rows import Case, rows_in, write
from app.calibration.tracing.setups import GIB_BYTES, Traced
from app.calibration.tracing.step import trace

GRID = Path(__file__).resolve().parents[3] / "tests" / "reference" / "traced_memory.csv"


def main() -> None:
    """Trace what is asked, a row at a time."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--new", action="store_true", help="keep what is there, trace what is not")
    options = asked.parse_args()
    gc.freeze()  # what was imported stays; collecting between traces need not look at it
    before = list(rows_in(GRID)) if GRID.exists() else []
    write(GRID, _traced(before, keep=options.new))


def _traced(before: list[tuple[Case, Traced]], *, keep: bool) -> Iterator[tuple[Case, Traced]]:
    known = {(case.model, case.layers, case.setup): (case, traced) for case, traced in before}
    elsewhere = [case for case, _ in before if case.elsewhere[0]]
    for i, case in enumerate((*elsewhere, *cases())):
        there = known.get((case.model, case.layers, case.setup))
        traced = there[1] if keep and there is not None else trace(case.setup)
        sys.stderr.write(f"{i} {case.model} {traced.peak_bytes / GIB_BYTES:.3f} GiB, {traced.seconds:.1f} s\n")
        yield case, traced


if __name__ == "__main__":
    main()
