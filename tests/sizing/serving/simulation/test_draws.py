"""Requests drawn from a seed."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.serving.simulation.draws import DrawnRequests, draw_uniforms, unit_gaps


def test_a_seed_gives_the_same_numbers_and_streams_differ() -> None:
    assert np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(1, 0, 100))
    assert np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(1, 0, 50_000)[:100])
    assert not np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(1, 1, 100))
    assert not np.array_equal(draw_uniforms(1, 0, 100), draw_uniforms(2, 0, 100))


@pytest.mark.parametrize("burstiness", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_gaps_have_the_mean_and_variation_asked_for(burstiness: float) -> None:
    gaps = unit_gaps(1, 1_000_000, burstiness)
    assert gaps.mean() == pytest.approx(1, rel=0.02)
    assert gaps.std() == pytest.approx(burstiness, rel=0.03, abs=1e-9)


def test_a_higher_rate_brings_the_same_requests_sooner() -> None:
    sent = DrawnRequests(unit_gaps(1, 100, 1.0), *(np.full(100, 10, np.int64),) * 3)
    slow, fast = sent.at_rate(1.0), sent.at_rate(4.0)
    assert fast.arrival_s == pytest.approx(slow.arrival_s / 4, abs=1e-8)
    assert len(sent.in_flight(8).arrival_s) == 0
    assert sent.in_flight(8).in_flight == 8
