"""Decoders: the tensors of every block and the cache per token, from a configuration."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.counting import attention
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.counting.encoders import class_count
from app.sizing.model.counting.families import FAMILIES, Family
from app.sizing.model.counting.feed_forward import ExpertRouting, add_experts, add_mlp, dense_mlp_width
from app.sizing.model.counting.mixers import MIXERS
from app.sizing.model.counting.schedule import Layer, group_layers, read_layers, window_tokens
from app.sizing.model.tensors import ONCE, BlockKind, Inventory, Part, Per

# Families that are recurrent in every layer: no heads, no cache.
_NO_ATTENTION = ("mamba", "falcon_mamba", "mamba2")
# Families whose code computes GELU operation by operation.
_WRITES_GELU = ("codegen", "gpt2", "gpt_neo", "gptj", "phi")


def read_decoder(text: Config, family: str, name: str, *, nested: bool = False) -> ModelArchitecture:
    """Counts of a language model's decoder. The caller adds vision towers and quantization.

    Raises UnreadableConfiguration and names the key that prevents the count.

    Check: Llama-3.1-8B, parameters and bytes of cache per token.
        >>> LLAMA_8B.total_params, LLAMA_8B.kv_cache_bytes_per_token()
        (8030261248, 131072.0)
    """
    spec, reader = FAMILIES[family], Reader(text, family, nested=nested)
    blocks = reader.find_value("layers_block_type")
    hidden_size, layers = (
        reader.size("hidden_size"),
        reader.size("num_hidden_layers", len(blocks) if isinstance(blocks, list) else None),
    )
    inventory = Inventory()
    schedule = read_layers(reader, spec, family, layers)
    groups = _add_mixers(inventory, reader, spec, family, hidden_size, schedule)
    routing, width = _add_feed_forward(inventory, reader, spec, family, hidden_size, schedule)
    _add_norms(inventory, reader, spec, family, hidden_size, schedule)
    vocabulary = reader.size("vocab_size")
    tied = _is_tied(reader, spec)
    architecture_class = reader.architecture_class
    headless = (
        architecture_class.endswith("Model") and not architecture_class.endswith("LMHeadModel") and family != "chatglm"
    )
    _add_embeddings_and_head(
        inventory, reader, spec, family, hidden_size, layers, vocabulary, tied=tied, headless=headless
    )
    heads = 1 if family in _NO_ATTENTION else reader.size("num_attention_heads")
    return ModelArchitecture(
        name=name,
        kind=ModelKind.DECODER,
        family=family,
        num_layers=layers,
        hidden_size=hidden_size,
        num_heads=heads,
        head_dim=_head_dim(reader, spec, family, hidden_size, heads),
        mlp_width=routing.active_width or width,
        vocab_size=vocabulary,
        tensors=tuple(inventory.tensors),
        attention=groups,
        state_bytes_per_sequence=inventory.state_bytes,
        recurrent_flops_per_token=inventory.recurrent_flops,
        num_experts=routing.count,
        experts_per_token=routing.per_token,
        moe_layers=routing.layers,
        max_context_tokens=reader.integer("max_position_embeddings", 0) or None,
        tied_head=tied,
        block=_block_kind(reader, spec, family),
        mtp_params=_mtp_params(inventory, reader, family, hidden_size, schedule),
        assumed=_describe_defaults(reader, family),
        source="closed form of the configuration",
    )


def _block_kind(reader: Reader, spec: Family, family: str) -> BlockKind:
    """Properties of the blocks that their sizes do not show. Norms without a vector are counted too."""
    layer_norm = not spec.gated or spec.norm_vectors > 1 or family.startswith("cohere")
    return BlockKind(_norms_per_block(reader, spec, family) or 2, layer_norm, family in _WRITES_GELU)


def _head_dim(reader: Reader, spec: Family, family: str, hidden_size: int, heads: int) -> int:
    """Size of a query head. A latent head has a part with positions and a part without."""
    if family in _NO_ATTENTION:
        return hidden_size
    if reader.integer("kv_lora_rank", 0):
        return reader.size("qk_nope_head_dim") + reader.integer("qk_rope_head_dim", 0)
    return attention.read_head_dim(reader, spec, hidden_size=hidden_size, heads=heads)


def _describe_defaults(reader: Reader, family: str) -> tuple[str, ...]:
    named = [
        f"{k} {v}"
        for k, v in reader.defaults_used.items()
        if k not in ("tie_word_embeddings", "attention_bias", "max_position_embeddings")
    ]
    return (f"absent keys of the {family} part have the library's defaults: {', '.join(named)}",) if named else ()


def _is_tied(reader: Reader, spec: Family) -> bool:
    return True if spec.always_tied else reader.flag("tie_word_embeddings", default=spec.tied)


def _add_mixers(
    inventory: Inventory, reader: Reader, spec: Family, family: str, hidden_size: int, schedule: list[Layer]
) -> tuple[AttentionGroup, ...]:
    """Add attention and recurrent mixers of all layers and return the attention groups in order of first appearance."""
    groups: list[AttentionGroup] = []
    for (mixer, kv_heads), layers in group_layers(schedule, lambda x: (x.mixer, x.kv_heads)).items():
        if mixer == "":
            continue
        if mixer in MIXERS:
            MIXERS[mixer](inventory, reader, hidden_size, layers)
        elif mixer == "matrix":
            inventory.add_linear("linear_attn", Part.ATTENTION, hidden_size, hidden_size, layers)
        else:
            groups += _add_attention(inventory, reader, spec, family, hidden_size, mixer, kv_heads, layers)
    return tuple(groups)


def _add_attention(
    inventory: Inventory,
    reader: Reader,
    spec: Family,
    family: str,
    hidden_size: int,
    mixer: str,
    kv_heads: int,
    layers: tuple[int, ...],
) -> tuple[AttentionGroup, ...]:
    """Add one kind of attention, selected by the family and the layer."""
    if family == "deepseek_v4":
        ratio = int(mixer.removeprefix("compressed_")) if mixer != "window" else 0
        return attention.add_compressed_attention(
            inventory, reader, hidden_size=hidden_size, layers=layers, ratio=ratio
        )
    if reader.integer("kv_lora_rank", 0):
        indexed = attention.layers_with_indexer(reader, layers)
        gate = reader.flag("mla_use_output_gate")
        return attention.add_latent_attention(
            inventory, reader, hidden_size=hidden_size, layers=layers, output_gate=gate, indexed=indexed
        )
    heads = attention.read_heads(reader, spec, family, hidden_size=hidden_size, kv_heads=kv_heads)
    if mixer == "sparse":
        return attention.add_sparse_attention(
            inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers
        )
    if mixer == "cross":
        return _add_cross_attention(inventory, reader, spec, hidden_size, heads, layers)
    windowed = mixer.endswith("window")
    window = window_tokens(reader, family) if windowed else None
    own: dict[str, Any] = {"gate": spec.query_gate and reader.flag("attn_output_gate", default=True)}
    if family == "gemma4_text":
        heads, own = _gemma4_heads(reader, heads, mixer)
    elif family == "mimo_v2_flash":
        heads, own = _mimo_heads(reader, heads, windowed=windowed)
    else:
        own["sinks"] = spec.sinks
    return attention.add_grouped_attention(
        inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers, window=window, **own
    )


def _gemma4_heads(reader: Reader, heads: attention.Heads, mixer: str) -> tuple[attention.Heads, dict[str, Any]]:
    """Heads of Gemma 4. Full layers have their own head size, can use keys as values, and can reuse earlier caches."""
    windowed = mixer.endswith("window")
    alternative = not windowed and reader.flag("attention_k_eq_v")
    if not windowed:
        size = reader.size("global_head_dim", heads.key_size)
        shared = reader.size("num_global_key_value_heads", heads.kv_heads) if alternative else heads.kv_heads
        heads = attention.Heads(heads.queries, shared, size, size)
    return heads, {"keys_are_values": alternative, "reuses_cache": mixer.startswith("reused")}


def _mimo_heads(reader: Reader, heads: attention.Heads, *, windowed: bool) -> tuple[attention.Heads, dict[str, Any]]:
    """Heads of MiMo. Windowed layers have their own heads, and sinks if the file says so."""
    prefix = "swa_" if windowed else ""
    own = attention.Heads(
        reader.size(f"{prefix}num_attention_heads", heads.queries),
        reader.size(f"{prefix}num_key_value_heads", heads.kv_heads),
        reader.size(f"{prefix}head_dim", heads.key_size),
        reader.size(f"{prefix}v_head_dim", heads.key_size),
    )
    return own, {"sinks": reader.flag("add_swa_attention_sink_bias" if windowed else "add_full_attention_sink_bias")}


def _add_cross_attention(
    inventory: Inventory,
    reader: Reader,
    spec: Family,
    hidden_size: int,
    heads: attention.Heads,
    layers: tuple[int, ...],
) -> tuple[AttentionGroup, ...]:
    """Add layers that attend only to the image: they cache image tokens once and no text (Llama 3.2 Vision)."""
    (group,) = attention.add_grouped_attention(
        inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers
    )
    inventory.add_vector("q_norm", Part.NORMS, heads.key_size, layers)
    inventory.add_vector("k_norm", Part.NORMS, heads.key_size, layers)
    inventory.add_vector("gates", Part.OTHER, 2, layers)
    return (AttentionGroup(group.layers, group.kv_elements, group.kv_heads, 0.0, 0.0, crosses=True),)


def _add_feed_forward(
    inventory: Inventory, reader: Reader, spec: Family, family: str, hidden_size: int, schedule: list[Layer]
) -> tuple[ExpertRouting, float]:
    """Add the feed-forward part of all layers and return (routing, width of the dense MLP)."""
    routing, widest = ExpertRouting(), 0.0
    fused = spec.fused_gate_up
    for (kind, own), layers in group_layers(schedule, lambda x: (x.feed_forward, x.width)).items():
        if kind in ("mlp", "both"):
            width = own or dense_mlp_width(reader, family, hidden_size)
            bias = reader.flag(spec.mlp_bias)
            add_mlp(inventory, Part.MLP, hidden_size, width, layers, gated=spec.gated, bias=bias, fused=fused)
            widest = max(widest, float(width))
        if kind == "matrix":
            inventory.add_linear("linear_mlp", Part.MLP, hidden_size, hidden_size, layers)
        if kind in ("moe", "both"):
            routing = add_experts(inventory, reader, spec, family, hidden_size, layers)
            if kind == "both":
                routing = ExpertRouting(routing.layers, routing.count, routing.per_token, routing.active_width + widest)
    if family == "apertus":
        inventory.add_vector("activation", Part.MLP, 2, tuple(range(len(schedule))))
    return routing, widest


def _norms_per_block(reader: Reader, spec: Family, family: str) -> int:
    """Norms per block; one if attention and MLP run in parallel on its output."""
    if family == "falcon":
        of_new_decoder = 1 if reader.find_value("num_ln_in_parallel_attn") == 1 else 2
        of_old_decoder = 1 if reader.flag("parallel_attn", default=True) else 2
        return of_new_decoder if reader.flag("new_decoder_architecture") else of_old_decoder
    if family == "stablelm":
        return 1 if reader.flag("use_parallel_residual") else 2
    return spec.norms


def _add_norms(
    inventory: Inventory, reader: Reader, spec: Family, family: str, hidden_size: int, schedule: list[Layer]
) -> None:
    """Add the norms of every block and the final norm."""
    every = tuple(range(len(schedule)))
    norms = _norms_per_block(reader, spec, family)
    if family == "nemotron-nas":  # sublayers that are left out have no norm
        present = sum((x.mixer != "") + (x.feed_forward != "") for x in schedule)
        inventory.add_vector("norms", Part.NORMS, hidden_size, tuple(range(present)))
    else:
        inventory.add_vector("norms", Part.NORMS, norms * spec.norm_vectors * hidden_size, every)
    if family == "gemma4_text":
        inventory.add_vector(
            "moe_norms", Part.NORMS, 3 * hidden_size, tuple(i for i in every if schedule[i].feed_forward == "both")
        )
    projected = family == "opt" and not reader.flag("do_layer_norm_before", default=True)
    inventory.add_vector(
        "final_norm", Part.NORMS, 0 if projected else spec.final_norm * spec.norm_vectors * hidden_size
    )
    inventory.add_vector("embedding_norm", Part.NORMS, 2 * hidden_size if spec.embedding_norm else 0)


def _add_embeddings_and_head(
    inventory: Inventory,
    reader: Reader,
    spec: Family,
    family: str,
    hidden_size: int,
    layers: int,
    vocabulary: int,
    *,
    tied: bool,
    headless: bool,
) -> None:
    """Add the embedding, positions and output head. A file of the bare model has no head."""
    dense = reader.find_value("st_dense_dims")  # layers that an embedding repository appends after the pooler
    for inputs, outputs in pairwise(dense if isinstance(dense, list) else []):
        inventory.add_linear("pooled_dense", Part.HEAD, int(inputs), int(outputs), ONCE, quantized=False, per=Per.NEVER)
    width = reader.size("word_embed_proj_dim", hidden_size) if family == "opt" else hidden_size
    rows = vocabulary + (8 if family == "mllama_text_model" else 0)
    inventory.add_table("embed_tokens", rows, width)
    if width != hidden_size:
        inventory.add_linear("project_in", Part.OTHER, width, hidden_size, ONCE)
        inventory.add_linear("project_out", Part.OTHER, hidden_size, width, ONCE)
    if spec.positions:
        inventory.add_table("embed_positions", reader.size(spec.positions) + spec.extra_positions, hidden_size)
    small = reader.integer("hidden_size_per_layer_input", 0)
    if family == "gemma4_text" and small:
        every = tuple(range(layers))
        inventory.add_table(
            "embed_tokens_per_layer", reader.size("vocab_size_per_layer_input", vocabulary), layers * small
        )
        inventory.add_linear("per_layer_model_projection", Part.OTHER, hidden_size, layers * small, ONCE)
        inventory.add_linear("per_layer_input_gate", Part.OTHER, hidden_size, small, every)
        inventory.add_linear("per_layer_projection", Part.OTHER, small, hidden_size, every)
        inventory.add_vector("post_per_layer_input_norm", Part.NORMS, hidden_size, every)
        inventory.add_vector("per_layer_projection_norm", Part.NORMS, small)
    if family == "deepseek_v4":
        _add_hyper_connections(inventory, reader, hidden_size, layers)
    if headless:
        return
    if reader.architecture_class.endswith("ForSequenceClassification"):
        inventory.add_linear("score", Part.HEAD, hidden_size, class_count(reader), ONCE, quantized=False, per=Per.NEVER)
        return
    bias = spec.head_bias if isinstance(spec.head_bias, bool) else reader.flag(spec.head_bias)
    inventory.add_head(width, vocabulary, tied=tied, bias=bias)


def _add_hyper_connections(inventory: Inventory, reader: Reader, hidden_size: int, layers: int) -> None:
    """Add DeepSeek-V4's hyper-connections: each sublayer computes weights and mixes several residual streams with
    them.
    """
    streams = reader.size("hc_mult")
    weights = (2 + streams) * streams
    every = tuple(range(layers))
    inventory.add_linear(
        "hyper_connection",
        Part.OTHER,
        streams * hidden_size,
        weights,
        every,
        bias=weights + 3,
        copies=2,
        quantized=False,
    )
    inventory.add_vector("hyper_head", Part.OTHER, streams * hidden_size * streams + streams + 1)


def _mtp_params(inventory: Inventory, reader: Reader, family: str, hidden_size: int, schedule: list[Layer]) -> int:
    """Parameters of multi-token-prediction layers: each has a full-attention layer, a projection of two hidden states,
    and norms.

    They are not part of the total, because they are loaded only for speculative decoding.

    Source: the layers in the published checkpoints.
    Limits: other families than the listed ones count none.
    Check: DeepSeek-V3's one layer.
        >>> registered("deepseek-ai/DeepSeek-V3").mtp_params
        11610067968
    """
    count = reader.integer("mtp_layers", 0)
    is_supported = reader.integer("kv_lora_rank", 0) or family in (
        "glm4_moe",
        "qwen3_5_text",
        "qwen3_5_moe_text",
        "nemotron_h",
    )
    if not count or not is_supported:
        return 0

    def block_params(layer: int) -> int:
        return sum(t.size * t.copies for t in inventory.tensors if layer in t.layers)

    attends = max((block_params(i) for i, x in enumerate(schedule) if x.mixer == "full"), default=0)
    if family == "nemotron_h":  # one attention block and one block of experts
        attends += max((block_params(i) for i, x in enumerate(schedule) if x.feed_forward == "moe"), default=0)
    return count * (attends + 2 * hidden_size * hidden_size + 3 * hidden_size)
