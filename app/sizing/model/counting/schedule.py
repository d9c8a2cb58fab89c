"""The mixer and the feed-forward part of each layer, from patterns, periods and lists in the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.counting.configuration import Reader
from app.sizing.model.counting.families import Family


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its mixer ("full", "window", "mamba2", ..., "" for none) and its feed-forward part ("mlp", "moe",
    "both", "").

    `kv_heads`, `width` and `queries` are set only if the layer differs from the rest of the model.
    """

    mixer: str
    feed_forward: str = "mlp"
    kv_heads: int = 0
    width: int = 0
    queries: int = 0


PARALLEL = "parallel"  # attention and Mamba-2 read the same input, and their outputs are added

MIXER_NAMES: Mapping[str, str] = {
    "full_attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "attention": "full",
    "linear_attention": "linear",
    "mamba": "mamba2",
    "conv": "conv",
    "recurrent": "linear",
    "hybrid": "hybrid",
    "compressed_sparse_attention": "csa",
    "heavily_compressed_attention": "hca",
    "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
    "reference_sliding_attention": "window",
}
_NEMOTRON = {"M": Layer("mamba2", ""), "*": Layer("full", ""), "-": Layer("", "mlp"), "E": Layer("", "moe")}
# transformers 5.24 writes kinds of attention.
_NEMOTRON_WORDS = {
    "mamba": "M",
    "attention": "*",
    "mlp": "-",
    "moe": "E",
    "linear_attention": "M",
    "full_attention": "*",
}


def window_tokens(reader: Reader, family: str) -> float | None:
    """Tokens that a windowed layer keeps, or None if it keeps all."""
    key = {"llama4_text": "attention_chunk_size", "gpt_neo": "window_size"}.get(family, "sliding_window")
    window = reader.find_value(key)
    if window is None:
        window = {"llama4_text": 8192, "gpt_neo": 256, "dots3_note_text": 512}.get(family)
    if isinstance(window, bool) or not isinstance(window, int) or window <= 0:
        return None
    if family == "qwen2" and not reader.find_value("use_sliding_window"):
        return None
    return float(window)


