"""Encoders (BERT), encoder-decoders (T5, BART, Whisper) and networks that read a waveform (wav2vec 2.0, HuBERT)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import AttentionGroup, EncoderPass, ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.counting.denoisers import add_blocks, block_macs, build_sample_model
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import SampleLaw
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
    gate_bias: bool = True  # whether the input products of a gated MLP have the biases of the others


ENCODER_FAMILIES: Mapping[str, EncoderFamily] = {
    "bert": EncoderFamily(),
    "ernie": EncoderFamily(),
    **dict.fromkeys(("gte", "new"), EncoderFamily(gated=True, positions=False, types=0, gate_bias=False)),
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
    spec, reader = ENCODER_FAMILIES[family], Reader(config, family)
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
    if config.get("feed_forward_type") == "geglu":
        spec = replace(spec, gated=True, gate_bias=False)
    _add_blocks(inventory, spec, every, hidden_size=hidden_size, mlp_width=mlp_width, used=used)
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
) -> None:
    """Add attention and MLP."""
    for role in ("q_proj", "k_proj", "v_proj", "o_proj"):
        inventory.add_linear(role, Part.ATTENTION, hidden_size, hidden_size, layers, bias=spec.bias, used=used)
    bias = spec.bias and spec.gate_bias
    for role in ("gate_proj", "up_proj") if spec.gated else ("up_proj",):
        inventory.add_linear(role, Part.MLP, hidden_size, mlp_width, layers, bias=bias, used=used)
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
    if family == "ernie" and reader.flag("use_task_id"):
        inventory.add_table("embed_tasks", reader.size("task_type_vocab_size", 3), width)
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


Layers = tuple[int, ...]
FRAMES_PER_SECOND = 50.0  # Whisper: 1,500 positions per 30 s, always padded


@dataclass(frozen=True, slots=True)
class PairFamily:
    """Blocks of an encoder-decoder type."""

    bias: bool = True
    key_bias: bool = True
    norm_vectors: int = 2
    embedding_norm: bool = True
    extra_positions: int = 2
    learned_positions: bool = True  # False: positions are computed and have no parameters
    final_norms: bool = False


PAIR_FAMILIES: Mapping[str, PairFamily] = {
    "bart": PairFamily(),
    "mbart": PairFamily(final_norms=True),
    "pegasus": PairFamily(embedding_norm=False, extra_positions=0, final_norms=True),
    "marian": PairFamily(embedding_norm=False, extra_positions=0),
    "m2m_100": PairFamily(embedding_norm=False, learned_positions=False, final_norms=True),
    "whisper": PairFamily(key_bias=False, embedding_norm=False, extra_positions=0, final_norms=True),
}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two stacks of layers. The stack with cross-attention (`crosses`) is the decoder."""

    layers: int
    hidden_size: int
    heads_width: int
    mlp_width: int
    crosses: bool

    @property
    def layer_indices(self) -> Layers:
        return tuple(range(self.layers))

    @property
    def multiplied_per(self) -> Per:
        """Unit for which the matrices of this stack are multiplied."""
        return Per.TOKEN if self.crosses else Per.SOURCE


def _add_block(inventory: Inventory, spec: PairFamily, side: Side) -> None:
    """Add self-attention, cross-attention in the decoder, and a plain MLP.

    Keys and values of the encoder output are projected once per source position, not per token.
    """
    h, every = side.hidden_size, side.layer_indices
    for prefix in ("", "decoder.cross.") if side.crosses else ("",):
        for role in ("q_proj", "k_proj", "v_proj", "o_proj"):
            bias = spec.bias and (role != "k_proj" or spec.key_bias)
            per = Per.NEVER if prefix and role in ("k_proj", "v_proj") else side.multiplied_per
            inventory.add_linear(prefix + role, Part.ATTENTION, h, h, every, bias=bias, per=per)
    inventory.add_linear("up_proj", Part.MLP, h, side.mlp_width, every, bias=spec.bias, per=side.multiplied_per)
    inventory.add_linear("down_proj", Part.MLP, side.mlp_width, h, every, bias=spec.bias, per=side.multiplied_per)
    inventory.add_vector("norms", Part.NORMS, (3 if side.crosses else 2) * spec.norm_vectors * h, every)


