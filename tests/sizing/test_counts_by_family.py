"""What must hold for every model type: growth with size, shares that sum to the whole, and bad files refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api.schemas.inspect import inspection
from app.catalog.seed import model_entries
from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.read import known_types, read_architecture
from app.sizing.model.counting.size import ERROR, HIDDEN_SIZE, LAYERS, assumed_architecture
from app.sizing.model.counts import usual_contexts
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tensors import Part, Per
from app.sizing.units import GIB
from tests.examples import LLAMA_8B_CONFIG

ENTRIES = {e["hf_id"]: e for e in model_entries()}


def counted(name: str, **changes: Any) -> ModelArchitecture:
    return read_architecture({**ENTRIES[name]["config"], **changes}, name=name)


# One of each kind of block, small enough to read.
BASES = (
    "meta-llama/Llama-3.1-8B",
    "google/gemma-2-9b-it",
    "tiiuae/falcon-7b",
    "openai-community/gpt2",
    "bigcode/starcoder2-3b",
    "mistralai/Mixtral-8x7B-v0.1",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "openai/gpt-oss-20b",
    "ai21labs/Jamba-v0.1",
    "state-spaces/mamba2-130m",
    "google-t5/t5-base",
    "facebook/bart-base",
    "google-bert/bert-base-uncased",
    "answerdotai/ModernBERT-base",
    "openai/whisper-small",
    "google/vit-base-patch16-224",
    "Qwen/Qwen2.5-VL-3B-Instruct",
    "llava-hf/llava-1.5-7b-hf",
    "facebook/wav2vec2-base-960h",
    "black-forest-labs/FLUX.1-dev",
)
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


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


# (tokens, patches) for an image of a size, by the families' own rules
IMAGES = {
    "llava-hf/llava-1.5-7b-hf": ((336, 336), 576, 576),
    "google/gemma-3-4b-it": ((896, 896), 256, 4096),
    "Qwen/Qwen2.5-VL-7B-Instruct": ((1008, 1008), 1296, 5184),
    "Qwen/Qwen3-VL-2B-Instruct": ((1024, 1024), 1024, 4096),
    "OpenGVLab/InternVL3-1B": ((448, 448), 256, 1024),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": ((336, 336), 144, 576),
    "meta-llama/Llama-3.2-11B-Vision-Instruct": ((560, 560), 0, 1600),
    "HuggingFaceTB/SmolVLM-256M-Instruct": ((512, 512), 64, 1024),
}


@pytest.mark.parametrize("name", IMAGES)
def test_image_tokens_follow_each_familys_rule(name: str) -> None:
    (width, height), tokens, patches = IMAGES[name]
    model = counted(name)
    assert model.images is not None
    assert model.images.tokens(width, height) == tokens
    assert model.images.patches(width, height) == patches
    assert model.images.patches(4 * width, 4 * height) >= patches
    assert model.image_flops(width, height) > 2 * model.source_matmul_params * patches


@pytest.mark.parametrize(
    ("name", "gflop"),
    [
        ("microsoft/resnet-50", 8.178),
        ("google/vit-base-patch16-224", 35.13),
        ("black-forest-labs/FLUX.1-dev", 74_385),
        ("stabilityai/stable-diffusion-3-medium-diffusers", 8_904),
        ("stabilityai/stable-diffusion-3.5-medium", 11_250),
        ("facebook/dinov2-large", 1_013.6),
        ("google/siglip-so400m-patch14-384", 670.3),
    ],
)
def test_work_of_a_sample_equals_the_counted_network(name: str, gflop: float) -> None:
    model = counted(name)
    assert model.law is not None
    assert model.sample is not None
    assert model.sample.flops / model.law.guidance / 1e9 == pytest.approx(gflop, rel=0.002)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "quantum"}, "quantum"),
        ({"model_type": None}, "model_type"),
        ({"num_hidden_layers": 5000}, "0 to 4096"),
        ({"num_key_value_heads": 7}, "key/value"),
        ({"layer_types": ["full_attention"]}, "1 entries for 32 layers"),
        ({"layer_types": ["mystery"] * 32}, "mystery"),
        ({"architectures": 5, "intermediate_size": "wide"}, "intermediate_size"),
        (
            {"vision_config": {"model_type": "mystery_vit"}, "model_type": "llava", "text_config": LLAMA_8B_CONFIG},
            "mystery_vit",
        ),
    ],
)
def test_a_file_that_cannot_be_counted_says_why(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnreadableConfiguration, match=named):
        read_architecture({**LLAMA_8B_CONFIG, **change}, name="x")


def test_an_unknown_type_is_never_taken_for_a_llama_and_the_known_are_named() -> None:
    with pytest.raises(UnreadableConfiguration) as caught:
        read_architecture({**LLAMA_8B_CONFIG, "model_type": "llama5_mystery"}, name="x")
    assert all(t in str(caught.value) for t in ("llama", "deepseek_v3", "whisper"))
    assert len(known_types()) >= 130


def test_supersets_of_a_known_type_are_counted() -> None:
    plain = read_architecture(LLAMA_8B_CONFIG, name="x")
    extra = {
        **LLAMA_8B_CONFIG,
        "torch_dtype": "bfloat16",
        "rope_scaling": {"rope_type": "llama3"},
        "auto_map": {"AutoModel": "x.Y"},
        "_x": [1],
        "layer_types": ["full_attention"] * 32,
    }
    assert read_architecture(extra, name="x").total_params == plain.total_params
    nested = {"model_type": "thinker", "thinker_config": {"text_config": LLAMA_8B_CONFIG}}
    assert read_architecture(nested, name="x").total_params == plain.total_params


def test_keys_absent_from_a_nested_part_mean_the_librarys_defaults_and_are_told() -> None:
    published = {  # as google/gemma-3-4b-it is saved
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "mm_tokens_per_image": 256,
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "image_size": 896,
            "patch_size": 14,
            "vision_use_head": False,
        },
    }
    model = read_architecture(published, name="x")
    assert model.total_params == ENTRIES["google/gemma-3-4b-it"]["total_params"]
    assert any("num_attention_heads 8" in a for a in model.assumed)
    with pytest.raises(UnreadableConfiguration, match="num_attention_heads"):
        read_architecture(published["text_config"], name="x")  # type: ignore[arg-type]


def test_published_files_with_little_in_them_are_read() -> None:
    llava = {  # as llava-hf/llava-1.5-7b-hf is saved: the text part says only what is not Llama 7B
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "tie_word_embeddings": False,
        "text_config": {
            "model_type": "llama",
            "max_position_embeddings": 4096,
            "vocab_size": 32064,
            "torch_dtype": "float16",
        },
        "vision_config": {
            "model_type": "clip_vision_model",
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "image_size": 336,
            "patch_size": 14,
            "projection_dim": 768,
            "vocab_size": 32000,
        },
    }
    assert read_architecture(llava, name="x").total_params == ENTRIES["llava-hf/llava-1.5-7b-hf"]["total_params"]
    falcon = {
        "model_type": "falcon",
        "alibi": False,
        "bias": False,
        "hidden_size": 4544,
        "multi_query": True,
        "new_decoder_architecture": False,
        "num_attention_heads": 71,
        "num_hidden_layers": 32,
        "parallel_attn": True,
        "vocab_size": 65024,
    }
    assert read_architecture(falcon, name="x").total_params == ENTRIES["tiiuae/falcon-7b"]["total_params"]
    bloom = {"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880}
    assert read_architecture(bloom, name="x").total_params == ENTRIES["bigscience/bloom-560m"]["total_params"]
    t5 = {
        "model_type": "t5",
        "d_model": 512,
        "d_ff": 2048,
        "d_kv": 64,
        "num_layers": 6,
        "num_heads": 8,
        "vocab_size": 32128,
    }
    assert read_architecture(t5, name="x").total_params == ENTRIES["google-t5/t5-small"]["total_params"]


def test_an_original_internvl_file_is_read() -> None:
    entry = ENTRIES["OpenGVLab/InternVL3-8B"]["config"]
    vision = {
        k: v for k, v in entry["vision_config"].items() if k not in ("model_type", "attention_bias", "use_qk_norm")
    }
    original = {
        "model_type": "internvl_chat",
        "downsample_ratio": 0.5,
        "tie_word_embeddings": False,
        "llm_config": entry["text_config"],
        "vision_config": {
            **vision,
            "model_type": "intern_vit_6b",
            "qkv_bias": True,
            "qk_normalization": False,
            "image_size": 448,
            "patch_size": 14,
        },
    }
    assert read_architecture(original, name="x").total_params == ENTRIES["OpenGVLab/InternVL3-8B"]["total_params"]


def test_a_flat_file_of_a_wrapping_type_is_read() -> None:
    entry = ENTRIES["Qwen/Qwen2.5-VL-7B-Instruct"]["config"]
    flat = {
        **entry["text_config"],
        "model_type": "qwen2_5_vl",
        "vision_config": entry["vision_config"],
        "tie_word_embeddings": False,
    }
    assert read_architecture(flat, name="x").total_params == ENTRIES["Qwen/Qwen2.5-VL-7B-Instruct"]["total_params"]


@pytest.mark.parametrize(
    ("stated", "format_name", "bits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8.00195),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-awq", 4.15625),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4-gptq", 4.625),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8", 8.1875),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "nf4",
            4 + 8 / 64 + 32 / (64 * 256),
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 8.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
            8.0,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
            },
            "int4-awq",
            4.5,
        ),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, "nvfp4", 4.5),
    ],
)
def test_stated_quantisation_is_honoured(stated: dict[str, Any], format_name: str, bits: float) -> None:
    plain = read_architecture(LLAMA_8B_CONFIG, name="x")
    model = read_architecture({**LLAMA_8B_CONFIG, "quantization_config": stated}, name="x")
    assert model.native_format == format_name
    linear, rest = plain.linear_params, plain.total_params - plain.linear_params
    assert model.published_bytes() * 8 == pytest.approx(linear * bits + rest * 16, rel=1e-4)


def test_what_a_checkpoint_left_wide_stays_wide() -> None:
    model = counted("moonshotai/Kimi-K2.5")
    whole = sum(t.params for t in model.tensors if t.quantised and t.part is not Part.ROUTED_EXPERTS)
    assert model.native_format == "int4-awq"
    assert model.published_bytes() == pytest.approx(
        (model.routed_params * 4.5 + (model.total_params - model.routed_params) * 16) / 8, rel=1e-6
    )
    assert model.weights_bytes(WEIGHT_FORMATS["int4-awq"]) > model.routed_params * 4.5 / 8 + 2 * whole


def test_the_shape_rule_is_what_the_catalogue_says() -> None:
    import numpy as np  # noqa: PLC0415

    shapes: dict[tuple[int, int, int], ModelArchitecture] = {}
    for entry in ENTRIES.values():
        if entry["modality"] != "text" or entry["moe"] or entry["release_date"] < "2023-07":
            continue
        model = read_architecture(entry["config"], name=entry["hf_id"])
        latent = any(g.decode_macs > g.prefill_macs for g in model.attention)
        plain = (
            model.kind is ModelKind.DECODER
            and model.encoder is None
            and model.attention
            and not model.state_bytes_per_sequence
        )
        if plain and not latent and model.total_params >= 1e8:
            shapes.setdefault((model.total_params, model.num_layers, model.hidden_size), model)
    models = list(shapes.values())
    assert len(models) > 100
    size = np.log([m.total_params for m in models])
    for constant, attribute in ((LAYERS, "num_layers"), (HIDDEN_SIZE, "hidden_size")):
        exponent, scale = np.polyfit(size, np.log([getattr(m, attribute) for m in models]), 1)
        assert (np.exp(scale), exponent) == pytest.approx(constant, rel=0.02)
    assumed = [assumed_architecture(float(m.total_params)) for m in models]
    errors = {
        "num_hidden_layers": [abs(a.num_layers / m.num_layers - 1) for a, m in zip(assumed, models, strict=True)],
        "hidden_size": [abs(a.hidden_size / m.hidden_size - 1) for a, m in zip(assumed, models, strict=True)],
        "kv_cache_bytes_per_token": [
            abs(a.kv_cache_bytes_per_token() / m.kv_cache_bytes_per_token() - 1)
            for a, m in zip(assumed, models, strict=True)
        ],
    }
    for name, (median, ninetieth) in ERROR.items():
        assert np.median(errors[name]) == pytest.approx(median, abs=0.02)
        assert np.quantile(errors[name], 0.9) == pytest.approx(ninetieth, abs=0.05)


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


def test_int8_keeps_a_scale_for_each_row() -> None:
    model = read_architecture(LLAMA_8B_CONFIG, name="x")
    rows = sum(t.outputs * t.count for t in model.tensors if t.quantised)
    wide = model.total_params - model.linear_params
    assert model.weights_bytes(WEIGHT_FORMATS["int8"]) == model.linear_params + 4 * rows + 2 * wide
    assert model.weights_bytes(WEIGHT_FORMATS["int8"]) / GIB == pytest.approx(8.4627, abs=1e-3)


# A forward pass by hand, per layer and token, for one of each attention
def test_logits_and_activations_match_the_worked_figures() -> None:
    model = read_architecture(LLAMA_8B_CONFIG, name="x")
    assert model.activation_bytes_per_layer() == 139_392
    assert model.activation_bytes_per_layer(fused=False) == 200_840
    assert model.logits_bytes(8192) / GIB == pytest.approx(11.74, abs=0.01)
    latent = counted("deepseek-ai/DeepSeek-V3")
    # queries and keys of 128 heads x 192, values and output of 128 x 128, statistics of 128 heads
    assert latent.attention_activation_bytes == 2 * (2 * 128 * 192 + 2 * 128 * 128) + 4 * 128


JUNK: tuple[Any, ...] = (
    None,
    0,
    1,
    -1,
    3,
    7,
    10**9,
    10**8,
    10**30,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "7",
    [],
    {},
    [1],
    [None],
    ["a"],
    {"a": 1},
    True,
    False,
    [[]],
    [0] * 5,
    4096,
    65536,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(ENTRIES)), st.data())
def test_a_spoiled_file_is_counted_or_refused_and_never_breaks(name: str, data: st.DataObject) -> None:
    config = copy.deepcopy(ENTRIES[name]["config"])
    for _ in range(data.draw(st.integers(1, 3))):
        node: Any = config
        while True:
            key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(min(3, len(node)))))
            if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
                node = node[key]
                continue
            node[key] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
            break
    try:
        model = read_architecture(config, name=name)
    except UnreadableConfiguration:
        return
    shown = inspection(model, contexts=usual_contexts(model), rank=16, targets="all-linear", image=(1024, 1024))
    assert orjson.loads(orjson.dumps(shown))["parameters"] == sum(model.parts.values())
    assert 0 < model.active_params <= model.total_params
