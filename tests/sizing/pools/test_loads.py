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
    balance_pools,
    combined_load_curve,
    combined_simulation,
    duration_s,
    finite_rate_per_s,
    finite_run,
    first_wave,
    goodput_at,
    interpolated_wait_s,
    knee_per_s,
    mix_waits,
    shared_concurrencies,
    slowdown_at_confidence,
    split_in_flight,
    wait_distribution,
    with_first_wave,
    with_volume,
)
from app.sizing.question import Pools, Question
from app.sizing.result import Estimate, Interval, LoadCurve, LoadPoint, Percentiles, Performance
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import col, present
from tests.sizing.answer.given import COST
from tests.sizing.pools.given import (
    AT_ONCE,
    INFINITE,
    LINK,
    READS,
    WRITES,
    curve,
    networked,
    parts,
    pool_estimate,
    pools_of,
    simulated,
    speed,
    split,
    waits,
    whole,
)
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
    # As fast is not faster: `point` answers 100 tokens per second and request.
    assert knee_per_s((point(1.0, 100.0, 1.0), point(2.0, 200.0, 1.0), point(3.0, 400.0, 1.0))) == 2.0
    assert knee_per_s((point(1.0, 100.0, 1.0), point(2.0, 200.0, 1.0))) == 2.0


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
    larger = present(speed(split(more, workload=LIMITED)).load_curve)
    assert larger.points[-1].output_tokens_per_s >= curve.points[-1].output_tokens_per_s * (1 - 1e-9)


def test_the_record_says_what_both_simulations_did() -> None:
    found = speed(split(pools_of(), workload=LIMITED))
    run = present(found.simulation)
    assert run.arrivals == "poisson" and run.requests > 0
    assert 0 < run.goodput_share <= 1 and run.goodput_per_s == pytest.approx(10.0 * run.goodput_share)
    strict = present(speed(split(pools_of(), workload=replace(LIMITED, slo=Slo(0.012, 0.02, None, 95)))).simulation)
    assert strict.goodput_share <= run.goodput_share


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


def test_the_curve_of_two_pools_is_the_sum_of_their_waits_and_the_product_of_their_shares() -> None:
    found = present(combined_load_curve(STEADY, READS, WRITES, LINK))
    # The decode pool has the lower stability limit, so its loads are shown; both pools were simulated at 5 and 20.
    assert [p.requests_per_s for p in found.points] == [5.0, 20.0] and {p.in_flight for p in found.points} == {None}
    assert [p.ttft_p50_s for p in found.points] == pytest.approx([0.1 + 0.05 + 0.01, 0.4 + 0.05 + 0.01])
    assert [p.ttft_p95_s for p in found.points] == pytest.approx([0.2 + 0.05 + 0.02, 0.8 + 0.05 + 0.02])
    assert [p.tpot_p50_s for p in found.points] == pytest.approx([0.001, 0.004])
    assert [p.tpot_p95_s for p in found.points] == pytest.approx([0.002, 0.008])
    assert [p.output_tokens_per_s for p in found.points] == pytest.approx([5 * 201.0, 20 * 201.0])
    assert [p.goodput_share for p in found.points] == pytest.approx([0.72, 0.72])
    assert combined_load_curve(STEADY, replace(READS, load_curve=None), WRITES, LINK) is None
    assert combined_load_curve(STEADY, READS, replace(WRITES, load_curve=None), LINK) is None


def test_the_loads_shown_are_those_of_the_pool_that_fills_first_and_that_the_transfer_carries() -> None:
    other = replace(READS, load_curve=curve((4.0, 0.1), (30.0, 0.4)))

    def loads(reads: Performance, writes: Performance, carried: float) -> list[float]:
        found = combined_load_curve(STEADY, reads, writes, replace(LINK, requests_per_s_capacity=carried))
        return [] if found is None else [p.requests_per_s for p in found.points]

    assert loads(other, WRITES, 60.0) == [5.0, 20.0]
    assert loads(replace(other, unstable_above_requests_per_s=30.0), WRITES, 60.0) == [4.0, 30.0]
    assert loads(other, replace(WRITES, unstable_above_requests_per_s=None), 60.0) == [4.0, 30.0]
    assert loads(other, WRITES, 20.0) == [5.0, 20.0]
    assert loads(other, WRITES, 19.0) == [5.0]
    assert loads(other, WRITES, 4.0) == []
    # No more is answered than the fuller pool can.
    full = replace(READS, unstable_above_requests_per_s=10.0)
    found = present(combined_load_curve(STEADY, full, WRITES, LINK))
    assert [p.output_tokens_per_s for p in found.points] == pytest.approx([1005.0, 2010.0])


