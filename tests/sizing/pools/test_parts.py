"""What two pools cannot be asked for. What either pool has to do. The cache between two pools, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import SystemKind
from app.sizing.pools.parts import (
    decode_reserve_s,
    decode_workload,
    prefill_workload,
    remaining_limit_s,
    reported_percentile,
    ttft_at_limit_s,
)
from app.sizing.question import Deployment, Question
from app.sizing.serving.load_curves import draw_requests
from app.sizing.workload import Lengths, Load, Slo, Trace
from tests.sizing.pools.given import AT_ONCE, INFINITE, ONE, networked, parts, pools_of, speed, split
from tests.sizing.serving.given import DENSE, STEADY
from tests.sizing.small import BIG, offer, snapshot, system
from tests.sizing.test_across import LATENT, MODEL

OPEN: dict[str, Any] = {"tensor_parallel": 1}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"replicas": 3}, "set replicas in prefill and in decode"),
        ({"engine": "llama.cpp"}, "one of: vllm, sglang, tensorrt-llm"),
        ({"total_accelerators": 16}, "Set it in prefill and in decode"),
    ],
)
def test_what_belongs_to_a_pool_is_not_said_of_both(said: dict[str, Any], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        split(pools_of(), **said)


@pytest.mark.parametrize(
    "changes",
    [
        {"load": Load.OFFLINE},
        {"load": Load.BATCH, "in_flight": 8.0},
        {"load": Load.CLOSED, "in_flight": 8.0},
        {"load": Load.CLOSED, "in_flight": 8.0, "requests": 100.0},
    ],
)
def test_what_no_rate_sizes_asks_for_pools_of_a_size(changes: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match="Set replicas and accelerators_per_replica of decode"):
        split(pools_of(decode=OPEN), workload=replace(STEADY, **changes))


def test_a_cache_has_one_format_on_both_sides() -> None:
    with pytest.raises(Conflict, match="the same kv_format"):
        split(pools_of({**ONE, "kv_format": "fp8"}, {**ONE, "kv_format": "bf16"}))


def test_contexts_are_shared_by_ranks_as_engines_send_them_between_pools() -> None:
    eight, shared = {"tensor_parallel": 8, "pipeline_parallel": 1, "replicas": 1}, {"context_parallel": 8}
    latent, steady = replace(STEADY, model=LATENT), replace(STEADY, model=MODEL)
    for prefill in (eight, eight | shared):
        found = split(pools_of(prefill, eight | shared), workload=latent)
        assert found.fits
        assert found.deployment.pools is not None
        assert found.deployment.pools.decode.context_parallel == 8
    with pytest.raises(Conflict, match="Set the same context_parallel"):
        split(pools_of(eight | shared, eight), workload=latent)
    with pytest.raises(Conflict, match="MLA latents split over ranks"):
        split(pools_of(eight, eight | {"context_parallel": 2}), workload=steady)


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


# 4 layers of 4 heads of 128, keys and values in 2 bytes, of a prompt of 800 tokens: 6,553,600 bytes
PROMPT_BYTES = 2 * 4 * 4 * 128 * 2 * 800
ACHIEVED = 0.9  # of a network in the small catalogue


@pytest.mark.parametrize(
    ("gbit_per_s", "by_hand_ms"),
    [
        (100, 0.58254),  # 6.5536 MB / (100 / 8 GB/s * 0.9)
        (400, 0.14564),
        (3200, 0.018204),
    ],
)
def test_three_networks_take_what_bytes_over_rate_take(gbit_per_s: float, by_hand_ms: float) -> None:
    found = parts(split(pools_of(), networked(8 * gbit_per_s * 1e9 / 8))).transfer
    assert DENSE.num_layers == 4
    assert found.request_bytes == PROMPT_BYTES
    assert found.seconds * 1e3 == pytest.approx(by_hand_ms, rel=1e-4)
    assert found.link == "network"
    assert found.bytes_per_s == pytest.approx(gbit_per_s * 1e9 / 8 * ACHIEVED)


def test_accelerators_send_side_by_side_and_the_side_with_fewer_is_waited_for() -> None:
    four = {**ONE, "tensor_parallel": 4}
    alone, both, wide = (
        parts(split(pools_of(*sides), networked(400e9))).transfer.seconds
        for sides in ((ONE, ONE), (four, ONE), (four, four))
    )
    assert alone == both == pytest.approx(4 * wide)


def test_a_domain_across_machines_is_used_where_both_pools_lie_in_it() -> None:
    rack = replace(BIG, scaleup_domain_size=16, link_spans_machines=True)
    machine = replace(
        system("big-8", SystemKind.CLOUD_INSTANCE, BIG, 8, ram_bytes=2e12, network_bytes_per_s=400e9),
        scaleup_domain_size=16,
    )
    catalog = snapshot(accelerators=(rack,), systems=(machine,), offers=(offer("big-8", 40.0),))
    found = parts(split(pools_of(), catalog)).transfer
    assert found.link == "scale_up"
    assert found.seconds == pytest.approx(PROMPT_BYTES / (450e9 * 0.78))
    apart = parts(split(pools_of(decode={**ONE, "replicas": 9}), catalog)).transfer
    assert apart.link == "network"


def test_links_carry_as_many_caches_as_replicas_send() -> None:
    one, three = (
        parts(split(pools_of({**ONE, "replicas": n}, {**ONE, "replicas": n}), networked(400e9))).transfer
        for n in (1, 3)
    )
    assert one.requests_per_s_capacity == pytest.approx(50e9 * ACHIEVED / PROMPT_BYTES)
    assert three.requests_per_s_capacity == pytest.approx(3 * one.requests_per_s_capacity)
    assert one.utilization == pytest.approx(10 / one.requests_per_s_capacity)
