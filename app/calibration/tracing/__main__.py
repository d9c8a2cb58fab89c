"""`make trace-grid`: traces every case of the grid and every case from other tools, and rewrites the file.

With `--new`, existing rows are kept.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

from app.calibration.tracing.grid import all_cases
from app.calibration.tracing.rows import Case, rows_in, write_grid
from app.calibration.tracing.setups import GIB_BYTES, Traced
from app.calibration.tracing.step import trace

GRID = Path(__file__).resolve().parents[3] / "tests" / "reference" / "traced_memory.csv"


def main() -> None:
    """Traces the cases, one row at a time."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--new", action="store_true", help="keep existing rows and trace the missing ones")
    options = asked.parse_args()
    gc.freeze()  # imported objects stay: collections between traces skip them
    before = list(rows_in(GRID)) if GRID.exists() else []
    write_grid(GRID, _trace_cases(before, keep=options.new))


def _trace_cases(before: list[tuple[Case, Traced]], *, keep: bool) -> Iterator[tuple[Case, Traced]]:
    known = {(case.model, case.layers, case.setup): (case, traced) for case, traced in before}
    elsewhere = [case for case, _ in before if case.elsewhere[0]]
    for i, case in enumerate((*elsewhere, *all_cases())):
        there = known.get((case.model, case.layers, case.setup))
        traced = there[1] if keep and there is not None else trace(case.setup)
        sys.stderr.write(f"{i} {case.model} {traced.peak_bytes / GIB_BYTES:.3f} GiB, {traced.seconds:.1f} s\n")
        yield case, traced


if __name__ == "__main__":
    main()