def test_the_curve_of_requests_in_flight_has_powers_of_two_and_the_number_asked_for() -> None:
    closed = replace(STEADY, load=Load.CLOSED, in_flight=24.0, peak_per_s=0.0)
    # Each pool completes as many requests a second as it holds: both hold half of the requests not in transfer.
    some = curve((1.0, 0.1), (16.0, 0.4), closed=True)
    reads, writes = replace(READS, load_curve=some), replace(WRITES, load_curve=some)
    found = present(combined_load_curve(closed, reads, writes, replace(LINK, seconds=1.0)))
    # A third of 24 is in either pool and on its way; 32 is more than both pools were simulated at.
    assert [p.in_flight for p in found.points] == [1, 2, 4, 8, 16, 24, 32]
    assert [p.requests_per_s for p in found.points] == pytest.approx([n / 3 for n in (1, 2, 4, 8, 16, 24, 32)])
    assert found.points[-2].output_tokens_per_s == pytest.approx(8 * 201.0)
    at_once = present(combined_load_curve(closed, reads, writes, replace(LINK, seconds=0.0)))
    assert {p.in_flight: p.requests_per_s for p in at_once.points}[24.0] == pytest.approx(12.0)
    narrow = replace(writes, load_curve=curve((1.0, 0.1), (2.0, 0.4), closed=True))
    less = present(combined_load_curve(closed, reads, narrow, replace(LINK, seconds=0.0)))
    # Either pool may be the narrow one: from 8 in flight on it would hold more than it was simulated at.
    assert [p.in_flight for p in less.points] == [1, 2, 4]
    assert max(p.requests_per_s for p in less.points) <= 2.0
    narrow = replace(reads, load_curve=curve((1.0, 0.1), (2.5, 0.4), closed=True))
    less = present(combined_load_curve(closed, narrow, writes, replace(LINK, seconds=0.0)))
    assert [p.in_flight for p in less.points] == [1, 2, 4]
    first, second, rate_per_s = balance_pools(closed, pool_estimate(reads), pool_estimate(writes), 1.0)
    assert (first.in_flight, second.in_flight, rate_per_s) == pytest.approx((8.0, 8.0, 8.0))
    assert first.most_personal_in_flight == second.most_personal_in_flight == 0.0


def test_two_simulations_make_one_whose_requests_pass_both() -> None:
    found = present(combined_simulation(STEADY, READS.simulation, WRITES.simulation, 10.0))
    assert found.goodput_share == pytest.approx(0.72) and found.goodput_per_s == pytest.approx(7.2)
    assert found.queue.p50_s == pytest.approx(0.024) and found.preemptions_per_request == pytest.approx(0.3)
    assert (found.requests, found.seed, found.policy, found.arrivals) == (800, 7, "mixed", "poisson")
    assert (found.mean_batch, found.cache_occupancy, found.inter_token) == (12.0, 0.6, waits(0.01))
    assert combined_simulation(STEADY, None, WRITES.simulation, 10.0) is None
    assert combined_simulation(STEADY, READS.simulation, None, 10.0) is None
    swapped = present(combined_simulation(STEADY, WRITES.simulation, READS.simulation, 10.0))
    assert swapped.goodput_share == pytest.approx(0.72) and swapped.requests == 800


def test_work_that_ends_is_done_at_the_rate_of_the_slowest_part_or_in_the_sum_of_all() -> None:
    offline = ends(load=Load.OFFLINE, volume_requests=1000.0)
    for reads, writes, carried in ((40.0, 30.0, 60.0), (20.0, 30.0, 60.0), (40.0, 30.0, 10.0)):
        two = replace(READS, requests_per_s_capacity=reads), replace(WRITES, requests_per_s_capacity=writes)
        rate_per_s = finite_rate_per_s(offline, *two, replace(LINK, requests_per_s_capacity=carried))
        assert rate_per_s == min(reads, writes, carried)
    none = replace(READS, requests_per_s_capacity=None)
    assert finite_rate_per_s(offline, none, WRITES, LINK) == 0.0
    batch = ends(load=Load.BATCH, in_flight=12.0)
    # 0.1 s to read, 0.05 s on its way, 1.02 - 0.02 s to write.
    assert finite_rate_per_s(batch, READS, WRITES, LINK) == pytest.approx(12 / (0.1 + 0.05 + 1.0))
    assert finite_rate_per_s(batch, replace(READS, ttft=None), WRITES, LINK) is None
    assert finite_rate_per_s(batch, READS, replace(WRITES, e2e=None), LINK) is None
    assert finite_rate_per_s(batch, READS, replace(WRITES, ttft=None), LINK) is None
    assert finite_rate_per_s(STEADY, READS, WRITES, LINK) is None


