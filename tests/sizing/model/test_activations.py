"""What a token leaves for backward, counted product by product."""

from __future__ import annotations

import pytest

from app.sizing.model.activations import activation_bytes_per_layer, attention_activation_bytes, logits_bytes
from app.sizing.model.attention import AttentionGroup


@pytest.mark.parametrize(
    ("gated", "fused", "expected"),
    [
        (True, True, 8 * 100 + 500 + 6 * 400),
        (True, False, 16 * 100 + 500 + 8 * 400 + 8),
        (False, True, 8 * 100 + 500 + 4 * 400),
        (False, False, 16 * 100 + 500 + 4 * 400 + 8),
    ],
)
def test_a_layer_keeps_its_inputs_and_products(gated: bool, fused: bool, expected: float) -> None:
    assert activation_bytes_per_layer(100, 400, 500, gated=gated, fused=fused) == expected


def test_attention_keeps_queries_keys_values_output_and_statistics() -> None:
    # 8 heads of 16 and 2 of keys and values, 16 bit; a float32 for each head
    group = AttentionGroup(4, 2 * 2 * 16.0, 2, 2 * 8 * 16.0, 2 * 8 * 16.0)
    expected = 2 * (2 * 8 + 2 * 2) * 16 + 4 * 8
    assert attention_activation_bytes([group], heads=8, kv_heads=2, head_dim=16) == expected
    assert attention_activation_bytes([], heads=8, kv_heads=2, head_dim=16) == expected


def test_latent_attention_is_as_wide_as_its_heads_while_training() -> None:
    # a latent of 40 elements, decoded absorbed: more multiply-adds than prefill
    latent = AttentionGroup(4, 40.0, 1, 256.0, 640.0)
    assert attention_activation_bytes([latent], heads=8, kv_heads=8, head_dim=16) == 2 * 4 * 128 + 4 * 8


def test_a_loss_holds_twelve_bytes_a_logit() -> None:
    assert logits_bytes(10.0, 1000) == 120_000
