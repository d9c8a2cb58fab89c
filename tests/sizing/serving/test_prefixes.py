"""Idle and running sessions, by hand: prompts of 10 ms (50 ms whole), steps of 20 ms, 200 after the first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.serving.cache import Prefixes
from app.sizing.serving.load import StreamSpeed, stream_speed, unloaded_stream
from app.sizing.serving.margins import Margins
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.operation import stream_operating_point
from app.sizing.serving.prefixes import (
    add_idle_sessions,
    capacity_with_hits_per_s,
    hits_counted,
    idle_sessions,
    limit_sequences,
    prefix_bytes,
    prefix_cache_reports,
    running_bytes,
    serving_value,
    speed_with_prefixes,
)
from app.sizing.workload import InferenceWorkload, Load, Slo
from tests.examples import col
from tests.sizing.serving.given import flat_prefill, flat_step, memory_of, on_big, varied

ASSUMED = Assumptions()
TURNS = 4.0  # seconds of 200 steps
MEDIAN = Slo(None, None, None, 50)  # at which a crowd is no larger than the mean


def memory(*, pool: float = 64.0, own: float = 1.0, shared: float = 0.0, gap_s: float = 10.0) -> ServingMemory:
    """Of 64 sequences that hold one byte each."""
    prefixes = Prefixes(col(own), col(shared), gap_s)
    return replace(memory_of(64), kv_pool_bytes=col(pool), held_bytes_per_sequence=col(1), prefixes=prefixes)


def speed(
    workload: InferenceWorkload, of: ServingMemory, *, cold_s: float = 0.050, margins: Margins | None = None
) -> StreamSpeed:
    """With hits worth 40 ms of each prompt."""
    prompts = flat_prefill(0.010), flat_prefill(cold_s)
    alone, cold = (unloaded_stream(workload, on_big(), of, flat_step(0.020), p, [p], margins) for p in prompts)
    alone = replace(alone, without_hits=cold)
    return speed_with_prefixes(workload, of, stream_speed(workload, of, alone, ASSUMED), ASSUMED)


def opened(**changed: Any) -> InferenceWorkload:
    return varied(**{"slo": MEDIAN, "cached_prefix_fraction": 0.9, "turn_gap_s": 10.0} | changed)


def closed(**changed: Any) -> InferenceWorkload:
    return opened(**{"load": Load.CLOSED, "in_flight": 64.0} | changed)


def test_formulas_at_their_ends() -> None:
    assert idle_sessions(col(0.5, 0.0), 30.0).tolist() == [15, 0]
    # less than one idle session keeps its share of what all share
    assert prefix_bytes(col(0.0, 0.5, 1.0, 9.0), col(2), col(10)).tolist() == [0, 6, 12, 28]
    assert running_bytes(col(3), col(2)).tolist() == [6]
    assert capacity_with_hits_per_s(col(3, 1), col(2, 2)).tolist() == [2, 1]
    assert hits_counted(col(2, 1, 1), col(1, 1, 2)).tolist() == [1, 1, 0]


def test_running_and_idle_share_the_pool() -> None:
    """B sequences at B / (B * 10 ms + 4 s), each second leaving 10 sessions idle: B + 10 rate = 64."""
    found = speed(opened(), memory(), cold_s=5.0)
    rate = found.capacity_per_s[0]
    batch = rate * TURNS / (1 - rate * 0.010)
    assert batch + 10 * rate == pytest.approx(64, rel=1e-3)
    assert batch + 10 * rate <= 64
    assert found.prefix_reservation is not None
    assert (bool(found.prefix_reservation.hits_counted[0]), bool(found.prefix_reservation.limits_capacity[0])) == (
        True,
        True,
    )
    assert found.slo_batch.tolist() == [64]  # what the engine may run at once stays
    assert rate <= found.saturation_per_s[0] < 64 / (0.64 + TURNS)


def test_the_crowd_of_a_percentile_must_fit_too() -> None:
    rate = speed(opened(slo=Slo(None, None, None, 95)), memory(), cold_s=5.0).capacity_per_s[0]
    batch = rate * TURNS / (1 - rate * 0.010)
    assert batch + 1.6448536 * np.sqrt(batch) + 10 * rate == pytest.approx(64, rel=1e-3)


def test_idle_sessions_bind_even_where_one_runs() -> None:
    """A minute of idle sessions of 1 byte in a pool of 4: one runs in the mean of time, and 3 bytes are left."""
    rate = speed(opened(), memory(pool=4.0, gap_s=60.0), cold_s=100.0).capacity_per_s[0]
    assert 1 + 60 * rate == pytest.approx(4, rel=2e-3)


def test_what_all_share_is_kept_once() -> None:
    assert speed(opened(), memory(own=0.0, shared=1.0, pool=65.0)).capacity_per_s[0] == pytest.approx(
        64 / (0.64 + TURNS), rel=0.01
    )
    tight = speed(opened(), memory(own=0.0, shared=1.0)).capacity_per_s[0]
    batch = tight * TURNS / (1 - tight * 0.010)
    assert batch + 1 == pytest.approx(64, rel=1e-3)


def test_where_waiting_for_hits_does_less_every_prompt_is_computed() -> None:
    """64 whole prompts with 200 steps: 64 / (64 * 50 ms + 4 s) = 8.9 a second; an hour of sessions leaves less."""
    found = speed(opened(), memory(gap_s=3600.0))
    assert found.capacity_per_s[0] == pytest.approx(64 / (64 * 0.050 + TURNS), rel=0.01)
    assert found.occupancy_s.tolist() == pytest.approx([0.050])
    assert found.prefix_reservation is not None
    assert (bool(found.prefix_reservation.hits_counted[0]), bool(found.prefix_reservation.limits_capacity[0])) == (
        False,
        False,
    )
    # judged again, at other margins, it stays what it is
    again = speed_with_prefixes(
        opened(), memory(gap_s=3600.0), stream_speed(opened(), memory(), found.unloaded, ASSUMED), ASSUMED
    )
    assert again.capacity_per_s.tolist() == found.capacity_per_s.tolist()


def test_rows_choose_for_themselves() -> None:
    two = memory().take(np.array([0, 0]))
    two = replace(two, kv_pool_bytes=col(64, 640), prefixes=Prefixes(col(100, 1), col(0, 0), 10.0))
    workload = opened()
    prompts = flat_prefill(0.010).take(np.array([0, 0])), flat_prefill(0.050).take(np.array([0, 0]))
    plans, step = on_big().take(np.array([0, 0])), flat_step(0.020).take(np.array([0, 0]))
    alone, cold = (unloaded_stream(workload, plans, two, step, p, [p]) for p in prompts)
    free = stream_speed(workload, two, replace(alone, without_hits=cold), ASSUMED)
    found = speed_with_prefixes(workload, two, free, ASSUMED)
    assert found.prefix_reservation is not None
    assert found.prefix_reservation.hits_counted.tolist() == [False, True]
    assert found.occupancy_s.tolist() == pytest.approx([0.050, 0.010])
    assert found.capacity_per_s.tolist() == pytest.approx([64 / (3.2 + TURNS), 64 / (0.64 + TURNS)], rel=0.01)


def test_by_the_margins_fewer_are_idle_where_less_is_carried() -> None:
    """Half as fast: the batch is that of the whole rate, the idle sessions those of half of it."""
    half = Margins(*(np.full(1, v) for v in (2.0, 1.0, 1.0, 0.0)))
    rate = speed(opened(), memory(), margins=half, cold_s=100.0).capacity_per_s[0]
    batch = 2 * rate * TURNS / (1 - 2 * rate * 0.010)
    assert batch + 10 * rate == pytest.approx(64, rel=1e-3)


def test_a_closed_loop_runs_as_many_as_its_own_idle_sessions_leave_room_for() -> None:
    """19 turn over 19 / 4.19 = 4.53 a second, whose 45.3 idle sessions fit with them into 64.4; 20 do not."""
    found = speed(closed(in_flight=19.0), memory(pool=64.4))
    assert found.slo_batch.tolist() == [19]
    assert found.capacity_per_s[0] == pytest.approx(19 / (0.19 + TURNS), rel=0.02)
    half = Margins(*(np.full(1, v) for v in (2.0, 1.0, 1.0, 0.0)))
    slow = speed(closed(in_flight=19.0), memory(pool=64.4), margins=half)
    assert (slow.slo_batch[0], slow.capacity_per_s[0]) == pytest.approx((19, 19 / (0.19 + TURNS) / 2), rel=0.02)
    # more in flight take fewer replicas without hits, of which all 64 run
    assert speed(closed(), memory()).slo_batch.tolist() == [64]
    assert speed(closed(), memory(pool=3.0, gap_s=600.0)).occupancy_s.tolist() == pytest.approx([0.050])
    assert serving_value(closed(), speed(closed(), memory())).tolist() == [1]


def test_requests_that_do_not_fit_with_the_prefixes_wait() -> None:
    workload, of = closed(in_flight=19.0), memory(pool=64.4)
    found = speed(workload, of)
    assert limit_sequences(workload, of, found).sequences.tolist() == [19]
    assert limit_sequences(opened(), of, speed(opened(), of)) is of
    assert limit_sequences(workload, of, replace(found, prefix_reservation=None)) is of


def test_an_operation_tells_what_it_leaves_idle() -> None:
    workload, of = opened(peak_per_s=2.0), memory(shared=5.0)
    found = add_idle_sessions(of, stream_operating_point(workload, of, speed(workload, of), col(1)))
    assert found.idle_sessions is not None
    assert found.prefix_bytes is not None
    assert (found.idle_sessions[0], found.prefix_bytes[0]) == pytest.approx((20, 25))
    without = replace(of, prefixes=None)
    plain = stream_operating_point(workload, without, speed(workload, of), col(1))
    assert add_idle_sessions(without, plain) is plain


def test_what_survives_and_what_its_loss_takes() -> None:
    workload, of = opened(peak_per_s=2.0), memory(pool=1000.0, gap_s=100.0)
    judged = speed(workload, of)
    operation = add_idle_sessions(of, stream_operating_point(workload, of, judged, col(1)))
    (kept,) = prefix_cache_reports(workload, of, judged, operation, col(4), ASSUMED)
    assert kept is not None
    assert (kept.counted, kept.sessions, kept.bytes_per_replica, kept.turn_gap_s) == (True, 200, 800, 100)
    assert kept.times_without_hits == pytest.approx(judged.capacity_per_s[0] / (64 / (3.2 + TURNS)), rel=0.01)
    twice = speed(workload, memory(pool=1000.0, gap_s=200.0)).capacity_per_s[0]
    assert kept.times_at_twice_the_gap == pytest.approx(judged.capacity_per_s[0] / twice)
    # without its hits a prompt alone is too slow
    strict = replace(workload, slo=Slo(0.040, None, None, 50))
    slow = speed(strict, of)
    (kept,) = prefix_cache_reports(
        strict, of, slow, add_idle_sessions(of, stream_operating_point(strict, of, slow, col(1))), col(4), ASSUMED
    )
    assert kept is not None
    assert kept.times_without_hits is None
    nothing = replace(of, prefixes=None)
    assert prefix_cache_reports(workload, nothing, judged, operation, col(4), ASSUMED) == (None,)


def test_without_prefixes_a_speed_stays_as_it_is() -> None:
    of = replace(memory(), prefixes=None)
    free = stream_speed(opened(), of, speed(opened(), memory()).unloaded, ASSUMED)
    assert speed_with_prefixes(opened(), of, free, ASSUMED) is free
