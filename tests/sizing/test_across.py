"""Tensor-parallel ranks in several machines, or with the tokens of a context shared: what holds whatever is asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.columns import Column
from app.sizing.estimate import estimate_deployment
from app.sizing.model.architecture import AttentionGroup, ModelArchitecture
from app.sizing.model.counting.read import read_architecture
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.step import step_s, step_terms
from app.sizing.workload import InferenceWorkload, Lengths
from tests.sizing.serving.given import CONFIG, STEADY, achieved, on_big, step_of
from tests.sizing.small import OFFERS, SYSTEMS, snapshot

SMALL = snapshot()
RACK = snapshot(systems=[replace(s, scaleup_domain_size=64.0) for s in SYSTEMS], offers=OFFERS)
FAST = settings(max_examples=15)
MANY_HEADS = {"num_attention_heads": 64, "num_key_value_heads": 2, "hidden_size": 8192}
MODEL = read_architecture(CONFIG | MANY_HEADS | {"num_hidden_layers": 16}, name="many heads")
# The same with one latent of all heads, as DeepSeek's.
LATENT = replace(
    MODEL, name="latent", attention=(AttentionGroup(16, 576.0, 1, prefill_macs=64.0 * 320, decode_macs=64.0 * 1088),)
)
SHARED = st.sampled_from([(MODEL, 2), (MODEL, 4), (LATENT, 2), (LATENT, 4), (LATENT, 8)])


def served(tokens: float, rate: float, model: ModelArchitecture = MODEL) -> InferenceWorkload:
    longest = tokens + 1000.0
    return replace(
        STEADY,
        model=model,
        input_tokens=Lengths(tokens),
        peak_per_s=rate,
        average_per_s=rate,
        max_context_tokens=longest,
    )


def judged(tokens: float = 800.0, rate: float = 5.0, model: ModelArchitecture = MODEL, **asked: Any) -> Estimate:
    """The model on rented boards of eight."""
    usual = {"engine": "vllm", "weight_format": "bf16", "system": "big-8", "provider": "sky"}
    return estimate_deployment(Question(served(tokens, rate, model)), Deployment("acme-big", **usual | asked), SMALL)


def tpot_s(found: Estimate) -> float:
    assert found.performance is not None
    assert found.performance.tpot is not None
    assert found.performance.tpot.mean_s is not None
    return found.performance.tpot.mean_s


@FAST
@given(st.sampled_from([(16, 1), (16, 2), (32, 1)]), st.floats(100, 4000), st.floats(1, 100))
def test_a_deployment_posted_back_is_the_same(degrees: tuple[int, int], tokens: float, rate: float) -> None:
    tensor, pipeline = degrees
    found = judged(tokens, rate, tensor_parallel=tensor, pipeline_parallel=pipeline)
    assert found.fits
    assert found.deployment.accelerators_per_replica == tensor * pipeline
    assert found.deployment.nodes is not None
    assert found.deployment.nodes >= tensor * pipeline / 8
    again = estimate_deployment(Question(served(tokens, rate)), found.deployment, SMALL)
    assert again.performance == found.performance
    assert again.deployment == found.deployment


@FAST
@given(st.floats(100, 4000), st.sampled_from([16, 32]))
def test_it_costs_time_that_a_domain_over_these_machines_would_save(tokens: float, tensor: int) -> None:
    one: dict[str, Any] = {"replicas": 1, "spare_replicas": 0, "max_batch": 8, "pipeline_parallel": 1}
    over_network = judged(tokens, 0.1, tensor_parallel=tensor, **one)
    linked = estimate_deployment(Question(served(tokens, 0.1)), over_network.deployment, RACK)
    assert tpot_s(over_network) > tpot_s(linked)
    assert over_network.memory == linked.memory


def test_what_fills_no_whole_machines_is_refused() -> None:
    found = judged(tensor_parallel=12)
    assert not found.fits
    assert found.explanation[0].text.startswith("No layout")


def test_twice_the_machines_are_two_more_passes_of_the_network_in_every_all_reduce() -> None:
    lone: dict[str, Any] = {"replicas": 1, "spare_replicas": 0, "max_batch": 1, "pipeline_parallel": 1}
    two, four = (judged(100, 0.001, tensor_parallel=t, **lone) for t in (16, 32))
    passes = 2 * 2 * 16 * 15e-6
    assert tpot_s(four) - tpot_s(two) == pytest.approx(passes, rel=0.2)  # less what half the weights take


@FAST
@given(SHARED, st.floats(100, 30_000), st.floats(0.1, 50))
def test_a_context_shared_by_ranks_comes_back_the_same(
    shared: tuple[ModelArchitecture, int], tokens: float, rate: float
) -> None:
    model, context = shared
    found = judged(tokens, rate, model, tensor_parallel=8, context_parallel=context)
    assert found.fits
    assert (found.deployment.context_parallel, found.deployment.accelerators_per_replica) == (context, 8)
    again = estimate_deployment(Question(served(tokens, rate, model)), found.deployment, SMALL)
    assert again.performance == found.performance
    assert again.deployment == found.deployment


def test_one_rank_is_what_goes_without_saying() -> None:
    said, unsaid = judged(tensor_parallel=8, context_parallel=1), judged(tensor_parallel=8)
    assert said == unsaid


@settings(max_examples=5)
@given(st.sampled_from([MODEL, LATENT]), st.floats(100, 100_000))
def test_more_ranks_for_a_context_never_keep_more_of_it_each_nor_hold_a_shorter_one(
    model: ModelArchitecture, tokens: float
) -> None:
    degrees = [c for c in (1, 2, 4, 8) if c * model.kv_heads <= 8]
    held: list[Column] = [
        cache_bytes(model, tokens, on_big(model, tensor_parallel=8, context_parallel=c)) for c in degrees
    ]
    assert all(more[0] == pytest.approx(fewer[0] / 2) for fewer, more in pairwise(held))
    one: dict[str, Any] = {"tensor_parallel": 8, "replicas": 1, "spare_replicas": 0, "max_batch": 4}
    memory = [judged(tokens, 0.001, model, context_parallel=c, **one).memory for c in degrees]
    longest = [m.kv_cache_tokens or 0.0 for m in memory if m is not None]
    assert all(more >= fewer for fewer, more in pairwise(longest))
    assert len({m.weights_bytes for m in memory if m is not None}) == 1


@FAST
@given(SHARED, st.floats(1, 32))
def test_it_is_worth_its_exchange_only_where_contexts_are_long(
    shared: tuple[ModelArchitecture, int], batch: float
) -> None:
    model, context = shared
    whole, split = (on_big(model, tensor_parallel=8, context_parallel=c) for c in (1, context))
    for tokens, wins in ((100.0, False), (1_000_000.0, True)):
        seconds = [
            step_s(step_terms(step_of(model, plans, context_tokens=tokens), achieved()), np.array([batch]))[0]
            for plans in (whole, split)
        ]
        assert (seconds[1] < seconds[0]) == wins


@pytest.mark.parametrize(
    ("model", "asked", "words"),
    [
        (MODEL, {"tensor_parallel": 8, "context_parallel": 8}, "at most 4"),
        (MODEL, {"tensor_parallel": 8, "context_parallel": 3}, "must divide"),
        (MODEL, {"tensor_parallel": 8, "context_parallel": 2, "engine": "sglang"}, "engine to one of: vllm"),
        (LATENT, {"context_parallel": 2, "engine": "tensorrt-llm"}, "engine to one of: vllm, sglang"),
        (replace(LATENT, state_bytes_per_sequence=1e6), {"context_parallel": 2}, "recurrent states"),
        (
            replace(MODEL, attention=(replace(MODEL.attention[0], window_tokens=512.0),)),
            {"context_parallel": 2},
            "sliding windows",
        ),
    ],
)
def test_what_cannot_be_shared_is_said(model: ModelArchitecture, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        judged(model=model, **asked)
