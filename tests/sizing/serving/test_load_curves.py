"""A replica's curve: read between loads in logarithms, crossed by limits, and never better at a higher load. Kept
curves: what they come of tells them apart, so that an answer is the same whether anything was asked before. The
scheduler of a replica as it is deployed. Curves of real plans: one grid of loads, the same requests at each,
theory where it is exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.recent import RecentlyUsed
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.decisions.placement import replicas_for_rate
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.engines.record import Policy, Scheduler, SchedulerSettings
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.curve_ends import AssuredEnd, PlannedEnd
from app.sizing.serving.finalists import SimulatedReplicas
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import AUTOREGRESSIVE
from app.sizing.serving.load_curves import (
    AT_LIMIT,
    CURVE_CACHE,
    MAX_POOLED,
    MAX_RANK_REQUESTS,
    POINT_CACHE,
    POOLED_RATE_SHARES,
    RATE_SHARES,
    SATURATION_CACHE,
    SATURATION_ROUNDS,
    STATISTIC_COLUMNS,
    WAITS,
    Curve,
    CurveEnd,
    as_simulated,
    build_replicas,
    capacity_at_confidence_per_s,
    confident_loads_per_s,
    curve_key,
    curves_of_replicas,
    deployed_scheduler,
    draw_requests,
    in_flight_within,
    is_simulated,
    loads_within_limits,
    numbers_in_flight,
    requests_of_ranks,
    running_limit,
    sample_trace,
    saturation_rate_per_s,
    simulate_one_load,
    waits_at,
    window_bounds,
    workload_key,
)
from app.sizing.serving.load_point import summarize_each
from app.sizing.serving.margins import Margins
from app.sizing.serving.memory import serving_memory
from app.sizing.serving.search import measure_plans
from app.sizing.serving.simulation import Replica
from app.sizing.serving.simulation.record import DrawnRequests
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo, Trace
from tests.examples import col
from tests.sizing.serving.given import DENSE, MIXTURE, on_big, planned, varied
from tests.sizing.small import BIG, SMALL

NONE = Margins.without_margin(1)


def forget_simulations() -> None:
    """Nothing simulated before is used again."""
    for cache in (CURVE_CACHE, POINT_CACHE, SATURATION_CACHE):
        cache.clear()


def curve(ttft_s: tuple[float, ...] = (0.1, 0.2, 0.8), tpot_s: float = 0.02, **changes: Any) -> Curve:
    """Loads of 1, 2 and 4; a request has 101 tokens, and every statistic of a wait is the same."""
    first, token = np.array(ttft_s), np.full(len(ttft_s), tpot_s)
    waits = dict.fromkeys(WAITS, token) | {"ttft": first, "e2e": first + 100 * token}
    table = np.stack([np.stack([waits[name]] * len(STATISTIC_COLUMNS), axis=1) for name in WAITS], axis=1)
    usual: dict[str, Any] = {
        "closed": False,
        "policy": "mixed",
        "loads": col(1, 2, 4)[: len(ttft_s)],
        "waits_s": table,
        "answered_per_s": col(1, 2, 3.9)[: len(ttft_s)],
        "running": col(2, 4, 10)[: len(ttft_s)],
        "cache_share": col(0.1, 0.2, 0.5)[: len(ttft_s)],
        "preempted": col(0, 0, 0.4)[: len(ttft_s)],
        "goodput_share": col(1, 0.9, 0.1)[: len(ttft_s)],
        "stable_below": 3.9,
        "requests": np.full(len(ttft_s), 10_000.0),
    }
    return Curve(**usual | changes)


def limit(ttft_s: float | None = None, tpot_s: float | None = None, e2e_s: float | None = None) -> Slo:
    return Slo(ttft_s, tpot_s, e2e_s, 95.0)


def test_between_two_loads_waits_are_straight_in_logarithms() -> None:
    assert curve().wait_s("ttft", "p95", 2.0) == pytest.approx(0.2)
    assert curve().wait_s("ttft", "p95", np.sqrt(8)) == pytest.approx(0.4)  # half way from 2 to 4, and from 0.2 to 0.8
    assert curve().wait_s("ttft", "p95", 0.01) == pytest.approx(0.1)  # no load is lighter than the lightest
    assert curve().wait_s("ttft", "p95", 3.9) == np.inf
    assert curve().simulated_wait_s("ttft", "p95", 4.0) == pytest.approx(0.8)


def test_a_closed_loop_waits_on_beyond_its_last_load() -> None:
    closed = curve(closed=True, stable_below=np.inf)
    # four more requests wait for as many answers, and no token waits
    assert closed.wait_s("ttft", "p50", 8.0) == pytest.approx(0.8 + 4 / 3.9)
    assert closed.wait_s("tpot", "p50", 8.0) == pytest.approx(0.02)
    assert closed.answered_rate_per_s(100.0) == pytest.approx(3.9)


def test_a_limit_is_crossed_where_its_wait_is_read() -> None:
    found = loads_within_limits([curve()], limit(0.4), NONE)[0]
    assert found == pytest.approx(np.sqrt(8))
    assert curve().wait_s("ttft", AT_LIMIT, found) == pytest.approx(0.4)
    assert loads_within_limits([curve()], limit(0.05), NONE)[0] == 0  # not even alone
    assert loads_within_limits([curve()], limit(9.0), NONE)[0] == 4
    assert loads_within_limits([curve()], limit(), NONE)[0] == 4
    assert loads_within_limits([curve()], limit(9.0, 0.01), NONE)[0] == 0
    assert loads_within_limits([curve()], limit(None, None, 2.2), NONE)[0] == pytest.approx(2.0)


def test_margins_make_waits_longer_and_rates_smaller() -> None:
    margins = Margins(col(1.5), col(2.0), col(2.0), col(0))
    assert loads_within_limits([curve()], limit(0.8), margins)[0] == pytest.approx(np.sqrt(8))
    assert loads_within_limits([curve()], limit(None, None, 2 * 2.2), margins)[0] == pytest.approx(2.0)
    assert capacity_at_confidence_per_s(col(4), col(3.9), margins.rate)[0] == pytest.approx(2.6)


def test_more_may_be_in_flight_than_meets_a_limit_never() -> None:
    closed = curve(closed=True, stable_below=np.inf)
    assert in_flight_within([closed], limit(0.4), NONE, col(100)).tolist() == [2]
    assert in_flight_within([closed], limit(9.0), NONE, col(3)).tolist() == [3]
    assert in_flight_within([closed], limit(0.05), NONE, col(3)).tolist() == [0]


def test_the_limit_missed_by_the_most_is_named() -> None:
    assert np.ravel(curve().worst_wait_at_lightest(limit(0.08, 0.005), NONE)) == pytest.approx((0.02, 0.005))


def test_figures_that_grow_with_the_load_start_from_nothing() -> None:
    one = curve()
    assert one.interpolate_proportional(one.running, 0.5) == pytest.approx(1.0)
    assert one.interpolate_proportional(one.running, 2.0) == pytest.approx(4.0)
    assert one.interpolate_value(one.preempted, np.sqrt(8)) == pytest.approx(0.2)
    assert one.answered_rate_per_s(2.5) == 2.5


def test_the_knee_is_where_p95_outgrows_throughput() -> None:
    """From 1 to 2 the wait doubles as the rate does; from 2 to 4 it is fourfold."""
    assert curve().knee_load() == 2.0
    assert curve((0.1, 0.11, 0.12)).knee_load() == 4.0


def test_a_deployments_columns_are_read_row_by_row() -> None:
    found = waits_at([curve(), curve((0.2, 0.4, 1.6))], col(2, 1))
    assert found["ttft_p95_s"].tolist() == pytest.approx([0.2, 0.2])
    assert found["e2e_mean_s"].tolist() == pytest.approx([2.2, 2.2])
    assert len(found) == 12


def test_a_single_load_is_all_there_is() -> None:
    alone = curve((0.1,))
    assert alone.wait_s("ttft", "p50", 0.5) == pytest.approx(0.1)
    assert alone.knee_load() == 1.0


def deployed(
    engine: str, asked: SchedulerSettings | None = None, *, offline: bool = False, sequences: Column | None = None
) -> Scheduler:
    fixed = Deployment(BIG.slug, system="big-8", provider="sky", tensor_parallel=1, engine=engine, weight_format="bf16")
    plans = planned(fixed=fixed).take(np.array([0]))
    settings = Settings(max_sequences=sequences)
    memory = serving_memory(
        DENSE, plans, Assumptions(), final_tokens=1000, longest_tokens=1000, offline=offline, settings=settings
    )
    return deployed_scheduler(plans, memory, 0, asked)


def test_an_engine_schedules_as_its_record_says_on_such_a_device() -> None:
    for engine in ("vllm", "tensorrt-llm"):
        for offline in (False, True):
            own = engine_named(engine).scheduling.for_device(BIG.memory_bytes or 0.0, BIG.family, offline=offline)
            assert deployed(engine, offline=offline) == own


def test_what_is_set_is_set() -> None:
    assert deployed("vllm", sequences=np.array([12.0])).max_sequences == 12
    asked = SchedulerSettings(batch_wait_steps=20, batch_wait_share=0.9)
    found = deployed("tensorrt-llm", asked)
    assert (found.batch_wait_steps, found.batch_wait_share, found.chunked) == (20, 0.9, False)
    assert deployed("vllm", found.to_settings).to_settings == found.to_settings


FEW = replace(Assumptions(), simulated_requests=2000.0)
SPREAD: dict[str, Any] = {"input_tokens": Lengths(800.0, 1600.0), "output_tokens": Lengths(200.0, 400.0)}


def found(workload: InferenceWorkload, asked: Deployment | None = None, assumed: Assumptions = FEW) -> Curve:
    plans = on_big()
    memory, _ = measure_plans(Question(workload, assumptions=FEW), workload, plans, Settings())
    replicas = build_replicas(workload, plans, memory, assumed, asked)
    together = (memory.sequences * plans.data_parallel).astype(np.int64)
    one = np.ones(len(plans), np.int64)
    return curves_of_replicas(workload, replicas, together, one, int(assumed.simulated_requests))[0]


def test_rates_are_shares_of_what_a_replica_can_do_and_no_wait_falls_with_the_load() -> None:
    curve = found(varied(**SPREAD))
    assert curve.loads / curve.stable_below == pytest.approx([*RATE_SHARES])
    for wait in WAITS:
        assert (np.diff(curve.statistic_s(wait, "p95")) >= 0).all(), wait
        assert (curve.statistic_s(wait, "p95") >= curve.statistic_s(wait, "p50")).all(), wait
    assert (np.diff(curve.goodput_share) <= 0).all()
    assert curve.running[-1] > curve.running[0]


def test_the_same_question_is_simulated_to_the_same_bytes() -> None:
    one = found(varied(**SPREAD))
    forget_simulations()
    other = found(varied(**SPREAD))
    assert one.waits_s.tobytes() == other.waits_s.tobytes()
    assert one.loads.tobytes() == other.loads.tobytes()


def in_pools(
    workload: InferenceWorkload,
    *pooled: int,
    end: CurveEnd | None = None,
    margins: Margins | None = None,
    requests: int = 2000,
) -> tuple[Curve, ...]:
    """A curve of the same replica in pools of several sizes."""
    plans, many = on_big(), np.zeros(len(pooled), np.int64)
    memory: Any = measure_plans(Question(workload, assumptions=FEW), workload, plans, Settings())[0]
    (replica,) = build_replicas(workload, plans, memory, FEW, None)
    sequences = memory.sequences.astype(np.int64)[many]
    return curves_of_replicas(
        workload, [replica] * len(pooled), sequences, np.array(pooled), requests, margins, [end] * len(pooled)
    )


@pytest.mark.parametrize("pooled", [1, 2, 5, MAX_POOLED])
@pytest.mark.parametrize("slack", [1.2, 1.5, 2.0, 4.0])
def test_a_limit_between_two_simulated_loads_is_met_there(pooled: int, slack: float) -> None:
    """Simulations at a slightly lighter and heavier load meet and exceed the limit, in any pool."""
    long = {"input_tokens": Lengths(8000.0, 16000.0), "output_tokens": Lengths(40.0, 80.0)}
    free = varied(**long, slo=Slo(9.0, None, None, 99.0))
    (whole,) = in_pools(free, pooled, requests=5000)
    assert whole.loads / whole.stable_below == pytest.approx([*(RATE_SHARES if pooled == 1 else POOLED_RATE_SHARES)])
    limit_s = slack * whole.statistic_s("ttft", AT_LIMIT)[0]
    load = whole.load_within_limits(Slo(limit_s, None, None, 99.0), NONE)[0]
    assert whole.loads[0] < load < whole.stable_below
    plans = on_big()
    memory: Any = measure_plans(Question(free, assumptions=FEW), free, plans, Settings())[0]
    both = plans.take(np.zeros(2, np.int64)), memory.take(np.zeros(2, np.int64))
    pools = np.full(2, pooled)
    lighter, heavier = simulate_one_load(free, *both, col(load / 1.15, load * 1.15), Assumptions(), None, pools)
    assert lighter.statistic_s("ttft", AT_LIMIT)[0] <= limit_s * 1.1
    assert heavier.statistic_s("ttft", AT_LIMIT)[0] >= limit_s / 1.1


@pytest.mark.parametrize(
    "slo",
    [
        Slo(None, None, None, 95.0),
        Slo(0.08, None, None, 95.0),
        Slo(0.3, 0.03, None, 95.0),
        Slo(9.0, 9.0, None, 95.0),
        Slo(None, None, 6.0, 99.0),
        Slo(1e-4, None, None, 95.0),
        Slo(0.5, 0.014, None, 50.0),
    ],
)
@pytest.mark.parametrize("load", [Load.OPEN, Load.CLOSED])
@pytest.mark.parametrize("slower", [0.9, 1.0, 1.3])
def test_a_curve_ends_where_heavier_loads_do_not_change_what_is_planned(slo: Slo, load: Load, slower: float) -> None:
    workload = varied(**SPREAD, slo=slo, load=load, in_flight=64.0, target_utilization=0.9)
    rate, token, first = (np.full(2, slower**power) for power in (1.0, 0.7, 1.2))
    margins = Margins(rate, token, first, np.zeros(2))
    end = PlannedEnd(1, slo, margins.take(np.array([0])), 0.9)
    part, whole = in_pools(workload, 1, 4, end=end), in_pools(workload, 1, 4)
    sequences = np.full(2, 1e3)
    counts = [
        (runs.planned_capacity(workload), runs.capacity_at_confidence(workload)[0] > 0)
        for runs in (SimulatedReplicas(curves, sequences, margins, np.array([1, 4])) for curves in (part, whole))
    ]
    np.testing.assert_allclose(counts[0][0], counts[1][0], rtol=1e-12)
    np.testing.assert_array_equal(counts[0][1], counts[1][1])
    assert all(len(p.loads) <= len(w.loads) for p, w in zip(part, whole, strict=True))
    if load is Load.OPEN:  # where only their number matters, replicas are known as early
        peak_per_s = 2.5 * part[0].stable_below
        counted_end = PlannedEnd(1, slo, margins.take(np.array([0])), 0.9, peak_per_s)
        counted = in_pools(workload, 1, 4, end=counted_end)
        few = SimulatedReplicas(counted, sequences, margins, np.array([1, 4])).planned_capacity(workload)[0]
        assert replicas_for_rate(peak_per_s, few).tolist() == replicas_for_rate(peak_per_s, counts[1][0][0]).tolist()
        assert all(len(c.loads) <= len(p.loads) for c, p in zip(counted, part, strict=True))
        clipped = in_pools(workload, 1, 4, end=replace(counted_end, most_replicas=3.0))
        few = SimulatedReplicas(clipped, sequences, margins, np.array([1, 4])).planned_capacity(workload)[0]
        enough = np.minimum(replicas_for_rate(peak_per_s, counts[1][0][0]), 3.0)
        assert np.minimum(replicas_for_rate(peak_per_s, few), 3.0).tolist() == enough.tolist()
        assert all(len(c.loads) <= len(p.loads) for c, p in zip(clipped, counted, strict=True))
    if slo.ttft_s == 1e-4:
        assert [len(p.loads) for p in part] == ([1, 1] if slower >= 1 else [len(w.loads) for w in whole])
    if load is Load.OPEN and slo.ttft_s == 9.0 and slower >= 1:  # no limit binds before the reserve
        assert all(0.9 <= p.loads[-1] / p.stable_below < 0.96 for p in part)


@pytest.mark.parametrize(("slo", "loads"), [(Slo(0.03, None, None, 95.0), 5), (Slo(9.0, None, None, 95.0), 7)])
def test_a_curve_ends_where_heavier_loads_change_no_confidence_level(slo: Slo, loads: int) -> None:
    workload = varied(**SPREAD, slo=slo)
    rate, token, first = (np.array([0.9, 1.0, 1.3]) ** power for power in (1.0, 0.7, 1.2))
    margins = Margins(rate, token, first, np.zeros(3))
    (part,), (whole,) = in_pools(workload, 4, end=AssuredEnd(1, slo, margins)), in_pools(workload, 4)
    capacities = (confident_loads_per_s([each] * 3, slo, margins) for each in (part, whole))
    least, most = (np.minimum(each, whole.stable_below / rate).tolist() for each in capacities)
    assert least == most
    assert part.knee_load() == whole.knee_load()
    assert (len(part.loads), part.is_whole, whole.is_whole) == (loads, loads == len(whole.loads), True)


def test_a_lighter_start_is_kept_however_far_a_curve_reaches() -> None:
    (usual,) = in_pools(varied(**SPREAD), 4)
    slo = Slo(usual.statistic_s("ttft", AT_LIMIT)[0] / 1.2, None, None, 95.0)
    light = varied(**SPREAD, slo=slo, peak_per_s=4 * 0.03 * usual.stable_below)
    ends = (PlannedEnd(1, slo, NONE, 0.9), AssuredEnd(4, slo, NONE), None)
    curves = [in_pools(light, 4, end=end, margins=NONE)[0] for end in ends]
    forget_simulations()
    again = [in_pools(light, 4, end=end, margins=NONE)[0] for end in reversed(ends)]
    for one, other in zip(curves, reversed(again), strict=True):
        assert one.loads.tolist() == other.loads.tolist() == curves[-1].loads[: len(one.loads)].tolist()
        assert one.waits_s.tobytes() == other.waits_s.tobytes()
    assert curves[-1].loads == pytest.approx(usual.stable_below * np.array([0.03, *POOLED_RATE_SHARES]))
    (kept,) = in_pools(light, 4)  # the cache of whole curves has only usual ones
    assert kept.loads.tolist() == usual.loads.tolist()


def test_littles_law_holds_at_every_stable_rate() -> None:
    curve = found(varied(**SPREAD))
    inside = curve.loads * (curve.statistic_s("e2e", "mean") - curve.statistic_s("queue", "mean"))
    assert curve.running[:3] == pytest.approx(inside[:3], rel=0.05)


def test_a_run_that_ends_waits_behind_its_burst_and_a_steady_loop_does_not() -> None:
    steady = varied(load=Load.CLOSED, in_flight=32.0, peak_per_s=0.0, **SPREAD)
    burst = found(replace(steady, requests=32.0))
    assert burst.wait_s("ttft", "p50", 32.0) > 2 * found(steady).wait_s("ttft", "p50", 32.0)


def test_numbers_in_flight_are_powers_of_two_and_what_runs_at_once() -> None:
    closed = varied(load=Load.CLOSED, in_flight=3.0)
    assert numbers_in_flight(closed, 100) == [1, 2, 4, 8, 16]
    assert numbers_in_flight(closed, 6) == [1, 2, 4, 6, 8, 16]
    assert numbers_in_flight(varied(load=Load.CLOSED, in_flight=5000.0), 100) == [1, 2, 4, 8, 16, 32, 64, 100, 128, 256]


def test_of_a_run_that_ends_every_part_that_few_replicas_get_is_simulated_as_it_is() -> None:
    run = varied(load=Load.CLOSED, in_flight=1000.0, requests=3000.0)
    numbers = numbers_in_flight(run, 100)
    assert {1000, 500, 334, 250, 63, 1, 2, 32} <= set(numbers)
    assert found(replace(run, in_flight=96.0, requests=96.0)).requests[-1] == 96


def test_a_run_that_ends_is_measured_whole_and_shared_by_what_is_in_flight() -> None:
    run = varied(load=Load.CLOSED, in_flight=32.0, requests=960.0)
    assert window_bounds(run, 32, 10_000) == (0, 960)
    assert window_bounds(run, 16, 10_000) == (0, 480)
    warm, wanted = window_bounds(replace(run, requests=None), 32, 10_000)
    assert (warm, wanted) == (2000, 10_000)
    assert window_bounds(replace(run, requests=None), 1000, 10_000) == (4000, 12_000)


def test_a_trace_goes_to_one_in_so_many_replicas() -> None:
    """Twenty a second for a minute; a replica that can do far less gets every some-th."""
    at_s = np.arange(1200) / 20
    lengths = np.full(1200, 800), np.full(1200, 100)
    trace = Trace(at_s, *lengths, np.zeros(1200, np.int64))
    recorded = varied(peak_per_s=20.0, trace=trace, burstiness=1.0)
    curve = found(recorded)
    assert curve.loads / curve.stable_below == pytest.approx([*RATE_SHARES])
    assert (np.diff(curve.statistic_s("ttft", "p95")) >= 0).all()


def test_what_a_caller_sets_of_the_scheduler_is_simulated() -> None:
    first = Deployment("acme-big", scheduler=SchedulerSettings(policy=Policy.PREFILL_FIRST))
    curve = found(varied(**SPREAD), first)
    assert curve.policy == "prefill_first"
    assert found(varied(**SPREAD)).policy == "mixed"


def test_streams_that_somebody_waits_for_are_simulated() -> None:
    assert is_simulated(varied())
    assert is_simulated(varied(load=Load.CLOSED))
    assert not is_simulated(varied(load=Load.OFFLINE))
    assert not is_simulated(varied(load=Load.BATCH))


def test_percentiles_are_what_so_many_do_not_exceed() -> None:
    waits = np.stack([col(*range(1, 101)), col(*range(200, 100, -1))])
    assert summarize_each(waits, (50.0, 95.0, 99.0)).tolist() == [[50.5, 50, 95, 99], [150.5, 150, 195, 199]]
    assert summarize_each(np.zeros((2, 0)), (50.0,)).tolist() == [[0, 0], [0, 0]]


def test_the_first_requests_keep_their_order() -> None:
    sent = draw_requests(varied(**SPREAD), 100)
    assert sent.first_requests(10).input_tokens.tolist() == sent.input_tokens[:10].tolist()


ASKED: dict[str, Any] = {"peak_per_s": 40.0, "average_per_s": 20.0, "slo": Slo(1.0, 0.05, None, 95.0)}
WORKLOAD = varied(**ASKED)
OTHERS: list[dict[str, Any]] = [
    {"burstiness": 2.0},
    {"input_tokens": Lengths(801.0)},
    {"output_tokens": Lengths(WORKLOAD.output_tokens.mean, 2 * WORKLOAD.output_tokens.mean)},
    {"cached_prefix_fraction": 0.5},
    {"shared_prefix_fraction": 0.1},
    {"turn_gap_s": 3.0},
    {"slo": Slo(1.0, 0.04, None, 95.0)},
    {"slo": Slo(1.0, 0.05, None, 99.0)},
    {"comes_read": True},
    {"load": Load.CLOSED, "in_flight": 64.0},
    {"model": replace(WORKLOAD.model, max_context_tokens=4096)},
]


@pytest.mark.parametrize("changes", OTHERS, ids="-".join)
def test_workloads_with_other_requests_or_limits_have_other_keys(changes: dict[str, Any]) -> None:
    assert workload_key(as_simulated(varied(**ASKED))) == workload_key(as_simulated(WORKLOAD))
    assert workload_key(as_simulated(replace(WORKLOAD, **changes))) != workload_key(as_simulated(WORKLOAD))


FLEETS: list[dict[str, Any]] = [
    {"peak_per_s": 41.0},
    {"average_per_s": 3.0},
    {"redundancy": Redundancy(spare=1)},
    {"target_utilization": 0.5},
    {"hourly_shares": (1.0,) * 24},
    {"in_flight": 7.0},
]


@pytest.mark.parametrize("changes", FLEETS, ids="-".join)
def test_workloads_that_only_need_another_fleet_share_their_curves(changes: dict[str, Any]) -> None:
    other = varied(**{**ASKED, **SPREAD, **changes})
    assert workload_key(as_simulated(other)) == workload_key(as_simulated(varied(**{**ASKED, **SPREAD})))
    forget_simulations()
    one = found(other)
    forget_simulations()
    assert one.waits_s.tobytes() == found(varied(**{**ASKED, **SPREAD})).waits_s.tobytes()


def test_a_check_at_one_rate_agrees_with_the_curve() -> None:
    workload, plans = varied(**SPREAD), on_big()
    memory, _ = measure_plans(Question(workload, assumptions=FEW), workload, plans, Settings())
    whole = found(workload, assumed=Assumptions())
    for place in (1, 3):
        (only,) = simulate_one_load(workload, plans, memory, whole.loads[[place]], Assumptions())
        assert only.loads.tolist() == [whole.loads[place]]
        for wait in ("ttft", "tpot"):
            curve_s = whole.statistic_s(wait, "p50")[place]
            assert only.statistic_s(wait, "p50")[0] == pytest.approx(curve_s, rel=0.1)


def test_a_check_with_a_number_in_flight_agrees_with_the_curve() -> None:
    workload, plans = varied(**SPREAD, load=Load.CLOSED, in_flight=32.0, peak_per_s=0.0), on_big()
    memory, _ = measure_plans(Question(workload, assumptions=FEW), workload, plans, Settings())
    whole = found(workload, assumed=Assumptions())
    for held in (4.0, 32.0):
        (only,) = simulate_one_load(workload, plans, memory, col(held), Assumptions())
        assert only.closed and only.loads.tolist() == [held]
        for wait in ("ttft", "tpot"):
            assert only.statistic_s(wait, "p50")[0] == pytest.approx(whole.wait_s(wait, "p50", held), rel=0.1)


def test_every_figure_of_replicas_and_bounds_changes_the_key() -> None:
    grid = np.arange(3.0)
    columns = ("Seconds", "Counts")
    fields: dict[str, Any] = {n: grid if str(of) in columns else 1 for n, of in Replica.__annotations__.items()}
    replica = Replica(**fields)
    keys = {curve_key(b"", replica, 1, 2), curve_key(b"", replica, 2, 1), curve_key(b"x", replica, 1, 2)}
    for name, value in fields.items():
        keys |= {
            curve_key(b"", Replica(**{**fields, name: other}), 1, 2) for other in (value + 1, np.append(value, 1.0))
        }
    assert len(keys) == 3 + 2 * len(fields)
    assert curve_key(b"", Replica(**fields), 1, 2) in keys


def test_the_curve_asked_for_longest_ago_is_forgotten_first() -> None:
    kept, made = RecentlyUsed[bytes, Curve](2), []

    def asked(name: bytes) -> Curve:
        def simulate() -> Curve:
            made.append(name)
            return curve()

        return kept.get_or_make(name, simulate)

    first = asked(b"a")
    assert asked(b"a") is first
    for name in (b"b", b"a", b"c", b"a", b"b"):
        asked(name)
    assert made == [b"a", b"b", b"c", b"b"]
    kept.clear()
    asked(b"a")
    assert made[-1] == b"a"


def test_an_answer_is_the_same_whatever_was_asked_before() -> None:
    questions = [
        Question(replace(WORKLOAD, **changes), limits, assumptions=FEW)
        for changes in ({}, *OTHERS[1::3])
        for limits in (Constraints(), Constraints(max_accelerators=12))
    ]
    warm = [recommend_hardware(question, SMALL) for question in (*questions, *questions)]
    for question, *found in zip(questions, warm, warm[len(questions) :], strict=False):
        forget_simulations()
        fresh = recommend_hardware(question, SMALL)
        assert [a.recommendations for a in found] == [fresh.recommendations] * 2
        assert [a.assumptions for a in found] == [fresh.assumptions] * 2


def test_requests_are_drawn_with_whole_tokens_and_no_more_hits_than_planned() -> None:
    """Of prompts of 801 tokens 0.55 are hits, 440 whole tokens, of which 0.3 of the mean are shared by all."""
    asked = varied(
        input_tokens=Lengths(801.0),
        cached_prefix_fraction=0.55,
        shared_prefix_fraction=0.3,
        turn_gap_s=7.0,
        output_tokens=Lengths(1.0),
    )
    sent = draw_requests(asked, 50)
    assert set(sent.input_tokens.tolist()) == {801} and set(sent.prefix_tokens.tolist()) == {440}
    assert (sent.shared_tokens, sent.reuse_gap_s) == (240, 7.0)
    assert (sent.output_tokens >= 1).all() and (sent.prefix_tokens <= 0.55 * sent.input_tokens).all()
    spread = draw_requests(replace(asked, input_tokens=Lengths(800.0, 2000.0)), 500)
    assert (spread.prefix_tokens == np.floor(0.55 * spread.input_tokens)).all()


def test_a_replica_gets_every_so_manyth_request_of_a_trace_from_its_first_on() -> None:
    trace = Trace(5.0 + np.arange(10) / 2, np.arange(10) * 10 + 100, np.arange(10), np.arange(10) + 1)
    recorded = varied(trace=trace, input_tokens=Lengths(200.0), shared_prefix_fraction=0.4, turn_gap_s=3.0)
    taken = sample_trace(recorded, trace, 3)
    assert taken.arrival_s.tolist() == [0.0, 1.5, 3.0, 4.5]
    assert taken.input_tokens.tolist() == [100, 130, 160, 190]
    assert taken.output_tokens.tolist() == [1, 3, 6, 9]  # an answer has a token at least
    assert taken.prefix_tokens.tolist() == [1, 4, 7, 10]
    assert (taken.shared_tokens, taken.reuse_gap_s, taken.in_flight) == (80, 3.0, 0)


def test_a_simulated_prompt_that_comes_with_its_cache_needs_no_step_of_its_own() -> None:
    plans = on_big()

    def built(workload: InferenceWorkload) -> Replica:
        memory = AUTOREGRESSIVE.estimate_memory(workload, plans, Assumptions(), Settings())
        (replica,) = build_replicas(workload, plans, memory, Assumptions(), None)
        return replica

    usual, read = built(WORKLOAD), built(replace(WORKLOAD, comes_read=True))
    assert usual.dispatch_s > 0 and usual.ingest_s > 0 and usual.tokenise_token_s > 0
    assert (read.dispatch_s, read.ingest_s, read.tokenise_token_s) == (0, 0, 0)
    assert read.decode_s.tolist() == usual.decode_s.tolist()


def test_ranks_are_simulated_with_as_many_requests_as_fill_them() -> None:
    """Eight ranks run more sequences than the usual requests: with those alone, the replica would only drain."""
    workload = replace(WORKLOAD, input_tokens=Lengths(400.0, 800.0), output_tokens=Lengths(300.0, 600.0), model=MIXTURE)
    plans = on_big(MIXTURE, data_parallel=8)
    memory = AUTOREGRESSIVE.estimate_memory(workload, plans, Assumptions(), Settings())
    (replica,) = build_replicas(workload, plans, memory, Assumptions(), None)

    def draw(count: int) -> DrawnRequests:
        return draw_requests(workload, count)

    slots = running_limit(replica, draw(5000))
    assert slots > 4000 and replica.ranks == 8
    assert 4 * slots <= requests_of_ranks(replica, draw, 5000, 4) < 8 * slots
    assert requests_of_ranks(replica, draw, 5000, 40, pooled=8) == MAX_RANK_REQUESTS // 8
    assert requests_of_ranks(replica._replace(ranks=1), draw, 5000, 4) == 5000

    def measured(count: int) -> float:
        return saturation_rate_per_s(replica, draw(count))

    enough = measured(requests_of_ranks(replica, draw, 5000, SATURATION_ROUNDS))
    alone = AUTOREGRESSIVE.unloaded_latency(workload, plans, memory, Assumptions())
    formula = AUTOREGRESSIVE.estimate_speed(workload, memory, alone, Assumptions()).saturation_per_s[0]
    assert formula == pytest.approx(enough, rel=0.15)
    assert measured(5000) > 1.3 * enough  # what too few requests would promise
