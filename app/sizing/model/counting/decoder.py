"""Decoders from a configuration: attention, feed-forward part and recurrent mixers of every block, cache per token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import AttentionGroup, ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.counting.encoders import class_count
from app.sizing.model.counting.families import FAMILIES, Family
from app.sizing.model.counting.recurrent import MIXERS, Layers
from app.sizing.model.counting.schedule import PARALLEL, Layer, group_layers, read_layers, window_tokens
from app.sizing.model.tensors import ONCE, BlockKind, Inventory, Part, Per


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


def read_heads(
    reader: Reader, spec: Family, family: str, *, hidden_size: int, kv_heads: int = 0, queries: int = 0
) -> Heads:
    """Heads of the model's ordinary attention layers, or of layers with their own number of heads.

    Raises UnreadableConfiguration if the query heads cannot share the key/value heads evenly.
    """
    n = queries or reader.size("num_attention_heads")
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
    inventory.add_linear("g_proj", Part.ATTENTION, h, _gate_width(reader, spec, heads), layers)
    group = AttentionGroup(len(layers), cached, m, heads.attention_macs, heads.attention_macs, window_tokens=window)
    return (group,) if layers else ()


def _gate_width(reader: Reader, spec: Family, heads: Heads) -> int:
    """Outputs of a further projection of the heads, such as a gate: per head, per element, as many as stated, or 0."""
    if spec.output_gate == "element":
        return heads.queries * heads.value_size
    stated = reader.find_value(spec.output_gate) if spec.output_gate else None
    if not stated or type(stated) is int:
        return heads.queries * reader.integer(spec.output_gate) if stated else 0
    return heads.queries * (heads.value_size if "element" in str(stated) else 1)


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
    gate_size: int = 0,
    indexed: Layers = (),
    window: float | None = None,
) -> tuple[AttentionGroup, ...]:
    """Add multi-head latent attention (MLA), which caches one compressed vector per token for all heads.

    `gate_size` counts the outputs per head of a gate. `indexed` layers have a small attention that selects the tokens
    to read; the other layers of a sparse model reuse the nearest selection.

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
        if reader.integer("gated_norm_rank", 0):  # A.X K2: queries and gate from two compressed vectors
            gated = n * (sizes.key_size + sizes.value_size)
            inventory.add_linear("q_gate_proj", part, 2 * sizes.compressed_queries, gated, layers)
        else:
            inventory.add_linear("q_b_proj", part, sizes.compressed_queries, n * sizes.key_size, layers)
        inventory.add_vector("q_a_layernorm", Part.NORMS, sizes.compressed_queries, layers)
    else:
        inventory.add_linear("q_proj", part, h, n * sizes.key_size, layers)
    inventory.add_linear("kv_a_proj_with_mqa", part, h, rank + sizes.rotated, layers, bias=bias)
    inventory.add_vector("kv_a_layernorm", Part.NORMS, rank, layers)
    inventory.add_linear("kv_b_proj", part, rank, n * (sizes.plain + sizes.value_size), layers)
    inventory.add_linear("o_proj", part, n * sizes.value_size, h, layers, bias=bias)
    inventory.add_linear("g_proj", part, h, n * gate_size, layers)
    if sizes.index_heads:
        _add_indexer(inventory, reader, sizes, h, indexed)
    return tuple(replace(group, window_tokens=window) for group in _latent_groups(reader, sizes, layers, indexed))