def _build_pair(
    name: str,
    family: str,
    inventory: Inventory,
    encoder: Side,
    decoder: Side,
    *,
    heads: int,
    vocabulary: int,
    tied: bool,
) -> ModelArchitecture:
    macs = 2.0 * decoder.heads_width
    return ModelArchitecture(
        name=name,
        kind=ModelKind.DECODER,
        family=family,
        num_layers=decoder.layers,
        hidden_size=decoder.hidden_size,
        num_heads=heads,
        head_dim=decoder.heads_width // heads,
        mlp_width=float(decoder.mlp_width),
        vocab_size=vocabulary,
        tensors=tuple(inventory.tensors),
        attention=(AttentionGroup(decoder.layers, macs, heads, macs, macs),),
        tied_head=tied,
        encoder=EncoderPass(encoder.layers, encoder.hidden_size, macs, float(encoder.mlp_width)),
        source="closed form of the configuration",
    )


def read_bart(config: Config, name: str) -> ModelArchitecture:
    """BART and models of its shape. Whisper adds two convolutions in front of the encoder.

    Source: Lewis et al. 2019 (arXiv:1910.13461), Radford et al. 2022 (arXiv:2212.04356).
    Check: Whisper large-v3 and BART-base.
        >>> registered("openai/whisper-large-v3").total_params, registered("facebook/bart-base").total_params
        (1543490560, 139420416)
    """
    family = str(config["model_type"])
    spec, reader = PAIR_FAMILIES[family], Reader(config, family)
    h, vocabulary, heads = reader.size("d_model"), reader.size("vocab_size"), reader.size("decoder_attention_heads")
    encoder_layers, decoder_layers = reader.size("encoder_layers"), reader.size("decoder_layers")
    decoder = Side(decoder_layers, h, h, reader.size("decoder_ffn_dim"), crosses=True)
    encoder = Side(encoder_layers, h, h, reader.size("encoder_ffn_dim"), crosses=False)
    speech = family == "whisper"
    inventory = Inventory()
    for side in (encoder, decoder):
        _add_block(inventory, spec, side)
    inventory.add_table("embed_tokens", vocabulary, h)
    context = _add_positions(inventory, reader, spec, h, speech=speech)
    inventory.add_vector("embedding_norms", Part.NORMS, 4 * h if spec.embedding_norm else 0)
    inventory.add_vector("final_norms", Part.NORMS, 4 * h if spec.final_norms else 0)
    tied = reader.flag("tie_word_embeddings!")
    inventory.add_head(h, vocabulary, tied=tied)
    if not tied and not speech:  # each stack then has its own table in addition to the shared one
        inventory.add_table("embed_tokens_encoder", vocabulary, h)
        inventory.add_table("embed_tokens_decoder", vocabulary, h)
    model = _build_pair(name, family, inventory, encoder, decoder, heads=heads, vocabulary=vocabulary, tied=tied)
    model = replace(model, max_context_tokens=context)
    return _with_speech_law(replace(model, kind=ModelKind.SAMPLES), reader, h, encoder_layers) if speech else model


def _add_positions(inventory: Inventory, reader: Reader, spec: PairFamily, hidden_size: int, *, speech: bool) -> int:
    """Add the position tables of both stacks and the convolutions over speech; return the decoder's longest context."""
    if speech:
        mels, source = reader.size("num_mel_bins", 80), reader.size("max_source_positions", 1500)
        context = reader.size("max_target_positions", 448)
        inventory.add_table("embed_positions", source + context, hidden_size)
        inventory.add_vector(
            "convolutions",
            Part.OTHER,
            mels * hidden_size * 3 + hidden_size + hidden_size * hidden_size * 3 + hidden_size,
        )
        return context
    context = reader.size("max_position_embeddings", 1024)
    if spec.learned_positions:
        inventory.add_table("embed_positions", 2 * (context + spec.extra_positions), hidden_size)
    return context


