"""What a configuration file does not say: the blocks of each model type, and the spellings of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import UnreadableConfiguration

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """What the configuration file does not say about a model type.

    Flags given as strings are keys to read from the configuration; `norms` counts normalisation
    layers per block and `norm_vectors` the vectors each owns (RMSNorm 1, LayerNorm with bias 2).
    """

    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    gated: bool = True
    norms: int = 2
    norm_vectors: int = 1
    final_norm: bool = True
    qk_norm: str = ""  # "", "head" (2d) or "full" (n*d + m*d)
    tied: bool | None = None  # None: as the file says, untied when silent
    head_bias: bool = False
    positions: str = ""  # key of a learned position table
    extra_positions: int = 0
    embedding_norm: bool = False


_LLAMA = Family(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias")
_GPT = Family(qkv_bias=True, out_bias=True, mlp_bias=True, gated=False, norm_vectors=2)

FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "ministral3": _LLAMA,
    "granite": _LLAMA,
    "smollm3": _LLAMA,
    "baichuan": _LLAMA,
    "exaone": _LLAMA,
    "internlm2": Family(qkv_bias="bias", out_bias="bias"),
    "internlm3": Family(qkv_bias="qkv_bias", out_bias="bias"),
    "qwen2": Family(qkv_bias=True),
    "mimo": Family(qkv_bias=True),
    "qwen3": Family(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head"),
    "exaone4": Family(qk_norm="head"),
    "hunyuan_v1_dense": Family(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head"),
    "gemma": Family(tied=True),
    "gemma2": Family(norms=4, tied=True),
    "gemma3_text": Family(norms=4, qk_norm="head", tied=True),
    "phi": Family(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norms=1,
        norm_vectors=2,
        tied=False,
        head_bias=True,
    ),
    "phi3": Family(),
    "olmo": Family(norms=0, final_norm=False),
    "olmo2": Family(qk_norm="full"),
    "olmo3": Family(qk_norm="full"),
    "cohere": Family(norms=1, tied=True),
    "cohere2": Family(norms=1, tied=True),
    "glm": Family(qkv_bias="attention_bias"),
    "glm4": Family(qkv_bias="attention_bias", norms=4),
    "ernie4_5": Family(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias"),
    "seed_oss": Family(qkv_bias="attention_bias", out_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "starcoder2": Family(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", gated=False, norm_vectors=2),
    "nemotron": Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
        norm_vectors=2,
    ),
    "gpt2": Family(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_vectors=2,
        tied=True,
        positions="n_positions",
    ),
    "gpt_bigcode": Family(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_vectors=2,
        tied=True,
        positions="n_positions",
    ),
    "gpt_neo": Family(
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_vectors=2,
        tied=True,
        positions="max_position_embeddings",
    ),
    "gptj": Family(mlp_bias=True, gated=False, norms=1, norm_vectors=2, tied=False, head_bias=True),
    "gpt_neox": _GPT,
    "bloom": Family(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_vectors=2,
        tied=True,
        embedding_norm=True,
    ),
    "opt": Family(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_vectors=2,
        tied=True,
        positions="max_position_embeddings",
        extra_positions=2,
    ),
    "mpt": Family(gated=False, tied=True),
    "falcon": Family(qkv_bias="bias", out_bias="bias", mlp_bias="bias", gated=False, norm_vectors=2, tied=True),
    "mixtral": Family(),
    "qwen2_moe": Family(qkv_bias=True),
    "qwen3_moe": Family(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head"),
    "olmoe": Family(qk_norm="full"),
    "granitemoe": Family(),
    "minimax_m2": Family(qk_norm="full"),
    "deepseek_v2": Family(),
    "deepseek_v3": Family(),
    "deepseek_v32": Family(),
    "kimi_k2": Family(),
    "glm4_moe": Family(qkv_bias="attention_bias"),
    "gpt_oss": Family(qkv_bias=True, out_bias=True, mlp_bias=True),
    "llama4_text": Family(),
    "phimoe": Family(qkv_bias="attention_bias", out_bias="attention_bias", norm_vectors=2, head_bias=True),
    "dbrx": Family(),
    "jamba": Family(),
    "nemotron_h": Family(gated=False, norms=1),
    "qwen3_next": Family(qk_norm="head"),
}

ENCODER_FAMILIES = ("bert", "roberta", "xlm-roberta")

# One spelling per concept; the first key present wins.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "kv_n_heads", "multi_query_group_num"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "experts_per_token": (
        "num_experts_per_tok",
        "experts_per_token",
        "moe_topk",
        "moe_k",
        "top_k_experts",
        "moe_top_k",
    ),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"),
}

WINDOW_PATTERN = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "olmo3": 4}


class Reader:
    """Typed access to one configuration; a missing or malformed key says so by name."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def find(self, name: str) -> Any:
        for key in SYNONYMS.get(name, (name,)):
            if self.config.get(key) is not None:
                return self.config[key]
        return None

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.find(name)
        if value is None and default is not None:
            return default
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**9:
            missing = value is None
            raise UnreadableConfiguration(
                f"The configuration {'lacks' if missing else 'has an unusable value for'} "
                f"{' or '.join(SYNONYMS.get(name, (name,)))!r}; a whole number from 0 to 999999999 is "
                "needed to count the model.",
                key=name,
            )
        return value

    def flag(self, setting: bool | str) -> bool:
        return bool(self.config.get(setting, False)) if isinstance(setting, str) else setting
