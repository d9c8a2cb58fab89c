"""A replica within its limits, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the first. A
replica at its share of the load, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the first.
Idle and running sessions, by hand: prompts of 10 ms (50 ms whole), steps of 20 ms, 200 after the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.serving.capacity import (
    StreamOperatingPoint,
    StreamSpeed,
    hits_counted,
    idle_sessions,
    mean_batch,
    median_ttft_s,
    percentile_prompt_extra_s,
    prefix_bytes,
    queue_tail_s,
    running_bytes,
    sequences_met,
    stream_operating_point,
    stream_speed,
    tail_tpot_s,
    tail_ttft_s,
    traffic_variation,
    unloaded_stream,
)
from app.sizing.serving.kv_cache import Prefixes
from app.sizing.serving.margins import Margins
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.prefill import PrefillTerms
from app.sizing.serving.prefix_capacity import (
    PrefixesFit,
    add_idle_sessions,
    capacity_with_hits_per_s,
    limit_sequences,
    prefix_cache_reports,
    serving_value,
    speed_with_hits,
    speed_with_prefixes,
)
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import col
from tests.sizing.serving.given import flat_prefill, flat_step, memory_of, on_big, varied

Z95 = 1.6448536


def speed(
    load: Load = Load.OPEN,
    *,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    e2e_s: float | None = None,
    tail: PrefillTerms | None = None,
    step: float = 0.02,
    pipeline: int = 1,
    **changed: Any,
) -> StreamSpeed:
    """Capacity of a replica in whose memory 64 sequences run."""
    workload = varied(load=load, slo=Slo(ttft_s, tpot_s, e2e_s, changed.pop("percentile", 95)), **changed)
    prompt = flat_prefill(0.010)
    plans = on_big(pipeline_parallel=pipeline)
    alone = unloaded_stream(workload, plans, memory_of(64), flat_step(step), prompt, [tail or prompt])
    return stream_speed(workload, memory_of(64), alone, Assumptions())


def test_mean_occupancy_below_a_quantile() -> None:
    mean = mean_batch(col(100), 1.645)[0]
    assert mean == pytest.approx(84.9, abs=0.1)
    assert mean + 1.645 * np.sqrt(mean) == pytest.approx(100)


def test_queue_quantile_is_exact_for_m_m_1() -> None:
    # load 0.8, service 1 s: P(wait > t) = 0.8 exp(-0.2 t), so p95 is ln(0.8 / 0.05) / 0.2; the mean is 4
    assert queue_tail_s(col(4.0), col(0.8), 95)[0] == pytest.approx(np.log(16) / 0.2)
    assert queue_tail_s(col(4.0), col(0.04), 95)[0] == 0
    assert queue_tail_s(col(0.0), col(0.0), 95)[0] == 0


def test_a_replica_without_limits_runs_all_that_fits() -> None:
    found = speed()
    assert found.slo_batch.tolist() == [64]
    # at the 95th percentile of 64 the mean is m with m + 1.645 sqrt(m) = 64
    mean = ((np.sqrt(Z95**2 + 4 * 64) - Z95) / 2) ** 2
    assert mean + Z95 * np.sqrt(mean) == pytest.approx(64)
    assert found.capacity_per_s[0] == pytest.approx(mean / (mean * 0.010 + 200 * 0.020), rel=0.01)
    assert found.saturation_per_s[0] == pytest.approx(64 / (64 * 0.010 + 200 * 0.020), rel=0.01)
    assert found.occupancy_s.tolist() == pytest.approx([0.010])
    assert found.unloaded.fastest_tpot_s.tolist() == pytest.approx([0.020])
    assert found.unloaded.fastest_ttft_s.tolist() == pytest.approx([0.005 + 0.010])
    assert np.isinf(found.unloaded.tpot_limit_s[0])
    assert np.isinf(found.unloaded.ttft_limit_s[0])
    assert speed(percentile=50.0).capacity_per_s[0] == pytest.approx(64 / (0.64 + 4), rel=0.01)
    assert speed(percentile=20.0).capacity_per_s[0] == pytest.approx(64 / (0.64 + 4), rel=0.01)


def test_in_a_pipeline_prompts_overlap() -> None:
    assert speed(pipeline=2).occupancy_s.tolist() == pytest.approx([0.005])


def test_the_limit_of_a_token_bounds_the_batch() -> None:
    # 31 others' prompts: 20 ms + 31 / 200 * 10 ms, and at the 95th percentile 1.645 * sqrt(31) more: 22.01 ms
    found = speed(tpot_s=0.02201)
    assert found.slo_batch.tolist() == [32]
    assert found.unloaded.tpot_limit_s.tolist() == [0.02201]
    closed = speed(Load.CLOSED, tpot_s=0.02201)
    assert closed.slo_batch.tolist() == [32]
    # a turn: 31 prompts, 200 steps, and 75 ms to the first token, a little less of the others' prompts in that time
    assert closed.capacity_per_s[0] == pytest.approx(32 / (0.075 + 31 * 0.010 + 200 * 0.020), rel=2e-3)
    assert speed(Load.BATCH, tpot_s=0.02201).capacity_per_s[0] == pytest.approx(32 / (0.005 + 32 * 0.010 + 200 * 0.020))
    assert speed(tpot_s=0.01).slo_batch.tolist() == [1]


def test_the_limit_of_the_first_token_bounds_the_batch_and_the_queue() -> None:
    # 36 clients: a step of 21.7 ms that runs, one planned already, one with the own prompt of 10 ms, and 3 ms of queue;
    # at the 95th percentile a longer queue and nearly all of the running step
    assert speed(Load.CLOSED, ttft_s=0.1).slo_batch.tolist() == [36]
    # of a rate, where every step ends half of what runs: 15 ms, two and a half steps and others' prompts in them
    assert speed(ttft_s=0.03, output_tokens=Lengths(2.0)).slo_batch.tolist() == [1]
    found = speed(ttft_s=0.1, output_tokens=Lengths(2.0))
    assert found.slo_batch.tolist() == [3]
    rate = found.capacity_per_s[0]
    bursty = speed(ttft_s=0.1, output_tokens=Lengths(2.0), burstiness=2.0)
    assert bursty.capacity_per_s[0] <= rate


def test_prompts_take_nearly_all_of_a_replicas_time_and_no_more() -> None:
    assert speed(step=1e-6).capacity_per_s[0] == pytest.approx(0.98 / 0.010)


def test_a_whole_requests_limit_leaves_its_tokens_what_the_first_left() -> None:
    found = speed(e2e_s=5.0)
    assert found.unloaded.tpot_limit_s[0] == pytest.approx((5 - 0.015) / 201)
    assert found.unloaded.ttft_limit_s[0] == 5
    both = speed(e2e_s=5.0, ttft_s=1.0, tpot_s=0.02201)
    assert (both.unloaded.ttft_limit_s[0], both.unloaded.tpot_limit_s[0]) == (1, 0.02201)
    longer = speed(e2e_s=5.0, output_tokens=Lengths(201.0, 400.0))
    assert longer.unloaded.tpot_limit_s[0] == pytest.approx((5 - 0.015) / 400, rel=1e-3)
    assert speed(e2e_s=0.01).unloaded.tpot_limit_s[0] < 1e-6


def test_the_long_prompt_is_the_one_that_must_meet_the_limit() -> None:
    tail = flat_prefill(0.030, new_tokens=2400.0)
    found = speed(tail=tail, ttft_s=0.0801)
    assert found.unloaded.fastest_ttft_s[0] == pytest.approx(0.005 + 0.030)
    # 35 ms, and 2.5 steps if others run: one alone is in time, two are not
    assert found.slo_batch.tolist() == [1]
    assert found.occupancy_s[0] == pytest.approx(0.010)  # others' prompts are of the mean


def test_formulas_hold_at_their_ends() -> None:
    """Less than a sequence, and parts that are no longer than in the mean."""
    assert mean_batch(col(1.0, 0.5, 1.5), 1.645).tolist() == [1, 0.5, 1]
    assert tail_ttft_s(col(1.0), col(-0.5), col(-0.5), col(0.0), 95)[0] == 1
    assert tail_ttft_s(col(1.0), col(0.3), col(0.4), col(0.0), 95)[0] == pytest.approx(1.5)
    assert median_ttft_s(col(1.0), col(0.3), col(-0.4))[0] == pytest.approx(0.6)


def test_arrivals_and_prompts_vary_alike() -> None:
    spread = Lengths(800.0, 2000.0)
    assert traffic_variation(3.0, spread) == pytest.approx((9 + np.expm1(spread.sigma**2)) / 2)


def operated(
    replicas: float = 2, *, sequences: float = 64, prompt_s: float = 0.010, **changed: Any
) -> StreamOperatingPoint:
    workload, prompt, memory = varied(**changed), flat_prefill(prompt_s), memory_of(sequences)
    alone = unloaded_stream(workload, on_big(), memory, flat_step(0.020), prompt, [prompt])
    speed = stream_speed(workload, memory, alone, Assumptions())
    return stream_operating_point(workload, memory, speed, col(replicas))


def test_a_request_rate_keeps_as_many_running_as_it_takes() -> None:
    """5 a second each: B / (B * 10 ms + 200 * 20 ms) = 5 at B = 20 / 0.95."""
    found = operated()
    batch = 20 / 0.95
    assert found.rate_per_s.tolist() == [5]
    assert found.batch[0] == pytest.approx(batch, rel=1e-3)
    # a request sees all that run in the mean, and itself
    token = 0.020 + batch / 200 * 0.010
    assert found.tpot_mean_s[0] == pytest.approx(token, rel=1e-4)
    assert found.tpot_p50_s[0] == pytest.approx(found.tpot_mean_s[0])
    assert found.tpot_p95_s[0] > 0.020 + (batch + Z95 * np.sqrt(batch)) / 200 * 0.010
    # 5 ms, half of the running step, one planned already, one with the own prompt: 10 ms on top of 20 ms
    first = 0.005 + 1.5 * token + 0.030
    assert found.ttft_p50_s[0] == pytest.approx(first, rel=0.03)
    assert first < found.ttft_p50_s[0] < found.ttft_mean_s[0] < found.ttft_p95_s[0] < found.ttft_p99_s[0]
    assert found.e2e_p50_s[0] == pytest.approx(found.ttft_p50_s[0] + 200 * found.tpot_p50_s[0])
    assert found.e2e_p99_s[0] == pytest.approx(found.ttft_p99_s[0] + 200 * found.tpot_p99_s[0])
    mean = ((np.sqrt(Z95**2 + 4 * 64) - Z95) / 2) ** 2
    assert found.utilization[0] == pytest.approx(5 / (mean / (mean * 0.010 + 4)))


def test_a_rate_that_leaves_a_replica_idle_meets_no_crowd() -> None:
    found = operated(100)
    assert found.batch[0] == pytest.approx(0.1 * 4.01, rel=0.01)
    assert found.tpot_mean_s[0] == pytest.approx(0.020 + found.batch[0] / 200 * 0.010)
    # two of three find it idle: 15 ms; the others a step, one planned already, and their own
    busy = 1 - np.exp(-found.batch[0] - 0.1 * 0.015)
    assert found.ttft_p50_s[0] == pytest.approx(0.015 + busy * 0.050, rel=0.01)


def test_no_more_run_than_fit_and_beyond_saturation_the_queue_never_empties() -> None:
    """All 24 in use give 24 / 4.24 = 5.66 a second."""
    full = operated(sequences=24)
    assert full.tpot_p99_s[0] == pytest.approx(0.020 + 23 / 200 * 0.010, rel=0.03)
    late = operated(1, sequences=24)
    assert np.isinf(late.ttft_p50_s[0])
    assert np.isinf(late.tpot_p95_s[0])
    assert np.isinf(late.e2e_p99_s[0])


def test_longer_prompts_and_outputs_come_at_their_percentile() -> None:
    plain = operated(load=Load.CLOSED, in_flight=1.0, replicas=1)
    spread = operated(
        load=Load.CLOSED, in_flight=1.0, replicas=1, input_tokens=Lengths(800, 2000), output_tokens=Lengths(201, 500)
    )
    median = Lengths(800, 2000).quantile(50) / 800
    assert spread.ttft_p50_s[0] == pytest.approx(plain.ttft_p50_s[0] - (1 - median) * 0.010)
    assert spread.ttft_p95_s[0] == pytest.approx(0.015 + np.hypot(1.5 * 0.010, 0.45 * 0.020))
    assert spread.ttft_mean_s[0] == plain.ttft_mean_s[0]
    assert spread.e2e_p95_s[0] == pytest.approx(spread.ttft_p95_s[0] + 499 * 0.020)


def test_a_fixed_number_in_flight_shares_the_replicas() -> None:
    """9 over 2: five each."""
    found = operated(load=Load.CLOSED, in_flight=9.0)
    assert found.batch.tolist() == [5]
    # an answer ends a step; the next comes in while one runs, one more is planned already, then the own prompt
    assert found.ttft_mean_s[0] == pytest.approx(2 * 0.0202 + 0.0302, rel=0.01)
    assert found.ttft_p50_s[0] < found.ttft_mean_s[0] < found.ttft_p95_s[0] < found.ttft_p99_s[0]
    # four others' prompts fall between its tokens
    assert found.tpot_mean_s[0] == pytest.approx(0.020 + 4 / 200 * 0.010, rel=1e-3)
    assert found.tpot_p99_s[0] > found.tpot_p95_s[0] > found.tpot_mean_s[0]
    turn = found.ttft_mean_s[0] + 200 * found.tpot_mean_s[0]
    assert found.rate_per_s[0] == pytest.approx(5 / turn)
    assert found.utilization[0] == pytest.approx(5 / 64)


def test_what_does_not_fit_waits_for_a_place() -> None:
    found = operated(1, sequences=8, load=Load.CLOSED, in_flight=12.0)
    assert found.batch.tolist() == [8]
    within = operated(1, sequences=8, load=Load.CLOSED, in_flight=8.0)
    assert found.rate_per_s[0] == within.rate_per_s[0]
    assert found.ttft_mean_s[0] == pytest.approx(within.ttft_mean_s[0] + 4 / within.rate_per_s[0])
    assert found.utilization[0] == pytest.approx(12 / 8)


def test_a_static_batch_computes_every_prompt_first() -> None:
    found = operated(1, load=Load.BATCH, in_flight=16.0)
    first = 0.005 + 16 * 0.010
    assert found.ttft_p50_s[0] == pytest.approx(first)
    assert found.ttft_p99_s[0] == pytest.approx(first)
    assert found.tpot_mean_s[0] == pytest.approx(0.020)
    assert found.rate_per_s[0] == pytest.approx(16 / (first + 4))


def test_an_offline_queue_fills_the_replica() -> None:
    found = operated(3, load=Load.OFFLINE)
    assert found.batch.tolist() == [64]
    assert found.rate_per_s[0] == pytest.approx(64 / (0.64 + 4), rel=0.01)
    assert found.utilization.tolist() == [1]
    assert found.ttft_p99_s[0] == found.ttft_p50_s[0]


def test_a_mean_lies_between_its_percentiles() -> None:
    found = operated()
    assert found.ttft_p50_s[0] < found.ttft_mean_s[0] < found.ttft_p95_s[0]
    assert found.e2e_mean_s[0] == pytest.approx(found.ttft_mean_s[0] + 200 * found.tpot_mean_s[0])
    assert np.isinf(operated(1, sequences=24).ttft_mean_s[0])


def test_parts_of_a_percentile() -> None:
    assert sequences_met(col(20.0, 0.5), 1.0, col(22.0, 64.0)).tolist() == pytest.approx([22, 1.5 + np.sqrt(0.5)])
    assert percentile_prompt_extra_s(0.5, col(0.010), col(2.0))[0] == 0.010
    # a prompt of 10 ms for every tenth of 200 tokens: 20 of them, give or take 4.5
    assert tail_tpot_s(col(0.02), 1.0, col(0.010), col(0.1), col(200), col(0.5))[0] == pytest.approx(
        0.02 + 0.010 * np.sqrt(20) / 200
    )


ASSUMED = Assumptions()
TURNS = 4.0  # seconds of 200 steps
MEDIAN = Slo(None, None, None, 50)  # at which a crowd is no larger than the mean


def memory(*, pool: float = 64.0, own: float = 1.0, shared: float = 0.0, gap_s: float = 10.0) -> ServingMemory:
    """Of 64 sequences that hold one byte each."""
    prefixes = Prefixes(col(own), col(shared), gap_s)
    return replace(memory_of(64), kv_pool_bytes=col(pool), held_bytes_per_sequence=col(1), prefixes=prefixes)


def prefixes_speed(
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
    found = prefixes_speed(opened(), memory(), cold_s=5.0)
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
    rate = prefixes_speed(opened(slo=Slo(None, None, None, 95)), memory(), cold_s=5.0).capacity_per_s[0]
    batch = rate * TURNS / (1 - rate * 0.010)
    assert batch + 1.6448536 * np.sqrt(batch) + 10 * rate == pytest.approx(64, rel=1e-3)


def test_idle_sessions_bind_even_where_one_runs() -> None:
    """A minute of idle sessions of 1 byte in a pool of 4: one runs in the mean of time, and 3 bytes are left."""
    rate = prefixes_speed(opened(), memory(pool=4.0, gap_s=60.0), cold_s=100.0).capacity_per_s[0]
    assert 1 + 60 * rate == pytest.approx(4, rel=2e-3)


def test_what_all_share_is_kept_once() -> None:
    assert prefixes_speed(opened(), memory(own=0.0, shared=1.0, pool=65.0)).capacity_per_s[0] == pytest.approx(
        64 / (0.64 + TURNS), rel=0.01
    )
    tight = prefixes_speed(opened(), memory(own=0.0, shared=1.0)).capacity_per_s[0]
    batch = tight * TURNS / (1 - tight * 0.010)
    assert batch + 1 == pytest.approx(64, rel=1e-3)


def test_where_waiting_for_hits_does_less_every_prompt_is_computed() -> None:
    """64 whole prompts with 200 steps: 64 / (64 * 50 ms + 4 s) = 8.9 a second; an hour of sessions leaves less."""
    found = prefixes_speed(opened(), memory(gap_s=3600.0))
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


def test_an_engine_runs_the_sequences_that_the_median_prediction_allows() -> None:
    """Steps of 20 ms and one prompt of 10 ms per 200 steps and sequence: 23 ms allow 60 sequences, 23 / 1.1 ms 18."""
    workload, prompt = varied(slo=Slo(None, 0.023, None, 50.0)), flat_prefill(0.010)
    margins = Margins(col(1.1), col(1.1), col(1.1), col(0.0))
    alone = unloaded_stream(workload, on_big(), memory_of(64), flat_step(0.020), prompt, [prompt], margins)
    sure = stream_speed(workload, memory_of(64), alone, ASSUMED)
    likely = speed(tpot_s=0.023, percentile=50)
    assert sure.sequence_limit.tolist() == likely.sequence_limit.tolist() == likely.slo_batch.tolist()
    assert sure.rank_batch[0] < likely.rank_batch[0]
    assert sure.scale_to_ranks(col(4)).sequence_limit.tolist() == (4 * likely.slo_batch).tolist()


def test_idle_prefixes_that_fill_the_cache_leave_room_for_the_sure_batch_only() -> None:
    margins = Margins(col(1.1), col(1.1), col(1.1), col(0.0))
    limited = opened(slo=Slo(None, 0.023, None, 50.0))
    full = prefixes_speed(limited, memory(gap_s=30.0), cold_s=5.0, margins=margins)
    free = prefixes_speed(limited, memory(pool=1e6, gap_s=30.0), cold_s=5.0, margins=margins)
    assert full.sequence_limit.tolist() == full.rank_batch.tolist() == free.rank_batch.tolist()
    assert free.sequence_limit[0] > free.rank_batch[0]


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
    rate = prefixes_speed(opened(), memory(), margins=half, cold_s=100.0).capacity_per_s[0]
    batch = 2 * rate * TURNS / (1 - 2 * rate * 0.010)
    assert batch + 10 * rate == pytest.approx(64, rel=1e-3)


def test_a_closed_loop_runs_as_many_as_its_own_idle_sessions_leave_room_for() -> None:
    """19 turn over 19 / 4.19 = 4.53 a second, whose 45.3 idle sessions fit with them into 64.4; 20 do not."""
    found = prefixes_speed(closed(in_flight=19.0), memory(pool=64.4))
    assert found.slo_batch.tolist() == [19]
    assert found.capacity_per_s[0] == pytest.approx(19 / (0.19 + TURNS), rel=0.02)
    half = Margins(*(np.full(1, v) for v in (2.0, 1.0, 1.0, 0.0)))
    slow = prefixes_speed(closed(in_flight=19.0), memory(pool=64.4), margins=half)
    assert (slow.slo_batch[0], slow.capacity_per_s[0]) == pytest.approx((19, 19 / (0.19 + TURNS) / 2), rel=0.02)
    # more in flight take fewer replicas without hits, of which all 64 run
    assert prefixes_speed(closed(), memory()).slo_batch.tolist() == [64]
    assert prefixes_speed(closed(), memory(pool=3.0, gap_s=600.0)).occupancy_s.tolist() == pytest.approx([0.050])
    assert serving_value(closed(), prefixes_speed(closed(), memory())).tolist() == [1]


def test_requests_that_do_not_fit_with_the_prefixes_wait() -> None:
    workload, of = closed(in_flight=19.0), memory(pool=64.4)
    found = prefixes_speed(workload, of)
    assert limit_sequences(workload, of, found).sequences.tolist() == [19]
    assert limit_sequences(opened(), of, prefixes_speed(opened(), of)) is of
    assert limit_sequences(workload, of, replace(found, prefix_reservation=None)) is of


def test_an_operation_tells_what_it_leaves_idle() -> None:
    workload, of = opened(peak_per_s=2.0), memory(shared=5.0)
    found = add_idle_sessions(of, stream_operating_point(workload, of, prefixes_speed(workload, of), col(1)))
    assert found.idle_sessions is not None
    assert found.prefix_bytes is not None
    assert (found.idle_sessions[0], found.prefix_bytes[0]) == pytest.approx((20, 25))
    without = replace(of, prefixes=None)
    plain = stream_operating_point(workload, without, prefixes_speed(workload, of), col(1))
    assert add_idle_sessions(without, plain) is plain


def test_what_survives_and_what_its_loss_takes() -> None:
    workload, of = opened(peak_per_s=2.0), memory(pool=1000.0, gap_s=100.0)
    judged = prefixes_speed(workload, of)
    operation = add_idle_sessions(of, stream_operating_point(workload, of, judged, col(1)))
    (kept,) = prefix_cache_reports(workload, of, judged, operation, col(4), ASSUMED)
    assert kept is not None
    assert (kept.counted, kept.sessions, kept.bytes_per_replica, kept.turn_gap_s) == (True, 200, 800, 100)
    assert kept.times_without_hits == pytest.approx(judged.capacity_per_s[0] / (64 / (3.2 + TURNS)), rel=0.01)
    twice = prefixes_speed(workload, memory(pool=1000.0, gap_s=200.0)).capacity_per_s[0]
    assert kept.times_at_twice_the_gap == pytest.approx(judged.capacity_per_s[0] / twice)
    # without its hits a prompt alone is too slow
    strict = replace(workload, slo=Slo(0.040, None, None, 50))
    slow = prefixes_speed(strict, of)
    (kept,) = prefix_cache_reports(
        strict, of, slow, add_idle_sessions(of, stream_operating_point(strict, of, slow, col(1))), col(4), ASSUMED
    )
    assert kept is not None
    assert kept.times_without_hits is None
    nothing = replace(of, prefixes=None)
    assert prefix_cache_reports(workload, nothing, judged, operation, col(4), ASSUMED) == (None,)


def test_without_prefixes_a_speed_stays_as_it_is() -> None:
    of = replace(memory(), prefixes=None)
    free = stream_speed(opened(), of, prefixes_speed(opened(), memory()).unloaded, ASSUMED)
    assert speed_with_prefixes(opened(), of, free, ASSUMED) is free


def test_a_loop_that_fits_only_when_full_or_small_runs_the_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 64 fit, or up to 12.5; the limits allow 20 at a time: twelve run, and no more than twelve."""
    monkeypatch.setattr(PrefixesFit, "holds", lambda _self, batch: (batch <= 12.5) | (batch > 30))
    workload, of = closed(slo=Slo(None, 0.02 + 19 / 200 * 0.010 + 1e-9, None, 50)), memory()
    free = stream_speed(workload, of, prefixes_speed(workload, of, cold_s=5.0).unloaded, ASSUMED)
    assert free.slo_batch.tolist() == [20]
    found = speed_with_hits(workload, of, Prefixes(col(1), col(0), 10.0), free)
    assert found.prefix_reservation is not None
    assert (found.slo_batch[0], found.prefix_reservation.sequences[0]) == (12, 12)
    # within the room of the small one nothing is taken away
    few = replace(free, slo_batch=col(8))
    kept = speed_with_hits(workload, of, Prefixes(col(1), col(0), 10.0), few)
    assert kept.prefix_reservation is not None
    assert (kept.slo_batch[0], kept.prefix_reservation.sequences[0]) == (8, 64)
