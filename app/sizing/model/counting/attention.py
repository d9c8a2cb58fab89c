"""Attention of a decoder: its projections, and what each token leaves in the cache."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import UnreadableConfiguration
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.counting.configuration import Reader
from app.sizing.model.counting.families import Family
from app.sizing.model.counting.schedule import window_tokens
from app.sizing.model.tensors import Inventory, Part

Layers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Heads:
    """Shape of one kind of attention layer: n query heads, m key/value heads, d their size, dv that of values."""

    n: int
    m: int
    d: int
    dv: int


def head_dim(reader: Reader, spec: Family, *, hidden_size: int, heads: int) -> int:
    """Size of an ordinary head: stated, the family's own, or the hidden size shared out among the heads."""
    return reader.size("head_dim", spec.head_dim or max(1, hidden_size // heads))


def heads_of(reader: Reader, spec: Family, family: str, *, hidden_size: int, kv_heads: int = 0) -> Heads:
    """Heads of the model's ordinary attention layers.

    Raises UnreadableConfiguration where query heads cannot share the key/value heads.
    """
    n = reader.size("num_attention_heads")
    if family == "gpt_bigcode" or (family == "falcon" and not reader.flag("new_decoder_architecture")):
        m = 1 if reader.flag("multi_query", default=True) else n
    elif family == "chatglm" and not reader.flag("multi_query_attention"):
        m = n
    else:
        m = kv_heads or reader.size("num_key_value_heads", n)
    if n % m:
        raise UnreadableConfiguration(
            f"{n} attention heads cannot share {m} key/value heads evenly.", key="num_key_value_heads"
        )
    d = head_dim(reader, spec, hidden_size=hidden_size, heads=n)
    return Heads(n, m, d, d)


def _qk_norm(reader: Reader, spec: Family) -> str:
    key, _, kind = spec.qk_norm.partition(":")
    if not kind:
        return key
    if not reader.flag(key):
        return ""
    return {"per_layer": "full", "per_head": "head"}.get(str(reader.find("qk_norm_type")), kind)


def grouped(
    inventory: Inventory,
    reader: Reader,
    spec: Family,
    *,
    hidden_size: int,
    heads: Heads,
    layers: Layers,
    window: float | None = None,
    sinks: bool = False,
    keys_are_values: bool = False,
    reuses_cache: bool = False,
    gate: bool | None = None,
) -> tuple[AttentionGroup, ...]:
    """Heads that each have their own query, in groups that share keys and values (MHA, GQA, MQA).

    Check: Llama-3.1-8B's four matrices are 41 943 040 elements a layer and cache 2 048 a token.
    """
    h, n, m, d, dv = hidden_size, heads.n, heads.m, heads.d, heads.dv
    bias, gate = reader.flag(spec.qkv_bias), spec.query_gate if gate is None else gate
    queries = n * d * (2 if gate else 1)
    if spec.fused_qkv:
        inventory.linear("qkv_proj", Part.ATTENTION, h, queries + m * (d + dv), layers, bias=bias)
    else:
        inventory.linear("q_proj", Part.ATTENTION, h, queries, layers, bias=bias)
        if not reuses_cache:
            inventory.linear("k_proj", Part.ATTENTION, h, m * d, layers, bias=bias)
            if not keys_are_values:
                inventory.linear("v_proj", Part.ATTENTION, h, m * dv, layers, bias=bias)
    inventory.linear("o_proj", Part.ATTENTION, n * dv, h, layers, bias=reader.flag(spec.out_bias))
    norm = _qk_norm(reader, spec)
    if norm:
        wide, vectors = norm == "full", 2 if norm == "head_with_bias" else 1
        inventory.vector("q_norm", Part.NORMS, n * d if wide else vectors * d, layers)
        inventory.vector("k_norm", Part.NORMS, 0 if reuses_cache else m * d if wide else vectors * d, layers)
    inventory.vector("sinks", Part.ATTENTION, n if sinks else 0, layers)
    macs = float(n * (d + dv))
    cached = 0.0 if reuses_cache else float(m * (d + dv))
    return (AttentionGroup(len(layers), cached, m, macs, macs, window_tokens=window),) if layers else ()


def latent(
    inventory: Inventory,
    reader: Reader,
    *,
    hidden_size: int,
    layers: Layers,
    output_gate: bool = False,
    indexed: Layers = (),
) -> tuple[AttentionGroup, ...]:
    """Multi-head latent attention: one compressed vector per token stands for all heads.

    `indexed` layers own a small attention that picks which tokens are read; the others of a sparse
    model reuse the nearest choice. Source: DeepSeek-V2 (arXiv:2405.04434); DeepSeek-V3.2 for the indexer.
    Check: DeepSeek-V3 caches 512 + 64 elements a token and layer.
    """
    h, n = hidden_size, reader.size("num_attention_heads")
    r, ro = reader.size("kv_lora_rank"), reader.integer("qk_rope_head_dim")
    no = reader.size("qk_nope_head_dim")
    dv = reader.size("v_head_dim", no)
    q = reader.integer("q_lora_rank", 0)
    part, bias = Part.ATTENTION, reader.flag("attention_bias")
    if q:
        inventory.linear("q_a_proj", part, h, q, layers, bias=bias)
        inventory.linear("q_b_proj", part, q, n * (no + ro), layers)
        inventory.vector("q_a_layernorm", Part.NORMS, q, layers)
    else:
        inventory.linear("q_proj", part, h, n * (no + ro), layers)
    inventory.linear("kv_a_proj_with_mqa", part, h, r + ro, layers, bias=bias)
    inventory.vector("kv_a_layernorm", Part.NORMS, r, layers)
    inventory.linear("kv_b_proj", part, r, n * (no + dv), layers)
    inventory.linear("o_proj", part, n * dv, h, layers, bias=bias)
    if output_gate:
        inventory.linear("g_proj", part, h, n * dv, layers)
    read = None
    index_heads = reader.integer("index_n_heads", 0)
    if index_heads:
        size = reader.size("index_head_dim")
        inventory.linear("indexer.wq_b", part, q or h, index_heads * size, indexed)
        inventory.linear("indexer.wk", part, h, size, indexed)
        inventory.linear("indexer.weights_proj", part, h, index_heads, indexed)
        inventory.vector("indexer.k_norm", Part.NORMS, 2 * size, indexed)
        read = float(reader.size("index_topk"))

    def group(some: Layers, index_size: int) -> AttentionGroup:
        scan = float(index_heads * index_size)
        return AttentionGroup(
            len(some),
            float(r + ro),
            1,
            float(n * (no + ro) + n * dv),
            float(n * (r + ro) + n * r),
            read_tokens=read,
            index_elements=float(index_size),
            index_macs=scan,
        )

    size = reader.integer("index_head_dim", 0) if index_heads else 0
    others = tuple(i for i in layers if i not in set(indexed)) if index_heads else layers
    return tuple(
        group(some, of) for some, of in ((tuple(i for i in layers if i in set(indexed)), size), (others, 0)) if some
    )


def index_layers(reader: Reader, layers: Layers) -> Layers:
    """Layers that own an indexer: all of a sparse model, unless `indexer_types` marks some as shared."""
    if not reader.integer("index_n_heads", 0):
        return ()
    types = reader.find("indexer_types")
    if not isinstance(types, list):
        return layers
    return tuple(i for i in layers if i < len(types) and types[i] != "shared")


def sparse_blocks(
    inventory: Inventory, reader: Reader, spec: Family, *, hidden_size: int, heads: Heads, layers: Layers
) -> tuple[AttentionGroup, ...]:
    """MiniMax-M3: grouped attention that reads the blocks a small index of its own chooses."""
    sparse = reader.part("sparse_attention_config")
    size, index_heads = sparse.size("sparse_index_dim", 128), sparse.size("sparse_num_index_heads", 4)
    inventory.linear("indexer.q_proj", Part.ATTENTION, hidden_size, index_heads * size, layers)
    inventory.linear("indexer.k_proj", Part.ATTENTION, hidden_size, size, layers)
    inventory.vector("indexer.norms", Part.NORMS, 2 * size, layers)
    (plain,) = grouped(inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers)
    read = float(sparse.size("sparse_block_size", 128) * sparse.size("sparse_topk_blocks", 16))
    return (
        AttentionGroup(
            len(layers),
            plain.kv_elements,
            plain.kv_heads,
            plain.prefill_macs,
            plain.decode_macs,
            read_tokens=read,
            index_elements=float(size),
            index_macs=float(index_heads * size),
        ),
    )


def compressed(
    inventory: Inventory, reader: Reader, *, hidden_size: int, layers: Layers, ratio: int
) -> tuple[AttentionGroup, ...]:
    """DeepSeek-V4: one key/value head for all queries over a short window, and one entry per `ratio` older tokens.

    A ratio of 4 is chosen from by an indexer; 128 is read whole; 0 keeps the window alone.
    """
    h, n, d = hidden_size, reader.size("num_attention_heads"), reader.size("head_dim")
    q, groups, rank = reader.size("q_lora_rank"), reader.size("o_groups"), reader.size("o_lora_rank")
    part = Part.ATTENTION
    inventory.linear("q_a_proj", part, h, q, layers)
    inventory.linear("q_b_proj", part, q, n * d, layers)
    inventory.linear("kv_proj", part, h, d, layers)
    inventory.linear("o_a_proj", part, n * d // groups, groups * rank, layers)
    inventory.linear("o_b_proj", part, groups * rank, h, layers)
    inventory.vector("q_a_norm", Part.NORMS, q, layers)
    inventory.vector("kv_norm", Part.NORMS, d, layers)
    inventory.vector("sinks", part, n, layers)
    window = window_tokens(reader, "deepseek_v4")
    macs = 2.0 * n * d
    found = [AttentionGroup(len(layers), float(d), 1, macs, macs, window_tokens=window)]
    if not ratio:
        return tuple(found)
    indexed = ratio < 64
    width = (2 if indexed else 1) * d
    inventory.linear("compressor.kv_proj", part, h, width, layers)
    inventory.linear("compressor.gate_proj", part, h, width, layers)
    inventory.vector("compressor.position_bias", part, ratio * width, layers)
    inventory.vector("compressor.kv_norm", Part.NORMS, d, layers)
    size, index_heads = reader.size("index_head_dim"), reader.size("index_n_heads")
    if indexed:
        inventory.linear("indexer.kv_proj", part, h, 2 * size, layers)
        inventory.linear("indexer.gate_proj", part, h, 2 * size, layers)
        inventory.linear("indexer.q_b_proj", part, q, index_heads * size, layers)
        inventory.linear("indexer.weights_proj", part, h, index_heads, layers)
        inventory.vector("indexer.position_bias", part, ratio * 2 * size, layers)
        inventory.vector("indexer.kv_norm", Part.NORMS, size, layers)
    found.append(
        AttentionGroup(
            len(layers),
            d / ratio,
            1,
            macs / ratio,
            macs / ratio,
            read_tokens=float(reader.size("index_topk") * ratio) if indexed else None,
            index_elements=size / ratio if indexed else 0.0,
            index_macs=float(index_heads * size) / ratio if indexed else 0.0,
        )
    )
    return tuple(found)
