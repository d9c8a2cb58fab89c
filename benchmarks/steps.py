"""`python -m benchmarks.steps`: clients and a publisher by chance, for many more steps than a test has time for.

The rules and what must hold are those of tests/api/test_steps.py.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.databases import KINDS, prepared
from tests.api.test_steps import walk


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=50, help="of each run, at most")
    parser.add_argument("--published", type=int, default=5, help="catalogues in each run, at most")
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    told = parser.parse_args()
    with prepared(told.database) as (environment, _):
        began = time.monotonic()
        url = environment["HEADROOM_DATABASE_URL"]
        walk(url, runs=told.runs, steps=told.steps, most_published=told.published)
    print(f"{told.runs} runs of up to {told.steps} steps in {time.monotonic() - began:.0f} s: every rule held")


if __name__ == "__main__":
    main()
