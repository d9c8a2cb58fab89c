"""Two pools at every load: the curve contains the answer, and neither pool gains from the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from app.sizing.pools.loads import add_waits, goodput_at, interpolated_wait_s, knee_per_s
from app.sizing.question import Pools
from app.sizing.snapshot import Catalog
from app.sizing.values.latencies import LoadPoint, Percentiles
from app.sizing.workload import InferenceWorkload, Load, Slo
from tests.sizing.pools.given import INFINITE, networked, parts, pools_of, speed, split
from tests.sizing.serving.given import STEADY
from tests.sizing.small import SMALL

LIMITED = replace(STEADY, slo=Slo(0.3, 0.02, None, 95))


def point(load: float, wait: float, good: float) -> LoadPoint:
    return LoadPoint(load, None, wait, wait, 0.01, 0.01, 100 * load, good, wait, wait)


def test_waits_follow_one_another_and_one_without_end_has_none() -> None:
    wait, never = Percentiles(1.0, 2.0, 3.0, 4.0), Percentiles(1.0, 2.0, 3.0, None)
    assert add_waits(wait, wait) == Percentiles(2.0, 4.0, 6.0, 8.0)
    assert add_waits(wait, never) == Percentiles(2.0, 4.0, 6.0, None)
    assert add_waits(wait, None) is None


def test_between_two_loads_waits_are_straight_in_logarithms_and_shares_straight() -> None:
    points = (point(1.0, 0.1, 1.0), point(4.0, 0.4, 0.5))
    assert interpolated_wait_s(points, 2.0, "ttft_p50_s") == pytest.approx(0.2)
    assert interpolated_wait_s(points, 0.5, "ttft_p50_s") == pytest.approx(0.1)
    assert goodput_at(points, 2.5) == pytest.approx(0.75)


def test_the_knee_is_where_waiting_grows_faster_than_answers() -> None:
    assert knee_per_s((point(1.0, 0.1, 1.0), point(2.0, 0.11, 1.0), point(2.1, 0.5, 0.9))) == 2.0


@pytest.mark.parametrize("catalog", [INFINITE, networked(8e9)], ids=["infinite", "slow"])
def test_the_curve_goes_through_the_latencies_of_the_load(catalog: Catalog) -> None:
    found = split(pools_of(), catalog, LIMITED)
    performance, curve = speed(found), speed(found).load_curve
    assert curve is not None and performance.ttft is not None and performance.tpot is not None
    below = max((p for p in curve.points if p.requests_per_s <= 10.0), default=curve.points[0], key=rate)
    above = min((p for p in curve.points if p.requests_per_s >= 10.0), key=rate)
    for name, wait in (("ttft_p95_s", performance.ttft.p95_s), ("tpot_p50_s", performance.tpot.p50_s)):
        assert wait is not None
        assert getattr(below, name) * (1 - 1e-9) <= wait <= getattr(above, name) * (1 + 1e-9)
    assert curve.points[0].ttft_p50_s > parts(found).transfer.seconds


def rate(point: LoadPoint) -> float:
    return point.requests_per_s


def test_more_load_never_waits_less_and_no_pool_gains_from_the_other() -> None:
    curve, alone = speed(split(pools_of(), workload=LIMITED)).load_curve, pools_of()
    assert curve is not None and 0 < curve.knee_per_s <= curve.points[-1].requests_per_s
    for light, heavy in pairwise(curve.points):
        assert heavy.ttft_p95_s >= light.ttft_p95_s * (1 - 1e-9)
        assert heavy.output_tokens_per_s >= light.output_tokens_per_s * (1 - 1e-9)
        assert heavy.goodput_share <= light.goodput_share + 1e-9
    more = Pools(alone.prefill, replace(alone.decode, replicas=2))
    larger = speed(split(more, workload=LIMITED)).load_curve
    assert larger is not None
    assert larger.points[-1].output_tokens_per_s >= curve.points[-1].output_tokens_per_s * (1 - 1e-9)


def test_the_record_says_what_both_simulations_did() -> None:
    found = speed(split(pools_of(), workload=LIMITED))
    run = found.simulation
    assert run is not None and run.arrivals == "poisson" and run.requests > 0
    assert 0 < run.goodput_share <= 1 and run.goodput_per_s == pytest.approx(10.0 * run.goodput_share)
    strict = speed(split(pools_of(), workload=replace(LIMITED, slo=Slo(0.012, 0.02, None, 95)))).simulation
    assert strict is not None and strict.goodput_share <= run.goodput_share


def in_flight(count: float) -> InferenceWorkload:
    return replace(STEADY, load=Load.CLOSED, in_flight=count)


def test_of_requests_in_flight_the_curve_tells_the_number_asked_for_and_its_answer() -> None:
    found = speed(split(pools_of(), SMALL, in_flight(24.0)))
    assert found.load_curve is not None and found.simulation is not None
    assert found.simulation.arrivals == "closed"
    by_load = {point.in_flight: point for point in found.load_curve.points}
    assert by_load[24.0].requests_per_s == pytest.approx(found.requests_per_s_capacity or 0, rel=0.02)
    assert by_load[1.0].requests_per_s < by_load[8.0].requests_per_s < by_load[24.0].requests_per_s
    # As many are answered in a second as Little's law says of one in flight, alone.
    first = by_load[1.0]
    assert first.requests_per_s == pytest.approx(1 / (first.ttft_p50_s + 200 * first.tpot_p50_s), rel=0.05)
