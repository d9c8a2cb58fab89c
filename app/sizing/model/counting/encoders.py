"""Encoders such as BERT, for embeddings and reranking: one pass over a text, without a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.tensors import ONCE, Inventory, Part, Per


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """Blocks of an encoder type. `positions` and `types` say whether such tables are learned."""

    bias: bool = True
    gated: bool = False
    positions: bool = True
    types: int | None = 2  # default rows of the token-type table; None if the type has no such table
    norm_vectors: int = 2
    pooler: bool = True  # whether the bare model has a pooler


FAMILIES: Mapping[str, EncoderFamily] = {
    "bert": EncoderFamily(),
    "roberta": EncoderFamily(types=1),
    "xlm-roberta": EncoderFamily(types=1),
    "camembert": EncoderFamily(types=1),
    "jina_embeddings_v3": EncoderFamily(types=1, positions=False),
    "distilbert": EncoderFamily(types=None, pooler=False),
    "mpnet": EncoderFamily(types=None),
    "deberta-v2": EncoderFamily(types=0, positions=False, pooler=False),
    "nomic_bert": EncoderFamily(bias=False, gated=True, positions=False, pooler=False),
    "modernbert": EncoderFamily(bias=False, gated=True, positions=False, types=None, norm_vectors=1, pooler=False),
    "electra": EncoderFamily(pooler=False),
    "albert": EncoderFamily(),
}


def class_count(reader: Reader) -> int:
    """Classes of a classifier: the stated number, or the number of named labels."""
    named = reader.find_value("id2label")
    return reader.integer("num_labels", len(named) if isinstance(named, Mapping) and named else 2)


def read_encoder(config: Config, name: str) -> ModelArchitecture:
    """Counts of an encoder with the head that its `architectures` names.

    Source: Devlin et al. 2018 (arXiv:1810.04805) and the model definitions of the transformers library.
    Check: BERT-base with its masked-language head.
        >>> registered("google-bert/bert-base-uncased").total_params
        109514298
    """
    family = str(config["model_type"])
    spec, reader = FAMILIES[family], Reader(config, family)
    if config.get("position_embedding_type") in ("rotary", "alibi"):
        spec = replace(spec, positions=False)
    hidden_size, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    layers, mlp_width = reader.size("num_hidden_layers"), reader.size("intermediate_size", 4 * hidden_size)
    vocabulary = reader.size("vocab_size")
    inventory = Inventory()
    width = reader.size("embedding_size", hidden_size) if family in ("electra", "albert") else hidden_size
    _add_embeddings(inventory, reader, spec, family, vocabulary=vocabulary, width=width, hidden_size=hidden_size)
    shared = family == "albert"  # all layers share the weights of one
    every, used = ((0,), layers) if shared else (tuple(range(layers)), 1)
    geglu = config.get("feed_forward_type") == "geglu"
    _add_blocks(inventory, spec, every, hidden_size=hidden_size, mlp_width=mlp_width, used=used, geglu=geglu)
    if family == "modernbert":  # the first layer has no norm before its attention
        inventory.add_vector("norms", Part.NORMS, hidden_size, tuple(range(2 * layers - 1)))
        inventory.add_vector("final_norm", Part.NORMS, hidden_size)
    else:
        inventory.add_vector("norms", Part.NORMS, 2 * spec.norm_vectors * hidden_size, every)
    _add_relative_positions(inventory, reader, family, hidden_size, heads)
    _add_head(inventory, reader, spec, family, hidden_size=hidden_size, width=width, vocabulary=vocabulary)
    if family == "jina_embeddings_v3":
        _add_task_adapters(inventory, reader, hidden_size, mlp_width, layers, vocabulary)
    return ModelArchitecture(
        name=name,
        kind=ModelKind.ENCODER,
        family=family,
        num_layers=layers,
        hidden_size=hidden_size,
        num_heads=heads,
        head_dim=hidden_size // heads,
        mlp_width=float(mlp_width),
        vocab_size=vocabulary,
        tensors=tuple(inventory.tensors),
        attention=_attention_groups(reader, family, hidden_size, heads, layers),
        max_context_tokens=reader.integer("max_position_embeddings", 512) or None,
        tied_head=True,
        source="closed form of the configuration",
    )


def _add_blocks(
    inventory: Inventory,
    spec: EncoderFamily,
    layers: tuple[int, ...],
    *,
    hidden_size: int,
    mlp_width: int,
    used: int,
    geglu: bool,
) -> None:
    """Add attention and MLP. The two input products of GEGLU have no bias."""
    for role in ("q_proj", "k_proj", "v_proj", "o_proj"):
        inventory.add_linear(role, Part.ATTENTION, hidden_size, hidden_size, layers, bias=spec.bias, used=used)
    for role in ("gate_proj", "up_proj") if spec.gated or geglu else ("up_proj",):
        inventory.add_linear(role, Part.MLP, hidden_size, mlp_width, layers, bias=spec.bias and not geglu, used=used)
    inventory.add_linear("down_proj", Part.MLP, mlp_width, hidden_size, layers, bias=spec.bias, used=used)


def _attention_groups(
    reader: Reader, family: str, hidden_size: int, heads: int, layers: int
) -> tuple[AttentionGroup, ...]:
    """Attention groups: every position attends to every other, except in ModernBERT's local layers, which have a
    window.
    """
    every = reader.size("global_attn_every_n_layers", 3) if family == "modernbert" else 1
    whole = sum(i % every == 0 for i in range(layers))
    window = float(reader.size("local_attention", 128)) if family == "modernbert" else None

    def build_group(count: int, limit: float | None) -> AttentionGroup:
        return AttentionGroup(count, 0.0, heads, 2.0 * hidden_size, 0.0, window_tokens=limit)

    return tuple(build_group(c, w) for c, w in ((whole, None), (layers - whole, window)) if c)


def _add_embeddings(
    inventory: Inventory,
    reader: Reader,
    spec: EncoderFamily,
    family: str,
    *,
    vocabulary: int,
    width: int,
    hidden_size: int,
) -> None:
    inventory.add_table("embed_tokens", vocabulary, width)
    if spec.positions:
        inventory.add_table("embed_positions", reader.size("max_position_embeddings", 512), width)
    if spec.types is not None:
        inventory.add_table("embed_types", reader.integer("type_vocab_size", spec.types), width)
    inventory.add_vector(
        "embedding_norm", Part.NORMS, spec.norm_vectors * (hidden_size if family == "deberta-v2" else width)
    )
    if width != hidden_size:
        inventory.add_linear("embedding_projection", Part.OTHER, width, hidden_size, ONCE, bias=True, per=Per.TOKEN)


def _add_relative_positions(inventory: Inventory, reader: Reader, family: str, hidden_size: int, heads: int) -> None:
    """Add learned relative positions: buckets per head (MPNet), or vectors that are projected like keys (DeBERTa)."""
    if family == "mpnet":
        inventory.add_table(
            "relative_attention_bias", reader.size("relative_attention_num_buckets", 32), heads, Part.OTHER
        )
    if family == "deberta-v2" and reader.flag("relative_attention"):
        buckets = reader.find_value("position_buckets")
        rows = 2 * (buckets if isinstance(buckets, int) and buckets > 0 else reader.size("max_position_embeddings"))
        inventory.add_table("rel_embeddings", rows, hidden_size, Part.OTHER)
        inventory.add_vector(
            "rel_norm", Part.NORMS, 2 * hidden_size if "layer_norm" in str(reader.find_value("norm_rel_ebd")) else 0
        )
        kernel = reader.integer("conv_kernel_size", 0)
        inventory.add_vector(
            "convolution", Part.OTHER, hidden_size * hidden_size * kernel + 3 * hidden_size if kernel else 0
        )


def _add_head_matrix(inventory: Inventory, role: str, inputs: int, outputs: int, *, bias: bool = True) -> None:
    """Add a matrix of the head, which is multiplied once per text, not per token."""
    inventory.add_linear(role, Part.HEAD, inputs, outputs, ONCE, bias=bias, quantized=False, per=Per.NEVER)


def _add_head(
    inventory: Inventory,
    reader: Reader,
    spec: EncoderFamily,
    family: str,
    *,
    hidden_size: int,
    width: int,
    vocabulary: int,
) -> None:
    architecture_class = reader.architecture_class
    modern = family == "modernbert"
    if architecture_class.endswith(("ForMaskedLM", "ForPreTraining")) and not (
        family == "electra" and architecture_class.endswith("ForPreTraining")
    ):
        _add_head_matrix(inventory, "transform", hidden_size, width, bias=not modern)
        inventory.add_vector("transform_norm", Part.HEAD, (1 if modern else 2) * width)
        inventory.add_vector("decoder.bias", Part.HEAD, vocabulary if reader.flag("decoder_bias!") else 0)
        if not reader.flag("tie_word_embeddings!"):
            second = family not in ("modernbert", "distilbert")
            _add_head_matrix(inventory, "decoder", width, vocabulary, bias=second)
    elif architecture_class.endswith("ForPreTraining"):
        _add_head_matrix(inventory, "dense", hidden_size, hidden_size)
        _add_head_matrix(inventory, "prediction", hidden_size, 1)
    elif architecture_class.endswith("ForSequenceClassification"):
        _add_head_matrix(inventory, "pooler", hidden_size, hidden_size, bias=not modern)
        inventory.add_vector("pooler_norm", Part.HEAD, hidden_size if modern else 0)
        _add_head_matrix(inventory, "classifier", hidden_size, class_count(reader))
    elif spec.pooler:
        _add_head_matrix(inventory, "pooler", hidden_size, hidden_size)


def _add_task_adapters(
    inventory: Inventory, reader: Reader, hidden_size: int, mlp_width: int, layers: int, vocabulary: int
) -> None:
    """Add the low-rank adapters of Jina v3: five tasks, on every matrix and table."""
    rank = reader.size("lora_rank", 4)
    tasks = reader.find_value("lora_adaptations")
    count = len(tasks) if isinstance(tasks, list) and tasks else 5
    types = reader.integer("type_vocab_size", 1)
    layer = 4 * hidden_size + 2 * hidden_size + 2 * (hidden_size + mlp_width)
    inventory.add_vector(
        "task_adapters",
        Part.OTHER,
        count * rank * (layers * layer + (vocabulary + hidden_size) + (types + hidden_size) + 2 * hidden_size),
    )