def test_a_run_takes_its_first_wave_and_then_the_rest_at_the_joint_rate() -> None:
    burst = replace(READS, days=2.0 / SECONDS_PER_DAY, ttft=waits(1.0))
    run = finite_run(run_of(320.0, 64.0), burst, WRITES, 0.5, 16.0)
    # 2 s to read 64 prompts, 0.5 s on its way, 0.01 s of queue and 1 s to write, then 256 at 16 a second.
    assert run.seconds == pytest.approx(2.0 + 0.5 + 0.01 + 1.0 + 16.0)
    assert run.first_share == pytest.approx(0.2) and run.first == waits(1.0)
    short = finite_run(run_of(10.0, 64.0), burst, WRITES, 0.5, 16.0)
    assert short.seconds == pytest.approx(3.51) and short.first_share == 1.0
    unknown = Percentiles(None, None, None, None)
    idle = replace(WRITES, e2e=unknown, ttft=unknown, simulation=replace(simulated(0.0, 1.0), queue=unknown))
    assert finite_run(run_of(10.0, 64.0), burst, idle, 0.5, 16.0).seconds == pytest.approx(2.5)
    wave = first_wave(run_of(10.0, 64.0))
    assert wave.in_flight == wave.requests == 10.0
    assert first_wave(ends(load=Load.CLOSED, in_flight=64.0)).requests == 64.0

    mixed = present(with_first_wave(pool_estimate(READS), run).performance)
    assert mixed.ttft is not None and mixed.ttft.mean_s == pytest.approx(0.2 * 1 + 0.8 * 0.1)
    assert mixed.load_curve is None
    # Intervals of TTFT keep their relative width, others stay.
    for before, after in zip(READS.intervals, mixed.intervals, strict=True):
        grown = getattr(mixed.ttft, f"{before.statistic}_s") / getattr(waits(0.1), f"{before.statistic}_s")
        assert (after.low, after.high) == pytest.approx((before.low * grown, before.high * grown))
    others = replace(READS, intervals=(Interval("tpot_s", 1.0, 2.0, "mean"),))
    assert speed(with_first_wave(pool_estimate(others), run)).intervals == others.intervals
    nothing = replace(READS, ttft=waits(0.0))
    assert speed(with_first_wave(pool_estimate(nothing), run)).intervals == READS.intervals


def test_a_mixture_of_waits_has_the_quantiles_of_all_requests_together() -> None:
    # Uniform from 0 to 1 (p50 0.5), and from 10 to 11: nine in ten are short.
    short, long = Percentiles(0.5, 0.5, 0.95, 0.99), Percentiles(10.5, 10.5, 10.95, 10.99)
    found = mix_waits(long, short, 0.1)
    assert found.mean_s == pytest.approx(1.5)
    # Half of all: 0.5 / 0.9 of the short ones; 95 % of all: half of the long ones.
    assert found.p50_s == pytest.approx(0.5 / 0.9, abs=2e-3)
    assert found.p95_s == pytest.approx(10.5, abs=2e-2)
    assert found.p99_s == pytest.approx(10.9, abs=2e-2)
    other = mix_waits(short, long, 0.9)
    assert [other.p50_s, other.p95_s, other.p99_s] == [found.p50_s, found.p95_s, found.p99_s]
    unknown = Percentiles(None, None, None, None)
    assert mix_waits(unknown, short, 0.5).mean_s == pytest.approx(0.25)
    assert mix_waits(short, unknown, 0.5).p50_s == pytest.approx(0.0, abs=2e-3)


def test_a_volume_takes_its_start_and_then_its_work_and_costs_what_its_hours_cost() -> None:
    volume = ends(load=Load.OFFLINE, volume_requests=3600.0)
    assert duration_s(volume, 2.0, 1.0, 90.0) == pytest.approx(90.0 + 1800.0)
    assert duration_s(volume, 2.0, 1.0, 190.0) == pytest.approx(190.0 + 1800.0)
    # Less than a batch takes as long as a full one.
    assert duration_s(ends(load=Load.OFFLINE), 2.0, 8.0, 90.0) == pytest.approx(90.0 + 4.0)
    day = 1.0 / SECONDS_PER_DAY
    certain = replace(READS, days=1000 * day, surely_days=1300 * day, cold_start_s=100.0)
    assert slowdown_at_confidence(certain) == pytest.approx(1200 / 900)
    for known in (None, replace(certain, days=None), replace(certain, surely_days=None)):
        assert slowdown_at_confidence(known) == 1.0
    assert slowdown_at_confidence(replace(certain, cold_start_s=None)) == pytest.approx(1.3)

    both = pool_estimate(replace(WRITES, days=1000 * day, cold_start_s=100.0), cost=replace(COST, usd_per_hour=36.0))
    surer = pool_estimate(replace(certain, surely_days=1180 * day))
    pools = pool_estimate(certain), surer
    for order in (pools, pools[::-1]):
        found = with_volume(Question(volume), volume, both, order)
        assert found.cost is not None and found.cost.usd_total == pytest.approx(10.0)
        assert speed(found).days == pytest.approx(1000 * day)
        assert speed(found).surely_days == pytest.approx((100 + 900 * 1200 / 900) * day)
    assert with_volume(Question(volume), volume, replace(both, cost=None), pools).cost is None
    unpriced = with_volume(Question(volume), volume, replace(both, cost=replace(COST, usd_per_hour=None)), pools)
    assert unpriced.cost is not None and unpriced.cost.usd_total is None
    for other in (both, pool_estimate(WRITES), replace(both, performance=None)):
        asked = STEADY if other is both else volume
        assert with_volume(Question(asked), asked, other, pools) == other


