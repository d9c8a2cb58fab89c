"""Requests drawn from a seed. Gaps between tokens, by their bins."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.serving.simulation.record import (
    GAP_BINS_PER_DOUBLING,
    GAP_DOUBLINGS,
    DrawnRequests,
    Gaps,
    SimulationResult,
    bin_middle_s,
    draw_uniforms,
    stratified_uniforms,
    unit_arrivals,
    unit_gaps,
)
from tests.sizing.serving.simulation.given import replica, requests, simulated


def test_a_seed_gives_the_same_numbers_and_streams_differ() -> None:
    assert np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(1, 0, 100))
    assert np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(1, 0, 50_000)[:100])
    assert not np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(1, 1, 100))
    assert not np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(2, 0, 100))


def test_stratified_numbers_have_exact_quantiles_and_no_order() -> None:
    numbers = stratified_uniforms(1, 0, 1000)
    assert np.floor(np.sort(numbers) * 1000).tolist() == list(range(1000))
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.1
    assert np.array_equal(numbers, stratified_uniforms(1, 0, 1000))
    assert not np.array_equal(numbers, stratified_uniforms(1, 1, 1000))
    with pytest.raises(ValueError, match="read-only"):
        numbers[0] = 0.5


@pytest.mark.parametrize("burstiness", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_gaps_have_the_mean_and_variation_asked_for(burstiness: float) -> None:
    gaps = unit_gaps(1, 1_000_000, burstiness)
    assert gaps.mean() == pytest.approx(1, rel=0.02)
    assert gaps.std() == pytest.approx(burstiness, rel=0.03, abs=1e-9)


def test_a_higher_rate_brings_the_same_requests_sooner() -> None:
    sent = DrawnRequests(unit_arrivals(1, 100, 1.0), *(np.full(100, 10, np.int64),) * 3)
    slow, fast = sent.at_rate(1.0), sent.at_rate(4.0)
    assert fast.arrival_s == pytest.approx(slow.arrival_s / 4, abs=1e-8)
    assert len(sent.in_flight(8).arrival_s) == 0
    assert sent.in_flight(8).in_flight == 8


def test_bins_follow_one_another_within_two_percent() -> None:
    middles = np.array([bin_middle_s(place) for place in range(GAP_BINS_PER_DOUBLING * 30)])
    assert (np.diff(middles) > 0).all()
    assert (np.diff(middles)[200:] / middles[200:-1]).max() < 0.02


@pytest.mark.parametrize("seconds", [50e-6, 0.001, 0.0371, 2.5])
def test_a_gap_is_found_again(seconds: float) -> None:
    found = simulated(replica(decode_s=np.full(300, seconds)), requests(1, 20, count=1, in_flight=1))
    assert found.gaps.quantiles_s([50])[0] == pytest.approx(seconds, rel=0.02)


def test_no_gaps_are_no_time() -> None:
    assert Gaps(np.zeros(GAP_BINS_PER_DOUBLING * GAP_DOUBLINGS, np.int64)).quantiles_s([99]) == [0]


def test_what_is_measured_lasts_from_the_first_to_the_last() -> None:
    found: SimulationResult = simulated(replica(), requests(10, 10, count=100, in_flight=5), warm=20, wanted=80)
    assert found.lasts_s == pytest.approx(found.to_s - found.from_s)
    assert found.finished == 60
