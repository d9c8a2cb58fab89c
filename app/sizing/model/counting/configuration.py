"""Reads a `config.json`: spellings of each key, keys of nested parts, and values of the wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.counting.defaults import DEFAULTS

Config = Mapping[str, Any]

# Spellings of each key; the first one present in the file applies.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "kv_n_heads", "multi_query_group_num"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "intermediate_size": (
        "intermediate_size",
        "ffn_hidden_size",
        "ffn_dim",
        "n_inner",
        "d_ff",
        "ff_intermediate_size",
        "hidden_dim",
    ),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "experts_per_token": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_topk",
        "moe_k",
        "top_k_experts",
        "moe_top_k",
    ),
    "num_shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"),
    "sliding_window_pattern": ("sliding_window_pattern", "_sliding_window_pattern"),
    "mtp_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers"),
}

# Nested parts in which a file stores the keys of its text model; dots separate the steps of a path.
_TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config.text_config", "decoder_config")
_OUTER_KEYS = ("tie_word_embeddings", "quantization_config", "architectures")


# Keys that state a number of layers, which may be at most MAX_LAYERS.
_DEPTH_KEYS = (
    "num_hidden_layers",
    "encoder_layers",
    "decoder_layers",
    "num_layers",
    "num_decoder_layers",
    "num_single_layers",
    "num_global_layers",
    "depth",
    "mtp_layers",
)
MAX_LAYERS = 4096


class Reader:
    """Typed access to one configuration. Errors name the missing or malformed key.

    In a nested part (`nested`), absent keys mean the library's defaults of that model type, because files are saved
    without them. `defaults_used` records the defaults that were taken. At the top level, a missing shape key is an
    error.
    """

    def __init__(self, config: Config, model_type: str = "", *, nested: bool = False) -> None:
        self.config, self.model_type, self.nested = config, model_type, nested
        self.defaults_used: dict[str, Any] = {}

    def find_value(self, name: str) -> Any:
        for key in SYNONYMS.get(name, (name,)):
            if self.config.get(key) is not None:
                return self.config[key]
        default = DEFAULTS.get(self.model_type, {}).get(name) if self.nested else None
        if default is not None:
            self.defaults_used[name] = default
        return default

    @property
    def architecture_class(self) -> str:
        """The model class that the file names; the output head depends on it."""
        named = self.config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else ""

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number. A list of equal values counts as that value.

        Raises UnreadableConfiguration for anything else and names the accepted spellings.
        """
        value = self.find_value(name)
        if value is None and default is not None:
            return default
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        most = MAX_LAYERS if name in _DEPTH_KEYS else 10**9 - 1
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            missing = value is None
            raise UnreadableConfiguration(
                f"The configuration {'lacks' if missing else 'has an invalid value for'} "
                f"{' or '.join(map(repr, SYNONYMS.get(name, (name,))))}. A model of type "
                f"{self.model_type or 'unknown'!r} needs a whole number from 0 to {most}.",
                key=name,
            )
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self.integer(name, default)
        if value < 1:
            raise UnreadableConfiguration(f"The configuration sets {name!r} to 0. It must be at least 1.", key=name)
        return value

    def size_list(self, name: str, *, most: int, default: tuple[int, ...] | None = None) -> list[int]:
        """A list of whole numbers, each at least 1."""
        value = self.find_value(name)
        if value is None and default is not None:
            return list(default)
        if not isinstance(value, list) or not value or not all(type(v) is int and 1 <= v <= most for v in value):
            raise UnreadableConfiguration(f"{name!r} must be a list of whole numbers from 1 to {most}.", key=name)
        return value

    def number(self, name: str, default: float) -> float:
        value = self.find_value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise UnreadableConfiguration(
                f"The configuration has an invalid value for {name!r}. It must be a number from 0 to below 1e9.",
                key=name,
            )
        return float(value)

    def flag(self, setting: bool | str, default: bool = False) -> bool:
        """A switch: a fixed value, or the value of a key. A key that ends in "!" is on unless the file turns it off."""
        if not isinstance(setting, str):
            return setting
        value = self.find_value(setting.rstrip("!"))
        return default or setting.endswith("!") if value is None else bool(value)

    def layer_list(self, name: str, layers: int) -> list[Any] | None:
        """A list with one entry per layer, or None. Longer lists are cut, because some files append extra layers."""
        value = self.find_value(name)
        if not isinstance(value, list) or not value:
            return None
        if len(value) < layers:
            raise UnreadableConfiguration(
                f"{name!r} has {len(value)} entries for {layers} layers. It needs one entry per layer.", key=name
            )
        return value[:layers]

    def nested_part(self, name: str, model_type: str = "") -> Reader:
        """The reader of a nested part; it is empty if the file has none."""
        inner = self.config.get(name)
        inner = inner if isinstance(inner, Mapping) else {}
        kind = inner.get("model_type")
        return Reader(inner, kind if isinstance(kind, str) else model_type, nested=True)


def find_text_part(config: Config) -> tuple[Config, bool]:
    """The keys of the text model, and whether they come from a nested part of the file."""
    for path in _TEXT_KEYS:
        inner: Any = config
        for step in path.split("."):
            inner = inner.get(step) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping):
            outer = {
                k: config[k] for k in _OUTER_KEYS if k in config and (k not in inner or k == "tie_word_embeddings")
            }
            return {**inner, **outer}, True
    if config.get("model_type") in ("dbrx", "mpt"):
        flat = dict(config)
        for key in ("ffn_config", "attn_config"):
            inner = config.get(key)
            if isinstance(inner, Mapping):
                flat = {**{k: v for k, v in inner.items() if k != "model_type"}, **flat}
        return flat, False
    return config, False
