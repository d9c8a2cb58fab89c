"""Activation memory that one token keeps from forward to backward, in 16 bit."""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.model.attention import AttentionGroup

LOGIT_BYTES_IN_BACKWARD = 12.0  # the 16-bit logit, its float32 copy, the probability and the 16-bit gradient


def activation_bytes_per_layer(
    hidden_size: float, mlp_width: float, attention_bytes: float, *, gated: bool, fused: bool
) -> float:
    """Activation bytes that one token keeps for backward in one mean layer, if attention scores are never materialized.

    With fused kernels: 8h + 4(n + m)d + 6f + 4n. In eager modules: 16h + 8f + 4(n + m)d + 4n + 8. An MLP without a
    gate keeps only its two products (4f).

    Parameters:
        hidden_size: h, elements.
        mlp_width: f, elements.
        attention_bytes: bytes that attention keeps per token, from `attention_activation_bytes`.
        gated: whether the MLP multiplies two products of its input.
        fused: whether fused kernels are used.
    Source: Korthikanti et al. 2022 (arXiv:2205.05198), re-derived for gated MLPs and FlashAttention.
    Limits: no dropout; activations of a router are not included.
    Check: Llama-3.1-8B, fused and eager.
        >>> activation_bytes_per_layer(4096, 14336, 20608, gated=True, fused=True)
        139392
        >>> activation_bytes_per_layer(4096, 14336, 20608, gated=True, fused=False)
        200840
    """
    products = 4 * mlp_width if not gated else 6 * mlp_width if fused else 8 * mlp_width
    kept = 8 * hidden_size + attention_bytes + products
    return kept if fused else 16 * hidden_size + attention_bytes + products + 8


def attention_activation_bytes(groups: Sequence[AttentionGroup], *, heads: int, kv_heads: int, head_dim: int) -> float:
    """Bytes that attention keeps per token in a mean layer: 4(n + m)d + 4n.

    These are queries, keys, values, output and softmax statistics. MLA expands keys and values to every head in
    training, so all four are as wide as the query heads.

    Limits: a mean over the layers that attend; recurrent mixers keep less.
    Check: Llama-3.1-8B, 4 * (32 + 8) * 128 + 4 * 32.
        >>> attention_activation_bytes(LLAMA_8B.attention, heads=32, kv_heads=8, head_dim=128)
        20608.0
    """
    spread = [g for g in groups if g.prefill_macs]
    if not spread:
        return float(4 * (heads + min(kv_heads, heads)) * head_dim + 4 * heads)
    wide = sum(
        g.layers * (g.prefill_macs + (g.kv_elements if g.decode_macs <= g.prefill_macs else g.prefill_macs))
        for g in spread
    )
    return 2 * wide / sum(g.layers for g in spread) + 4 * heads


def logits_bytes(tokens: float, vocab_size: int) -> float:
    """Peak bytes of a loss that is neither fused nor split into chunks: 12 bytes per logit in backward (10 in forward).

    The 12 bytes are the logit in 16 bit, its float32 copy, the probability and the gradient.

    Limits: frameworks that fuse the loss need less; the training model uses a fitted value per framework.
    Check: Llama-3.1-8B, 8192 tokens, in GiB.
        >>> round(logits_bytes(8192, 128_256) / GIB, 2)
        11.74
    """
    return LOGIT_BYTES_IN_BACKWARD * tokens * vocab_size
