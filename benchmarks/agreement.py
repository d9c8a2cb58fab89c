"""`python -m benchmarks.agreement`: compares the closed form with the simulation over random workloads on real
plans.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType

from app.catalog.snapshot import CatalogStore
from app.compiled import compile_simulation
from calibration.calibrate import seeded_catalog
from tests.sizing.serving.simulation.agreement import Compared, apart, cases, compared

FIGURES = ("tpot_p50", "tpot_mean", "ttft_p50", "ttft_mean", "capacity")
GROUPS: Mapping[str, Callable[[Compared], bool]] = MappingProxyType(
    {
        "all": lambda _: True,
        "open loop, mixed": lambda c: c.case.is_open and not c.case.prompts_first,
        "open loop, prompts first": lambda c: c.case.is_open and c.case.prompts_first,
        "closed loop, mixed": lambda c: not c.case.is_open and not c.case.prompts_first,
        "closed loop, prompts first": lambda c: not c.case.is_open and c.case.prompts_first,
    }
)


def main() -> None:
    """Prints the difference between the two, as median and 90th percentile over workloads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with seeded_catalog() as sessions:
        catalog = CatalogStore(sessions, check_s=3600).catalog()
    compile_simulation()
    found = [compared(case) for case in cases(catalog, asked.count, seed=asked.seed)]
    print(f"{'difference: median (p90), %':28}{'':>5}" + "".join(f"{name:>15}" for name in FIGURES))
    for name, belongs in GROUPS.items():
        group = [c for c in found if belongs(c)]
        each = "".join(f"{100 * apart(group, f):8.1f} ({100 * apart(group, f, 90):3.0f})" for f in FIGURES)
        print(f"{name:28}{len(group):5}{each}")


if __name__ == "__main__":
    main()
