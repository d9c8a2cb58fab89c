"""What two pools cannot be asked for. What either pool has to do. The cache between two pools, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import SystemKind
from app.sizing.pools.parts import (
    check_contexts,
    check_pools,
    check_total,
    decode_reserve_s,
    decode_workload,
    deployment_plan,
    estimate_transfer,
    pool_link_bytes_per_s,
    prefill_workload,
    prompt_cache_bytes,
    remaining_limit_s,
    reported_percentile,
    shares_domain,
    transfer_s,
    ttft_at_limit_s,
    with_client_ttft,
)
from app.sizing.question import Deployment, Pools, Question
from app.sizing.result import Percentiles
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.load_curves import draw_requests
from app.sizing.workload import Lengths, Load, Slo, Trace
from tests.examples import PRETRAIN, col
from tests.sizing.pools.given import (
    AT_ONCE,
    INFINITE,
    ONE,
    READS,
    networked,
    parts,
    pool_estimate,
    pools_of,
    speed,
    split,
)
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


def test_pools_serve_requests_and_train_nothing() -> None:
    with pytest.raises(Conflict, match="requires a model that generates tokens"):
        check_pools(Question(PRETRAIN), Deployment(BIG.slug), pools_of(), ("vllm",))


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
    assert [ttft_at_limit_s(READS, p) for p in (50, 95, 99)] == pytest.approx([0.2, 0.3, 0.4])
    without_end = replace(READS, ttft=Percentiles(0.1, 0.2, None, None))
    assert [ttft_at_limit_s(without_end, p) for p in (50, 95, 99)] == [0.2, 0.0, 0.0]
    assert ttft_at_limit_s(replace(READS, ttft=None), 95) == 0.0
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


def test_a_slower_side_never_makes_a_transfer_faster() -> None:
    rates = (0.0, 1.0, 10.0, 40.0)
    for other in rates[1:]:
        for taken in (
            [float(transfer_s(col(100), col(rate), col(50), col(other))[0]) for rate in rates],
            [float(transfer_s(col(100), col(other), col(50), col(rate))[0]) for rate in rates],
        ):
            assert taken == sorted(taken, reverse=True) and max(taken) <= 100
    assert transfer_s(col(100), col(10), col(50), col(1)) == 50 and transfer_s(col(100), col(1), col(50), col(1)) == 100


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


def test_data_parallel_ranks_send_at_once_like_replicas() -> None:
    catalog = networked(400e9)
    plan = deployment_plan(Search.start(Question(STEADY), catalog).of(STEADY), Deployment(BIG.slug, **ONE))
    rate = pool_link_bytes_per_s(plan, AT_ONCE, in_domain=False)
    assert rate == pytest.approx(50e9 * ACHIEVED)

    def carried(read_ranks: float, written_ranks: float, replicas: tuple[float, float] = (1.0, 1.0)) -> float:
        sides = [replace(plan, data_parallel=col(ranks)) for ranks in (read_ranks, written_ranks)]
        found = estimate_transfer(STEADY, sides[0], sides[1], replicas, 2.0, AT_ONCE)
        held = [float(cache_bytes(STEADY.model, 800.0, side)[0]) for side in sides]
        ranks = [count * n for count, n in zip(replicas, (read_ranks, written_ranks), strict=True)]
        by_hand = min(n * rate / sent for n, sent in zip(ranks, held, strict=True))
        assert found.requests_per_s_capacity == pytest.approx(by_hand)
        assert found.seconds == pytest.approx(max(held) / rate) and found.utilization is None
        assert found.bytes_per_s == pytest.approx(found.request_bytes / found.seconds)
        return found.requests_per_s_capacity

    one = carried(1.0, 1.0)
    assert carried(2.0, 2.0) > one and carried(2.0, 1.0) == carried(1.0, 2.0) == one
    assert carried(1.0, 1.0, (3.0, 3.0)) == pytest.approx(3 * one) and carried(1.0, 1.0, (3.0, 2.0)) == 2 * one
    assert prompt_cache_bytes(STEADY, replace(plan, tensor_parallel=col(8))) == PROMPT_BYTES


def test_a_domain_is_shared_by_like_accelerators_that_it_holds_all() -> None:
    plan = deployment_plan(Search.start(Question(STEADY), networked(400e9)).of(STEADY), Deployment(BIG.slug, **ONE))
    machine = float(plan.accelerators_per_node[0])

    class Wide:
        """A plan in a domain of two machines."""

        accelerator, accelerators_per_node, scale_up_domain = plan.accelerator, col(machine), col(2 * machine)

    class Narrow(Wide):
        scale_up_domain = col(machine)

    class Other(Wide):
        accelerator = plan.accelerator + 1

    wide, narrow, other = (kind() for kind in (Wide, Narrow, Other))
    assert shares_domain(wide, wide, 2 * machine)  # type: ignore[arg-type]
    assert not shares_domain(wide, wide, 2 * machine + 1)  # type: ignore[arg-type]
    assert not shares_domain(narrow, narrow, 2.0) and not shares_domain(other, wide, 2.0)  # type: ignore[arg-type]


def test_a_client_sees_first_tokens_later_by_the_factor_and_nothing_else() -> None:
    seen = with_client_ttft(pool_estimate(READS), 2.0).performance
    assert seen is not None and seen.ttft is not None and seen.load_curve is not None and READS.load_curve is not None
    shown = [seen.ttft.mean_s, seen.ttft.p50_s, seen.ttft.p95_s, seen.ttft.p99_s]
    assert shown == pytest.approx([0.2, 0.4, 0.6, 0.8])
    other = replace(READS.intervals[0], quantity="tpot_s")
    mixed = with_client_ttft(pool_estimate(replace(READS, intervals=(*READS.intervals, other))), 2.0).performance
    assert mixed is not None and mixed.intervals[-1] == other
    for before, after in zip(READS.intervals, seen.intervals, strict=True):
        assert (after.low, after.high) == (2 * before.low, 2 * before.high)
    for point, later in zip(READS.load_curve.points, seen.load_curve.points, strict=True):
        doubled = replace(point, ttft_p50_s=2 * point.ttft_p50_s, ttft_p95_s=2 * point.ttft_p95_s)
        assert later == doubled
    assert with_client_ttft(pool_estimate(READS), 1.0).performance == READS
    untimed = replace(READS, ttft=None)
    assert with_client_ttft(pool_estimate(untimed), 2.0).performance == untimed
    never = with_client_ttft(pool_estimate(replace(READS, ttft=replace(seen.ttft, p99_s=None), load_curve=None)), 2.0)
    assert never.performance is not None and never.performance.ttft is not None
    assert never.performance.ttft.p99_s is None and never.performance.load_curve is None
    for percentile, wait_s in ((50, 0.2), (90, 0.3), (95, 0.3), (99, 0.4)):
        assert ttft_at_limit_s(READS, percentile) == pytest.approx(wait_s)


def test_limits_are_reserved_for_the_other_pool() -> None:
    for slo, reserved_s in (
        (Slo(1.0, 0.1, None, 95), 0.1),
        (Slo(0.1, 0.1, None, 95), 0.05),
        (Slo(None, 0.1, None, 95), 0.0),
        (Slo(1.0, None, None, 95), 0.0),
    ):
        assert decode_reserve_s(replace(STEADY, slo=slo)) == reserved_s
    end = prefill_workload(replace(STEADY, slo=Slo(None, None, 4.0, 95)), 1.0, 2.0)
    assert end.slo == Slo(1.5, None, None, 95)
    writes = decode_workload(replace(STEADY, slo=Slo(1.0, 0.1, 4.0, 90)), 0.25)
    assert writes.slo == Slo(0.75, 0.1, 3.75, 90) and writes.comes_read and writes.turn_gap_s == 0.0
    assert writes.cached_prefix_fraction == pytest.approx(799 / 800) and writes.encoder_flops_per_request == 0.0
    assert decode_workload(replace(STEADY, input_tokens=Lengths(1.0)), 0.0).cached_prefix_fraction == 0.0
    assert remaining_limit_s(2.0, 0.5) == 1.5


def test_a_total_is_the_sum_of_both_pools() -> None:
    def total(whole: int | None, *counts: int | None) -> bool:
        pools = Pools(*(Deployment(BIG.slug, total_accelerators=count) for count in counts))
        try:
            check_total(Deployment(BIG.slug, total_accelerators=whole), pools)
        except Conflict:
            return False
        return True

    assert total(None, 2, None) and total(5, 2, 3) and total(None, None, None)
    assert not total(6, 2, 3) and not total(2, 2, None) and not total(2, None, 2)


def test_contexts_are_split_alike_or_whole_at_first() -> None:
    def split_alike(written: int | None, kept: int | None) -> bool:
        pools = Pools(*(Deployment(BIG.slug, context_parallel=n) for n in (written, kept)))
        try:
            check_contexts(replace(STEADY, model=LATENT), pools)
        except Conflict:
            return False
        return True

    assert split_alike(None, None) and split_alike(1, 8) and split_alike(8, 8) and split_alike(None, 8)
    assert not split_alike(8, 1) and not split_alike(4, 8) and not split_alike(2, None)
