"""Waits at several loads, compared with the curve of the estimate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.diagnosis.knee import rate_at_latency
from app.sizing.diagnosis.observed import LoadObservation, Observations, ServiceObservation
from app.sizing.question import Question
from app.sizing.values.latencies import LoadPoint
from tests.sizing.comparing.given import HEAVY
from tests.sizing.diagnosis.given import SERVES, codes, expected, first
from tests.sizing.small import SMALL


def points() -> tuple[LoadPoint, ...]:
    p = expected(True).performance
    assert p is not None and p.load_curve is not None
    return p.load_curve.points[:6]


def seen(slower: Callable[[int], float]) -> Diagnosis:
    """Every other load of the curve, each slower by a factor."""
    by_load = tuple(
        LoadObservation(
            point.requests_per_s,
            ttft_p50_s=point.ttft_p50_s * slower(i),
            ttft_p95_s=point.ttft_p95_s * slower(i),
            tpot_p50_s=point.tpot_p50_s * slower(i),
            tpot_p95_s=point.tpot_p95_s * slower(i),
        )
        for i, point in enumerate(points())
        if i % 2 == 0
    )
    return diagnose(Question(HEAVY), SERVES, SMALL, Observations(ServiceObservation(by_load=by_load)))


def test_a_curve_as_expected_is_healthy() -> None:
    assert codes(seen(lambda _: 1.05)) == []


def test_a_knee_before_the_hardwares_is_found_where_it_begins() -> None:
    found = first(seen(lambda i: 12.0 if i >= 4 else 1.0))
    assert found.code == "early_knee" and found.evidence[0].observed == pytest.approx(points()[4].requests_per_s)
    assert found.evidence[0].expected is not None and found.evidence[0].expected > found.evidence[0].observed


def test_what_is_slow_alone_is_not_the_load() -> None:
    assert first(seen(lambda _: 6.0)).code == "slow_at_light_load"


def test_between_two_loads_the_curve_is_straight_in_logarithms() -> None:
    p = expected(True).performance
    assert p is not None and p.load_curve is not None
    point = p.load_curve.points[-2]
    assert rate_at_latency(p.load_curve, "tpot", point.tpot_p95_s) == pytest.approx(point.requests_per_s)