def _add_indexer(inventory: Inventory, reader: Reader, sizes: LatentSizes, h: int, layers: Layers) -> None:
    """Add the small attention that selects the tokens to read."""
    part, size = Part.ATTENTION, sizes.index_size
    inventory.add_linear("indexer.wq_b", part, sizes.compressed_queries or h, sizes.index_heads * size, layers)
    inventory.add_linear("indexer.wk", part, h, size, layers)
    inventory.add_linear("indexer.weights_proj", part, h, sizes.index_heads, layers)
    inventory.add_vector("indexer.k_norm", Part.NORMS, 2 * size, layers)
    if pooled := reader.integer("index_kpool", 0):  # one key for several tokens, weighted by a gate
        inventory.add_linear("indexer.pool_gate", part, h, size, layers)
        inventory.add_vector("indexer.pool_positions", part, pooled * size, layers)


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
            index_elements=float(index_size) / pooled,
            index_macs=float(sizes.index_heads * index_size) / pooled,
        )

    pooled = reader.integer("index_kpool", 1) or 1
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
    read. The states of the compressors share the pages of the cache, 64 entries of 8-bit elements with their scales.

    Source of the states: vllm-project/vllm@0de10a27: model_executor/layers/deepseek_compressor.py, CompressorStateCache
    (float32 keys and scores, 4 or 8 tokens a page), 2026-11-27.
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
    page_bytes, index_page_bytes = 64.0 * (d + 72), 64.0 * (size + 4)
    states = (page_bytes + index_page_bytes) / 4 if indexed else page_bytes / 8
    inventory.step_state_bytes += len(layers) * states
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


_SHARED_BIAS = ("nemotron_h", "ernie4_5_moe")  # families whose shared experts have the biases of a dense MLP


@dataclass(frozen=True, slots=True)
class ExpertRouting:
    """Expert routing of a model: routing layers, experts, experts per token, and MLP width active per token."""

    layers: int = 0
    count: int = 0
    per_token: int = 0
    active_width: float = 0.0


def add_mlp(
    inventory: Inventory,
    part: Part,
    hidden_size: int,
    mlp_width: int,
    layers: Layers,
    *,
    gated: bool,
    bias: bool = False,
    fused: bool = False,
    prefix: str = "",
) -> None:
    """Add a dense MLP: 3hf elements if gated, 2hf otherwise.

    Source: Shazeer 2020 (arXiv:2002.05202) for the gated form.
    Check: Llama-3.1-8B, 3 * 4096 * 14336 per layer.
        >>> LLAMA_8B.parts["mlp"] // 32
        176160768
    """
    if gated and fused:
        inventory.add_linear(f"{prefix}gate_up_proj", part, hidden_size, 2 * mlp_width, layers, bias=bias)
    else:
        if gated:
            inventory.add_linear(f"{prefix}gate_proj", part, hidden_size, mlp_width, layers, bias=bias)
        inventory.add_linear(f"{prefix}up_proj", part, hidden_size, mlp_width, layers, bias=bias)
    inventory.add_linear(f"{prefix}down_proj", part, mlp_width, hidden_size, layers, bias=bias)


