"""A replica at its share of the load, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.serving.load import stream_alone, stream_speed
from app.sizing.serving.operation import StreamOperation, operate_stream
from app.sizing.workload import Lengths, Load
from tests.examples import col
from tests.sizing.serving.given import flat_prefill, flat_step, memory_of, on_big, varied

Z95 = 1.6448536


def operated(replicas: float = 2, *, sequences: float = 64, prompt_s: float = 0.010, **changed: Any) -> StreamOperation:
    workload, prompt, memory = varied(**changed), flat_prefill(prompt_s), memory_of(sequences)
    alone = stream_alone(workload, on_big(), memory, flat_step(0.020), prompt, prompt)
    speed = stream_speed(workload, memory, alone, Assumptions())
    return operate_stream(workload, memory, speed, col(replicas))


def test_a_request_rate_keeps_as_many_running_as_it_takes() -> None:
    """5 a second each: B / (B * 10 ms + 200 * 20 ms) = 5 at B = 20 / 0.95."""
    found = operated()
    batch = 20 / 0.95
    assert found.rate_per_s.tolist() == [5]
    assert found.batch[0] == pytest.approx(batch, rel=1e-3)
    assert found.tpot_mean_s[0] == pytest.approx(0.020 + (batch - 1) / 200 * 0.010, rel=1e-4)
    assert found.tpot_p50_s[0] == pytest.approx(found.tpot_mean_s[0])
    crowd = batch + Z95 * np.sqrt(batch)
    assert found.tpot_p95_s[0] == pytest.approx(0.020 + (crowd - 1) / 200 * 0.010, rel=1e-4)
    first = 0.015 + 0.020 * (1 - 1 / batch)
    assert found.ttft_p50_s[0] == pytest.approx(first, rel=1e-4)
    # 5 % busy: at the 99th percentile half of 10 ms / 0.95 times ln 5
    assert found.ttft_p99_s[0] == pytest.approx(first + 0.010 / 0.95 * 0.5 * np.log(5), rel=1e-4)
    assert found.e2e_p50_s[0] == pytest.approx(found.ttft_p50_s[0] + 200 * found.tpot_p50_s[0])
    assert found.e2e_p99_s[0] == pytest.approx(found.ttft_p99_s[0] + 200 * found.tpot_p99_s[0])
    mean = ((np.sqrt(Z95**2 + 4 * 64) - Z95) / 2) ** 2
    assert found.utilization[0] == pytest.approx(5 / (mean / (mean * 0.010 + 4)))


def test_a_rate_that_leaves_a_replica_idle_meets_no_crowd() -> None:
    found = operated(100)
    assert found.batch[0] == pytest.approx(0.1 * 4.01, rel=0.01)
    assert found.tpot_mean_s[0] == pytest.approx(0.020)
    assert found.ttft_p50_s[0] == pytest.approx(0.015)


def test_no_more_run_than_fit_and_beyond_saturation_the_queue_never_empties() -> None:
    """All 24 in use give 24 / 4.24 = 5.66 a second."""
    full = operated(sequences=24)
    assert full.tpot_p99_s[0] == pytest.approx(0.020 + 23 / 200 * 0.010)
    late = operated(1, sequences=24)
    assert np.isinf(late.ttft_p50_s[0])
    assert np.isinf(late.tpot_p95_s[0])
    assert np.isinf(late.e2e_p99_s[0])


def test_longer_prompts_and_outputs_come_at_their_percentile() -> None:
    plain = operated(load=Load.CLOSED, in_flight=1.0, replicas=1)
    spread = operated(
        load=Load.CLOSED, in_flight=1.0, replicas=1, input_tokens=Lengths(800, 2000), output_tokens=Lengths(201, 500)
    )
    assert spread.ttft_p50_s[0] == plain.ttft_p50_s[0]
    assert spread.ttft_p95_s[0] == pytest.approx(plain.ttft_p95_s[0] + 1.5 * 0.010)
    assert spread.e2e_p50_s[0] == plain.e2e_p50_s[0]
    assert spread.e2e_p95_s[0] == pytest.approx(spread.ttft_p95_s[0] + 499 * 0.020)


def test_a_fixed_number_in_flight_shares_the_replicas() -> None:
    """9 over 2: five each."""
    found = operated(load=Load.CLOSED, in_flight=9.0)
    assert found.batch.tolist() == [5]
    first = 0.015 + 0.020 * 4 / 5
    behind = 0.3 * 4 * 0.010  # the mean of three tenths of the others' prompts is also the median
    assert found.ttft_p50_s[0] == pytest.approx(first + behind)
    # uniform: at the 95th percentile 1.9 times the mean, at the 99th 1.98
    assert found.ttft_p95_s[0] == pytest.approx(first + 1.9 * behind)
    assert found.ttft_p99_s[0] == pytest.approx(first + 1.98 * behind)
    assert found.tpot_mean_s[0] == pytest.approx(0.020 + 4 / 200 * 0.7 * 0.010)
    assert found.tpot_p99_s[0] == found.tpot_mean_s[0]
    # a turn takes five prompts, 200 steps, and the ingest that no other shares
    assert found.rate_per_s[0] == pytest.approx(5 / (0.005 + 5 * 0.010 + 200 * 0.020))
    assert found.utilization[0] == pytest.approx(5 / 64)


def test_what_does_not_fit_waits_for_a_place() -> None:
    found = operated(1, sequences=8, load=Load.CLOSED, in_flight=12.0)
    assert found.batch.tolist() == [8]
    rate = 8 / (0.005 + 8 * 0.010 + 4)
    first = 0.015 + 0.020 * 7 / 8 + 0.3 * 7 * 0.010
    assert found.ttft_p50_s[0] == pytest.approx(first + 4 / rate)
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
    assert found.rate_per_s[0] == pytest.approx(64 / (0.64 + 4))
    assert found.utilization.tolist() == [1]
    assert found.ttft_p50_s[0] == pytest.approx(0.015 + 0.020 * 63 / 64 + 0.3 * 63 * 0.010)
    assert found.ttft_p99_s[0] == found.ttft_p50_s[0]


def test_a_mean_has_the_mean_wait_and_no_longer_prompt() -> None:
    """5 % busy, lengths alike: 10 ms / 0.95 * 5 % * half in the queue."""
    found = operated()
    assert found.ttft_mean_s[0] == pytest.approx(found.ttft_p50_s[0] + 0.05 / 0.95 * 0.010 * 0.5)
    assert found.e2e_mean_s[0] == pytest.approx(found.ttft_mean_s[0] + 200 * found.tpot_mean_s[0])
    closed = operated(1, load=Load.CLOSED, in_flight=5.0)
    assert closed.ttft_mean_s[0] == closed.ttft_p50_s[0]
    assert np.isinf(operated(1, sequences=24).ttft_mean_s[0])
