"""Derives a model's shape from its configuration on the model hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.errors import Unanswerable
from calibration.tracing.setups import Shape

# Model families by the parts of their layers; other families are not traced.
PARALLEL = ("phi", "gpt_neox", "falcon", "cohere", "gptj")
PLAIN_MLP = (
    "phi",
    "gpt_neox",
    "falcon",
    "gptj",
    "gpt2",
    "opt",
    "mpt",
    "bloom",
    "starcoder2",
    "gpt_bigcode",
    "nemotron",
)
LAYER_NORM = (*PLAIN_MLP, "cohere", "stablelm", "olmo")
ALL_BIASES = ("phi", "gpt_neox", "gpt2", "opt", "bloom", "starcoder2", "gpt_bigcode")
QKV_BIASES = ("qwen", "qwen2", "qwen2_moe")
QK_NORMS = ("qwen3", "qwen3_moe")
RELUS = ("opt",)
WRITTEN_OUT_GELUS = ("gpt2", "phi", "gptj")  # gelu_new of Transformers
BIASED_NORMS = (*ALL_BIASES, "falcon", "gptj", "stablelm", "nemotron")
SANDWICHES = ("gemma2", "gemma3_text")
NOT_ROTARY = ("gpt2", "opt", "mpt", "bloom", "gpt_bigcode")
DECODERS = (
    *("llama", "mistral", "mixtral", "qwen", "qwen2", "qwen3", "qwen3_moe", "qwen2_moe", "gemma", "gemma2", "granite"),
    *("phi", "phi3", "gpt_neox", "falcon", "gpt2", "opt", "mpt", "stablelm", "deepseek_v2", "deepseek_v3", "cohere"),
    *("starcoder2", "internlm2", "olmo", "exaone", "yi"),
)


def first_of(config: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """The value of the first of these keys that the configuration sets."""
    return next((config[name] for name in names if config.get(name) is not None), default)


def shape_of(config: Mapping[str, Any], name: str = "") -> Shape:
    """The shape that a configuration describes.

    Check: Llama-3.1-8B.
        >>> config = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256}
        >>> config |= {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
        >>> shape_of(config).head_dim, shape_of(config).kv_heads, shape_of(config).gated
        (128, 8, True)
    """
    family = str(config.get("model_type", ""))
    if family not in DECODERS:
        raise Unanswerable(
            f"Model type {family!r} is not traced. Only decoders with attention in every layer can be traced.",
            model_type=family,
        )
    hidden = int(first_of(config, "hidden_size", "n_embd", "d_model"))
    heads = int(first_of(config, "num_attention_heads", "n_head", "n_heads"))
    one_key = config.get("multi_query") and not config.get("new_decoder_architecture")
    kv_heads = 1 if one_key else int(first_of(config, "num_key_value_heads", "num_kv_heads", default=heads))
    width = int(first_of(config, "intermediate_size", "ffn_hidden_size", "n_inner", default=4 * hidden))
    shape = Shape(
        name=name or family,
        layers=int(first_of(config, "num_hidden_layers", "n_layer", "n_layers")),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=int(first_of(config, "head_dim", default=hidden // heads)),
        mlp_width=width // 2 if family == "qwen" else width,
        vocab=int(config["vocab_size"]),
        gated=family not in PLAIN_MLP,
        relu=family in RELUS,
        gelu_written_out=family in WRITTEN_OUT_GELUS,
        layer_norm=family in LAYER_NORM,
        norm_bias=family in BIASED_NORMS,
        parallel=family in PARALLEL,
        parallel_norms=2 if family == "gpt_neox" or config.get("new_decoder_architecture") else 1,
        qk_norm=family in QK_NORMS,
        tied=bool(config.get("tie_word_embeddings", False)),
        bias=family in ALL_BIASES,
        qkv_bias=family in QKV_BIASES or bool(config.get("attention_bias") and family not in ALL_BIASES),
        positions=int(first_of(config, "n_positions", "max_position_embeddings", default=0))
        if family in ("gpt2", "opt", "gpt_bigcode")
        else 0,
        rotary=family not in NOT_ROTARY,
        sandwich_norms=family in SANDWICHES,
        head_bias=family == "phi",
        no_norm_weights=family == "olmo",
    )
    return with_latent_attention(with_experts(shape, config), config)


def with_experts(shape: Shape, config: Mapping[str, Any]) -> Shape:
    """The shape with its routed experts, if it has any."""
    experts = int(first_of(config, "num_local_experts", "num_experts", "n_routed_experts", default=0))
    if experts <= 1:
        return shape
    width = int(first_of(config, "moe_intermediate_size", default=shape.mlp_width))
    shared = int(first_of(config, "shared_expert_intermediate_size", default=0))
    return replace(
        shape,
        experts=experts,
        experts_per_token=int(config["num_experts_per_tok"]),
        expert_width=width,
        shared_width=shared or width * int(first_of(config, "n_shared_experts", default=0)),
        dense_layers=min(shape.layers, int(first_of(config, "first_k_dense_replace", default=0))),
    )


def with_latent_attention(shape: Shape, config: Mapping[str, Any]) -> Shape:
    """The shape with latent attention (MLA), if it has it."""
    if not config.get("kv_lora_rank"):
        return shape
    return replace(
        shape,
        head_dim=int(config["qk_nope_head_dim"]),
        kv_heads=shape.heads,
        q_latent=int(config.get("q_lora_rank") or 0),
        kv_latent=int(config["kv_lora_rank"]),
        rope_dim=int(config["qk_rope_head_dim"]),
        value_dim=int(config["v_head_dim"]),
    )
