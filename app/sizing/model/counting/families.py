"""Block structure of each decoder's model type, which configuration files do not state.

Source: the model definitions of the transformers library and of repositories that bring their own code. Tests
compare every type with an instantiated model or a registered total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Family:
    """How a model type builds its blocks.

    Flags given as strings are configuration keys. A key that ends in "!" is on unless the file turns it off. `norms`
    counts normalization layers per block, and `norm_vectors` the vectors of each (RMSNorm 1, LayerNorm with bias 2).
    `qk_norm` is "head" (one vector of the head size for q and one for k), "head_with_bias", "full" (the width of all
    heads), or a key that turns such a norm on, followed by a colon: "use_qk_norm:head".
    """

    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    gated: bool = True
    norms: int = 2
    norm_vectors: int = 1
    final_norm: bool = True
    qk_norm: str = ""
    tied: bool = False  # whether the head is tied if the file does not say
    always_tied: bool = False
    head_bias: bool | str = False
    positions: str = ""  # configuration key with the rows of a learned position table
    extra_positions: int = 0
    embedding_norm: bool = False
    fused_qkv: bool = False
    fused_gate_up: bool = False
    window_every: int = 0  # every n-th layer is full and the others windowed; 1: every layer is windowed
    query_gate: bool = False  # the query projection also emits an output gate
    output_gate: str = ""  # key of a further projection of the heads (a gate), or "element" if there always is one
    sinks: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    head_dim: int = 0  # head size if the file does not say and it differs from hidden_size / heads


_LLAMA = Family(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias")
_GPT = Family(qkv_bias=True, out_bias=True, mlp_bias=True, gated=False, norm_vectors=2)
_QWEN3 = Family(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head")
_QWEN3_5 = replace(_QWEN3, query_gate=True, shared_gate=True, head_dim=256)

FAMILIES: Mapping[str, Family] = {
    # Llama-like: gated MLP, RMSNorm, biases as the file states
    "llama": _LLAMA,
    "mistral": replace(_LLAMA, window_every=1),
    "ministral": replace(_LLAMA, window_every=1),
    "ministral3": replace(_LLAMA, window_every=1),
    "granite": _LLAMA,
    "granite_swa": replace(_LLAMA, tied=True, sinks=True),
    "cwm": replace(_LLAMA, window_every=4),
    "hyperclovax": replace(_LLAMA, norms=4),
    "internlm": Family(qkv_bias="bias", out_bias="bias"),
    "smollm3": replace(_LLAMA, tied=True),
    "minicpm": replace(_LLAMA, tied=True),
    "baichuan": replace(_LLAMA, fused_qkv=True),
    "exaone": _LLAMA,
    "helium": _LLAMA,
    "bitnet": _LLAMA,
    "iquestcoder": _LLAMA,
    "arcee": replace(_LLAMA, gated=False),
    "eurobert": _LLAMA,
    "internlm2": Family(qkv_bias="bias", out_bias="bias", fused_qkv=True),
    "internlm3": Family(qkv_bias="qkv_bias", out_bias="bias"),
    "qwen": Family(qkv_bias=True, fused_qkv=True),
    "qwen2": Family(qkv_bias=True),
    "mimo": Family(qkv_bias=True),
    "qwen2_vl_text": Family(qkv_bias=True),
    "qwen2_5_vl_text": Family(qkv_bias=True),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "exaone4": replace(_QWEN3, qkv_bias=False, out_bias=False, window_every=4),
    "hunyuan_v1_dense": replace(_QWEN3, tied=True),
    "gemma": Family(always_tied=True, head_dim=256),
    "gemma2": Family(norms=4, always_tied=True, head_dim=256, window_every=2),
    "gemma3_text": Family(norms=4, qk_norm="head", always_tied=True, head_dim=256, window_every=6),
    "gemma4_text": Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        norms=4,
        qk_norm="head",
        always_tied=True,
        head_dim=256,
        window_every=6,
    ),
    "gemma3n_text": Family(norms=4, qk_norm="head", always_tied=True, head_dim=256, window_every=5),
    "vaultgemma": Family(always_tied=True, head_dim=256, window_every=2),
    "muse_glimmer_text": Family(norms=4, query_gate=True),
    "muse_spark_text": Family(  # three norms and the gates of two residuals
        qkv_bias="attention_bias", out_bias="attention_bias", norms=5, output_gate="element", window_every=1
    ),
    "phi3": Family(fused_qkv=True, fused_gate_up=True, window_every=1),
    "phi3_v": Family(fused_qkv=True, fused_gate_up=True),
    "phi3small": Family(
        qkv_bias=True, out_bias=True, mlp_bias=True, norm_vectors=2, tied=True, fused_qkv=True, fused_gate_up=True
    ),
    "olmo": Family(qkv_bias="attention_bias", out_bias="attention_bias", norms=0, final_norm=False),
    "olmo2": Family(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="full"),
    "olmo3": Family(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="full", window_every=4),
    "stablelm": Family(qkv_bias="use_qkv_bias", norm_vectors=2, qk_norm="qk_layernorm:full"),
    "cohere": Family(
        norms=1, tied=True, qk_norm="use_qk_norm:full", qkv_bias="attention_bias", out_bias="attention_bias"
    ),
    **dict.fromkeys(
        ("cohere2", "cohere2_moe", "cohere_compass_text"),
        Family(norms=1, tied=True, window_every=4, qkv_bias="attention_bias", out_bias="attention_bias"),
    ),
    "glm": Family(qkv_bias="attention_bias", fused_gate_up=True),
    "glm4": Family(qkv_bias="attention_bias", norms=4, fused_gate_up=True),
    "chatglm": Family(
        qkv_bias="add_qkv_bias",
        out_bias="add_bias_linear",
        mlp_bias="add_bias_linear",
        fused_qkv=True,
        fused_gate_up=True,
    ),
    "ernie4_5": Family(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", tied=True),
    "seed_oss": Family(qkv_bias="attention_bias", out_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "apertus": Family(gated=False, qk_norm="head", qkv_bias="attention_bias", out_bias="attention_bias"),
    "mllama_text_model": Family(),
    "nemotron-nas": _LLAMA,
    "minicpm3": Family(tied=True),
    # Plain MLP, LayerNorm
    "phi": replace(_GPT, norms=1, head_bias=True, qk_norm="qk_layernorm:head_with_bias"),
    "starcoder2": Family(
        qkv_bias="use_bias",
        out_bias="use_bias",
        mlp_bias="use_bias",
        gated=False,
        norm_vectors=2,
        tied=True,
        window_every=1,
    ),
    "nemotron": Family(
        qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias", gated=False, norm_vectors=2
    ),
    "jais2": _GPT,
    "persimmon": replace(_GPT, fused_qkv=True, qk_norm="qk_layernorm:head_with_bias"),
    "xglm": replace(_GPT, tied=True),
    "biogpt": replace(_GPT, tied=True, positions="max_position_embeddings", extra_positions=2),
    "nanochat": Family(gated=False, norms=0, final_norm=False),
    "gpt2": replace(_GPT, tied=True, positions="max_position_embeddings", fused_qkv=True),
    "gpt_bigcode": replace(_GPT, tied=True, positions="max_position_embeddings", fused_qkv=True),
    "gpt_neo": replace(_GPT, qkv_bias=False, tied=True, positions="max_position_embeddings"),
    "gptj": Family(mlp_bias=True, gated=False, norms=1, norm_vectors=2, head_bias=True),
    "codegen": Family(mlp_bias=True, gated=False, norms=1, norm_vectors=2, head_bias=True, fused_qkv=True),
    "gpt_neox": replace(_GPT, qkv_bias="attention_bias!", out_bias="attention_bias!", fused_qkv=True),
    "bloom": replace(_GPT, tied=True, embedding_norm=True, fused_qkv=True),
    "opt": replace(_GPT, tied=True, positions="max_position_embeddings", extra_positions=2),
    "mpt": Family(gated=False, tied=True, fused_qkv=True),
    "falcon": Family(
        qkv_bias="bias", out_bias="bias", mlp_bias="bias", gated=False, norm_vectors=2, tied=True, fused_qkv=True
    ),
    # Mixtures of experts
    "mixtral": Family(window_every=1),
    "qwen2_moe": Family(qkv_bias=True, shared_gate=True),
    "qwen3_moe": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "flint": replace(_QWEN3, sinks=True),
    "olmoe": Family(qk_norm="full"),
    "aria_text": Family(),
    "granitemoe": Family(tied=True),
    "granitemoeshared": Family(tied=True),
    "granitemoe_swa": Family(tied=True, sinks=True),
    "minimax_m2": Family(qk_norm="use_qk_norm:full"),
    "minimax_m3": Family(qk_norm="use_qk_norm:head"),
    "exaone_moe": Family(qk_norm="head"),
    "kolibri1": Family(norms=4, qk_norm="head"),
    "flex_olmo": Family(qk_norm="full"),
    "mellum": _QWEN3,
    "solar_open": Family(qkv_bias="attention_bias", qk_norm="use_qk_norm:head"),
    "youtu": Family(),
    "longcat_flash": Family(),
    "dots1": Family(qk_norm="head", qkv_bias="attention_bias", out_bias="attention_bias"),
    "hunyuan_v1_moe": replace(_QWEN3, tied=True),
    "hy_v3": Family(qk_norm="head"),
    "hy_v4": Family(sinks=True),
    "ernie4_5_moe": Family(
        qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", head_bias="use_bias", tied=True
    ),
    "arctic": Family(norms=3),
    "grok-1": Family(norms=4, tied=True),
    "dbrx": Family(fused_qkv=True),
    "deepseek": Family(),
    "deepseek_v2": Family(),
    "deepseek_v3": Family(),
    "deepseek_v32": Family(),
    "deepseek_v4": Family(),
    "kimi_k2": Family(),
    "kimi_linear": Family(),
    "glm4_moe": Family(qkv_bias="attention_bias", qk_norm="use_qk_norm:head"),
    "glm4_moe_lite": Family(),
    "glm_moe_dsa": Family(),
    "glm5_next_text": Family(),
    "axk2": Family(),
    "dots3_note_text": Family(),
    "mistral4": Family(),
    "gpt_oss": Family(
        qkv_bias="attention_bias!",
        out_bias="attention_bias!",
        mlp_bias=True,
        sinks=True,
        expert_bias=True,
        router_bias=True,
        window_every=-2,
    ),
    "llama4_text": Family(qkv_bias="attention_bias", out_bias="attention_bias"),
    "phimoe": Family(qkv_bias="attention_bias", out_bias="attention_bias", norm_vectors=2, head_bias="lm_head_bias"),
    "mimo_v2_flash": Family(qkv_bias="attention_bias", out_bias=False),
    "inkling_text": Family(qk_norm="head", output_gate="d_rel"),
    "laguna": replace(_QWEN3, output_gate="gating"),
    "step3p5": Family(qk_norm="head", output_gate="use_head_wise_attn_gate"),
    "afmoe": Family(norms=4, qk_norm="head", output_gate="element", window_every=4),
    "bailing_hybrid": Family(qk_norm="head"),
    "bailing_moe": Family(
        qkv_bias="use_qkv_bias", out_bias="use_bias", mlp_bias="use_bias", qk_norm="use_qk_norm:head", fused_qkv=True
    ),
    # Recurrent and hybrid
    "mamba": Family(norms=1, tied=True),
    "falcon_mamba": Family(norms=1),
    "mamba2": Family(norms=1, tied=True),
    "jamba": Family(),
    "nemotron_h": Family(gated=False, norms=1, mlp_bias="mlp_bias"),
    "bamba": Family(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "falcon_h1": Family(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "granitemoehybrid": Family(tied=True, qkv_bias="attention_bias", out_bias="attention_bias"),
    "minimax": Family(),
    "lfm2": Family(qk_norm="head", tied=True),
    "lfm2_moe": Family(qk_norm="head", tied=True),
    "lfm3": Family(norms=4, qk_norm="head", tied=True, output_gate="use_attention_gate"),
    "olmo_hybrid": Family(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="full"),
    "qwen3_next": _QWEN3_5,
    "qwen3_5_text": _QWEN3_5,
    "qwen3_5_moe_text": _QWEN3_5,
}

# Text models inside wrapping models, for files whose text part states no type.
TEXT_OF: Mapping[str, str] = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_text",
    "gemma4_unified_text": "gemma4_text",
    "llama4": "llama4_text",
    "mllama": "mllama_text_model",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "muse_glimmer": "muse_glimmer_text",
    "mistral3": "mistral",
    "molmo2_text": "qwen3",
    "granite_docling_text": "granite_swa",
    "qwen3_asr": "qwen3",
    "apertus1p5": "apertus",
    "apertus1p5_text": "apertus",
    "sarvam_mla": "deepseek_v3",
    "sarvam_moe": "glm4_moe",
    "axk1": "deepseek_v3",
    "unlimited_ocr_text": "deepseek_v2",
    "minimax_m3_vl_text": "minimax_m3",
    "mistral_large4": "mistral4",
    "mistral_large4_text": "mistral4",
    "paddleocr_vl": "ernie4_5",
    "paddleocr_vl_text": "ernie4_5",
    "llava": "llama",
    "llava_next": "llama",
    "llava_onevision": "qwen2",
    "llava_next_video": "llama",
    "vipllava": "llama",
    "video_llava": "llama",
    "aya_vision": "cohere2",
    "cohere2_vision": "cohere2",
    "deepseek_vl": "llama",
    "deepseek_vl_hybrid": "llama",
    "qianfan_ocr": "qwen3",
    "idefics2": "mistral",
    "video_llama_3": "qwen2",
    "molmo2": "qwen3",
    "phi4_multimodal": "phi3",
    "cosmos3_edge": "arcee",
    "cosmos3_edge_text": "arcee",
    "cosmos3_omni": "qwen3_vl_text",
    "minicpmv4_6": "qwen3_5_text",
    "minicpmv4_7": "qwen3_5_text",
    "got_ocr2": "qwen2",
    "shieldgemma2": "gemma3_text",
    "muse_spark": "muse_spark_text",
    "glm5_next": "glm5_next_text",
    "dots3_note": "dots3_note_text",
    "hyperclovax_vision_v2": "hyperclovax",
    "aria": "aria_text",
    "gpt-sw3": "gpt2",
    "internvl": "qwen2",
    "internvl_chat": "qwen2",
    "idefics3": "llama",
    "smolvlm": "llama",
    "paligemma": "gemma",
    "kimi_k25": "kimi_k2",
    "deepseek_ref": "deepseek_v4",
    "minimax_m3_vl": "minimax_m3",
    "inkling_mm_model": "inkling_text",
    "inkling_model": "inkling_text",
    "glm_ocr": "glm4",
    "glm_ocr_text": "glm4",
    "hunyuan_vl": "hunyuan_v1_dense",
    "hunyuan_vl_text": "hunyuan_v1_dense",
    "glmasr": "llama",
    "voxtral": "llama",
    "voxtral_realtime": "mistral",
    "voxtral_realtime_text": "mistral",
    "ernie4_5_vl_moe": "ernie4_5_moe",
    "ernie4_5_vl_moe_text": "ernie4_5_moe",
    "ernie4_5_moe_vl": "ernie4_5_moe",
    "mimo_v2": "mimo_v2_flash",
    "exaone4_5": "exaone4",
    "exaone4_5_text": "exaone4",
    "step3p7": "step3p5",
    "step3p7_flash": "step3p5",
    "bailing_moe_v2": "bailing_moe",
    "bailing_moe_linear": "bailing_hybrid",
    "glm46v": "glm4",
    "glmga": "glm4",
    "glm4v": "glm4",
    "glm4v_moe": "glm4_moe",
    "glm4v_text": "glm4",
    "glm4v_moe_text": "glm4_moe",
    "interns1": "qwen3_moe",
    "qwen3_omni_moe": "qwen3_moe",
    "qwen3_omni_moe_thinker": "qwen3_moe",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen2_5_omni": "qwen2",
    "qwen2_5_omni_thinker": "qwen2",
    "qwen2_5_omni_text": "qwen2",
    "qwen2_audio": "qwen2",
    "lfm2_vl": "lfm2",
    "cohere_compass": "cohere_compass_text",
    "kimi_k3": "kimi_linear",
    "minimax_text_01": "minimax",
    "minimax_m1": "minimax",
    "deepseek_vl_v2": "deepseek_v2",
}

# MiniCPM-V and MiniCPM-o, whose text model depends on the version that the file states; others are Llamas.
MINICPM_TYPES = ("minicpmv", "minicpmo")
MINICPM_V: Mapping[str, str] = {"2.0": "minicpm", "2.6": "qwen2", "4.5": "qwen3"}

# Wrapping models whose towers are not counted: an answer is about the language model and says so.
UNCOUNTED_TOWERS = frozenset(
    {
        *("gemma4_unified", "interns1", "minimax_m3_vl", "step3p7"),
        *("inkling_mm_model", "hunyuan_vl", "aria"),
        *(
            "minicpmo",
            "deepseek_vl_v2",
        ),
    }
)