def _with_speech_law(model: ModelArchitecture, reader: Reader, hidden_size: int, layers: int) -> ModelArchitecture:
    """The model with the law of speech in windows of 30 s: one encoder pass per window, then one decoder pass per text
    token.
    """
    window = reader.size("max_source_positions", 1500) / FRAMES_PER_SECOND
    positions = window * FRAMES_PER_SECOND
    cross = 2.0 * 2 * hidden_size * hidden_size * model.num_layers  # FLOPs of keys and values of the encoder output
    convolutions = 2.0 * (reader.size("num_mel_bins", 80) * hidden_size * 3 * 2 + hidden_size * hidden_size * 3)
    encoder = (
        positions * (2 * model.source_matmul_params + cross + convolutions) + 4 * hidden_size * layers * positions**2
    )
    cross_cache_flops = 2.0 * model.num_layers * 2 * hidden_size * positions
    return model.with_law(
        SampleLaw(
            unit="speech",
            audio_s=window,
            window_s=window,
            text_tokens=round(FIGURES.spoken_tokens_per_s * window),
            flops_fixed=2 * model.matmul_params + cross_cache_flops,
            extra_flops_per_window=encoder,
            decodes=True,
            layers=model.num_layers,
            read_bytes_per_pass=2.0 * model.num_layers * 2 * hidden_size * positions,
            width_of_positions=hidden_size,
            positions_per_second=FRAMES_PER_SECOND,
        )
    )


def read_t5(config: Config, name: str) -> ModelArchitecture:
    """T5 and its multilingual and instruction-tuned variants.

    The file says whether the head is tied. v1.1, Flan and mT5 store a separate head, although newer libraries write
    the contrary.

    Source: Raffel et al. 2019 (arXiv:1910.10683).
    Check: T5-small.
        >>> registered("google-t5/t5-small").total_params
        60506624
    """
    family = str(config["model_type"])
    reader = Reader(config, family)
    h, heads, size = reader.size("d_model"), reader.size("num_heads"), reader.size("d_kv")
    wide, vocabulary, layers = reader.size("d_ff"), reader.size("vocab_size"), reader.size("num_layers")
    encoder = Side(layers, h, heads * size, wide, crosses=False)
    decoder = Side(reader.size("num_decoder_layers", layers), h, heads * size, wide, crosses=True)
    gated = "gated" in str(reader.find_value("feed_forward_proj") or "")
    inventory = Inventory()
    for side in (encoder, decoder):
        _add_t5_side(inventory, side, gated=gated)
        inventory.add_table(
            "relative_attention_bias", reader.size("relative_attention_num_buckets", 32), heads, Part.OTHER
        )
    inventory.add_table("embed_tokens", vocabulary, h)
    tied = reader.flag("tie_word_embeddings", default=not gated)
    inventory.add_head(h, vocabulary, tied=tied)
    return _build_pair(name, family, inventory, encoder, decoder, heads=heads, vocabulary=vocabulary, tied=tied)


def _add_t5_side(inventory: Inventory, side: Side, *, gated: bool) -> None:
    """Add the layers of one stack. Decoder layers also attend to the encoder output."""
    h, inner, every, per = side.hidden_size, side.heads_width, side.layer_indices, side.multiplied_per
    for prefix in ("", "cross.") if side.crosses else ("",):
        for role in ("q_proj", "k_proj", "v_proj"):
            inventory.add_linear(prefix + role, Part.ATTENTION, h, inner, every, per=per)
        inventory.add_linear(prefix + "o_proj", Part.ATTENTION, inner, h, every, per=per)
    for role in ("gate_proj", "up_proj") if gated else ("up_proj",):
        inventory.add_linear(role, Part.MLP, h, side.mlp_width, every, per=per)
    inventory.add_linear("down_proj", Part.MLP, side.mlp_width, h, every, per=per)
    inventory.add_vector("norms", Part.NORMS, (3 if side.crosses else 2) * h, every)
    inventory.add_vector("final_norm", Part.NORMS, h)


AUDIO_SAMPLES_PER_S = 16_000.0


