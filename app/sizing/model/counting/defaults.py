"""What an absent key means in a nested part of a configuration: the defaults of the transformers library (5.23).

Files are saved without the values that equal the class defaults of a nested part, so they have to
be known to count such a file. Shape keys only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# fmt: off
_OWN: Mapping[str, Mapping[str, Any]] = {
    "llama": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
        "max_position_embeddings": 2048, "tie_word_embeddings": False,
    },
    "mistral": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 32000, "max_position_embeddings": 131072, "tie_word_embeddings": False,
    },
    "ministral3": {
        "hidden_size": 4096, "num_hidden_layers": 34, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 14336, "vocab_size": 131072, "max_position_embeddings": 262144, "tie_word_embeddings": False,
    },
    "mixtral": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 32000, "max_position_embeddings": 131072, "tie_word_embeddings": False, "experts_per_token": 2, "num_experts": 8,
    },
    "qwen2": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 22016,
        "vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": False,
    },
    "qwen3": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
        "intermediate_size": 22016, "vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": False,
    },
    "qwen3_moe": {
        "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144,
        "vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": False, "experts_per_token": 8,
        "moe_intermediate_size": 768, "num_experts": 128,
    },
    "gemma": {
        "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
        "intermediate_size": 24576, "vocab_size": 256000, "max_position_embeddings": 8192, "tie_word_embeddings": True,
    },
    "gemma2": {
        "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "intermediate_size": 9216, "vocab_size": 256000, "max_position_embeddings": 8192, "tie_word_embeddings": True,
        "sliding_window": 4096,
    },
    "gemma3_text": {
        "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "intermediate_size": 9216, "vocab_size": 262208, "max_position_embeddings": 131072, "tie_word_embeddings": True,
        "sliding_window": 4096,
    },
    "gemma4_text": {
        "hidden_size": 2304, "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "intermediate_size": 9216, "vocab_size": 262144, "max_position_embeddings": 131072, "tie_word_embeddings": True,
        "sliding_window": 512,
    },
    "phi3": {
        "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 8192, "vocab_size": 32064,
        "max_position_embeddings": 4096, "tie_word_embeddings": False,
    },
    "internlm3": {
        "hidden_size": 4096, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
        "intermediate_size": 10240, "vocab_size": 128512, "max_position_embeddings": 32768, "tie_word_embeddings": False,
    },
    "llama4_text": {
        "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 8192, "vocab_size": 202048, "max_position_embeddings": 131072, "tie_word_embeddings": False,
        "experts_per_token": 1, "num_experts": 16,
    },
    "mllama_text_model": {
        "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": False,
    },
    "qwen2_vl_text": {
        "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 29568,
        "vocab_size": 152064, "max_position_embeddings": 32768,
    },
    "qwen2_5_vl_text": {
        "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 29568,
        "vocab_size": 152064, "max_position_embeddings": 32768,
    },
    "qwen3_vl_text": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
        "intermediate_size": 22016, "vocab_size": 151936, "max_position_embeddings": 128000,
    },
    "qwen3_vl_moe_text": {
        "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 128,
        "intermediate_size": 5632, "vocab_size": 151936, "max_position_embeddings": 128000, "tie_word_embeddings": True,
        "experts_per_token": 4, "moe_intermediate_size": 1408, "num_experts": 60,
    },
    "qwen3_5_text": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
        "intermediate_size": 12288, "vocab_size": 248320, "max_position_embeddings": 32768, "tie_word_embeddings": False,
    },
    "qwen3_5_moe_text": {
        "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
        "vocab_size": 248320, "max_position_embeddings": 32768, "tie_word_embeddings": False, "num_experts": 256, "experts_per_token": 8,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    },
    "deepseek_v3": {
        "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 64,
        "intermediate_size": 18432, "vocab_size": 129280, "max_position_embeddings": 4096, "tie_word_embeddings": False,
        "experts_per_token": 8, "moe_intermediate_size": 2048,
    },
    "mistral4": {
        "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
        "intermediate_size": 12288, "vocab_size": 131072, "max_position_embeddings": 1048576, "tie_word_embeddings": False,
        "experts_per_token": 4, "moe_intermediate_size": 2048,
    },
    "glm4": {
        "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
        "intermediate_size": 13696, "vocab_size": 151552, "max_position_embeddings": 131072, "tie_word_embeddings": False,
        "attention_bias": True,
    },
    "granite": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
        "max_position_embeddings": 2048, "tie_word_embeddings": False,
    },
    "cohere2": {
        "hidden_size": 8192, "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 128,
        "intermediate_size": 22528, "vocab_size": 256000, "max_position_embeddings": 8192, "tie_word_embeddings": True,
        "sliding_window": 4096,
    },
    "smollm3": {
        "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 11008,
        "vocab_size": 128256, "max_position_embeddings": 32768, "tie_word_embeddings": True,
    },
    "muse_glimmer_text": {
        "hidden_size": 6656, "num_hidden_layers": 52, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
        "intermediate_size": 19968, "vocab_size": 202048, "max_position_embeddings": 131072, "tie_word_embeddings": False,
        "sliding_window": 2048,
    },
    "clip_text_model": {
        "hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8, "intermediate_size": 2048, "vocab_size": 49408,
        "max_position_embeddings": 77,
    },
    "siglip_text_model": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 32000,
        "max_position_embeddings": 64,
    },
    "clip_vision_model": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "image_size": 224,
        "patch_size": 32, "projection_dim": 512,
    },
    "siglip_vision_model": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "image_size": 224,
        "patch_size": 16, "vision_use_head": True,
    },
    "siglip2_vision_model": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "patch_size": 16,
        "vision_use_head": True,
    },
    "pixtral": {
        "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "head_dim": 64, "intermediate_size": 4096,
        "image_size": 1024, "patch_size": 16,
    },
    "llama4_vision_model": {
        "hidden_size": 768, "num_hidden_layers": 34, "num_attention_heads": 16, "intermediate_size": 5632, "image_size": 448,
        "patch_size": 14, "vision_output_dim": 7680,
    },
    "mllama_vision_model": {
        "hidden_size": 1280, "num_hidden_layers": 32, "intermediate_size": 5120, "image_size": 448, "patch_size": 14,
        "vision_output_dim": 7680, "num_attention_heads": 16,
    },
    "qwen2_vl_vision": {
        "hidden_size": 3584, "patch_size": 14, "embed_dim": 1280, "num_attention_heads": 16, "mlp_ratio": 4, "temporal_patch_size": 2,
        "spatial_merge_size": 2, "num_hidden_layers": 32,
    },
    "qwen2_5_vl_vision": {
        "hidden_size": 3584, "intermediate_size": 3420, "patch_size": 14, "num_attention_heads": 16, "temporal_patch_size": 2,
        "spatial_merge_size": 2, "out_hidden_size": 3584, "num_hidden_layers": 32,
    },
    "qwen3_vl_vision": {
        "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16, "num_attention_heads": 16, "temporal_patch_size": 2,
        "spatial_merge_size": 2, "num_position_embeddings": 2304, "out_hidden_size": 3584, "num_hidden_layers": 27,
    },
    "internvl_vision": {
        "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "image_size": 448,
        "patch_size": 14,
    },
    "idefics3_vision": {
        "hidden_size": 1152, "num_hidden_layers": 12, "num_attention_heads": 16, "intermediate_size": 3072, "image_size": 224,
        "patch_size": 32,
    },
    "gemma4_vision": {
        "hidden_size": 768, "num_hidden_layers": 16, "num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 64,
        "intermediate_size": 3072, "patch_size": 16, "max_position_embeddings": 131072,
    },
    "muse_glimmer_vision": {
        "hidden_size": 1536, "num_hidden_layers": 50, "num_attention_heads": 16, "intermediate_size": 8960, "patch_size": 14,
    },
}
# fmt: on

# Vision parts that go by the type of the whole.
_SAME = {
    "qwen3_vl_moe": "qwen3_vl_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "qwen3_5": "qwen3_vl_vision",
    "qwen3_5_moe": "qwen3_vl_vision",
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "idefics3": "idefics3_vision",
    "smolvlm_vision": "idefics3_vision",
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {**_OWN, **{name: _OWN[other] for name, other in _SAME.items()}}
