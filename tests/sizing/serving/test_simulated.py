"""Curves of real plans: one grid of loads, the same requests at each, theory where it is exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.engines.scheduling import Policy, SchedulerSettings
from app.sizing.question import Deployment, Question
from app.sizing.serving.curves import WAITS, Curve
from app.sizing.serving.kept import CURVE_CACHE
from app.sizing.serving.measured import Settings
from app.sizing.serving.search import measure_plans
from app.sizing.serving.simulated import (
    RATE_SHARES,
    draw_requests,
    is_simulated,
    numbers_in_flight,
    simulate_curves,
    summarize_wait,
    window_bounds,
)
from app.sizing.workload import InferenceWorkload, Lengths, Load, Trace
from tests.examples import col
from tests.sizing.serving.given import on_big, varied

FEW = replace(Assumptions(), simulated_requests=2000.0)
SPREAD: dict[str, Any] = {"input_tokens": Lengths(800.0, 1600.0), "output_tokens": Lengths(200.0, 400.0)}


def found(workload: InferenceWorkload, asked: Deployment | None = None) -> Curve:
    plans = on_big()
    memory, speed = measure_plans(Question(workload, assumptions=FEW), workload, plans, Settings())
    return simulate_curves(workload, plans, memory, speed, FEW, asked)[0]


def test_rates_are_shares_of_what_a_replica_can_do_and_no_wait_falls_with_the_load() -> None:
    curve = found(varied(**SPREAD))
    assert curve.loads / curve.stable_below == pytest.approx(RATE_SHARES)
    for wait in WAITS:
        assert (np.diff(curve.statistic_s(wait, "p95")) >= 0).all(), wait
        assert (curve.statistic_s(wait, "p95") >= curve.statistic_s(wait, "p50")).all(), wait
    assert (np.diff(curve.goodput_share) <= 0).all()
    assert curve.running[-1] > curve.running[0]


def test_the_same_question_is_simulated_to_the_same_bytes() -> None:
    one = found(varied(**SPREAD))
    CURVE_CACHE.clear()
    other = found(varied(**SPREAD))
    assert one.waits_s.tobytes() == other.waits_s.tobytes()
    assert one.loads.tobytes() == other.loads.tobytes()


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
    assert curve.loads / curve.stable_below == pytest.approx(RATE_SHARES)
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
    assert summarize_wait(col(*range(1, 101)), (50.0, 95.0, 99.0)).tolist() == [50.5, 50, 95, 99]
    assert summarize_wait(col(), (50.0,)).tolist() == [0, 0]


def test_the_first_requests_keep_their_order() -> None:
    sent = draw_requests(varied(**SPREAD), 100)
    assert sent.first_requests(10).input_tokens.tolist() == sent.input_tokens[:10].tolist()
