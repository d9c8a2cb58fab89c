"""What the draft of speculative decoding adds to a replica: weights and KV cache."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from app.sizing.columns import Column
from app.sizing.model.architecture import AttentionGroup, ModelArchitecture
from app.sizing.model.counting.registered import assumed_architecture
from app.sizing.question import DraftMethod, Speculative

DRAFT_ELEMENT_BYTES = 2.0  # EAGLE heads and draft models are published in 16 bits
LONG_CONTEXT_TOKENS = 1e6  # beyond every attention window, so that a layer without one caches most
MAX_KNOWN_SHAPES = 64
METHOD_WORDS = {
    DraftMethod.MTP: "its multi-token prediction layer",
    DraftMethod.EAGLE: "an EAGLE head",
    DraftMethod.DRAFT_MODEL: "a draft model",
    DraftMethod.NGRAM: "n-gram lookup",
}


def draft_bytes(
    model: ModelArchitecture, speculative: Speculative, weights_bytes: Column, expert_bytes: Column
) -> tuple[Column, Column]:
    """Weights that drafting adds to each plan, and the routed experts among them, B.

    A multi-token prediction layer is stored as the layers of its model. Other drafts have 16 bits.

    Parameters:
        weights_bytes: weights of the target model in each plan's format, B.
        expert_bytes: routed experts among them, B.
    Limits: evenly split over the accelerators of a replica, as the other weights.
    Check: DeepSeek-V3's 11.6 billion parameters, as a share of 671 GB, GB.
        >>> mtp, v3 = Speculative(DraftMethod.MTP, 1, 0.85), registered("deepseek-ai/DeepSeek-V3")
        >>> round(float(draft_bytes(v3, mtp, col(671e9), col(0))[0][0]) / 1e9, 1)
        11.6
    """
    if speculative.method is DraftMethod.MTP:
        share = speculative.draft_params(model) / model.total_params
        return share * weights_bytes, share * expert_bytes
    none = np.zeros(len(weights_bytes))
    return none + DRAFT_ELEMENT_BYTES * speculative.draft_params(model), none


def draft_attention(model: ModelArchitecture, speculative: Speculative | None) -> AttentionGroup | None:
    """Attention layers of the draft, which keep a KV cache of their own; None if the draft has none.

    A multi-token prediction layer and an EAGLE head cache as much as one full-attention layer of the model. Only the
    size of a draft model is known, so it has the usual proportions.
    """
    if speculative is None or speculative.method is DraftMethod.NGRAM or not model.attention:
        return None
    if speculative.method is DraftMethod.DRAFT_MODEL:
        return draft_model_attention(speculative.draft_parameters)
    widest = max(model.attention, key=lambda group: group.cached_elements(LONG_CONTEXT_TOKENS))
    return replace(widest, layers=1)


@lru_cache(maxsize=MAX_KNOWN_SHAPES)
def draft_model_attention(parameters: float) -> AttentionGroup:
    """Attention layers of a draft model of which only the number of parameters is known."""
    return assumed_architecture(parameters).attention[0]
