"""Files as they are published: nested, original, spoiled; read, or refused with a reason."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.schemas.inspect import inspection_json
from app.errors import UnreadableConfiguration
from app.sizing.model.counting.read import known_types, read_architecture
from app.sizing.model.counts import example_contexts
from tests.examples import LLAMA_8B_CONFIG
from tests.sizing.model.counting.bases import ENTRIES


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


def test_keys_absent_from_a_nested_part_take_library_defaults_and_are_reported() -> None:
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
    llava = {  # as llava-hf/llava-1.5-7b-hf is saved: the text part lists only differences from Llama 7B
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
    shown = inspection_json(model, contexts=example_contexts(model), rank=16, targets="all-linear", image=(1024, 1024))
    assert orjson.loads(orjson.dumps(shown))["parameters"] == sum(model.parts.values())
    assert 0 < model.active_params <= model.total_params
