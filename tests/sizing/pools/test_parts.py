"""What either pool has to do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.pools.parts import (
    decode_reserve_s,
    decode_workload,
    prefill_workload,
    remaining_limit_s,
    reported_percentile,
    ttft_at_limit_s,
)
from app.sizing.question import Deployment, Question
from app.sizing.serving.simulated import draw_requests
from app.sizing.workload import Lengths, Slo, Trace
from tests.sizing.pools.given import AT_ONCE, INFINITE, pools_of, speed
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG

LIMITED = replace(STEADY, slo=Slo(0.5, 0.02, 4.0, 95), input_tokens=Lengths(800, 3000))


def test_one_pool_reads_prompts_and_gives_one_token_of_each_in_what_is_left_of_the_limit() -> None:
    reads = prefill_workload(LIMITED, 0.1, 1.0)
    assert (reads.output_tokens.mean, reads.slo.tpot_s, reads.slo.e2e_s) == (1.0, None, None)
    assert reads.slo.ttft_s == pytest.approx(0.4)
    assert (draw_requests(reads, 50).output_tokens == 1).all()


def test_the_other_finds_every_prompt_but_its_last_token_and_never_loses_one() -> None:
    writes = decode_workload(LIMITED, 0.1)
    sent = draw_requests(writes, 200)
    assert (sent.prefix_tokens >= sent.input_tokens - 1 - sent.input_tokens / 800).all()
    assert sent.prefix_tokens.max() < sent.shared_tokens
    assert (writes.slo.tpot_s, writes.slo.e2e_s) == (0.02, 3.9)


def test_a_trace_is_parted_request_by_request() -> None:
    counts = np.array([100, 300], np.int64)
    trace = Trace(np.array([0.0, 1.0]), counts, counts, 0 * counts)
    recorded = replace(LIMITED, trace=trace)
    reads, writes = prefill_workload(recorded, 0.0, 1.0).trace, decode_workload(recorded, 0.0).trace
    assert reads is not None and writes is not None
    assert reads.output_tokens.tolist() == [1, 1]
    assert writes.prefix_tokens.tolist() == [99, 299]


def test_limits_are_parted_and_never_used_up() -> None:
    assert remaining_limit_s(None, 1.0) is None
    assert remaining_limit_s(0.1, 1.0) == 1e-6
    assert decode_reserve_s(LIMITED) == 0.02
    assert decode_reserve_s(STEADY) == 0.0
    assert ttft_at_limit_s(None, 95) == 0.0
    assert [reported_percentile(p) for p in (50, 90, 95, 99)] == ["p50", "p95", "p95", "p99"]


def test_first_tokens_are_handed_over_twice_as_late_as_they_are_read() -> None:
    at_once, as_published = (
        speed(
            estimate_deployment(Question(STEADY, assumptions=assumed), Deployment(BIG.slug, pools=pools_of()), INFINITE)
        )
        for assumed in (AT_ONCE, Assumptions())
    )
    assert at_once.ttft is not None and as_published.ttft is not None

    for name in ("mean_s", "p50_s", "p95_s", "p99_s"):
        soon, late = getattr(at_once.ttft, name), getattr(as_published.ttft, name)
        assert soon < late <= 2 * soon, name
    assert as_published.tpot == at_once.tpot
    assert as_published.requests_per_s_capacity == at_once.requests_per_s_capacity
    soonest, latest = (p.load_curve.points[0].ttft_p50_s for p in (at_once, as_published) if p.load_curve is not None)
    assert 1.8 * soonest < latest <= 2 * soonest


def test_limits_leave_the_pool_that_reads_half_of_the_time() -> None:
    assert prefill_workload(LIMITED, 0.1, 2.0).slo.ttft_s == pytest.approx(0.2)
    assert prefill_workload(STEADY, 0.1, 2.0).slo.ttft_s is None
