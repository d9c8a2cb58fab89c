"""Shapes from configurations, held against the catalogue's counts without PyTorch."""

from __future__ import annotations

import pytest

from app.errors import Unanswerable
from calibration.tracing.rows import case_of, cut_layers, model_configs
from calibration.tracing.shapes import shape_of


def test_blocks_are_distinguished_by_the_family() -> None:
    llama, phi, gpt2 = (
        shape_of(model_configs()[name])
        for name in ("meta-llama/Llama-3.1-8B", "microsoft/phi-1_5", "openai-community/gpt2")
    )
    assert (llama.gated, llama.parallel, llama.kv_heads, llama.head_dim) == (True, False, 8, 128)
    assert (phi.gated, phi.parallel, phi.parallel_norms, phi.layer_norm) == (False, True, 1, True)
    assert (gpt2.mlp_width, gpt2.positions, gpt2.rotary, gpt2.tied) == (3072, 1024, False, True)


def test_mixtures_and_latent_attention_are_read() -> None:
    deepseek = shape_of(model_configs()["deepseek-ai/DeepSeek-V3"])
    assert (deepseek.experts, deepseek.experts_per_token, deepseek.expert_width) == (256, 8, 2048)
    assert (deepseek.shared_width, deepseek.dense_layers) == (2048, 3)
    assert (deepseek.q_latent, deepseek.kv_latent, deepseek.rope_dim, deepseek.value_dim) == (1536, 512, 64, 128)


def test_a_model_is_cut_to_its_first_layers() -> None:
    assert case_of("openai-community/gpt2", 2, sequence=512).setup.shape.layers == 2
    assert cut_layers(model_configs()["openai-community/gpt2"], 2)["n_layer"] == 2


def test_a_model_without_a_decoder_is_refused_by_its_type() -> None:
    with pytest.raises(Unanswerable, match="'bert' is not traced"):
        shape_of({"model_type": "bert"})
