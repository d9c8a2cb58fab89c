"""Two pools judged: compared with one engine for both, sized, posted back, and on different accelerators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.decisions.search import Search, Workload
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.engines.record import Policy
from app.sizing.pools.estimate import (
    DISAGGREGATING_ENGINES,
    choose_pools,
    estimate_pools,
    inherit_deployment,
    keep_open_counts,
)
from app.sizing.question import Deployment, DraftMethod, Pools, Question, Speculative
from app.sizing.result import Estimate
from app.sizing.workload import InferenceWorkload, Lengths, Load, Router, Slo
from tests.sizing.pools.given import (
    AT_ONCE,
    INFINITE,
    ONE,
    READS,
    WRITES,
    at_rate,
    networked,
    parts,
    pool_estimate,
    pools_of,
    speed,
    split,
    whole,
)
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, CARD, SMALL

LIMITED = replace(STEADY, slo=Slo(0.3, 0.02, None, 95))
OPEN: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1}
STATISTICS = ("mean_s", "p50_s", "p95_s", "p99_s")


def test_engine_records_identify_engines_with_separate_pools() -> None:
    assert DISAGGREGATING_ENGINES == ("vllm", "sglang", "tensorrt-llm")
    assert all(", 2026-" in ENGINES[name].splits_pools for name in DISAGGREGATING_ENGINES)


def test_prompts_alone_wait_as_long_over_an_infinite_link_as_in_one_engine() -> None:
    reading = at_rate(20.0, output_tokens=Lengths(1.0))
    one = whole(INFINITE, reading, engine="vllm", max_batch=256)
    two = split(pools_of({**ONE, "max_batch": 256}), INFINITE, reading, engine="vllm")
    assert parts(two).transfer.seconds < 1e-12
    first, both = speed(one).ttft, speed(two).ttft
    assert first is not None and both is not None
    assert [getattr(both, s) for s in STATISTICS] == pytest.approx([getattr(first, s) for s in STATISTICS], rel=0.02)
    assert parts(two).prefill.requests_per_s_capacity == pytest.approx(
        speed(one).requests_per_s_capacity or 0, rel=0.02
    )


def test_answers_alone_take_as_long_over_an_infinite_link_as_in_one_engine() -> None:
    writing = at_rate(20.0, input_tokens=Lengths(1.0))
    fixed: dict[str, Any] = {"max_batch": 256, "weight_format": "fp8"}
    one = whole(INFINITE, writing, engine="vllm", **fixed)
    two = split(pools_of(decode={**ONE, **fixed}), INFINITE, writing, engine="vllm")
    alone, both = speed(one).tpot, speed(two).tpot
    assert alone is not None and both is not None
    assert [getattr(both, s) for s in STATISTICS] == pytest.approx([getattr(alone, s) for s in STATISTICS], rel=1e-3)
    capacity = speed(one).requests_per_s_capacity
    assert parts(two).decode.requests_per_s_capacity == pytest.approx(capacity or 0, rel=1e-3)


def test_decoding_is_steadier_where_no_prompt_comes_between() -> None:
    busy = replace(at_rate(15.0, input_tokens=Lengths(4000.0)), router=Router.RANDOM)
    one, two = whole(INFINITE, busy, replicas=2, engine="vllm"), split(pools_of(), INFINITE, busy, engine="vllm")
    mixed, apart = speed(one).tpot, speed(two).tpot
    assert mixed is not None and apart is not None and mixed.p99_s is not None and apart.p99_s is not None
    assert apart.p99_s < mixed.p99_s


def test_a_first_token_is_seen_later_by_what_the_cache_is_on_its_way() -> None:
    slow, fast = split(pools_of(), networked(8e9)), split(pools_of(), INFINITE)
    late, early = speed(slow).ttft, speed(fast).ttft
    assert late is not None and early is not None and late.p50_s is not None and early.p50_s is not None
    assert late.p50_s - early.p50_s == pytest.approx(parts(slow).transfer.seconds, rel=1e-9)
    assert speed(slow).tpot == speed(fast).tpot


def test_what_a_client_is_promised_is_the_least_of_all_three_parts() -> None:
    found = split(pools_of(), networked(8e7))
    both = parts(found)
    least = min(p.requests_per_s_capacity for p in (both.prefill, both.decode, both.transfer))
    assert both.transfer.requests_per_s_capacity == least == speed(found).requests_per_s_capacity
    assert speed(found).overloaded
    assert found.bottleneck == "interconnect"


def test_open_replicas_are_as_many_as_the_load_takes_and_the_answer_posted_back_is_the_same() -> None:
    found = split(pools_of(OPEN, OPEN), workload=replace(LIMITED, peak_per_s=5000.0))
    pools = found.deployment.pools
    assert pools is not None and (pools.prefill.replicas or 0) > 1 and (pools.decode.replicas or 0) > 1
    assert not speed(found).overloaded
    total = (pools.prefill.total_accelerators or 0) + (pools.decode.total_accelerators or 0)
    assert found.deployment.total_accelerators == total
    again = estimate_deployment(
        Question(replace(LIMITED, peak_per_s=5000.0), assumptions=AT_ONCE), found.deployment, SMALL
    )
    for name in ("deployment", "performance", "cost", "memory", "assurance", "explanation"):
        assert getattr(again, name) == getattr(found, name), name


def test_a_batch_that_is_asked_for_is_the_one_of_its_pool() -> None:
    pools = split(pools_of({**ONE, "max_batch": 7}, {**ONE, "max_batch": 5})).deployment.pools
    assert pools is not None and (pools.prefill.max_batch, pools.decode.max_batch) == (7, 5)


def test_pools_may_lie_on_different_accelerators_and_cost_what_both_cost() -> None:
    found = split(pools_of(decode={**ONE, "accelerator": CARD.slug}))
    own = estimate_deployment(Question(STEADY), Deployment(CARD.slug, **ONE), SMALL).cost
    big, both = whole().cost, found.cost
    assert own is not None and big is not None and both is not None
    assert both.usd_per_hour == pytest.approx((big.usd_per_hour or 0) + (own.usd_per_hour or 0))
    assert found.deployment.pools is not None
    assert [pool.accelerator for pool in (found.deployment.pools.prefill, found.deployment.pools.decode)] == [
        BIG.slug,
        CARD.slug,
    ]


def test_requests_in_flight_are_parted_so_that_both_pools_do_the_same() -> None:
    some = replace(STEADY, load=Load.CLOSED, in_flight=32.0)
    found = split(pools_of(), workload=some)
    both = parts(found)
    assert speed(found).requests_per_s_capacity == pytest.approx(
        min(both.decode.requests_per_s_capacity, both.prefill.requests_per_s_capacity), rel=0.1
    )
    assert speed(found).batch_at_peak == pytest.approx(32, rel=0.1)


def test_a_pool_that_does_not_fit_says_which_it_is() -> None:
    long = replace(STEADY, max_context_tokens=2e7, model=replace(STEADY.model, max_context_tokens=None))
    found = split(pools_of(), workload=long)
    assert not found.fits
    assert found.explanation[0].text.startswith("The ")


@settings(max_examples=8)
@given(
    rate=st.floats(1.0, 60.0),
    prompt=st.integers(16, 4000),
    answer=st.integers(2, 400),
    counts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    tensor=st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4])),
)
def test_more_of_either_pool_never_does_less_and_a_deployment_is_judged_alike_twice(
    rate: float, prompt: int, answer: int, counts: tuple[int, int], tensor: tuple[int, int]
) -> None:
    load = at_rate(
        rate, input_tokens=Lengths(prompt), output_tokens=Lengths(answer), max_context_tokens=prompt + answer
    )

    def of(first: int, second: int) -> Deployment:
        sides = [
            Deployment(BIG.slug, tensor_parallel=tp, pipeline_parallel=1, replicas=count, max_batch=64)
            for tp, count in zip(tensor, (first, second), strict=True)
        ]
        return Deployment(BIG.slug, engine="vllm", pools=Pools(*sides))

    few = estimate_deployment(Question(load, assumptions=AT_ONCE), of(*counts), SMALL)
    again = estimate_deployment(Question(load, assumptions=AT_ONCE), few.deployment, SMALL)
    assert again.performance == few.performance and again.cost == few.cost
    for more in ((1, 0), (0, 1)):
        larger = estimate_deployment(
            Question(load, assumptions=AT_ONCE), of(counts[0] + more[0], counts[1] + more[1]), SMALL
        )
        assert (speed(larger).requests_per_s_capacity or 0) >= (speed(few).requests_per_s_capacity or 0) * (1 - 1e-9)


@pytest.mark.parametrize("method", [DraftMethod.EAGLE, DraftMethod.MTP])
def test_drafting_hastens_the_pool_that_writes_and_no_other(method: DraftMethod) -> None:
    load = at_rate(10.0, model=replace(STEADY.model, mtp_params=20_000_000))
    drafted = Speculative(method, draft_tokens=3, acceptance_rate=0.8)
    plain, quick = (split(pools_of(), workload=load, engine="vllm", speculative=s) for s in (None, drafted))
    slow, fast = speed(plain), speed(quick)
    assert slow.tpot is not None and fast.tpot is not None and slow.tpot.mean_s and fast.tpot.mean_s
    assert 1 < slow.tpot.mean_s / fast.tpot.mean_s < drafted.tokens_per_step  # drafting takes a step its time
    writing = replace(load, input_tokens=Lengths(1.0))
    one = whole(INFINITE, writing, engine="vllm", max_batch=256, speculative=drafted)
    two = split(pools_of(decode={**ONE, "max_batch": 256}), INFINITE, writing, engine="vllm", speculative=drafted)
    written, both = speed(two).tpot, speed(one).tpot
    assert [getattr(written, s) for s in STATISTICS] == pytest.approx([getattr(both, s) for s in STATISTICS], rel=1e-3)
    assert parts(quick).prefill == parts(plain).prefill
    again = estimate_deployment(Question(load, assumptions=AT_ONCE), quick.deployment, SMALL)
    assert again.deployment == quick.deployment and again.performance == quick.performance


def test_multi_token_prediction_asks_for_a_model_that_has_it() -> None:
    with pytest.raises(Conflict, match="no multi-token prediction layer"):
        split(pools_of(), speculative=Speculative(DraftMethod.MTP, 3, 0.8))


def test_the_engine_is_the_first_that_runs_both_pools() -> None:
    sides = Pools(Deployment(BIG.slug), Deployment(BIG.slug))

    def chosen(reads: set[str], writes: set[str], requested: Pools = sides) -> tuple[str | None, bool, bool]:
        def writing(_: InferenceWorkload, pool: Deployment) -> Estimate:
            engine = pool.engine or "sglang"
            placed = replace(pool, engine=engine, kv_format="fp8")
            return pool_estimate(WRITES, deployment=placed, fits=engine in writes)

        def reading(_: InferenceWorkload, reserved_s: float, pool: Deployment) -> Estimate:
            assert pool.engine is not None and pool.kv_format == "fp8" and reserved_s == 0.0
            return pool_estimate(READS, deployment=pool, fits=pool.engine in reads)

        found = choose_pools(STEADY, requested, writing, reading, SMALL)
        assert found.prefill.deployment.engine == found.decode.deployment.engine
        assert found.prefill.deployment.max_batch
        return found.decode.deployment.engine, found.prefill.fits, found.decode.fits

    every = set(DISAGGREGATING_ENGINES)
    assert chosen(every, every) == ("sglang", True, True)  # the choice of the decode pool
    assert chosen(every, {"vllm"}) == ("vllm", True, True)
    assert chosen({"vllm"}, every) == ("vllm", True, True)
    assert chosen({"tensorrt-llm"}, every) == ("tensorrt-llm", True, True)
    assert chosen({"sglang"}, {"vllm"})[1:] != (True, True)
    fixed = Pools(Deployment(BIG.slug, engine="vllm"), Deployment(BIG.slug, engine="vllm"))
    assert chosen(every, every, fixed) == ("vllm", True, True)


@pytest.mark.parametrize("fits", [(True, False), (False, True), (False, False)])
def test_pools_of_which_one_does_not_fit_are_no_deployment(fits: tuple[bool, bool]) -> None:
    def judge(search: Search[Workload], pool: Deployment) -> Estimate:
        assert isinstance(search.workload, InferenceWorkload)
        writes = search.workload.comes_read
        placed = replace(pool, engine=pool.engine or "vllm")
        return pool_estimate(WRITES if writes else READS, deployment=placed, fits=fits[writes])

    assert not estimate_pools(Search.start(Question(STEADY), SMALL), Deployment(BIG.slug), pools_of(), judge).fits


def test_a_pool_inherits_what_it_does_not_set() -> None:
    drafting = Speculative(DraftMethod.NGRAM, 3, 0.8)
    common = Deployment(
        BIG.slug, engine="vllm", weight_format="fp8", memory_fraction=0.8, provider="sky", speculative=drafting
    )
    own = Deployment(BIG.slug, weight_format="bf16", kv_format="fp8")
    elsewhere = Deployment(CARD.slug)
    found = inherit_deployment(common, Pools(own, elsewhere))
    for pool, weights, provider in ((found.prefill, "bf16", "sky"), (found.decode, "fp8", None)):
        assert (pool.engine, pool.memory_fraction, pool.kv_format) == ("vllm", 0.8, "fp8")
        assert (pool.weight_format, pool.provider) == (weights, provider)
    assert found.prefill.speculative == found.decode.speculative == drafting
    assert found.decode.scheduler is not None and found.decode.scheduler.policy is Policy.MIXED
    late = inherit_deployment(replace(common, kv_format="bf16"), Pools(elsewhere, own))
    assert late.prefill.kv_format == late.decode.kv_format == "fp8"
    plain = inherit_deployment(replace(common, kv_format="bf16"), Pools(elsewhere, elsewhere))
    assert plain.prefill.kv_format == "bf16"


def test_counts_that_were_left_open_stay_open() -> None:
    judged = pool_estimate(READS)
    free, fixed = Deployment(BIG.slug), Deployment(BIG.slug, replicas=1, accelerators_per_replica=1)
    opened = keep_open_counts(judged, free)
    assert (opened.replicas, opened.total_accelerators, opened.accelerators_per_replica) == (None, None, 1)
    assert keep_open_counts(judged, fixed) == judged.deployment
