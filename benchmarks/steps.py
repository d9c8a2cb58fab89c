"""`python -m benchmarks.steps`: random steps of clients and a publisher, many more than a test has time for.

tests/api/test_steps.py defines the steps and the rules that must hold.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.databases import KINDS, prepare_database
from tests.api.test_steps import walk


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=50, help="most steps per run")
    parser.add_argument("--published", type=int, default=5, help="most catalogs per run")
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    options = parser.parse_args()
    with prepare_database(options.database) as (environment, _):
        began = time.monotonic()
        url = environment["HEADROOM_DATABASE_URL"]
        walk(url, runs=options.runs, steps=options.steps, most_published=options.published)
    print(f"{options.runs} runs of up to {options.steps} steps in {time.monotonic() - began:.0f} s: every rule held")


if __name__ == "__main__":
    main()
