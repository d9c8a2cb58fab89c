"""Attention of a decoder: projections, and the elements that each token adds to the cache."""

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
    """Shape of one kind of attention layer. `key_size` also applies to queries."""

    queries: int
    kv_heads: int
    key_size: int
    value_size: int

    @property
    def cached_elements(self) -> float:
        """Elements of the keys and values of one token and layer."""
        return float(self.kv_heads * (self.key_size + self.value_size))

    @property
    def attention_macs(self) -> float:
        """Multiply-adds of one query with one cached token, over all heads: the score and the weighted value."""
        return float(self.queries * (self.key_size + self.value_size))


def read_head_dim(reader: Reader, spec: Family, *, hidden_size: int, heads: int) -> int:
    """Size of an ordinary head: the stated size, the default of the family, or the hidden size divided by the heads."""
    return reader.size("head_dim", spec.head_dim or max(1, hidden_size // heads))


def read_heads(reader: Reader, spec: Family, family: str, *, hidden_size: int, kv_heads: int = 0) -> Heads:
    """Heads of the model's ordinary attention layers.

    Raises UnreadableConfiguration if the query heads cannot share the key/value heads evenly.
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
            f"{n} attention heads cannot share {m} key/value heads evenly. 'num_attention_heads' must be a multiple of "
            "'num_key_value_heads'.",
            key="num_key_value_heads",
        )
    d = read_head_dim(reader, spec, hidden_size=hidden_size, heads=n)
    return Heads(n, m, d, d)


def _qk_norm_kind(reader: Reader, spec: Family) -> str:
    key, _, kind = spec.qk_norm.partition(":")
    if not kind:
        return key
    if not reader.flag(key):
        return ""
    return {"per_layer": "full", "per_head": "head"}.get(str(reader.find_value("qk_norm_type")), kind)


def add_grouped_attention(
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
    """Add grouped attention, in which query heads share keys and values (MHA, GQA, MQA).

    Source: Ainslie et al. 2023 (arXiv:2305.13245).
    Limits: keys and values have one size per layer.
    Check: Llama-3.1-8B, elements of a layer's four matrices, and elements that a layer caches per token.
        >>> LLAMA_8B.parts["attention"] // 32, LLAMA_8B.attention[0].kv_elements
        (41943040, 2048.0)
    """
    h, n, m, d, dv = hidden_size, heads.queries, heads.kv_heads, heads.key_size, heads.value_size
    bias, gate = reader.flag(spec.qkv_bias), spec.query_gate if gate is None else gate
    queries = n * d * (2 if gate else 1)
    if spec.fused_qkv:
        inventory.add_linear("qkv_proj", Part.ATTENTION, h, queries + m * (d + dv), layers, bias=bias)
    else:
        inventory.add_linear("q_proj", Part.ATTENTION, h, queries, layers, bias=bias)
        if not reuses_cache:
            inventory.add_linear("k_proj", Part.ATTENTION, h, m * d, layers, bias=bias)
            if not keys_are_values:
                inventory.add_linear("v_proj", Part.ATTENTION, h, m * dv, layers, bias=bias)
    inventory.add_linear("o_proj", Part.ATTENTION, n * dv, h, layers, bias=reader.flag(spec.out_bias))
    norm = _qk_norm_kind(reader, spec)
    if norm:
        wide, vectors = norm == "full", 2 if norm == "head_with_bias" else 1
        inventory.add_vector("q_norm", Part.NORMS, n * d if wide else vectors * d, layers)
        inventory.add_vector("k_norm", Part.NORMS, 0 if reuses_cache else m * d if wide else vectors * d, layers)
    inventory.add_vector("sinks", Part.ATTENTION, n if sinks else 0, layers)
    cached = 0.0 if reuses_cache else heads.cached_elements
    group = AttentionGroup(len(layers), cached, m, heads.attention_macs, heads.attention_macs, window_tokens=window)
    return (group,) if layers else ()


@dataclass(frozen=True, slots=True)
class LatentSizes:
    """Sizes of multi-head latent attention. `compressed_queries` is 0 if queries are projected directly."""

    heads: int
    rank: int  # rank of the compressed keys and values
    rotated: int  # elements of a key that carry the position
    plain: int  # elements of a key that do not carry the position
    value_size: int
    compressed_queries: int
    index_heads: int
    index_size: int

    @property
    def key_size(self) -> int:
        return self.plain + self.rotated


def read_latent_sizes(reader: Reader) -> LatentSizes:
    """Sizes of latent attention that the configuration states."""
    index_heads = reader.integer("index_n_heads", 0)
    plain = reader.size("qk_nope_head_dim")
    return LatentSizes(
        heads=reader.size("num_attention_heads"),
        rank=reader.size("kv_lora_rank"),
        rotated=reader.integer("qk_rope_head_dim"),
        plain=plain,
        value_size=reader.size("v_head_dim", plain),
        compressed_queries=reader.integer("q_lora_rank", 0),
        index_heads=index_heads,
        index_size=reader.size("index_head_dim") if index_heads else 0,
    )


def add_latent_attention(
    inventory: Inventory,
    reader: Reader,
    *,
    hidden_size: int,
    layers: Layers,
    output_gate: bool = False,
    indexed: Layers = (),
) -> tuple[AttentionGroup, ...]:
    """Add multi-head latent attention (MLA), which caches one compressed vector per token for all heads.

    `indexed` layers have a small attention that selects the tokens to read; the other layers of a sparse model reuse
    the nearest selection.

    Source: DeepSeek-V2 (arXiv:2405.04434); DeepSeek-V3.2 for the indexer.
    Limits: prefill expands the latent to every head; decode absorbs the expansion into the query.
    Check: DeepSeek-V3 caches 512 + 64 elements per token and layer.
        >>> registered("deepseek-ai/DeepSeek-V3").attention[0].kv_elements
        576.0
    """
    h, sizes = hidden_size, read_latent_sizes(reader)
    n, rank = sizes.heads, sizes.rank
    part, bias = Part.ATTENTION, reader.flag("attention_bias")
    if sizes.compressed_queries:
        inventory.add_linear("q_a_proj", part, h, sizes.compressed_queries, layers, bias=bias)
        inventory.add_linear("q_b_proj", part, sizes.compressed_queries, n * sizes.key_size, layers)
        inventory.add_vector("q_a_layernorm", Part.NORMS, sizes.compressed_queries, layers)
    else:
        inventory.add_linear("q_proj", part, h, n * sizes.key_size, layers)
    inventory.add_linear("kv_a_proj_with_mqa", part, h, rank + sizes.rotated, layers, bias=bias)
    inventory.add_vector("kv_a_layernorm", Part.NORMS, rank, layers)
    inventory.add_linear("kv_b_proj", part, rank, n * (sizes.plain + sizes.value_size), layers)
    inventory.add_linear("o_proj", part, n * sizes.value_size, h, layers, bias=bias)
    if output_gate:
        inventory.add_linear("g_proj", part, h, n * sizes.value_size, layers)
    if sizes.index_heads:
        _add_indexer(inventory, sizes, h, indexed)
    return _latent_groups(reader, sizes, layers, indexed)


def _add_indexer(inventory: Inventory, sizes: LatentSizes, h: int, layers: Layers) -> None:
    """Add the small attention that selects the tokens to read."""
    part, size = Part.ATTENTION, sizes.index_size
    inventory.add_linear("indexer.wq_b", part, sizes.compressed_queries or h, sizes.index_heads * size, layers)
    inventory.add_linear("indexer.wk", part, h, size, layers)
    inventory.add_linear("indexer.weights_proj", part, h, sizes.index_heads, layers)
    inventory.add_vector("indexer.k_norm", Part.NORMS, 2 * size, layers)


def _latent_groups(reader: Reader, sizes: LatentSizes, layers: Layers, indexed: Layers) -> tuple[AttentionGroup, ...]:
    """Attention groups: first the layers that own an indexer, then the others."""
    n, rank = sizes.heads, sizes.rank
    read = float(reader.size("index_topk")) if sizes.index_heads else None

    def build_group(some: Layers, index_size: int) -> AttentionGroup:
        return AttentionGroup(
            layers=len(some),
            kv_elements=float(rank + sizes.rotated),
            kv_heads=1,
            prefill_macs=float(n * sizes.key_size + n * sizes.value_size),
            decode_macs=float(n * (rank + sizes.rotated) + n * rank),
            read_tokens=read,
            index_elements=float(index_size),
            index_macs=float(sizes.index_heads * index_size),
        )

    others = tuple(i for i in layers if i not in set(indexed)) if sizes.index_heads else layers
    owners = tuple(i for i in layers if i in set(indexed))
    return tuple(build_group(some, size) for some, size in ((owners, sizes.index_size), (others, 0)) if some)


def layers_with_indexer(reader: Reader, layers: Layers) -> Layers:
    """Layers that own an indexer: all layers of a sparse model, unless `indexer_types` marks some as shared."""
    if not reader.integer("index_n_heads", 0):
        return ()
    types = reader.find_value("indexer_types")
    if not isinstance(types, list):
        return layers
    return tuple(i for i in layers if i < len(types) and types[i] != "shared")


def add_sparse_attention(
    inventory: Inventory, reader: Reader, spec: Family, *, hidden_size: int, heads: Heads, layers: Layers
) -> tuple[AttentionGroup, ...]:
    """Add MiniMax-M3 attention: grouped attention that reads the blocks selected by a small index."""
    sparse = reader.nested_part("sparse_attention_config")
    size, index_heads = sparse.size("sparse_index_dim", 128), sparse.size("sparse_num_index_heads", 4)
    inventory.add_linear("indexer.q_proj", Part.ATTENTION, hidden_size, index_heads * size, layers)
    inventory.add_linear("indexer.k_proj", Part.ATTENTION, hidden_size, size, layers)
    inventory.add_vector("indexer.norms", Part.NORMS, 2 * size, layers)
    (plain,) = add_grouped_attention(inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers)
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


def add_compressed_attention(
    inventory: Inventory, reader: Reader, *, hidden_size: int, layers: Layers, ratio: int
) -> tuple[AttentionGroup, ...]:
    """Add DeepSeek-V4 attention: one key/value head for all queries over a short window, and one entry per `ratio`
    older tokens.

    With a ratio of 4, an indexer selects the entries; with 128, all entries are read; with 0, only the window is
    read.
    """
    h, n, d = hidden_size, reader.size("num_attention_heads"), reader.size("head_dim")
    q, groups, rank = reader.size("q_lora_rank"), reader.size("o_groups"), reader.size("o_lora_rank")
    part = Part.ATTENTION
    inventory.add_linear("q_a_proj", part, h, q, layers)
    inventory.add_linear("q_b_proj", part, q, n * d, layers)
    inventory.add_linear("kv_proj", part, h, d, layers)
    inventory.add_linear("o_a_proj", part, n * d // groups, groups * rank, layers)
    inventory.add_linear("o_b_proj", part, groups * rank, h, layers)
    inventory.add_vector("q_a_norm", Part.NORMS, q, layers)
    inventory.add_vector("kv_norm", Part.NORMS, d, layers)
    inventory.add_vector("sinks", part, n, layers)
    window = window_tokens(reader, "deepseek_v4")
    macs = 2.0 * n * d
    groups_found = [AttentionGroup(len(layers), float(d), 1, macs, macs, window_tokens=window)]
    if not ratio:
        return tuple(groups_found)
    indexed = ratio < 64
    width = (2 if indexed else 1) * d
    inventory.add_linear("compressor.kv_proj", part, h, width, layers)
    inventory.add_linear("compressor.gate_proj", part, h, width, layers)
    inventory.add_vector("compressor.position_bias", part, ratio * width, layers)
    inventory.add_vector("compressor.kv_norm", Part.NORMS, d, layers)
    size, index_heads = reader.size("index_head_dim"), reader.size("index_n_heads")
    if indexed:
        inventory.add_linear("indexer.kv_proj", part, h, 2 * size, layers)
        inventory.add_linear("indexer.gate_proj", part, h, 2 * size, layers)
        inventory.add_linear("indexer.q_b_proj", part, q, index_heads * size, layers)
        inventory.add_linear("indexer.weights_proj", part, h, index_heads, layers)
        inventory.add_vector("indexer.position_bias", part, ratio * 2 * size, layers)
        inventory.add_vector("indexer.kv_norm", Part.NORMS, size, layers)
    groups_found.append(
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
    return tuple(groups_found)
