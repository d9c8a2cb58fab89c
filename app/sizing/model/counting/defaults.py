"""Defaults of the transformers library (5.23) for keys that are absent from a nested part of a configuration.

The library saves files without the values that equal the class defaults of a nested part. Counting such a file
therefore requires the defaults. The tables list shape keys only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Short names in the table below and the keys that they mean; all other keys are written in full.
_SHORT_NAMES = {
    "kv_heads": "num_key_value_heads",
    "mlp": "intermediate_size",
    "vocab": "vocab_size",
    "context": "max_position_embeddings",
    "tied": "tie_word_embeddings",
    "experts": "num_experts",
    "expert_mlp": "moe_intermediate_size",
    "window": "sliding_window",
}


def _shape_defaults(hidden_size: int, layers: int, heads: int, **others: Any) -> Mapping[str, Any]:
    first = {"hidden_size": hidden_size, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {**first, **{_SHORT_NAMES.get(name, name): value for name, value in others.items()}}


_TYPE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _shape_defaults(4096, 32, 32, mlp=11008, vocab=32000, context=2048, tied=False),
    "mistral": _shape_defaults(4096, 32, 32, kv_heads=8, mlp=14336, vocab=32000, context=131072, tied=False),
    "ministral3": _shape_defaults(
        4096, 34, 32, kv_heads=8, head_dim=128, mlp=14336, vocab=131072, context=262144, tied=False
    ),
    "mixtral": _shape_defaults(
        4096, 32, 32, kv_heads=8, mlp=14336, vocab=32000, context=131072, tied=False, experts_per_token=2, experts=8
    ),
    "qwen2": _shape_defaults(4096, 32, 32, kv_heads=32, mlp=22016, vocab=151936, context=32768, tied=False),
    "qwen3": _shape_defaults(
        4096, 32, 32, kv_heads=32, head_dim=128, mlp=22016, vocab=151936, context=32768, tied=False
    ),
    "qwen3_moe": _shape_defaults(
        2048,
        24,
        32,
        kv_heads=4,
        mlp=6144,
        vocab=151936,
        context=32768,
        tied=False,
        experts_per_token=8,
        experts=128,
        expert_mlp=768,
    ),
    "gemma": _shape_defaults(3072, 28, 16, kv_heads=16, head_dim=256, mlp=24576, vocab=256000, context=8192, tied=True),
    "gemma2": _shape_defaults(
        2304, 26, 8, kv_heads=4, head_dim=256, mlp=9216, vocab=256000, context=8192, tied=True, window=4096
    ),
    "gemma3_text": _shape_defaults(
        2304, 26, 8, kv_heads=4, head_dim=256, mlp=9216, vocab=262208, context=131072, tied=True, window=4096
    ),
    "gemma4_text": _shape_defaults(
        2304, 30, 8, kv_heads=4, head_dim=256, mlp=9216, vocab=262144, context=131072, tied=True, window=512
    ),
    "phi3": _shape_defaults(3072, 32, 32, mlp=8192, vocab=32064, context=4096, tied=False),
    "internlm3": _shape_defaults(
        4096, 48, 32, kv_heads=2, head_dim=128, mlp=10240, vocab=128512, context=32768, tied=False
    ),
    "llama4_text": _shape_defaults(
        5120,
        48,
        40,
        kv_heads=8,
        head_dim=128,
        mlp=8192,
        vocab=202048,
        context=131072,
        tied=False,
        experts_per_token=1,
        experts=16,
    ),
    "mllama_text_model": _shape_defaults(4096, 40, 32, kv_heads=8, mlp=14336, vocab=128256, context=131072, tied=False),
    "qwen2_vl_text": _shape_defaults(8192, 80, 64, kv_heads=8, mlp=29568, vocab=152064, context=32768),
    "qwen2_5_vl_text": _shape_defaults(8192, 80, 64, kv_heads=8, mlp=29568, vocab=152064, context=32768),
    "qwen3_vl_text": _shape_defaults(4096, 32, 32, kv_heads=32, head_dim=128, mlp=22016, vocab=151936, context=128000),
    "qwen3_vl_moe_text": _shape_defaults(
        2048,
        24,
        16,
        kv_heads=16,
        head_dim=128,
        mlp=5632,
        vocab=151936,
        context=128000,
        tied=True,
        experts_per_token=4,
        experts=60,
        expert_mlp=1408,
    ),
    "qwen3_5_text": _shape_defaults(
        4096, 32, 16, kv_heads=4, head_dim=256, mlp=12288, vocab=248320, context=32768, tied=False
    ),
    "qwen3_5_moe_text": _shape_defaults(
        2048,
        40,
        16,
        kv_heads=2,
        head_dim=256,
        vocab=248320,
        context=32768,
        tied=False,
        experts_per_token=8,
        experts=256,
        expert_mlp=512,
        shared_expert_intermediate_size=512,
    ),
    "deepseek_v3": _shape_defaults(
        7168,
        61,
        128,
        kv_heads=128,
        head_dim=64,
        mlp=18432,
        vocab=129280,
        context=4096,
        tied=False,
        experts_per_token=8,
        expert_mlp=2048,
    ),
    "mistral4": _shape_defaults(
        4096,
        36,
        32,
        kv_heads=32,
        head_dim=128,
        mlp=12288,
        vocab=131072,
        context=1048576,
        tied=False,
        experts_per_token=4,
        expert_mlp=2048,
    ),
    "glm4": _shape_defaults(
        4096, 40, 32, kv_heads=2, head_dim=128, mlp=13696, vocab=151552, context=131072, tied=False, attention_bias=True
    ),
    "granite": _shape_defaults(4096, 32, 32, mlp=11008, vocab=32000, context=2048, tied=False),
    "cohere2": _shape_defaults(
        8192, 40, 64, kv_heads=64, head_dim=128, mlp=22528, vocab=256000, context=8192, tied=True, window=4096
    ),
    "smollm3": _shape_defaults(2048, 36, 16, kv_heads=4, mlp=11008, vocab=128256, context=32768, tied=True),
    "muse_glimmer_text": _shape_defaults(
        6656, 52, 32, kv_heads=2, head_dim=128, mlp=19968, vocab=202048, context=131072, tied=False, window=2048
    ),
    "clip_text_model": _shape_defaults(512, 12, 8, mlp=2048, vocab=49408, context=77),
    "siglip_text_model": _shape_defaults(768, 12, 12, mlp=3072, vocab=32000, context=64),
    "clip_vision_model": _shape_defaults(768, 12, 12, mlp=3072, image_size=224, patch_size=32, projection_dim=512),
    "siglip_vision_model": _shape_defaults(768, 12, 12, mlp=3072, image_size=224, patch_size=16, vision_use_head=True),
    "siglip2_vision_model": _shape_defaults(768, 12, 12, mlp=3072, patch_size=16, vision_use_head=True),
    "pixtral": _shape_defaults(1024, 24, 16, head_dim=64, mlp=4096, image_size=1024, patch_size=16),
    "llama4_vision_model": _shape_defaults(
        768, 34, 16, mlp=5632, image_size=448, patch_size=14, vision_output_dim=7680
    ),
    "mllama_vision_model": _shape_defaults(
        1280, 32, 16, mlp=5120, image_size=448, patch_size=14, vision_output_dim=7680
    ),
    "qwen2_vl_vision": _shape_defaults(
        3584, 32, 16, patch_size=14, embed_dim=1280, mlp_ratio=4, temporal_patch_size=2, spatial_merge_size=2
    ),
    "qwen2_5_vl_vision": _shape_defaults(
        3584, 32, 16, mlp=3420, patch_size=14, temporal_patch_size=2, spatial_merge_size=2, out_hidden_size=3584
    ),
    "qwen3_vl_vision": _shape_defaults(
        1152,
        27,
        16,
        mlp=4304,
        patch_size=16,
        temporal_patch_size=2,
        spatial_merge_size=2,
        num_position_embeddings=2304,
        out_hidden_size=3584,
    ),
    "internvl_vision": _shape_defaults(1024, 24, 16, mlp=4096, image_size=448, patch_size=14),
    "idefics3_vision": _shape_defaults(1152, 12, 16, mlp=3072, image_size=224, patch_size=32),
    "gemma4_vision": _shape_defaults(768, 16, 12, kv_heads=12, head_dim=64, mlp=3072, context=131072, patch_size=16),
    "muse_glimmer_vision": _shape_defaults(1536, 50, 16, mlp=8960, patch_size=14),
}

# Vision parts that are named by the type of the wrapping model.
_ALIASES = {
    "qwen3_vl_moe": "qwen3_vl_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "qwen3_5": "qwen3_vl_vision",
    "qwen3_5_moe": "qwen3_vl_vision",
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "idefics3": "idefics3_vision",
    "smolvlm_vision": "idefics3_vision",
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    **_TYPE_DEFAULTS,
    **{name: _TYPE_DEFAULTS[other] for name, other in _ALIASES.items()},
}