def read_wav2vec2(config: Config, name: str) -> ModelArchitecture:
    """wav2vec 2.0 and HuBERT: convolutions over the waveform at 16 kHz, then an encoder at 50 positions per second.

    Source: Baevski et al. 2020 (arXiv:2006.11477), Hsu et al. 2021 (arXiv:2106.07447).
    Check: wav2vec2-base with a letter head.
        >>> registered("facebook/wav2vec2-base-960h").total_params
        94396320
    """
    family = str(config["model_type"])
    reader = Reader(config, family)
    hidden_size, mlp_width, layers = (
        reader.size("hidden_size"),
        reader.size("intermediate_size"),
        reader.size("num_hidden_layers"),
    )
    inventory = Inventory()
    channels, rate, convolved = _add_waveform_convolutions(inventory, reader)
    inventory.add_vector("projection_norm", Part.NORMS, 2 * channels)
    inventory.add_linear(
        "feature_projection", Part.OTHER, channels, hidden_size, ONCE, bias=True, quantized=False, per=Per.NEVER
    )
    kernel, groups = reader.size("num_conv_pos_embeddings", 128), reader.size("num_conv_pos_embedding_groups", 16)
    inventory.add_vector(
        "positional_convolution", Part.OTHER, hidden_size * (hidden_size // groups) * kernel + hidden_size + kernel
    )
    inventory.add_vector("mask_embedding", Part.OTHER, hidden_size)
    inventory.add_vector("encoder_norm", Part.NORMS, 2 * hidden_size)
    add_blocks(inventory, hidden_size, mlp_width, layers)
    if reader.architecture_class.endswith("ForCTC"):
        letters = reader.size("vocab_size", 32)
        inventory.add_linear(
            "lm_head", Part.HEAD, hidden_size, letters, ONCE, bias=True, quantized=False, per=Per.NEVER
        )
    elif reader.architecture_class.endswith("ForPreTraining"):
        _add_codebooks(inventory, reader, hidden_size, channels)
    positions = convolved / rate + channels * hidden_size + hidden_size * (hidden_size // groups) * kernel
    law = SampleLaw(
        unit="speech",
        audio_s=FIGURES.usual_audio_s,
        positions_per_second=rate,
        flops_per_position=2 * (block_macs(hidden_size, mlp_width, layers) + positions),
        flops_per_pair=4.0 * hidden_size * layers,
        layers=layers,
        width_of_positions=hidden_size,
    )
    heads = reader.size("num_attention_heads")
    return build_sample_model(
        name, family, inventory, law, hidden_size=hidden_size, layers=layers, heads=heads, mlp_width=mlp_width
    )


def _add_waveform_convolutions(inventory: Inventory, reader: Reader) -> tuple[int, float, float]:
    """Add the convolutions over the waveform; return (output channels, positions per second, multiply-adds per
    second).
    """
    dims = reader.size_list("conv_dim", most=10**6, default=(512,) * 7)
    kernels = reader.size_list("conv_kernel", most=1000, default=(10, 3, 3, 3, 3, 2, 2))
    strides = reader.size_list("conv_stride", most=1000, default=(5, 2, 2, 2, 2, 2, 2))
    if not len(dims) == len(kernels) == len(strides):
        raise UnreadableConfiguration(
            "'conv_dim', 'conv_kernel' and 'conv_stride' must each have one entry per convolution.", key="conv_dim"
        )
    before, rate, convolved = 1, AUDIO_SAMPLES_PER_S, 0.0
    bias, every_norm = reader.flag("conv_bias"), reader.find_value("feat_extract_norm") == "layer"
    for i, (out, kernel, stride) in enumerate(zip(dims, kernels, strides, strict=True)):
        rate /= stride
        inventory.add_linear("conv", Part.OTHER, before * kernel, out, ONCE, bias=bias, quantized=False, per=Per.NEVER)
        inventory.add_vector("conv_norm", Part.NORMS, 2 * out if every_norm or i == 0 else 0)
        convolved += rate * before * out * kernel
        before = out
    return before, rate, convolved


def _add_codebooks(inventory: Inventory, reader: Reader, hidden_size: int, channels: int) -> None:
    """Add the codebooks of contrastive pre-training."""
    groups, codes = reader.size("num_codevector_groups", 2), reader.size("num_codevectors_per_group", 320)
    size, projected = reader.size("codevector_dim", 256), reader.size("proj_codevector_dim", 256)
    inventory.add_vector("codevectors", Part.OTHER, codes * size)
    for role, inputs, outputs in (
        ("quantiser", channels, groups * codes),
        ("project_hid", hidden_size, projected),
        ("project_q", size, projected),
    ):
        inventory.add_linear(role, Part.HEAD, inputs, outputs, ONCE, bias=True, quantized=False, per=Per.NEVER)
