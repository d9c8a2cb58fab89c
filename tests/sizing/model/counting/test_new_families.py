"""Architectures of 2025 and 2026, against the totals that their makers publish."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.seed import model_entries
from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.tensors import Part
from tests.examples import LLAMA_8B_CONFIG
from tests.sizing.model.counting.bases import counted

ENTRIES = {entry["hf_id"]: entry for entry in model_entries()}
LAGUNA: dict[str, Any] = {
    "model_type": "laguna",
    "hidden_size": 3072,
    "intermediate_size": 12288,
    "num_hidden_layers": 8,
    "num_attention_heads": 48,
    "num_attention_heads_per_layer": [48, 72, 72, 72] * 2,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 1024,
    "gating": "per-head",
    "sliding_window": 512,
    "layer_types": ["full_attention", *["sliding_attention"] * 3] * 2,
}


def read(config: dict[str, Any]) -> ModelArchitecture:
    return read_architecture(config, name="x")


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("poolside/Laguna-S-2.1", 117.56e9, 8.4e9),
        ("stepfun-ai/Step-3.7-Flash", 196e9, 11e9),
        ("arcee-ai/Trinity-Mini", 26.1e9, 3.5e9),
        ("arcee-ai/Trinity-Nano-Preview", 6.1e9, 1.0e9),
        ("arcee-ai/Trinity-Large-Thinking", 398.6e9, 13.4e9),
        ("inclusionAI/Ling-1T", 1000e9, 51e9),
        ("inclusionAI/Ling-mini-2.0", 16.26e9, 1.43e9),
        ("inclusionAI/Ling-2.5-1T", 1012e9, 63e9),
        ("inclusionAI/Ling-3.0-flash", 124e9, 5.2e9),
        ("internlm/internlm-chat-20b", 20.1e9, 20.1e9),
        ("XiaomiMiMo/MiMo-V2.5-Pro", 1.02e12, 42e9),
        ("upstage/Solar-Open-100B", 102.6e9, 12e9),
        ("LGAI-EXAONE/K-EXAONE-236B-A23B", 236e9, 23e9),
        ("inclusionAI/Ling-lite-1.5", 16.8e9, 2.75e9),
        ("LiquidAI/LFM2-2.6B", 2_569_272_320, 2_569_272_320),
        ("LiquidAI/LFM2-24B-A2B", 23_843_661_440, 2.3e9),
        ("openbmb/MiniCPM5-1B", 1_080_632_832, 1_080_632_832),
        ("openbmb/MiniCPM-V-2_6", 8_099_175_152, 8_099_175_152),
        ("openbmb/MiniCPM-V-4_5", 8_695_895_280, 8_695_895_280),
        ("tiiuae/Falcon-H1-7B-Instruct", 7_585_513_568, 7_585_513_568),
        ("tiiuae/Falcon-H1-34B-Instruct", 33.6e9, 33.6e9),
        ("CohereLabs/aya-vision-8b", 8.63e9, 8.63e9),
        ("allenai/Olmo-Hybrid-7B", 7_430_870_688, 7_430_870_688),
        ("tiiuae/Falcon-H1-0.5B-Instruct", 521_411_104, 521_411_104),
        ("CohereLabs/command-a-vision-07-2025", 112e9, 112e9),
        ("deepseek-ai/deepseek-vl-7b-chat", 7.34e9, 7.34e9),
        ("allenai/Molmo2-8B", 8.66e9, 8.66e9),
        ("xai-org/grok-2", 269.5e9, 115e9),
        ("meituan-longcat/LongCat-Flash-Chat", 560e9, 27e9 * 1.02),
        ("microsoft/bitnet-b1.58-2B-4T", 2.41e9, 2.41e9),
    ],
)
def test_totals_are_those_of_the_makers(name: str, total: float, active: float) -> None:
    model = counted(name)
    assert model.total_params == pytest.approx(total, rel=0.01)
    assert model.active_params == pytest.approx(active, rel=0.03)


def test_falcon_attends_and_keeps_a_state_in_every_layer() -> None:
    model = counted("tiiuae/Falcon-H1-7B-Instruct")
    # 44 layers with 2 key/value heads of 128, and a state of 24 heads of 128 by 256
    assert model.kv_cache_bytes_per_token() == 44 * 2 * 2 * 128 * 2
    assert model.state_bytes_per_sequence == 44 * (4 * 3072 * 256 + 2 * (3072 + 2 * 256) * 4)


def test_longcat_attends_twice_per_layer_and_a_third_of_its_experts_are_empty() -> None:
    model = counted("meituan-longcat/LongCat-Flash-Chat")
    assert (model.num_layers, model.moe_layers) == (56, 28)
    assert (model.num_experts, model.experts_per_token) == (512, 8)  # 12 of 768, of which 256 return their input
    assert model.kv_cache_bytes_per_token() == 56 * (512 + 64) * 2


def test_a_bitnet_checkpoint_packs_four_weights_per_byte() -> None:
    assert counted("microsoft/bitnet-b1.58-2B-4T").published_bytes() == pytest.approx(1.18e9, rel=0.005)


def test_deepseek_v4_reads_the_layers_that_the_library_saves() -> None:
    config = ENTRIES["deepseek-ai/DeepSeek-V4-Flash"]["config"]
    names = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    saved = {key: value for key, value in config.items() if key not in ("compress_ratios", "expert_dtype")}
    saved["layer_types"] = [names[ratio] for ratio in config["compress_ratios"][: config["num_hidden_layers"]]]
    saved["quantization_config"] = {**config["quantization_config"], "expert_dtype": "fp4"}
    assert read(saved) == read(config)


@pytest.mark.parametrize(
    "towers",
    [
        {"model_type": "llava", "mm_vision_tower": "openai/clip-vit-large-patch14-336"},
        {"model_type": "some_vlm", "vision_encoder_config": {"model_type": "vit"}, "text_config": LLAMA_8B_CONFIG},
        {"model_type": "minicpmo", "audio_config": {"d_model": 1280}, "text_config": LLAMA_8B_CONFIG},
    ],
)
def test_towers_that_are_not_counted_are_named(towers: dict[str, Any]) -> None:
    model = read({**LLAMA_8B_CONFIG, **towers})
    assert model.total_params == read(LLAMA_8B_CONFIG).total_params
    assert any("not counted, only the language model" in note for note in model.assumed)


def test_an_omni_model_is_counted_with_its_towers_for_images_and_speech() -> None:
    # Qwen2.5-Omni-7B: the text of Qwen2.5-7B, the tower of Qwen2.5-VL-7B, and an instantiated encoder of speech
    text, tower = ENTRIES["Qwen/Qwen2.5-7B-Instruct"]["config"], ENTRIES["Qwen/Qwen2.5-VL-7B-Instruct"]["config"]
    audio = {"d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120, "output_dim": 3584}
    thinker = {"text_config": text, "vision_config": tower["vision_config"], "audio_config": audio}
    vision = read(tower).total_params - read({k: v for k, v in tower.items() if k != "vision_config"}).total_params
    speech = 639_647_232
    omni = read({"model_type": "qwen2_5_omni", "thinker_config": thinker})
    assert omni.total_params == pytest.approx(read(text).total_params + vision + speech, rel=1e-4)


# Sizes as the library saves them, and the parameters of the instantiated classes (transformers 5.23).
QWEN3_OMNI = {
    "model_type": "qwen3_omni_moe",
    "talker_config": {"model_type": "qwen3_omni_moe_talker"},
    "thinker_config": {
        "text_config": {
            "model_type": "qwen3_omni_moe_text",
            "hidden_size": 2048,
            "intermediate_size": 768,
            "head_dim": 64,
            "num_hidden_layers": 8,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 3584,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
            "decoder_sparse_step": 1,
        },
        "vision_config": {
            "hidden_size": 1152,
            "depth": 27,
            "intermediate_size": 4304,
            "num_heads": 16,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 2048,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [8, 16, 24],
        },
        "audio_config": {
            "d_model": 1280,
            "encoder_layers": 32,
            "encoder_ffn_dim": 5120,
            "num_mel_bins": 128,
            "downsample_hidden_size": 480,
            "output_dim": 2048,
        },
    },
}
ERNIE_TEXT = {
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "num_hidden_layers": 28,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "vocab_size": 103424,
    "tie_word_embeddings": True,
    "use_bias": False,
    "moe_k": 6,
    "moe_intermediate_size": [1536, 512],
    "moe_num_shared_experts": 2,
}
ERNIE_TOWER = {"depth": 32, "hidden_size": 1280, "num_heads": 16, "patch_size": 14, "spatial_merge_size": 2}
VOXTRAL_REALTIME = {
    "model_type": "voxtral_realtime",
    "text_config": {
        "model_type": "voxtral_realtime_text",
        "hidden_size": 3072,
        "intermediate_size": 9216,
        "head_dim": 128,
        "num_hidden_layers": 26,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 131072,
        "tie_word_embeddings": True,
    },
    "audio_config": {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "head_dim": 64},
}


def of_tower(config: dict[str, Any]) -> int:
    """Parameters of the towers alone."""
    model = read(config)
    return sum(t.params for t in model.tensors if t.part is Part.ENCODER_TOWER)


@pytest.mark.parametrize(
    ("config", "towers"),
    [
        (QWEN3_OMNI, 1_186_558_576),
        (VOXTRAL_REALTIME, 995_561_216),
    ],
)
def test_towers_of_omni_and_realtime_models_are_counted(config: dict[str, Any], towers: int) -> None:
    assert of_tower(config) == towers


def test_parts_that_speak_are_named_as_not_counted() -> None:
    assert any("parts that speak are not counted" in note for note in read(QWEN3_OMNI).assumed)
    assert read(VOXTRAL_REALTIME).total_params == 4_429_679_360 and not read(VOXTRAL_REALTIME).assumed


@pytest.mark.parametrize(
    "config",
    [
        {
            "model_type": "ernie4_5_vl_moe",
            "text_config": {**ERNIE_TEXT, "model_type": "ernie4_5_vl_moe_text", "moe_num_experts": 64},
            "vision_config": ERNIE_TOWER,
        },
        {
            "model_type": "ernie4_5_moe_vl",
            **ERNIE_TEXT,
            "moe_num_experts": [64, 64],
            "moe_layer_start_index": [1, 1],
            "moe_layer_end_index": [29, 28],
            "vision_config": {
                **ERNIE_TOWER,
                "embed_dim": 1280,
                "mlp_ratio": 4,
                "model_type": "DFNRope_vision_transformer",
            },
        },
    ],
)
def test_ernie_vl_has_experts_that_only_images_reach(config: dict[str, Any]) -> None:
    model = read(config)
    assert model.total_params == 29_399_294_336
    assert model.matmul_params == pytest.approx(3.35e9, rel=1e-2)  # of a text token


def test_a_file_without_a_type_has_that_of_the_class_it_names() -> None:
    for name in ("Qwen/Qwen3-30B-A3B", "databricks/dbrx-instruct", "deepseek-ai/DeepSeek-V3"):
        config = {key: value for key, value in ENTRIES[name]["config"].items() if key != "model_type"}
        assert read(config).total_params == counted(name).total_params


def test_layers_have_their_own_query_heads_and_one_gate_per_head() -> None:
    model = read(LAGUNA)
    queries = {(t.outputs, len(t.layers)) for t in model.tensors if t.role == "q_proj"}
    gates = {(t.outputs, len(t.layers)) for t in model.tensors if t.role == "g_proj"}
    assert queries == {(48 * 128, 2), (72 * 128, 6)}
    assert gates == {(48, 2), (72, 6)}
    assert {(g.layers, g.window_tokens) for g in model.attention} == {(2, None), (6, 512.0)}


def test_a_gate_is_only_there_if_the_file_says_so() -> None:
    ungated = read({**LAGUNA, "gating": None})
    assert not [t for t in ungated.tensors if t.role == "g_proj"]
    assert read(LAGUNA).total_params - ungated.total_params == 3072 * (2 * 48 + 6 * 72)


def test_windowed_layers_of_step_have_their_own_heads() -> None:
    step = {**LAGUNA, "model_type": "step3p5", "attention_other_setting": {"num_attention_heads": 96}}
    del step["num_attention_heads_per_layer"]
    queries = {(t.outputs, len(t.layers)) for t in read(step).tensors if t.role == "q_proj"}
    assert queries == {(48 * 128, 2), (96 * 128, 6)}


def test_last_layers_of_gemma_3n_reuse_earlier_caches() -> None:
    model = counted("google/gemma-3n-E4B-it")
    caching = sum(g.layers for g in model.attention if g.kv_elements)
    assert caching == 35 - 15
    # keys and values of 2 heads of 256, of 20 layers; every fifth of 35 layers sees the whole context
    assert model.kv_cache_bytes_per_token() == 20 * 2 * 2 * 256 * 2
    # the published total has the matrices that the last layers do not use
    assert model.total_params + 15 * 2 * 2048 * 512 == pytest.approx(6.87e9, rel=0.002)


def test_inkling_has_dense_layers_first_and_windows_with_their_own_heads() -> None:
    inkling = {
        "model_type": "inkling_text",
        "hidden_size": 1024,
        "num_hidden_layers": 12,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "swa_num_key_value_heads": 4,
        "head_dim": 64,
        "d_rel": 16,
        "sliding_window_size": 512,
        "dense_mlp_idx": 2,
        "dense_intermediate_size": 4096,
        "intermediate_size": 512,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 1000,
    }
    model = read(inkling)
    sizes = {(t.role, t.outputs, len(t.layers)) for t in model.tensors}
    assert {(g.layers, g.window_tokens, g.kv_heads) for g in model.attention} == {(2, None, 2), (10, 512.0, 4)}
    assert {("gate_proj", 4096, 2), ("experts.gate_proj", 512, 10)} <= sizes
    assert sum(layers for role, outputs, layers in sizes if (role, outputs) == ("g_proj", 16 * 16)) == 12
    listed = read({**inkling, "local_layer_ids": [0, 1, 2], "dense_mlp_idx": 0})
    assert {(g.layers, g.window_tokens) for g in listed.attention} == {(9, None), (3, 512.0)}


def test_ling_attends_once_per_group_and_behind_the_last_whole_group() -> None:
    config = {**ENTRIES["inclusionAI/Ling-2.5-1T"]["config"], "num_hidden_layers": 10, "layer_group_size": 4}
    assert [g.layers for g in read(config).attention] == [4]  # layers 4, 8, 9 and 10


def test_an_uncounted_tower_is_stated_and_an_unknown_type_refused() -> None:
    text = {k: v for k, v in LAGUNA.items() if k != "model_type"}
    wrapped = {"model_type": "step3p7", "text_config": text, "vision_config": {"hidden_size": 64}}
    model = read(wrapped)
    assert any("towers" in note for note in model.assumed)
    with pytest.raises(UnreadableConfiguration, match="'weird-9'"):
        read({**LAGUNA, "model_type": "weird-9"})