def _layer_mixers(reader: Reader, spec: Family, family: str, layers: int, linear: str) -> list[str]:
    """Full, windowed or linear attention of each layer."""
    window = window_tokens(reader, family)
    types = reader.layer_list("layer_types", layers)
    if types is not None:
        unknown = sorted({str(t) for t in types} - MIXER_NAMES.keys())
        if unknown:
            raise UnreadableConfiguration(
                f"'layer_types' has the unknown value {unknown[0][:40]!r}. Known values: "
                f"{', '.join(sorted(MIXER_NAMES))}.",
                key="layer_types",
            )
        names = [MIXER_NAMES[t] for t in types]
        if window is None:
            names = ["full" if n == "window" else n for n in names]
        return [linear if n == "linear" else n for n in names]
    if linear:
        every = reader.size("full_attention_interval", 4)
        return ["full" if (i + 1) % every == 0 else linear for i in range(layers)]
    if window is None:
        return ["full"] * layers
    if family == "llama4_text":
        rope = reader.layer_list("no_rope_layers", layers)
        step = reader.size("no_rope_layer_interval", 4)
        return ["window" if (rope[i] if rope else (i + 1) % step) else "full" for i in range(layers)]
    if family == "dots3_note_text":
        return ["full" if i < 2 or i % 4 == 1 else "window" for i in range(layers)]
    if family == "gpt_neo":
        return ["window" if i % 2 else "full" for i in range(layers)]
    if family == "qwen2":
        first = reader.integer("max_window_layers", 0)
        return ["window" if i >= first else "full" for i in range(layers)]
    pattern = reader.find_value("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return ["window" if pattern[i % len(pattern)] == "L" else "full" for i in range(layers)]
    every = pattern if isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0 else spec.window_every
    if every == 1:
        return ["window"] * layers
    if every < 0:  # each period starts with a windowed layer
        return ["full" if (i + 1) % -every == 0 else "window" for i in range(layers)]
    return ["window" if every and (i + 1) % every else "full" for i in range(layers)]


def _routing_layers(reader: Reader, family: str, layers: int) -> list[bool]:
    if not reader.integer("num_experts", 0) > 1:
        return [False] * layers
    words = reader.layer_list("mlp_layer_types", layers)
    if words is not None:
        return [w == "sparse" for w in words]
    explicit = reader.find_value("moe_layers")
    if isinstance(explicit, list) and explicit:
        return [i in explicit for i in range(layers)]
    listed_text = reader.find_value("moe_layers_enum")
    if isinstance(listed_text, str) and listed_text:
        chosen = {int(i) for i in listed_text.split(",") if i.strip().isdigit()}
        return [i in chosen for i in range(layers)]
    if family == "llama4_text":
        step = reader.size("interleave_moe_layer_step", 1)
        return [(i + 1) % step == 0 for i in range(layers)]
    if family == "ernie4_5_moe":
        first, last = reader.integer("moe_layer_start_index", 1), reader.integer("moe_layer_end_index", layers - 1)
        every = reader.size("moe_layer_interval", 1)
        return [(i + 1) % every == 0 and first <= i <= last for i in range(layers)]
    if family in ("lfm2_moe", "afmoe"):
        return [i >= reader.integer("num_dense_layers", 0) for i in range(layers)]
    frequency = reader.find_value("moe_layer_freq") or reader.find_value("moe_layer_frequency")
    if isinstance(frequency, list):
        listed = reader.layer_list("moe_layer_freq", layers) or []
        return [bool(x) for x in listed]
    dense_first = reader.integer("first_k_dense_replace", 0)
    step = reader.size("decoder_sparse_step", 1)
    every = frequency if isinstance(frequency, int) and frequency > 0 else 1
    only_dense = reader.find_value("mlp_only_layers") or []
    return [i >= dense_first and (i + 1) % step == 0 and i % every == 0 and i not in only_dense for i in range(layers)]


def _jamba_layers(reader: Reader, layers: int) -> list[Layer]:
    period, offset = reader.size("attn_layer_period", 8), reader.integer("attn_layer_offset", 4)
    every, first = reader.size("expert_layer_period", 2), reader.integer("expert_layer_offset", 1)
    routed = reader.integer("num_experts", 1) > 1
    return [
        Layer("full" if i % period == offset else "mamba1", "moe" if routed and i % every == first else "mlp")
        for i in range(layers)
    ]


def _nemotron_h_layers(reader: Reader, layers: int) -> list[Layer]:
    pattern: Any = reader.find_value("hybrid_override_pattern")
    words = reader.find_value("layers_block_type")
    if pattern is None and isinstance(words, list):
        pattern = "".join(_NEMOTRON_WORDS.get(str(w), "?") for w in words)
    if not isinstance(pattern, str) or len(pattern) != layers or set(pattern) - _NEMOTRON.keys():
        raise UnreadableConfiguration(
            "nemotron_h needs 'hybrid_override_pattern' with one character (M, *, - or E) per layer.",
            key="hybrid_override_pattern",
        )
    return [_NEMOTRON[c] for c in pattern]


def _kimi_linear_layers(reader: Reader, layers: int) -> list[Layer]:
    linear = reader.find_value("linear_attn_config")
    full = linear.get("full_attn_layers") if isinstance(linear, Mapping) else None
    if full is None and (types := reader.layer_list("layer_types", layers)) is not None:
        full = [i + 1 for i, mixer in enumerate(types) if mixer == "full_attention"]
    if not isinstance(full, list):
        raise UnreadableConfiguration(
            "kimi_linear needs 'linear_attn_config' with 'full_attn_layers'.", key="linear_attn_config"
        )
    routed = _routing_layers(reader, "kimi_linear", layers)
    return [Layer("full" if i + 1 in full else "kimi_delta", "moe" if routed[i] else "mlp") for i in range(layers)]


def _nas_layers(reader: Reader, layers: int) -> list[Layer]:
    """Layers of searched architectures: each has its own heads and width, or a single matrix, or nothing."""
    blocks = reader.layer_list("block_configs", layers)
    if blocks is None or not all(isinstance(b, Mapping) for b in blocks):
        raise UnreadableConfiguration(
            "nemotron-nas needs 'block_configs' with one entry per layer.", key="block_configs"
        )
    h, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    layers_found = []
    for block in blocks:
        attention, ffn = block.get("attention") or {}, block.get("ffn") or {}
        mixer = "" if attention.get("no_op") else "matrix" if attention.get("replace_with_linear") else "full"
        group = attention.get("n_heads_in_group") or 1
        after = "" if ffn.get("no_op") else "matrix" if ffn.get("replace_with_linear") else "mlp"
        width = 256 * -(-int(2 * float(ffn.get("ffn_mult") or 0) * h / 3) // 256)
        layers_found.append(Layer(mixer, after, heads // int(group) if mixer == "full" else 0, width))
    return layers_found


def _mimo_v2_layers(reader: Reader, layers: int) -> list[Layer]:
    windowed = reader.layer_list("hybrid_layer_pattern", layers) or [0] * layers
    routed = _routing_layers(reader, "mimo_v2_flash", layers)
    return [Layer("window" if w else "full", "moe" if r else "mlp") for w, r in zip(windowed, routed, strict=True)]


def _inkling_layers(reader: Reader, layers: int) -> list[Layer]:
    """Layers of Inkling: windowed ones are named or listed, else five of six are; the first ones have a dense MLP."""
    named, listed = reader.layer_list("layer_types", layers), reader.find_value("local_layer_ids")
    windowed = [i in listed if isinstance(listed, list) else (i + 1) % 6 != 0 for i in range(layers)]
    if named is not None:
        windowed = [word == "hybrid_sliding" for word in named]
    kinds = reader.layer_list("mlp_layer_types", layers)
    dense = [k == "dense" for k in kinds] if kinds else [i < reader.integer("dense_mlp_idx", 0) for i in range(layers)]
    return [Layer("window" if w else "full", "mlp" if d else "moe") for w, d in zip(windowed, dense, strict=True)]


def _gemma4_layers(reader: Reader, layers: int) -> list[Layer]:
    """Layers of Gemma 4.

    The last layers may reuse earlier caches and then have an MLP of twice the width. Experts run in addition to the
    dense MLP.
    """
    mixers = _layer_mixers(reader, Family(window_every=6), "gemma4_text", layers, "")
    shared = reader.integer("num_kv_shared_layers", 0)
    after = "both" if reader.flag("enable_moe_block") else "mlp"
    double = 2 * reader.size("intermediate_size") if reader.flag("use_double_wide_mlp") else 0
    reused = [i >= layers - shared > 0 for i in range(layers)]
    return [Layer(f"reused_{m}" if r else m, after, 0, double if r else 0) for m, r in zip(mixers, reused, strict=True)]


def _gemma3n_layers(reader: Reader, layers: int) -> list[Layer]:
    """Layers of Gemma 3n; the last ones reuse earlier caches."""
    mixers = _layer_mixers(reader, Family(window_every=5), "gemma3n_text", layers, "")
    own = layers - reader.integer("num_kv_shared_layers", 15)
    return [Layer(f"reused_{m}" if i >= own > 0 else m) for i, m in enumerate(mixers)]


def _bailing_hybrid_layers(reader: Reader, layers: int) -> list[Layer]:
    """Layers of Ling 2.5 and later: the last of each group attends, and so do those after the last whole group."""
    group = reader.size("layer_group_size", 8)
    linear = "kimi_delta" if reader.find_value("short_conv_kernel_size") else "lightning"
    routed = _routing_layers(reader, "bailing_hybrid", layers)
    whole = layers // group * group
    attends = [(i + 1) % group == 0 or i >= whole for i in range(layers)]
    return [Layer("full" if a else linear, "moe" if r else "mlp") for a, r in zip(attends, routed, strict=True)]


def _mllama_layers(reader: Reader, layers: int) -> list[Layer]:
    crossing = reader.find_value("cross_attention_layers") or list(range(3, layers, 5))
    return [Layer("cross" if i in crossing else "full") for i in range(layers)]


def _minimax_m3_layers(reader: Reader, layers: int) -> list[Layer]:
    sparse = reader.find_value("sparse_attention_config") or {}
    frequency = sparse.get("sparse_attention_freq") if isinstance(sparse, Mapping) else None
    on = frequency if isinstance(frequency, list) and len(frequency) == layers else [0] * layers
    routed = _routing_layers(reader, "minimax_m3", layers)
    return [Layer("sparse" if s else "full", "moe" if r else "mlp") for s, r in zip(on, routed, strict=True)]


def _minimax_layers(reader: Reader, layers: int) -> list[Layer]:
    types = reader.layer_list("attn_type_list", layers)
    if types is not None:
        return [Layer("full" if t == 1 else "lightning", "moe") for t in types]
    listed = reader.layer_list("layer_types", layers)
    mixers = (
        [MIXER_NAMES.get(str(t), "full") for t in listed]
        if listed
        else ["linear" if i % 8 != 7 else "full" for i in range(layers)]
    )
    return [Layer("lightning" if m == "linear" else m, "moe") for m in mixers]


# Tokens behind one entry of DeepSeek V4's compressed layers, if the file states none.
_COMPRESSION = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


def _deepseek_v4_layers(reader: Reader, layers: int) -> list[Layer]:
    """Layers of DeepSeek V4: tokens per compressed entry of each, as published, or by the library's names of layers."""
    ratios = reader.layer_list("compress_ratios", layers)
    if ratios is None:
        rates = reader.nested_part("compress_rates")
        own = {key: rates.size(key, usual) for key, usual in _COMPRESSION.items()}
        few, many = _COMPRESSION
        named = reader.layer_list("layer_types", layers) or [few if i > 1 and i % 2 else many for i in range(layers)]
        ratios = [own.get(str(name), 0) for name in named]
    return [Layer("window" if not r else f"compressed_{r}", "moe") for r in ratios]


def _longcat_layers(_: Reader, layers: int) -> list[Layer]:
    """Two attention layers with a dense MLP each; the experts of the first one run next to both."""
    return [Layer("full", "mlp" if i % 2 else "both") for i in range(layers)]


def _bamba_layers(reader: Reader, layers: int) -> list[Layer]:
    attends = reader.find_value("attn_layer_indices")
    return [Layer("full" if isinstance(attends, list) and i in attends else "mamba2") for i in range(layers)]


_BY_FAMILY: Mapping[str, Callable[[Reader, int], list[Layer]]] = {
    "jamba": _jamba_layers,
    "nemotron_h": _nemotron_h_layers,
    "longcat_flash": _longcat_layers,
    "bamba": _bamba_layers,
    "falcon_h1": lambda _, layers: [Layer(PARALLEL)] * layers,
    "kimi_linear": _kimi_linear_layers,
    "nemotron-nas": _nas_layers,
    "mimo_v2_flash": _mimo_v2_layers,
    "inkling_text": _inkling_layers,
    "gemma3n_text": _gemma3n_layers,
    "gemma4_text": _gemma4_layers,
    "bailing_hybrid": _bailing_hybrid_layers,
    "mllama_text_model": _mllama_layers,
    "minimax_m3": _minimax_m3_layers,
    "minimax": _minimax_layers,
    "deepseek_v4": _deepseek_v4_layers,
    "mamba": lambda _, layers: [Layer("mamba1", "")] * layers,
    "falcon_mamba": lambda _, layers: [Layer("mamba1", "")] * layers,
    "mamba2": lambda _, layers: [Layer("mamba2", "")] * layers,
}
_LINEAR = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid"), "gated_delta"),
    "glm5_next_text": "kimi_delta",
}


def read_layers(reader: Reader, spec: Family, family: str, layers: int) -> list[Layer]:
    """The layers of a model in order.

    Raises UnreadableConfiguration if a pattern does not fit the number of layers.
    """
    own = _BY_FAMILY.get(family)
    if own is not None:
        return own(reader, layers)
    mixers = _layer_mixers(reader, spec, family, layers, _LINEAR.get(family, ""))
    routed = _routing_layers(reader, family, layers)
    heads = _query_heads(reader, mixers)
    if family == "grok-1" and reader.flag("residual_moe"):  # Grok 2: a dense MLP next to the experts
        return [Layer(m, "both") for m in mixers]
    return [Layer(m, "moe" if r else "mlp", queries=n) for m, r, n in zip(mixers, routed, heads, strict=True)]


def _query_heads(reader: Reader, mixers: list[str]) -> list[int]:
    """Query heads of each layer that has its own; 0 where the model's number holds. Windowed layers of Step have theirs
    in `attention_other_setting`.
    """
    listed = reader.layer_list("num_attention_heads_per_layer", len(mixers))
    if listed is not None:
        return [n if type(n) is int and n > 0 else 0 for n in listed]
    other = reader.nested_part("attention_other_setting")
    windowed = other.integer("num_attention_heads", 0)
    return [windowed if mixer == "window" else 0 for mixer in mixers]


def group_layers(layers: list[Layer], key: Callable[[Layer], Any]) -> dict[Any, tuple[int, ...]]:
    """Layer indices grouped by the value of `key`, in order of first appearance."""
    indices_by_key: dict[Any, list[int]] = {}
    for i, layer in enumerate(layers):
        indices_by_key.setdefault(key(layer), []).append(i)
    return {k: tuple(v) for k, v in indices_by_key.items()}
