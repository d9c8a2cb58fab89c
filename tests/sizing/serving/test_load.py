"""A replica within its limits, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.serving.load import (
    StreamSpeed,
    beside_s,
    later_tokens,
    mean_batch,
    queue_wait_s,
    queued_s,
    rate_per_s,
    stream_alone,
    stream_speed,
    tpot_s,
    variation_of,
)
from app.sizing.serving.prefill import PrefillTerms
from app.sizing.serving.step import step_s
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
    alone = stream_alone(workload, plans, memory_of(64), flat_step(step), prompt, tail or prompt)
    return stream_speed(workload, memory_of(64), alone, Assumptions())


def test_littles_law() -> None:
    # 32 sequences: 32 prompts of 10 ms and 255 further tokens in steps of 20 ms make a turn of 5.42 s
    assert rate_per_s(col(32), col(0.010), 255.0, step_s(flat_step(0.020), col(32)))[0] == pytest.approx(
        32 / (0.32 + 255 * 0.020)
    )


def test_one_sequence_alone_waits_for_no_prompt_but_its_own() -> None:
    step = flat_step(0.001)
    alone = tpot_s(step_s(step, col(1)), col(1), 99.0, col(5.0))[0]
    assert alone == step_s(step, col(1))[0]
    pair = tpot_s(step_s(step, col(2)), col(2), 99.0, col(5.0))[0]
    assert pair == pytest.approx(step_s(step, col(2))[0] + 5.0 / 99)


def test_mean_occupancy_below_a_quantile() -> None:
    mean = mean_batch(col(100), 1.645)[0]
    assert mean == pytest.approx(84.9, abs=0.1)
    assert mean + 1.645 * np.sqrt(mean) == pytest.approx(100)


def test_queue_quantile_is_exact_for_m_m_1() -> None:
    # load 0.8, service 1 s: P(wait > t) = 0.8 exp(-0.2 t), so p95 is ln(0.8 / 0.05) / 0.2
    assert queue_wait_s(col(0.8), col(1.0), 95, 1.0)[0] == pytest.approx(np.log(16) / 0.2)
    assert queue_wait_s(col(0.4), col(2.0), 95, 0.5)[0] == pytest.approx(np.log(16) / 0.2)
    assert queue_wait_s(col(0.01), col(1.0), 95, 1.0)[0] == 0
    assert queue_wait_s(col(0.0), col(1.0), 95, 1.0)[0] == 0
    assert np.isinf(queue_wait_s(col(1.0), col(1.0), 95, 1.0)[0])
    assert np.isinf(queue_wait_s(col(1.5), col(1.0), 95, 1.0)[0])


def test_a_replica_without_limits_runs_all_that_fits() -> None:
    found = speed()
    assert found.slo_batch.tolist() == [64]
    # at the 95th percentile of 64 the mean is m with m + 1.645 sqrt(m) = 64
    mean = ((np.sqrt(Z95**2 + 4 * 64) - Z95) / 2) ** 2
    assert mean + Z95 * np.sqrt(mean) == pytest.approx(64)
    assert found.capacity_per_s[0] == pytest.approx(mean / (mean * 0.010 + 200 * 0.020))
    assert found.saturation_per_s[0] == pytest.approx(64 / (64 * 0.010 + 200 * 0.020))
    assert found.occupancy_s.tolist() == pytest.approx([0.010])
    assert found.alone.fastest_tpot_s.tolist() == pytest.approx([0.020])
    assert found.alone.fastest_ttft_s.tolist() == pytest.approx([0.005 + 0.010])
    assert np.isinf(found.alone.tpot_limit_s[0])
    assert np.isinf(found.alone.ttft_limit_s[0])
    assert speed(percentile=50.0).capacity_per_s[0] == pytest.approx(64 / (0.64 + 4))
    assert speed(percentile=20.0).capacity_per_s[0] == pytest.approx(64 / (0.64 + 4))


def test_in_a_pipeline_prompts_overlap() -> None:
    assert speed(pipeline=2).occupancy_s.tolist() == pytest.approx([0.005])


def test_the_limit_of_a_token_bounds_the_batch() -> None:
    # 20 ms + (B - 1) / 200 * 10 ms <= 22.01 ms
    found = speed(tpot_s=0.02201)
    assert found.slo_batch.tolist() == [41]
    assert found.alone.tpot_limit_s.tolist() == [0.02201]
    # in a closed loop three tenths of the prompts come before the first token: (B - 1) / 200 * 7 ms
    closed = speed(Load.CLOSED, tpot_s=0.02201)
    assert closed.slo_batch.tolist() == [58]
    assert closed.capacity_per_s[0] == pytest.approx(58 / (58 * 0.010 + 200 * 0.020))
    assert speed(Load.BATCH, tpot_s=0.02201).capacity_per_s[0] == pytest.approx(41 / (41 * 0.010 + 200 * 0.020))
    assert speed(tpot_s=0.01).slo_batch.tolist() == [1]


def test_the_limit_of_the_first_token_bounds_the_batch_and_the_queue() -> None:
    # 15 ms alone, a step beside of 20 ms * (1 - 1/B), and behind 57 % of the others' prompts: 12 fit, 13 do not
    assert speed(Load.CLOSED, ttft_s=0.1).slo_batch.tolist() == [12]
    # of an open load the wait may take what 64 sequences leave of the limit
    found = speed(ttft_s=0.03, output_tokens=Lengths(2.0))
    assert found.slo_batch.tolist() == [3]  # 15 ms + 20 ms * (1 - 1/B) <= 30 ms: B <= 4
    found = speed(ttft_s=0.1, output_tokens=Lengths(2.0))
    rate, load = found.capacity_per_s[0], found.capacity_per_s[0] * 0.010
    wait = load / (1 - load) * 0.010 * 0.5 * np.log(load / 0.05) / load
    assert wait == pytest.approx(0.1 - 0.015 - 0.020 * 63 / 64, rel=1e-3)
    bursty = speed(ttft_s=0.1, output_tokens=Lengths(2.0), burstiness=2.0)
    assert bursty.capacity_per_s[0] < rate


def test_prompts_take_nearly_all_of_a_replicas_time_and_no_more() -> None:
    assert speed(step=1e-6).capacity_per_s[0] == pytest.approx(0.98 / 0.010)


def test_a_whole_requests_limit_leaves_its_tokens_what_the_first_left() -> None:
    found = speed(e2e_s=5.0)
    assert found.alone.tpot_limit_s[0] == pytest.approx((5 - 0.015) / 201)
    assert found.alone.ttft_limit_s[0] == 5
    both = speed(e2e_s=5.0, ttft_s=1.0, tpot_s=0.02201)
    assert (both.alone.ttft_limit_s[0], both.alone.tpot_limit_s[0]) == (1, 0.02201)
    longer = speed(e2e_s=5.0, output_tokens=Lengths(201.0, 400.0))
    assert longer.alone.tpot_limit_s[0] == pytest.approx((5 - 0.015) / 400, rel=1e-3)
    assert speed(e2e_s=0.01).alone.tpot_limit_s[0] < 1e-6


def test_the_long_prompt_is_the_one_that_must_meet_the_limit() -> None:
    tail = flat_prefill(0.030, new_tokens=2400.0)
    found = speed(tail=tail, ttft_s=0.0801)
    assert found.alone.fastest_ttft_s[0] == pytest.approx(0.005 + 0.030)
    # 35 ms and three steps beside: 60 ms * (1 - 1/B) <= 45.1 ms
    assert found.slo_batch.tolist() == [4]
    assert found.occupancy_s[0] == pytest.approx(0.010)  # others' prompts are of the mean


def test_formulas_hold_at_their_ends() -> None:
    """Less than a sequence, a single token, and all the others' prompts."""
    assert later_tokens(col(1.0, 2.5)).tolist() == [1, 1.5]
    assert rate_per_s(col(0.5), col(0.01), 100.0, col(0.02))[0] == pytest.approx(0.5 / (0.01 + 2))
    assert rate_per_s(col(1.5), col(0.01), 100.0, col(0.02))[0] == pytest.approx(1.5 / (0.015 + 2))
    assert tpot_s(col(0.02), col(0.5), 100.0, col(0.01)).tolist() == [0.02]
    assert queued_s(col(0.9), col(0.01), col(3), 95).tolist() == pytest.approx([0.02])
    assert queued_s(col(0.3, 0.3), col(0.01, 0.01), col(0.5, 1.5), 50).tolist() == pytest.approx([0, 0.0015])
    assert mean_batch(col(1.0, 0.5, 1.5), 1.645).tolist() == [1, 0.5, 1]
    assert beside_s(col(800), col(1000), col(0.02), col(0.5)).tolist() == [0]


def test_arrivals_and_prompts_vary_alike() -> None:
    spread = Lengths(800.0, 2000.0)
    found = variation_of(varied(burstiness=3.0, input_tokens=spread))
    assert found == pytest.approx((9 + np.expm1(spread.sigma**2)) / 2)
