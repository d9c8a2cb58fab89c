"""A replica at its share of the load, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.serving.load import stream_speed, tail_tpot_s, unloaded_stream
from app.sizing.serving.operation import (
    StreamOperatingPoint,
    percentile_prompt_extra_s,
    sequences_met,
    stream_operating_point,
)
from app.sizing.workload import Lengths, Load
from tests.examples import col
from tests.sizing.serving.given import flat_prefill, flat_step, memory_of, on_big, varied

Z95 = 1.6448536


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
