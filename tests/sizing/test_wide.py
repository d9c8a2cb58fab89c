"""Attention in data-parallel ranks with experts over all of them: what holds of such layouts whatever is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate, Performance
from app.sizing.serving.memory import device_weights_bytes
from app.sizing.workload import Lengths, Load, Slo
from tests.sizing.serving.given import DENSE, MIXTURE, STEADY, on_big, planned
from tests.sizing.small import BIG, snapshot

SMALL = snapshot()


def judged(tokens: float = 800.0, rate: float = 10.0, **asked: Any) -> Estimate:
    """The mixture on the rented board of eight."""
    workload = replace(
        STEADY,
        model=asked.pop("model", MIXTURE),
        input_tokens=Lengths(tokens),
        peak_per_s=rate,
        average_per_s=rate,
        max_context_tokens=tokens + 1000.0,
    )
    usual = {"engine": "vllm", "weight_format": "bf16", "system": "big-8", "provider": "sky"}
    found = estimate_deployment(Question(workload), Deployment("acme-big", **usual | asked), SMALL)
    assert found.fits
    return found


@given(st.sampled_from([1, 2, 4]), st.sampled_from([2, 4]), st.floats(100, 4000), st.floats(1, 200))
def test_a_deployment_posted_back_is_the_same(tensor: int, data: int, tokens: float, rate: float) -> None:
    if tensor * data > 8:
        return
    found = judged(tokens, rate, tensor_parallel=tensor, data_parallel=data)
    shown = found.deployment
    assert (shown.data_parallel, shown.expert_parallel) == (data, tensor * data)
    assert shown.accelerators_per_replica == tensor * data
    again = estimate_deployment(
        Question(
            replace(
                STEADY,
                model=MIXTURE,
                input_tokens=Lengths(tokens),
                peak_per_s=rate,
                average_per_s=rate,
                max_context_tokens=tokens + 1000.0,
            )
        ),
        shown,
        SMALL,
    )
    assert again.performance == found.performance
    assert again.deployment == shown


def test_one_rank_is_what_goes_without_saying() -> None:
    assert judged(tensor_parallel=2, data_parallel=1).performance == judged(tensor_parallel=2).performance


@given(st.sampled_from([2, 4, 8]))
def test_all_but_experts_are_there_once_for_each_rank(data: int) -> None:
    plans = on_big(MIXTURE, data_parallel=data)
    held = device_weights_bytes(MIXTURE, plans, Assumptions())[0] / Assumptions().weights_load_overhead
    total, experts = plans.weights_bytes[0], plans.expert_bytes[0]
    assert held == pytest.approx(total - experts + experts / data)
    assert held * data >= total


@given(st.sampled_from([2, 4, 8]), st.floats(100, 4000))
def test_ranks_that_exchange_tokens_do_less_than_as_many_replicas_would(data: int, tokens: float) -> None:
    """On accelerators that hold a copy each: experts are shared for memory, not for speed at small batches."""
    alone = judged(tokens, accelerators_per_replica=1, tensor_parallel=1, replicas=1, max_batch=64)
    wide = judged(tokens, tensor_parallel=1, data_parallel=data, replicas=1, max_batch=64)
    assert alone.performance is not None and wide.performance is not None
    unstable = wide.performance.unstable_above_requests_per_s, alone.performance.unstable_above_requests_per_s
    assert unstable[0] is not None and unstable[1] is not None
    assert unstable[0] > unstable[1]  # it has more accelerators
    assert wide.memory is not None and alone.memory is not None
    assert wide.memory.weights_bytes < alone.memory.weights_bytes


def test_what_ranks_cannot_be_is_said() -> None:
    with pytest.raises(Conflict, match="tensor_parallel × data_parallel"):
        judged(tensor_parallel=2, data_parallel=2, expert_parallel=2)
    with pytest.raises(Conflict, match="no routed experts"):
        judged(model=DENSE, data_parallel=2)
    with pytest.raises(Conflict, match="degrees of parallelism"):
        judged(tensor_parallel=2, pipeline_parallel=1, data_parallel=2, accelerators_per_replica=2)
    with pytest.raises(Conflict, match="attention of each rank on one accelerator"):
        judged(tensor_parallel=2, data_parallel=2, engine="tensorrt-llm")


@pytest.mark.parametrize(("engine", "split"), [("vllm", {1.0, 2.0, 4.0, 8.0}), ("tensorrt-llm", {1.0})])
def test_attention_of_a_rank_is_split_only_by_engines_that_can(engine: str, split: set[float]) -> None:
    support = [EngineSupport(engine, BIG.family, "inference", {"bf16": True}, ("bf16",), "a test")]
    ranks = Deployment(BIG.slug, system="big-8", engine=engine, weight_format="bf16", data_parallel=2)
    assert set(planned(MIXTURE, of=snapshot(support=support), fixed=ranks).tensor_parallel.tolist()) == split


def test_a_lone_prompt_takes_longer_on_a_rank_than_on_all_of_them() -> None:
    wide, tensor = judged(tensor_parallel=1, data_parallel=8, rate=0.01), judged(tensor_parallel=8, rate=0.01)
    assert wide.performance is not None and tensor.performance is not None
    first = [p.performance.ttft.p50_s for p in (wide, tensor) if p.performance and p.performance.ttft]
    assert first[0] is not None and first[1] is not None and first[0] > first[1]


def offline(tokens: float, spread: float, data: int, **asked: Any) -> Performance:
    """The mixture on eight accelerators with an endless queue of requests; `spread` is p95 over mean."""
    prompts, answers = Lengths(tokens, tokens * spread), Lengths(200.0, 200.0 * spread)
    workload = replace(
        STEADY,
        model=MIXTURE,
        load=Load.OFFLINE,
        in_flight=1e6,
        input_tokens=prompts,
        output_tokens=answers,
        max_context_tokens=2 * tokens + 1000.0,
        slo=Slo(None, None, None, 50),
    )
    layout = {"tensor_parallel": 8 // data, "data_parallel": data, "replicas": 1, "max_batch": 32}
    usual = {"engine": "vllm", "weight_format": "bf16", "system": "big-8", "provider": "sky"}
    found = estimate_deployment(Question(workload), Deployment("acme-big", **usual | layout | asked), SMALL)
    assert found.performance is not None
    return found.performance


def test_prompts_of_all_ranks_are_read_at_once() -> None:
    """If a deployment only reads prompts, every rank has one: eight ranks read as much as eight replicas of one, less
    the exchange.
    """
    alone = judged(4000.0, accelerators_per_replica=1, tensor_parallel=1, replicas=8).performance
    wide = judged(4000.0, tensor_parallel=1, data_parallel=8, replicas=1).performance
    assert alone is not None and wide is not None
    rates = wide.prefill_tokens_per_s, alone.prefill_tokens_per_s
    assert rates[0] is not None and rates[1] is not None
    assert 0.6 * rates[1] < rates[0] < rates[1]


@pytest.mark.parametrize("tokens", [2000.0, 8000.0])
def test_no_more_prompt_tokens_are_answered_than_the_ranks_can_read(tokens: float) -> None:
    for spread in (1.0, 2.0):
        found = offline(tokens, spread, 8)
        assert found.total_tokens_per_s is not None and found.prefill_tokens_per_s is not None
        assert found.total_tokens_per_s * tokens / (tokens + 200) < found.prefill_tokens_per_s


@pytest.mark.parametrize(("tokens", "least"), [(2000.0, 1.05), (8000.0, 1.2)])
def test_ranks_with_equal_requests_prefill_in_the_same_steps(tokens: float, least: float) -> None:
    """Equal requests end together on all ranks, so their successors start together; others delay all ranks."""

    def rate(spread: float, data: int) -> float:
        return offline(tokens, spread, data).output_tokens_per_s or 0.0

    assert rate(1.0, 8) > least * rate(1.01, 8)
    assert rate(1.0, 1) == pytest.approx(rate(1.01, 1), rel=0.02)  # one rank waits for no other


def test_only_equal_requests_that_follow_each_other_stay_in_step() -> None:
    equal, varied = Lengths(500.0, 500.0), Lengths(500.0, 600.0)
    for load, prompts, answers, in_step in (
        (Load.OFFLINE, equal, equal, True),
        (Load.CLOSED, equal, equal, True),
        (Load.OPEN, equal, equal, False),
        (Load.CLOSED, varied, equal, False),
        (Load.CLOSED, equal, varied, False),
    ):
        workload = replace(STEADY, load=load, input_tokens=prompts, output_tokens=answers)
        assert workload.stays_in_step is in_step