def dense_mlp_width(reader: Reader, family: str, hidden_size: int) -> int:
    """Width of the dense MLP; some families have their own keys and rules."""
    if family == "llama4_text":
        return reader.size("intermediate_size_mlp", reader.size("intermediate_size"))
    if family == "mpt":
        return hidden_size * reader.size("expansion_ratio", 4)
    if family == "qwen":
        return reader.size("intermediate_size") // 2
    if family == "lfm2":
        mlp_width = reader.size("intermediate_size")
        if reader.flag("block_auto_adjust_ff_dim", default=True):
            mlp_width = int(int(2 * mlp_width / 3) * reader.number("block_ffn_dim_multiplier", 1.0))
            multiple = reader.size("block_multiple_of", 256)
            mlp_width = multiple * -(-mlp_width // multiple)
        return mlp_width
    value = reader.find_value("intermediate_size")
    if family in ("granitemoehybrid", "granitemoeshared") and reader.find_value("shared_intermediate_size") is not None:
        return reader.size("shared_intermediate_size")
    return 4 * hidden_size if value is None else reader.size("intermediate_size")


def _single_value(value: Any) -> Any:
    """The single value of a list of equal values, because Hunyuan lists one value per layer."""
    return value[0] if isinstance(value, list) and value and len(set(map(str, value))) == 1 else value


def add_experts(
    inventory: Inventory, reader: Reader, spec: Family, family: str, hidden_size: int, layers: Layers
) -> ExpertRouting:
    """Add the routed experts, their router and the shared experts of all routing layers.

    E - k experts are inactive per token. Raises UnreadableConfiguration if k exceeds E.
    """
    count, k = reader.size("num_experts"), reader.size("experts_per_token")
    empty = reader.integer("zero_expert_num", 0)  # experts that return their input
    if k > count:
        raise UnreadableConfiguration(
            f"The configuration routes each token to {k} experts but has only {count}.", key="num_experts_per_tok"
        )
    k = max(1, round(k * count / (count + empty)))  # on average, if the router balances the load
    mlp_width = (
        dense_mlp_width(reader, family, hidden_size) if family == "grok-1" else reader.integer("intermediate_size", 0)
    )
    stated_width = reader.config.get("intermediate_size")
    expert_width = reader.size("moe_intermediate_size", stated_width if type(stated_width) is int else mlp_width)
    own_widths = (reader.integer(key, 0) for key in ("moe_latent_size", "routed_expert_hidden_size", "moe_hidden_size"))
    matrices_in = next(filter(None, own_widths), hidden_size)
    part = Part.ROUTED_EXPERTS
    bias = spec.expert_bias
    if spec.gated:
        inventory.add_linear(
            "experts.gate_proj", part, matrices_in, expert_width, layers, copies=count, used=k, bias=bias
        )
    inventory.add_linear("experts.up_proj", part, matrices_in, expert_width, layers, copies=count, used=k, bias=bias)
    inventory.add_linear("experts.down_proj", part, expert_width, matrices_in, layers, copies=count, used=k, bias=bias)
    if matrices_in != hidden_size:
        inventory.add_linear("latent_in", Part.SHARED_EXPERTS, hidden_size, matrices_in, layers)
        inventory.add_linear("latent_out", Part.SHARED_EXPERTS, matrices_in, hidden_size, layers)
        norms = 2 if family == "muse_spark_text" else int(reader.flag("latent_moe_use_norm"))
        inventory.add_vector("latent_norm", Part.NORMS, norms * matrices_in, layers)
    inventory.add_linear(
        "router", Part.ROUTER, hidden_size, count + empty, layers, bias=spec.router_bias, quantized=False
    )
    inventory.add_vector("router.correction_bias", Part.ROUTER, count if family == "ernie4_5_moe" else 0, layers)
    if family == "gemma4_text":
        inventory.add_vector("router.scales", Part.ROUTER, hidden_size + count, layers)
    shared = _shared_width(reader, family, expert_width, mlp_width)
    add_mlp(
        inventory,
        Part.SHARED_EXPERTS,
        hidden_size,
        shared,
        layers,
        gated=spec.gated,
        bias=family in _SHARED_BIAS and reader.flag(spec.mlp_bias),
        prefix="shared_expert.",
    )
    if shared and spec.shared_gate:
        inventory.add_linear("shared_expert_gate", Part.ROUTER, hidden_size, 1, layers, quantized=False)
    if family == "arctic":
        add_mlp(inventory, Part.MLP, hidden_size, hidden_size, layers, gated=True, prefix="residual.")
        inventory.add_vector("residual_norm", Part.NORMS, hidden_size, layers)
    return ExpertRouting(len(layers), count, k, float(k * expert_width + shared))


def _shared_width(reader: Reader, family: str, expert_width: int, mlp_width: int) -> int:
    for key in (
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "shared_experts_intermediate_size",
        "share_expert_dim",
        "share_expert_dims",
    ):
        value = reader.integer(key, 0)
        if value:
            return value
    if family == "llama4_text":
        return mlp_width
    number = _single_value(reader.find_value("num_shared_experts"))
    return int(number) * expert_width if isinstance(number, int) else 0


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
    hidden_size = reader.size("hidden_size")
    layers = reader.size("num_hidden_layers", len(blocks) if isinstance(blocks, list) else None)
    if family == "longcat_flash" and "num_layers" in text:
        layers = 2 * reader.size("num_layers")  # each has two attention layers
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
        step_state_bytes=inventory.step_state_bytes,
        recurrent_flops_per_token=inventory.recurrent_flops,
        absent_parts=sum((not x.mixer) + (not x.feed_forward) for x in schedule),
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
    return read_head_dim(reader, spec, hidden_size=hidden_size, heads=heads)


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
    by_kind = group_layers(schedule, lambda x: (x.mixer, x.kv_heads, x.queries))
    for (mixer, kv_heads, queries), layers in by_kind.items():
        if mixer == "":
            continue
        if mixer in MIXERS or mixer == PARALLEL:
            MIXERS["mamba2" if mixer == PARALLEL else mixer](inventory, reader, hidden_size, layers)
        if mixer in MIXERS:
            continue
        if mixer == "matrix":
            inventory.add_linear("linear_attn", Part.ATTENTION, hidden_size, hidden_size, layers)
        else:
            own = (kv_heads, queries)
            groups += _add_attention(inventory, reader, spec, family, hidden_size, mixer, own, layers)
    return tuple(groups)


def _add_attention(
    inventory: Inventory,
    reader: Reader,
    spec: Family,
    family: str,
    hidden_size: int,
    mixer: str,
    own_heads: tuple[int, int],
    layers: tuple[int, ...],
) -> tuple[AttentionGroup, ...]:
    """Add one kind of attention, selected by the family and the layer. `own_heads` are the key/value heads and query
    heads of layers that have their own, else 0.
    """
    if family == "deepseek_v4":
        ratio = int(mixer.removeprefix("compressed_")) if mixer != "window" else 0
        return add_compressed_attention(inventory, reader, hidden_size=hidden_size, layers=layers, ratio=ratio)
    if reader.integer("kv_lora_rank", 0):
        return _add_latent(inventory, reader, spec, family, hidden_size, mixer, layers)
    heads = read_heads(reader, spec, family, hidden_size=hidden_size, kv_heads=own_heads[0], queries=own_heads[1])
    if mixer == "sparse":
        return add_sparse_attention(inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers)
    if mixer == "cross":
        return _add_cross_attention(inventory, reader, spec, hidden_size, heads, layers)
    windowed = mixer.endswith("window")
    window = window_tokens(reader, family) if windowed else None
    own: dict[str, Any] = {"gate": spec.query_gate and reader.flag("attn_output_gate", default=True)}
    if family == "gemma4_text":
        heads, own = _gemma4_heads(reader, heads, mixer)
    elif family in ("mimo_v2_flash", "inkling_text"):
        heads, own = _mimo_heads(reader, heads, windowed=windowed)
    elif family == "gemma3n_text":
        own = {"reuses_cache": mixer.startswith("reused")}
    else:
        own["sinks"] = spec.sinks
    return add_grouped_attention(
        inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers, window=window, **own
    )


# Sizes of the windowed layers of dots3 if the file states none: the library's defaults.
_WINDOWED_LATENT = {"num_attention_heads": 64, "kv_lora_rank": 1024, "qk_nope_head_dim": 192, "v_head_dim": 128}


def _add_latent(
    inventory: Inventory,
    reader: Reader,
    spec: Family,
    family: str,
    hidden_size: int,
    mixer: str,
    layers: tuple[int, ...],
) -> tuple[AttentionGroup, ...]:
    """Add one kind of latent attention. Windowed layers of dots3 have sizes of their own and no indexer."""
    window = window_tokens(reader, family) if family == "dots3_note_text" and mixer == "window" else None
    if window:
        listed = reader.nested_part("per_layer_config")
        own = listed.nested_part(f"{layers[0]:02d}" if f"{layers[0]:02d}" in listed.config else str(layers[0]))
        sizes = {key: own.integer(key, reader.integer(f"swa_{key}", usual)) for key, usual in _WINDOWED_LATENT.items()}
        reader = Reader({**reader.config, **sizes, "index_n_heads": 0}, reader.model_type, nested=reader.nested)
    gated = family == "hy_v4" or reader.flag("mla_use_output_gate")
    gate_size = 1 if family == "dots3_note_text" else reader.size("v_head_dim") if gated else 0
    if spec.sinks:
        inventory.add_vector("sinks", Part.ATTENTION, reader.size("num_attention_heads"), layers)
    if family == "dots3_note_text":
        inventory.add_vector("k_rope_norm", Part.NORMS, reader.size("qk_rope_head_dim"), layers)
    return add_latent_attention(
        inventory,
        reader,
        hidden_size=hidden_size,
        layers=layers,
        gate_size=gate_size,
        indexed=() if window else layers_with_indexer(reader, layers),
        window=window,
    )


def _gemma4_heads(reader: Reader, heads: Heads, mixer: str) -> tuple[Heads, dict[str, Any]]:
    """Heads of Gemma 4. Full layers have their own head size, can use keys as values, and can reuse earlier caches."""
    windowed = mixer.endswith("window")
    alternative = not windowed and reader.flag("attention_k_eq_v")
    if not windowed:
        size = reader.size("global_head_dim", heads.key_size)
        shared = reader.size("num_global_key_value_heads", heads.kv_heads) if alternative else heads.kv_heads
        heads = Heads(heads.queries, shared, size, size)
    return heads, {"keys_are_values": alternative, "reuses_cache": mixer.startswith("reused")}


def _mimo_heads(reader: Reader, heads: Heads, *, windowed: bool) -> tuple[Heads, dict[str, Any]]:
    """Heads of MiMo and Inkling. Windowed layers have their own heads, and sinks if the file says so."""
    prefix = "swa_" if windowed else ""
    own = Heads(
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
    heads: Heads,
    layers: tuple[int, ...],
) -> tuple[AttentionGroup, ...]:
    """Add layers that attend only to the image: they cache image tokens once and no text (Llama 3.2 Vision)."""
    (group,) = add_grouped_attention(inventory, reader, spec, hidden_size=hidden_size, heads=heads, layers=layers)
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
    every = tuple(range(len(schedule)))
    norms = _norms_per_block(reader, spec, family)
    if family == "bitnet":
        width = hidden_size + dense_mlp_width(reader, family, hidden_size)
        inventory.add_vector("sub_norms", Part.NORMS, width, every)
    if family == "nemotron-nas":  # sublayers that are left out have no norm
        present = sum((x.mixer != "") + (x.feed_forward != "") for x in schedule)
        inventory.add_vector("norms", Part.NORMS, hidden_size, tuple(range(present)))
    else:
        inventory.add_vector("norms", Part.NORMS, norms * spec.norm_vectors * hidden_size, every)
    if family == "gemma4_text":
        inventory.add_vector(
            "moe_norms", Part.NORMS, 3 * hidden_size, tuple(i for i in every if schedule[i].feed_forward == "both")
        )
    if rank := reader.integer("gated_norm_rank", 0):  # a gate of low rank on each norm, but before a dense MLP
        gates = 2 * len(schedule) - sum(layer.feed_forward == "mlp" for layer in schedule)
        inventory.add_vector("norm_gates", Part.NORMS, gates * 2 * rank * hidden_size)
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
    rows = vocabulary + (8 if family == "mllama_text_model" else reader.integer("additional_vocab_size", 0))
    inventory.add_table("embed_tokens", rows, width)
    if width != hidden_size:
        inventory.add_linear("project_in", Part.OTHER, width, hidden_size, ONCE)
        inventory.add_linear("project_out", Part.OTHER, hidden_size, width, ONCE)
    if spec.positions:
        inventory.add_table("embed_positions", reader.size(spec.positions) + spec.extra_positions, hidden_size)
    small = reader.integer("hidden_size_per_layer_input", 0)
    if family == "gemma3n_text":
        _add_alternating_updates(inventory, reader, hidden_size, layers)
    if family in ("gemma3n_text", "gemma4_text") and small:
        every = tuple(range(layers))
        inventory.add_table(
            "embed_tokens_per_layer", reader.size("vocab_size_per_layer_input", vocabulary), layers * small
        )
        inventory.add_linear("per_layer_model_projection", Part.OTHER, hidden_size, layers * small, ONCE)
        inventory.add_linear("per_layer_input_gate", Part.OTHER, hidden_size, small, every)
        inventory.add_linear("per_layer_projection", Part.OTHER, small, hidden_size, every)
        inventory.add_vector("post_per_layer_input_norm", Part.NORMS, hidden_size, every)
        inventory.add_vector("per_layer_projection_norm", Part.NORMS, small)
    if family in ("deepseek_v4", "hy_v4", "glm5_next_text"):
        _add_hyper_connections(inventory, reader, family, hidden_size, layers)
    if headless:
        return
    if reader.architecture_class.endswith("ForSequenceClassification"):
        inventory.add_linear("score", Part.HEAD, hidden_size, class_count(reader), ONCE, quantized=False, per=Per.NEVER)
        return
    bias = spec.head_bias if isinstance(spec.head_bias, bool) else reader.flag(spec.head_bias)
    inventory.add_head(width, vocabulary, tied=tied, bias=bias)


def _add_alternating_updates(inventory: Inventory, reader: Reader, hidden_size: int, layers: int) -> None:
    """Add the matrices around the blocks of Gemma 3n: AltUp predicts and corrects several residual streams, and LAuReL
    is a residual of low rank.

    Source: AltUp (arXiv:2301.13310), LAuReL (arXiv:2411.07501).
    """
    streams, rank, every = reader.size("altup_num_inputs", 4), reader.size("laurel_rank", 64), tuple(range(layers))
    inventory.add_linear("altup_projections", Part.OTHER, hidden_size, hidden_size, ONCE, copies=streams - 1)
    inventory.add_linear("altup_unembed_projections", Part.OTHER, hidden_size, hidden_size, ONCE, copies=streams - 1)
    inventory.add_linear("laurel.linear_left", Part.OTHER, hidden_size, rank, every)
    inventory.add_linear("laurel.linear_right", Part.OTHER, rank, hidden_size, every)
    inventory.add_linear("altup.modality_router", Part.OTHER, hidden_size, streams, every, quantized=False)
    inventory.add_vector("altup.coefficients", Part.OTHER, streams**2 + streams**3, every)
    inventory.add_vector("altup.norms_and_scale", Part.NORMS, 3 * hidden_size, every)


def _add_hyper_connections(inventory: Inventory, reader: Reader, family: str, hidden_size: int, layers: int) -> None:
    """Add hyper-connections: each sublayer computes the weights with which it reads and writes several residual
    streams, and in DeepSeek-V4 and GLM-5 Next mixes them. GLM-5 Next joins them without weights at the end.
    """
    streams, mixes = reader.size("hc_mult"), family != "hy_v4"
    weights = (2 + streams * mixes) * streams
    every = tuple(range(layers))
    inventory.add_linear(
        "hyper_connection",
        Part.OTHER,
        streams * hidden_size,
        weights,
        every,
        bias=weights + 2 + mixes,
        copies=2,
        quantized=False,
    )
    joined = 0 if family == "glm5_next_text" else streams * hidden_size * streams + streams + 1
    inventory.add_vector("hyper_head", Part.OTHER, joined)


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
