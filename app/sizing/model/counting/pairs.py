"""Encoder-decoders: the encoder reads the source once, then the decoder generates tokens (T5, BART, Whisper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.encoder import EncoderPass
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import SampleLaw
from app.sizing.model.tensors import Inventory, Part, Per

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


FAMILIES: Mapping[str, PairFamily] = {
    "bart": PairFamily(),
    "mbart": PairFamily(final_norms=True),
    "pegasus": PairFamily(embedding_norm=False, extra_positions=0, final_norms=True),
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
    """The model of an encoder and a decoder."""
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
    spec, reader = FAMILIES[family], Reader(config, family)
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
