"""Gaps between tokens, by their bins."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.serving.simulation.record import (
    GAP_BINS_PER_DOUBLING,
    GAP_DOUBLINGS,
    Gaps,
    SimulationResult,
    bin_middle_s,
)
from tests.sizing.serving.simulation.given import replica, requests, simulated


def test_bins_follow_one_another_within_two_percent() -> None:
    middles = np.array([bin_middle_s(place) for place in range(GAP_BINS_PER_DOUBLING * 30)])
    assert (np.diff(middles) > 0).all()
    assert (np.diff(middles)[200:] / middles[200:-1]).max() < 0.02


@pytest.mark.parametrize("seconds", [50e-6, 0.001, 0.0371, 2.5])
def test_a_gap_is_found_again(seconds: float) -> None:
    found = simulated(replica(decode_s=np.full(300, seconds)), requests(1, 20, count=1, in_flight=1))
    assert found.gaps.quantile_s(50) == pytest.approx(seconds, rel=0.02)


def test_no_gaps_are_no_time() -> None:
    assert Gaps(np.zeros(GAP_BINS_PER_DOUBLING * GAP_DOUBLINGS, np.int64)).quantile_s(99) == 0


def test_what_is_measured_lasts_from_the_first_to_the_last() -> None:
    found: SimulationResult = simulated(replica(), requests(10, 10, count=100, in_flight=5), warm=20, wanted=80)
    assert found.lasts_s == pytest.approx(found.to_s - found.from_s)
    assert found.finished == 60
