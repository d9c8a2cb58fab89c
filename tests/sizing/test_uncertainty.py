"""How far off a prediction may be: wider with distance, narrower with sources, and the same read either way."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.sizing.uncertainty import (
    HIGH,
    LEVELS,
    LOW,
    MAX_DISTANCE,
    UNKNOWN_SPREAD,
    Neighborhood,
    Spread,
    Spreads,
    interval_score,
)
from tests.examples import col

# Quantiles that are easy to work with: results are 0.8 worse at most nine times in ten, and 0.4 better.
SPREAD = Spread("tpot", 3.0, 0.5, 2.0, (-0.6, -0.4, -0.2, 0.0, 0.3, 0.8, 1.2), 100, 10)


def around(
    sources: float = 10.0, distance: float = 0.0, untabulated: float = 0.0, widened: float = 1.0
) -> Neighborhood:
    return Neighborhood(col(sources), col(distance), col(untabulated), col(widened))


def scale(**changed: float) -> float:
    return float(SPREAD.relative_spread(around(**changed))[0])


counts = st.integers(0, 30).map(float)
distances = st.floats(0, 5)
confidences = st.floats(0.01, 0.99)
steps = st.lists(st.floats(0.01, 1), min_size=3, max_size=3)
spreads = st.builds(
    lambda below, above, alone, remote, untabulated: Spread(
        "q", alone, remote, untabulated, (*(-np.cumsum(below)[::-1]), 0.0, *np.cumsum(above)), 1, 1
    ),
    steps,
    steps,
    st.floats(0, 5),
    st.floats(0, 2),
    st.floats(0, 3),
)


def test_what_adds_to_a_spread_adds_in_squares() -> None:
    # at distance 0 from results of many sources: 1 + 3 / (1 + 299)
    assert scale(sources=299.0) ** 2 == pytest.approx(1.01)
    # no result of the runtime on the family, the nearest result is 1 away, kernels were never tabulated:
    # 1 + 3 / 1 + (0.5 * 1)**2 + 2
    assert scale(sources=0.0, distance=1.0, untabulated=1.0) == pytest.approx(math.sqrt(6.25)) == 2.5
    assert scale(distance=MAX_DISTANCE) == scale(distance=100.0) > scale(distance=MAX_DISTANCE - 0.1)


@given(spreads, counts, counts, distances, distances)
def test_nearer_and_with_more_sources_is_never_wider(
    spread: Spread, few: float, more: float, near: float, far: float
) -> None:
    known = spread.relative_spread(around(max(few, more), min(near, far)))
    assert known <= spread.relative_spread(around(min(few, more), max(near, far)))
    assert known >= 1


def test_a_confidence_reads_its_quantile_and_between_two_the_normal_score_counts() -> None:
    one = col(1.0)
    assert [float(SPREAD.log_factor(level, one)[0]) for level in LEVELS] == pytest.approx(list(SPREAD.worse))
    # twice the scale, twice the logarithm: exp(2 * 0.3)
    assert SPREAD.error_factor(0.8, 2 * one) == pytest.approx(math.exp(0.6))
    # a probit of 0.8416 at 80 % and of 1.2816 at 90 %: 85 % (1.0364) is 0.443 of the way from 0.3 to 0.8
    assert float(SPREAD.log_factor(0.85, one)[0]) == pytest.approx(
        0.3 + 0.5 * (1.0364 - 0.8416) / (1.2816 - 0.8416), abs=1e-3
    )


@given(spreads, st.floats(0.1, 10))
def test_at_even_odds_nothing_is_added(spread: Spread, scale: float) -> None:
    assert spread.error_factor(0.5, col(scale)) == 1.0


@given(spreads, st.floats(0.1, 10), confidences, confidences)
def test_more_confidence_asks_for_more_and_a_wider_interval_holds_the_narrower(
    spread: Spread, scale: float, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert spread.error_factor(less, col(scale)) <= spread.error_factor(more, col(scale))
    # central intervals: from (1 - c) / 2 to (1 + c) / 2, and always about the prediction
    (inner_low, inner_high), (outer_low, outer_high) = (
        [float(spread.error_factor(end, col(scale))[0]) for end in ((1 - c) / 2, (1 + c) / 2)] for c in (less, more)
    )
    assert outer_low <= inner_low <= 1 <= inner_high <= outer_high


@given(spreads, st.floats(0.1, 10), st.floats(LEVELS[0], LEVELS[-1]))
def test_the_probability_of_what_a_confidence_asks_for_is_that_confidence(
    spread: Spread, scale: float, confidence: float
) -> None:
    asked = spread.log_factor(confidence, col(scale))
    assert float(spread.probability_within(asked, col(scale))[0]) == pytest.approx(confidence, abs=1e-9)


@given(spreads, st.floats(-20, 20), st.floats(-20, 20))
def test_a_longer_way_to_the_limit_is_never_less_sure(spread: Spread, one: float, other: float) -> None:
    assume(one != other)
    less, more = spread.probability_within(np.array(sorted((one, other))), col(1.0, 1.0)).tolist()
    assert 0.0009 < less <= more < 0.9991


def test_beyond_what_was_seen_the_outermost_slope_goes_on() -> None:
    # from 0.8 (90 %, a probit of 1.2816) to 1.2 (95 %, 1.6449): 0.4 more is a probit of 2.0082, or 97.8 %
    assert float(SPREAD.probability_within(col(1.6), col(1.0))[0]) == pytest.approx(0.9777, abs=1e-3)
    assert float(SPREAD.probability_within(col(1000.0), col(1.0))[0]) == pytest.approx(0.999, abs=1e-4)
    assert float(SPREAD.probability_within(col(-1000.0), col(1.0))[0]) == pytest.approx(0.001, abs=1e-4)


def test_a_score_charges_for_width_and_ten_times_for_what_is_outside() -> None:
    results = np.array([1.0, 2.5, 0.2])
    # within 0.5 to 2; 0.5 above it; 0.3 below it
    assert interval_score(results, col(0.5), col(2.0)).tolist() == pytest.approx([1.5, 1.5 + 5, 1.5 + 3])


def test_what_was_never_compared_is_off_by_a_factor_of_two() -> None:
    known = Spreads({"tpot": SPREAD})
    assert known.get_spread("tpot") is SPREAD
    assert known.get_spread("ttft") is UNKNOWN_SPREAD
    low, high = (
        float(UNKNOWN_SPREAD.error_factor(level, UNKNOWN_SPREAD.relative_spread(around(0.0, 9.0, 1.0)))[0])
        for level in (LOW, HIGH)
    )
    assert (low, high) == pytest.approx((0.497, 2.01), abs=0.01)


@pytest.mark.parametrize("spread", [SPREAD, UNKNOWN_SPREAD], ids=lambda s: s.quantity)
def test_quantiles_stand_in_order_about_the_prediction(spread: Spread) -> None:
    assert len(spread.worse) == len(LEVELS)
    assert all(a < b for a, b in pairwise(spread.worse))
    assert spread.worse[LEVELS.index(0.5)] == 0
