"""Counts are exact: the golden table, and every configuration with a closed form."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.models import entry_architecture
from app.catalog.seed import model_entries
from app.errors import UnreadableConfiguration
from app.sizing.columns import GIB
from app.sizing.model.architecture import ModelKind
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.counting.registered import assumed_architecture
from app.sizing.model.formats import WEIGHT_FORMATS
from tests.examples import LLAMA_8B, LLAMA_8B_CONFIG

ENTRIES = {e["hf_id"]: e for e in model_entries()}


# Per token: cache in 16 bit, and GFLOP from weights alone; state per sequence; int4 in groups of 128.
with (Path(__file__).parent / "golden_counts.csv").open(encoding="utf-8") as file:
    GOLDEN = {row["model"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_counts_are_exact(name: str) -> None:
    expected = GOLDEN[name]
    model = read_architecture(ENTRIES[name]["config"], name=name)
    assert model.total_params == int(expected["total_params"])
    assert model.active_params == int(expected["active_params"])
    assert model.kv_cache_bytes_per_token() == int(expected["cache_bytes_per_token"])
    assert model.kv_cache_bytes_per_token_beyond_window == int(expected["cache_bytes_beyond_windows"])
    assert model.state_bytes_per_sequence == int(expected["state_bytes"])
    for stored, column in (("bf16", "bf16_gib"), ("fp8", "fp8_gib"), ("int4-awq", "int4_gib")):
        gib = model.weights_bytes(WEIGHT_FORMATS[stored]) / GIB
        assert round(gib, 3) == pytest.approx(float(expected[column]), abs=0.00101)
    assert 2 * model.matmul_params / 1e9 == pytest.approx(float(expected["gflop_per_token"]), abs=0.00051)


# cache GiB at 8192 and 131072 tokens, GFLOP per token at a context of 1, 8192 and 131072
BY_CONTEXT = {
    "meta-llama/Llama-3.1-8B-Instruct": (1.0, 16.0, 15.010, 19.304, 83.729),
    "mistralai/Mistral-7B-v0.1": (0.5, 0.5, 14.221, 16.368, 16.368),
    "google/gemma-3-27b-it": (1.0312, 10.4062, 54.017, 56.231, 76.363),
    "openai/gpt-oss-120b": (0.2856, 4.5044, 10.263, 12.716, 48.955),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (1.5, 7.125, 32.277, 40.329, 70.528),
    "deepseek-ai/DeepSeek-V3.2": (0.6553, 10.4844, 74.958, 93.374, 216.183),
    "deepseek-ai/DeepSeek-V4-Flash": (0.0577, 0.8451, 26.542, 29.539, 42.626),
    "MiniMaxAI/MiniMax-Text-01": (0.3125, 5.0, 94.639, 97.323, 137.588),
    "google/gemma-4-E4B-it": (0.1445, 2.0195, 9.288, 10.374, 24.467),
    "deepseek-ai/DeepSeek-V3": (0.5361, 8.5781, 73.254, 114.186, 728.232),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (0.1875, 3.0, 7.278, 8.889, 33.048),
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": (0.125, 2.0, 16.813, 17.484, 27.550),
}


@pytest.mark.parametrize("name", BY_CONTEXT)
def test_golden_values_by_context(name: str) -> None:
    at_8k, at_128k, *gflop = BY_CONTEXT[name]
    model = read_architecture(ENTRIES[name]["config"], name=name)
    state = model.state_bytes_per_sequence
    assert (model.cache_bytes(8192) - state) / GIB == pytest.approx(at_8k, abs=1e-4)
    assert (model.cache_bytes(131072) - state) / GIB == pytest.approx(at_128k, abs=1e-4)
    for context, expected in zip((1, 8192, 131072), gflop, strict=True):
        assert model.flops_per_token(context) / 1e9 == pytest.approx(expected, abs=0.0011)


def test_every_registered_total_is_reproduced_or_taken_from_the_registry() -> None:
    wrong = [
        i
        for i, e in ENTRIES.items()
        if e["modality"] != "diffusion"
        and entry_architecture(e).total_params != e["total_params"] + sum((e.get("components") or {}).values())
    ]
    assert wrong == []


def test_most_token_models_have_a_closed_form_equal_to_the_registry() -> None:
    token_models = [e for e in ENTRIES.values() if e["modality"] in ("text", "embedding", "reranker")]
    closed = [e for e in token_models if entry_architecture(e).source.startswith("closed form")]
    assert len(closed) > 0.9 * len(token_models)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "mamba9"}, "mamba9"),
        ({"model_type": None}, "model_type"),
        ({"hidden_size": None}, "hidden_size"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"num_key_value_heads": 7}, "key/value"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"hidden_size": True}, "hidden_size"),
    ],
)
def test_an_unreadable_configuration_says_what_is_missing(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnreadableConfiguration, match=named):
        read_architecture({**LLAMA_8B_CONFIG, **change}, name="x")


def test_nested_text_configuration_is_found() -> None:
    nested = {"model_type": "llava_next", "text_config": LLAMA_8B_CONFIG}
    assert read_architecture(nested, name="x").total_params == LLAMA_8B.total_params


@pytest.mark.parametrize("billion", [0.5, 1, 3, 8, 13, 34, 70, 180, 405])
def test_a_shape_assumed_from_the_size_has_that_size_and_says_so(billion: float) -> None:
    model = assumed_architecture(billion * 1e9)
    assert model.total_params == pytest.approx(billion * 1e9, rel=0.02)
    assert model.assumed


CONFIGS = st.fixed_dictionaries(
    {
        "model_type": st.sampled_from(["llama", "qwen2", "mistral", "qwen3", "gemma2", "starcoder2", "olmo2"]),
        "hidden_size": st.integers(1, 64).map(lambda k: 128 * k),
        "intermediate_size": st.integers(1, 200).map(lambda k: 128 * k),
        "num_hidden_layers": st.integers(1, 120),
        "num_attention_heads": st.sampled_from([8, 16, 32, 64]),
        "num_key_value_heads": st.sampled_from([1, 2, 4, 8]),
        "head_dim": st.sampled_from([64, 128, 256]),
        "vocab_size": st.integers(100, 300_000),
        "tie_word_embeddings": st.booleans(),
    }
)


@given(CONFIGS)
def test_counts_grow_with_every_size_and_cache_shrinks_with_fewer_heads(config: dict[str, Any]) -> None:
    model = read_architecture(config, name="x")
    assert model.total_params > 0
    assert 0 < model.active_params <= model.total_params
    for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"):
        larger = read_architecture({**config, key: config[key] * 2}, name="x")
        assert larger.total_params > model.total_params
    fewer = read_architecture({**config, "num_key_value_heads": 1}, name="x")
    assert fewer.kv_cache_bytes_per_token() <= model.kv_cache_bytes_per_token()


@given(
    experts=st.sampled_from([4, 8, 64, 128]),
    per_token=st.integers(1, 4),
    width=st.integers(1, 20).map(lambda k: 128 * k),
)
def test_active_never_exceeds_total_in_a_mixture(experts: int, per_token: int, width: int) -> None:
    config = {
        **LLAMA_8B_CONFIG,
        "model_type": "qwen3_moe",
        "num_experts": experts,
        "num_experts_per_tok": per_token,
        "moe_intermediate_size": width,
    }
    model = read_architecture(config, name="x")
    assert model.active_params <= model.total_params
    more = read_architecture({**config, "num_experts": experts * 2}, name="x")
    assert more.total_params > model.total_params
    assert more.active_params - model.active_params == more.parts["router"] - model.parts["router"]


def test_parts_sum_to_the_total_in_every_catalogue_model() -> None:
    for entry in ENTRIES.values():
        model = entry_architecture(entry)
        assert sum(model.parts.values()) == model.total_params
        assert model.linear_params <= model.total_params
        assert model.kind in ModelKind
        assert replace(model, name="other").total_params == model.total_params
