"""Widths of a mean layer, counted by hand."""

from __future__ import annotations

import pytest

from app.sizing.model.layer import adapter_widths, attention_widths, layer_widths
from tests.examples import LLAMA_8B, OPT_13B, registered


def test_attention_of_grouped_and_latent_heads() -> None:
    assert attention_widths([], heads=8, kv_heads=2, head_dim=16) == (256, 64)
    found = layer_widths(registered("deepseek-ai/DeepSeek-V3"))
    assert (found.queries, found.keys) == (128 * (192 + 128), 128 * (192 + 128))


def test_layers_of_experts_are_a_mean() -> None:
    found = layer_widths(registered("deepseek-ai/DeepSeek-V3"))  # 3 dense layers of 61, one shared expert
    assert found.dense == pytest.approx((3 * 18432 + 58 * 2048) / 61)
    assert found.routed == pytest.approx(58 * 8 * 2048 / 61)
    assert found.dispatched == pytest.approx(58 * 8 * 7168 / 61)
    assert (found.router, found.selected_experts) == pytest.approx((256 * 58 / 61, 8 * 58 / 61))


def test_blocks_side_by_side_have_one_norm() -> None:
    assert layer_widths(registered("microsoft/phi-1_5")).norms == 1
    assert layer_widths(LLAMA_8B).norms == layer_widths(OPT_13B).norms == 2
    assert (layer_widths(LLAMA_8B).norm_readers, layer_widths(OPT_13B).norm_readers) == (5, 4)


def test_adapters_read_each_input_once_unless_it_is_kept() -> None:
    found = adapter_widths(LLAMA_8B, "q_v")
    assert (found.inputs, found.unshared, found.matrices) == (2 * 4096, 4096, 2)
    widths = adapter_widths(registered("microsoft/phi-1_5"), "all-linear")
    assert widths.unshared == 2048 + 8192  # one norm for both, and the product
    assert adapter_widths(LLAMA_8B, ["o_proj"]).unshared == 0
