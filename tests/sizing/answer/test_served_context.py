"""The context that a server accepts: it starts, it refuses no request that it can hold, and planning is unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.answer.served_context import ContextLimit, served_context, share_longer_than
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import column
from app.sizing.question import Deployment, Pools
from app.sizing.result import DeviceMemory, Estimate
from app.sizing.workload import InferenceWorkload
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.trace import Trace
from tests.examples import CHAT
from tests.sizing.answer.given import estimated

ASSUMED = Assumptions()
MEMORY = DeviceMemory(1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 3.0)
WINDOW = 131_072


def workload(mean: float = 1024, *, requested: bool = False, planned: float = 2600.0) -> InferenceWorkload:
    """A service whose longest prompt is six times the mean."""
    lengths = Lengths(mean, 2 * mean, longest=6 * mean)
    known = Assumed("max_context_tokens", planned, "tokens", "longest sequence", "request", (1.0, 1e6), asked=requested)
    return replace(
        CHAT,
        model=replace(CHAT.model, max_context_tokens=WINDOW),
        input_tokens=lengths,
        output_tokens=Lengths(300, 600, longest=1800),
        max_context_tokens=planned,
        derived=(known,),
    )


def with_cache(tokens: float | None, **deployment: Any) -> Estimate:
    """An estimate whose KV cache has this many tokens over all ranks of a replica."""
    found = estimated(**deployment)
    return replace(found, memory=replace(MEMORY, kv_cache_tokens=tokens))


@given(
    cache=st.one_of(st.none(), st.floats(2600, 1e7)),
    ranks=st.sampled_from((1, 2, 8)),
    mean=st.floats(100, 20_000),
    requested=st.booleans(),
    slots=st.integers(1, 8),
)
def test_the_server_starts_and_refuses_no_more_than_it_must(
    cache: float | None, ranks: int, mean: float, requested: bool, slots: int
) -> None:
    w = workload(mean, requested=requested)
    held = None if cache is None else cache * ranks * slots
    found = served_context(w, with_cache(held, data_parallel=ranks), ASSUMED, slots=slots)
    assert found.tokens >= w.max_context_tokens
    assert found.tokens <= WINDOW
    if cache is not None:
        assert found.tokens <= max(w.max_context_tokens, cache)  # a rank's cache holds one sequence, in every slot
    assert found.refused_share == share_longer_than(w, found.tokens)
    if requested:
        assert (found.tokens, found.limit) == (2600, ContextLimit.REQUESTED)
    elif cache is None or cache * ASSUMED.served_cache_share >= WINDOW + 64:
        assert (found.tokens, found.limit) == (WINDOW, ContextLimit.WINDOW)
        assert found.refused_share == 0 or 6 * mean + 1800 > WINDOW
    else:
        assert found.limit is ContextLimit.CACHE


def test_the_planning_length_refuses_what_the_issue_reported() -> None:
    # log-normal prompts of 1,000 and answers of 300 tokens with a p95 of twice the mean, limited to the sum of both p95
    w = replace(workload(), input_tokens=Lengths(1000, 2000), output_tokens=Lengths(300, 600))
    assert share_longer_than(w, 2600) == pytest.approx(0.029, abs=0.002)
    assert share_longer_than(w, WINDOW) == 0


def test_each_rank_of_the_larger_pool_has_a_cache_of_its_own() -> None:
    pools = Pools(Deployment("a", data_parallel=2), Deployment("a", data_parallel=8))
    estimate = with_cache(80_000.0)
    estimate = replace(estimate, deployment=replace(estimate.deployment, pools=pools))
    assert served_context(workload(), estimate, ASSUMED).tokens == 8000 // 64 * 64


def test_recorded_requests_are_counted_and_samples_have_no_context() -> None:
    trace = Trace(column([0.0, 1.0]), np.array([10, 90]), np.array([10, 20]), np.array([0, 0]))
    assert share_longer_than(replace(workload(), trace=trace), 100) == 0.5
    assert share_longer_than(replace(workload(), trace=trace), 110) == 0


def test_a_model_without_window_and_cache_keeps_the_planning_length() -> None:
    w = workload()
    w = replace(w, model=replace(w.model, max_context_tokens=None))
    found = served_context(w, with_cache(None), ASSUMED)
    assert (found.tokens, found.limit) == (2600, ContextLimit.PLANNED)
