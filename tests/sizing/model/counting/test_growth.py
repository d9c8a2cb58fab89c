"""What must hold for every model type: growth with size, shares that sum to the whole, limits that only save."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.columns import GIB
from app.sizing.model.architecture import ModelKind
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tensors import Part, Per
from tests.examples import LLAMA_8B_CONFIG
from tests.sizing.model.counting.bases import BASES, ENTRIES, counted

DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")


WIDTHS = (
    "intermediate_size",
    "vocab_size",
    "d_ff",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "moe_intermediate_size",
    "state_size",
    "mamba_d_state",
)


@given(st.sampled_from(BASES), st.sampled_from((*DEPTHS, *WIDTHS)), st.integers(2, 5))
def test_counts_grow_with_every_size(name: str, key: str, times: int) -> None:
    config = copy.deepcopy(ENTRIES[name]["config"])
    part = config.get("text_config", config) if key not in config else config
    if key not in part or "layer_types" in part or "hybrid_override_pattern" in part:
        return
    if key == "intermediate_size" and name == "Qwen/Qwen3-30B-A3B":
        return  # every layer routes, so no dense MLP has this width
    base = read_architecture(config, name=name)
    part[key] *= times
    larger = read_architecture(config, name=name)
    assert larger.total_params > base.total_params
    assert larger.active_params > base.active_params
    for stored in ("bf16", "fp8", "int4-awq", "gguf-q4_k_m"):
        assert larger.weights_bytes(WEIGHT_FORMATS[stored]) > base.weights_bytes(WEIGHT_FORMATS[stored])
    if (
        base.attention
        and key in DEPTHS
        and base.kind is ModelKind.DECODER
        and key not in ("encoder_layers", "num_layers")
    ):
        assert larger.kv_cache_bytes_per_token() > base.kv_cache_bytes_per_token()
        assert larger.flops_per_token(1000) > base.flops_per_token(1000)


@pytest.mark.parametrize("name", BASES)
def test_shares_sum_to_the_whole(name: str) -> None:
    model = read_architecture(ENTRIES[name]["config"], name=name)
    assert sum(model.parts.values()) == model.total_params
    assert all(count > 0 for count in model.parts.values())
    assert 0 < model.active_params <= model.total_params
    assert model.routed_params <= model.linear_params <= model.total_params
    for degree in (2, 4, 8):
        heads = min(degree, model.kv_heads)
        assert model.kv_cache_bytes_per_token(tensor_parallel=degree) * heads == pytest.approx(
            model.kv_cache_bytes_per_token()
        )
    sixteen = model.weights_bytes(WEIGHT_FORMATS["bf16"])
    assert sixteen == 2 * model.total_params
    for stored in WEIGHT_FORMATS.values():
        assert 0 < model.weights_bytes(stored) <= 2 * sixteen
        assert model.routed_expert_bytes(stored) <= model.weights_bytes(stored)
        assert model.idle_bytes(stored) < model.weights_bytes(stored)


@given(st.integers(1, 8).map(lambda k: 2**k), st.integers(0, 7))
def test_cache_shrinks_with_fewer_heads_and_grows_with_context(heads: int, fewer: int) -> None:
    kept = max(1, heads >> fewer)
    config = {**LLAMA_8B_CONFIG, "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": 64}
    whole = read_architecture(config, name="x")
    grouped = read_architecture({**config, "num_key_value_heads": kept}, name="x")
    assert grouped.kv_cache_bytes_per_token() == whole.kv_cache_bytes_per_token() * kept / heads
    assert grouped.total_params <= whole.total_params
    assert whole.cache_bytes(2000) > whole.cache_bytes(1000)


@given(st.integers(1, 200_000))
def test_windows_and_sparse_reading_only_ever_save(context: int) -> None:
    for name in (
        "google/gemma-3-27b-it",
        "openai/gpt-oss-120b",
        "deepseek-ai/DeepSeek-V3.2",
        "deepseek-ai/DeepSeek-V4-Flash",
    ):
        model = counted(name)
        whole = replace(
            model, attention=tuple(replace(g, window_tokens=None, read_tokens=None) for g in model.attention)
        )
        assert model.cache_bytes(context) <= whole.cache_bytes(context)
        assert model.read_bytes(context) <= whole.read_bytes(context)
        assert model.flops_per_token(context) <= whole.flops_per_token(context)


def test_a_prompt_of_t5_goes_through_the_encoder() -> None:
    model = counted("google-t5/t5-base")
    assert model.reads_source
    crossing = sum(t.params for t in model.tensors if t.role in ("cross.k_proj", "cross.v_proj"))
    assert model.prompt_matmul_params == 84_934_656 + crossing
    assert model.cross_kv_bytes_per_source_token == model.kv_cache_bytes_per_token()
    # source positions see one another both ways: twice a causal prompt's scores
    assert model.prefill_attention_flops(512) == pytest.approx(4 * 12 * 768 * 512**2)


def test_albert_reuses_one_layers_weights() -> None:
    model = counted("albert/albert-base-v2")
    layer = 4 * 768 * 768 + 2 * 768 * 3072
    assert model.matmul_params == 12 * layer + 128 * 768
    assert model.linear_params == layer + 128 * 768


# peft's counts for Llama-shaped layers, and the same sum where projections are fused, latent, expert or recurrent
def test_adapters_follow_the_matrices() -> None:
    phi = counted("microsoft/Phi-3-mini-4k-instruct")
    assert phi.lora_params(8, "attention") == 8 * 32 * ((3072 + 3 * 3072) + (3072 + 3072))
    mixtral = counted("mistralai/Mixtral-8x7B-v0.1")
    assert mixtral.lora_params(1, ["experts.up_proj"]) == 32 * 8 * (4096 + 14336)
    assert mixtral.lora_params(16, "all-linear") > mixtral.lora_params(16, "attention") > mixtral.lora_params(16, "q_v")
    mamba = counted("state-spaces/mamba2-130m")
    assert mamba.lora_params(4, "attention") > 0
    tower = {
        t.role
        for t in counted("llava-hf/llava-1.5-7b-hf").tensors
        if t.part is Part.ENCODER_TOWER and t.per is Per.SOURCE
    }
    assert not tower & {"q_proj", "v_proj", "up_proj"}


# A forward pass by hand, per layer and token, for one of each attention
def test_logits_and_activations_match_the_worked_figures() -> None:
    model = read_architecture(LLAMA_8B_CONFIG, name="x")
    assert model.activation_bytes_per_layer() == 139_392
    assert model.activation_bytes_per_layer(fused=False) == 200_840
    assert model.logits_bytes(8192) / GIB == pytest.approx(11.74, abs=0.01)
    latent = counted("deepseek-ai/DeepSeek-V3")
    # queries and keys of 128 heads x 192, values and output of 128 x 128, statistics of 128 heads
    assert latent.attention_activation_bytes == 2 * (2 * 128 * 192 + 2 * 128 * 128) + 4 * 128
