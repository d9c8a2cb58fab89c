"""Requests in flight between two pools. Work in two pools that ends, compared with one engine over an infinite
link, by hand; more work never ends sooner. Two pools at every load: the curve contains the answer, and neither
pool gains from the other.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from app.sizing.estimate import estimate_deployment
from app.sizing.pools.loads import (
    add_waits,
    goodput_at,
    interpolated_wait_s,
    knee_per_s,
    mix_waits,
    split_in_flight,
    wait_distribution,
)
from app.sizing.question import Pools, Question
from app.sizing.result import Estimate, LoadPoint, Percentiles, Performance
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import col
from tests.sizing.pools.given import AT_ONCE, INFINITE, networked, parts, pools_of, speed, split, whole
from tests.sizing.serving.given import STEADY
from tests.sizing.small import SMALL

STRAIGHT = (col(0, 100), col(0, 100))


@pytest.mark.parametrize(
    ("writing", "transfer_s", "held"),
    [
        ((col(0, 100), col(0, 100)), 0.0, (5.0, 5.0)),
        ((col(0, 100), col(0, 25)), 0.0, (2.0, 8.0)),
        ((col(0, 100), col(0, 100)), 3.0, (2.0, 2.0)),  # 2 a second: 2 read, 2 written, 6 on their way
        ((col(0, 4, 100), col(0, 1, 1)), 0.0, (1.0, 9.0)),  # full from four on
    ],
)
def test_as_many_are_read_as_written(
    writing: tuple[object, object], transfer_s: float, held: tuple[float, float]
) -> None:
    found = split_in_flight(10, STRAIGHT, writing, transfer_s)  # type: ignore[arg-type]
    assert found == pytest.approx(held, rel=1e-6)


SECONDS_PER_DAY = 86_400.0
DEADLINE_S = 20_000.0


def ends(**changes: Any) -> InferenceWorkload:
    return replace(STEADY, peak_per_s=0.0, average_per_s=0.0, **changes)


def run_of(requests: float, at_once: float = 64.0) -> InferenceWorkload:
    return ends(load=Load.CLOSED, in_flight=at_once, requests=requests)


def lasts_s(found: Estimate) -> float:
    return (speed(found).days or 0.0) * SECONDS_PER_DAY


def test_a_batch_takes_as_long_over_an_infinite_link_as_in_one_engine() -> None:
    batch = ends(load=Load.BATCH, in_flight=32.0)
    one, two = speed(whole(INFINITE, batch, engine="vllm")), speed(split(pools_of(), INFINITE, batch, engine="vllm"))
    assert one.ttft is not None and two.ttft is not None and one.e2e is not None and two.e2e is not None
    assert two.ttft.mean_s == pytest.approx(one.ttft.mean_s, rel=1e-9)
    assert two.e2e.mean_s == pytest.approx(one.e2e.mean_s, rel=1e-9)
    assert two.requests_per_s_capacity == pytest.approx(one.requests_per_s_capacity or 0, rel=1e-9)


def test_a_queue_is_worked_off_as_fast_as_the_slowest_part() -> None:
    found = split(pools_of(), networked(8e7), ends(load=Load.OFFLINE, volume_requests=1e6))
    pools = parts(found)
    rates = [pools.prefill.requests_per_s_capacity, pools.decode.requests_per_s_capacity]
    assert speed(found).requests_per_s_capacity == pytest.approx(min(*rates, pools.transfer.requests_per_s_capacity))
    assert speed(found).ttft is None and speed(found).tpot is not None
    start_s = speed(found).cold_start_s or 0.0
    assert lasts_s(found) == pytest.approx(start_s + 1e6 / min(*rates, pools.transfer.requests_per_s_capacity))
    assert found.cost is not None and found.cost.usd_per_hour is not None
    assert found.cost.usd_total == pytest.approx(found.cost.usd_per_hour * lasts_s(found) / 3600)
    assert found.cost.usd_per_million == pytest.approx((found.cost.usd_total or 0) / 1e6 / 1001 * 1e6)
    assert found.explanation[0].code == "duration"


def test_pools_are_sized_for_a_deadline_and_posted_back_they_are_the_same() -> None:
    late = ends(load=Load.OFFLINE, volume_requests=2e7, deadline_s=DEADLINE_S)
    free: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1}
    found = split(pools_of(free, free), SMALL, late)
    assert found.deployment.pools is not None and (found.deployment.pools.decode.replicas or 0) > 1
    assert lasts_s(found) < DEADLINE_S
    assert found.assurance is not None and (found.assurance.meets_deadline or 0.0) >= 0.8
    again = estimate_deployment(Question(late, assumptions=AT_ONCE), found.deployment, SMALL)
    for name in ("deployment", "performance", "cost", "explanation"):
        assert getattr(again, name) == getattr(found, name), name


def test_prompts_that_start_at_once_wait_for_one_another_in_the_pool_that_reads() -> None:
    steady, finite = speed(split(pools_of(), INFINITE, run_of(320.0))), speed(split(pools_of(), INFINITE, run_of(64.0)))
    long = speed(split(pools_of(), INFINITE, ends(load=Load.CLOSED, in_flight=64.0)))
    waits = [mean_ttft_s(p) for p in (long, steady, finite)]
    assert waits == sorted(waits) and waits[2] > 5 * waits[0]
    # A fifth of the 320 came at once.
    assert waits[1] == pytest.approx(0.2 * waits[2] + 0.8 * waits[0], rel=1e-6)
    assert finite.simulation is not None and finite.simulation.arrivals == "burst" and finite.load_curve is None


def mean_ttft_s(p: Performance) -> float:
    assert p.ttft is not None and p.ttft.mean_s is not None
    return p.ttft.mean_s


def test_a_run_ends_about_when_one_engine_would_end_it_over_an_infinite_link() -> None:
    one, two = whole(INFINITE, run_of(320.0), engine="vllm"), split(pools_of(), INFINITE, run_of(320.0), engine="vllm")
    assert lasts_s(two) == pytest.approx(lasts_s(one), rel=0.1)
    assert mean_ttft_s(speed(two)) < mean_ttft_s(speed(one))  # no answer is written between its prompts
    assert any(reason.code == "run" for reason in two.explanation)


@pytest.mark.parametrize("requests", [10.0, 64.0, 65.0, 400.0])
def test_more_to_do_never_ends_sooner(requests: float) -> None:
    now, more = (lasts_s(split(pools_of(), INFINITE, run_of(count))) for count in (requests, requests + 30))
    assert more >= now
    longer = replace(run_of(requests), output_tokens=Lengths(301.0))
    assert lasts_s(split(pools_of(), INFINITE, longer)) > now


def test_waits_of_two_kinds_are_mixed_by_their_shares() -> None:
    short, long = Percentiles(1.0, 1.0, 1.0, 1.0), Percentiles(9.0, 9.0, 9.0, 9.0)
    latency = mix_waits(long, short, 0.1)
    assert [latency.mean_s, latency.p50_s, latency.p95_s, latency.p99_s] == pytest.approx([1.8, 1.0, 9.0, 9.0])
    assert mix_waits(long, short, 0.0).p99_s == 1.0
    assert mix_waits(short, short, 0.4).p50_s == 1.0
    shares, waits = wait_distribution(Percentiles(0.5, 0.5, 0.95, 0.99))
    assert list(shares) == [0, 0.5, 0.95, 0.99, 1]
    assert list(waits) == pytest.approx([0.05, 0.5, 0.95, 0.99, 0.99])


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
