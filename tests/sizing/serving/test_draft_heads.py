"""Published drafts: plausible acceptance, with source and day, and the draft that is offered for a model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.question import DraftMethod
from app.sizing.serving.draft_heads import (
    ANY_MODEL,
    DRAFT_HEADS,
    MAX_OFFERED_TOKENS,
    DraftHead,
    acceptance_rate,
    eagle_head,
    published_draft,
)
from tests.examples import LLAMA_8B


@pytest.mark.parametrize("head", DRAFT_HEADS, ids=lambda head: f"{head.model} {head.head}")
def test_a_step_gains_between_one_token_and_all_drafted_ones(head: DraftHead) -> None:
    assert 1 < head.low <= head.accepted_tokens <= head.high < 1 + head.draft_tokens
    assert (head.method is DraftMethod.EAGLE) == bool(head.head)
    assert 0 < head.speculative.acceptance_rate < 1
    assert 1 <= head.speculative.draft_tokens <= MAX_OFFERED_TOKENS
    assert head.source and head.as_of


@pytest.mark.parametrize("head", DRAFT_HEADS, ids=lambda head: f"{head.model} {head.head}")
def test_an_offer_gains_what_the_source_measured_with_as_many_drafts(head: DraftHead) -> None:
    rate = acceptance_rate(head.accepted_tokens, head.draft_tokens)
    gained = sum(rate**i for i in range(head.draft_tokens + 1))
    assert gained == pytest.approx(head.accepted_tokens, rel=1e-6)
    if head.draft_tokens <= MAX_OFFERED_TOKENS:
        assert head.speculative.tokens_per_step == pytest.approx(head.accepted_tokens, rel=2e-3)


def test_a_models_own_layer_is_offered_before_a_head_and_only_if_it_exists() -> None:
    named = replace(LLAMA_8B, name="Qwen/Qwen3-32B")
    assert published_draft(replace(LLAMA_8B, name="acme/plain")) is None
    found = published_draft(named)
    assert found is not None and found.head == eagle_head("Qwen/Qwen3-32B")
    own = published_draft(replace(named, mtp_params=10**8))
    assert own is not None and (own.model, own.method) == (ANY_MODEL, DraftMethod.MTP)
    known = published_draft(replace(named, name="deepseek-ai/DeepSeek-V3", mtp_params=10**8))
    assert known is not None and known.model == "deepseek-ai/DeepSeek-V3"
    assert published_draft(replace(named, name="deepseek-ai/DeepSeek-V3")) is None  # a copy without the layer
    assert eagle_head("acme/plain") is None
