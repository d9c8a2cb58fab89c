"""A replica within its limits, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.serving.load import (
    StreamSpeed,
    mean_batch,
    median_ttft_s,
    queue_tail_s,
    stream_speed,
    tail_ttft_s,
    traffic_variation,
    unloaded_stream,
)
from app.sizing.serving.prefill import PrefillTerms
from app.sizing.workload import Lengths, Load, Slo
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