def test_queues_of_two_simulations_are_added_and_tokens_are_those_of_the_writer() -> None:
    reads, writes = simulated(0.002, 0.9, 800, 0.1), simulated(0.03, 0.8, 1000, 0.2)
    found = present(combined_simulation(STEADY, reads, writes, 50.0))
    for name in ("mean_s", "p50_s", "p95_s", "p99_s"):
        assert getattr(found.queue, name) == pytest.approx(getattr(reads.queue, name) + getattr(writes.queue, name))
    assert found.inter_token == writes.inter_token and found.inter_token != writes.queue
    assert found.preemptions_per_request == pytest.approx(0.3) and found.goodput_share == pytest.approx(0.72)


@pytest.mark.parametrize("asked", [3.0, 5.0, 8.0, 100.0])
def test_loads_in_flight_are_all_powers_of_two_that_both_pools_simulated(asked: float) -> None:
    """Readers and writers were simulated up to 10 each, at the same rate per request: up to 20 together."""
    points = tuple((load, 0.1) for load in (1.0, 2.0, 4.0, 10.0))
    pool = replace(READS, load_curve=curve(*points, closed=True), requests_per_s_capacity=800.0)
    instant = replace(LINK, seconds=0.0, requests_per_s_capacity=1e9)
    found = [s.load for s in shared_concurrencies(in_flight(asked), pool, pool, instant)]
    wanted = {1.0, 2.0, 4.0, 8.0, 16.0} | ({asked} if asked <= 20 else set())
    assert found == sorted(wanted)


def test_each_pool_waits_as_it_does_at_its_own_part_of_the_requests_in_flight() -> None:
    # Readers complete one request a second of each in flight, writers a third of that.
    loads = (1.0, 2.0, 4.0, 16.0)
    points = curve(*((n, 0.1 * n) for n in loads), goodput=0.9, queue_s=0.01, closed=True).points
    slow = tuple(
        replace(p, requests_per_s=p.requests_per_s / 3, queue_p50_s=0.01 * n, queue_p95_s=0.02 * n, goodput_share=1 / n)
        for n, p in zip(loads, points, strict=True)
    )
    falling = tuple(replace(p, goodput_share=0.9 - 0.01 * n) for n, p in zip(loads, points, strict=True))
    reads, writes = (replace(READS, load_curve=LoadCurve(p, 1.0)) for p in (falling, slow))
    found, link = in_flight(8.0), replace(LINK, seconds=0.05)
    shown = present(combined_load_curve(found, reads, writes, link))
    assert len(shown.points) > 3
    parted = list(shared_concurrencies(found, reads, writes, link))
    for both, part in zip(shown.points, parted, strict=True):
        assert part.reading < part.writing and part.answered_per_s == pytest.approx(part.writing / 3)
        assert part.load == pytest.approx(part.reading + part.writing + 0.05 * part.answered_per_s)
        assert (both.in_flight, both.requests_per_s) == (part.load, part.answered_per_s)
        for statistic in ("p50", "p95"):
            read_s = interpolated_wait_s(falling, part.reading, f"ttft_{statistic}_s")
            queue_s = interpolated_wait_s(slow, part.writing, f"queue_{statistic}_s")
            assert getattr(both, f"ttft_{statistic}_s") == pytest.approx(read_s + 0.05 + queue_s)
            token_s = interpolated_wait_s(slow, part.writing, f"tpot_{statistic}_s")
            assert getattr(both, f"tpot_{statistic}_s") == pytest.approx(token_s)
        share = goodput_at(falling, part.reading) * goodput_at(slow, part.writing)
        assert both.goodput_share == pytest.approx(share)
