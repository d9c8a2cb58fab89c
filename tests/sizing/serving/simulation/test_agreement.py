"""The closed form says what the simulated scheduler does, in the median of random workloads on real plans."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.snapshot import Catalog
from tests.sizing.serving.simulation.agreement import Compared, apart, cases, compared

COUNT, SEED = 80, 1


@pytest.fixture(scope="module")
def found(catalog: Catalog) -> list[Compared]:
    return [compared(case) for case in cases(catalog, COUNT, seed=SEED)]


@pytest.mark.parametrize(("name", "within"), [("tpot_p50", 0.05), ("ttft_p50", 0.20), ("capacity", 0.10)])
def test_a_steady_state_is_predicted_as_it_is_simulated(found: list[Compared], name: str, within: float) -> None:
    assert apart(found, name) < within


def test_neither_loops_nor_rates_are_predicted_one_sidedly(found: list[Compared]) -> None:
    for is_open in (False, True):
        ratios = [c.ttft_p50 for c in found if c.case.is_open == is_open]
        assert 0.85 < np.median(ratios) < 1.18
