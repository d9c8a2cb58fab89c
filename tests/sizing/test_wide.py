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
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.serving.memory import device_weights_bytes
from app.sizing.workload import Lengths
from tests.sizing.serving.given import DENSE, MIXTURE, STEADY, on_big
from tests.sizing.small import snapshot

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


def test_a_lone_prompt_takes_longer_on_a_rank_than_on_all_of_them() -> None:
    wide, tensor = judged(tensor_parallel=1, data_parallel=8, rate=0.01), judged(tensor_parallel=8, rate=0.01)
    assert wide.performance is not None and tensor.performance is not None
    first = [p.performance.ttft.p50_s for p in (wide, tensor) if p.performance and p.performance.ttft]
    assert first[0] is not None and first[1] is not None and first[0] > first[1]
