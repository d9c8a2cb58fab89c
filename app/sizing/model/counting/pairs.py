"""Encoder-decoders: the source is read once, then tokens are generated that look back at it (T5, BART, Whisper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.encoder import EncoderPass
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import SampleLaw
from app.sizing.model.tensors import Inventory, Part, Per

Layers = tuple[int, ...]
FRAMES_PER_SECOND = 50.0  # Whisper: 1 500 positions for 30 s, always padded


@dataclass(frozen=True, slots=True)
class PairFamily:
    """Blocks of an encoder-decoder type."""

    bias: bool = True
    key_bias: bool = True
    norm_vectors: int = 2
    embedding_norm: bool = True
    extra_positions: int = 2
    learned_positions: bool = True  # else computed, and no parameter
    final_norms: bool = False


FAMILIES: Mapping[str, PairFamily] = {
    "bart": PairFamily(),
    "mbart": PairFamily(final_norms=True),
    "pegasus": PairFamily(embedding_norm=False, extra_positions=0, final_norms=True),
    "m2m_100": PairFamily(embedding_norm=False, learned_positions=False, final_norms=True),
    "whisper": PairFamily(key_bias=False, embedding_norm=False, extra_positions=0, final_norms=True),
}


def _block(
    inventory: Inventory, spec: PairFamily, side: str, layers: Layers, *, d: int, f: int, cross: bool, per: Per
) -> None:
    """Self-attention, attention to the encoder where `cross`, and a plain MLP.

    Keys and values of the encoder's output are projected once per source position, not per token.
    """
    for which, source in (("self", per), *((("cross", per),) if cross else ())):
        for role in ("q_proj", "k_proj", "v_proj", "o_proj"):
            bias = spec.bias and (role != "k_proj" or spec.key_bias)
            once = which == "cross" and role in ("k_proj", "v_proj")
            kind = Per.NEVER if once else source
            inventory.linear(
                f"{side}.{which}.{role}" if which == "cross" else role,
                Part.ATTENTION,
                d,
                d,
                layers,
                bias=bias,
                per=kind,
            )
    inventory.linear("up_proj", Part.MLP, d, f, layers, bias=spec.bias, per=per)
    inventory.linear("down_proj", Part.MLP, f, d, layers, bias=spec.bias, per=per)
    inventory.vector("norms", Part.NORMS, (3 if cross else 2) * spec.norm_vectors * d, layers)


def read_bart(config: Config, name: str) -> ModelArchitecture:
    """BART's shape, which Whisper shares behind two convolutions.

    Source: Lewis et al. 2019 (arXiv:1910.13461), Radford et al. 2022 (arXiv:2212.04356).
    Check: Whisper large-v3 and BART-base.
        >>> registered("openai/whisper-large-v3").total_params, registered("facebook/bart-base").total_params
        (1543490560, 139420416)
    """
    family = str(config["model_type"])
    spec, reader = FAMILIES[family], Reader(config, family)
    d, vocabulary = reader.size("d_model"), reader.size("vocab_size")
    encoder, decoder = reader.size("encoder_layers"), reader.size("decoder_layers")
    n, f, wide = reader.size("decoder_attention_heads"), reader.size("decoder_ffn_dim"), reader.size("encoder_ffn_dim")
    speech = family == "whisper"
    inventory = Inventory()
    _block(inventory, spec, "encoder", tuple(range(encoder)), d=d, f=wide, cross=False, per=Per.SOURCE)
    _block(inventory, spec, "decoder", tuple(range(decoder)), d=d, f=f, cross=True, per=Per.TOKEN)
    inventory.table("embed_tokens", vocabulary, d)
    context = _positions(inventory, reader, spec, d, speech=speech)
    inventory.vector("embedding_norms", Part.NORMS, 4 * d if spec.embedding_norm else 0)
    inventory.vector("final_norms", Part.NORMS, 4 * d if spec.final_norms else 0)
    tied = reader.flag("tie_word_embeddings!")
    inventory.head(d, vocabulary, tied=tied)
    if not tied and not speech:  # each side then keeps a table of its own beside the common one
        inventory.table("embed_tokens_encoder", vocabulary, d)
        inventory.table("embed_tokens_decoder", vocabulary, d)
    model = ModelArchitecture(
        name=name,
        kind=ModelKind.SAMPLES if speech else ModelKind.DECODER,
        family=family,
        num_layers=decoder,
        hidden_size=d,
        num_heads=n,
        head_dim=d // n,
        mlp_width=float(f),
        vocab_size=vocabulary,
        tensors=tuple(inventory.tensors),
        attention=(AttentionGroup(decoder, 2.0 * d, n, 2.0 * d, 2.0 * d),),
        max_context_tokens=context,
        tied_head=tied,
        encoder=EncoderPass(encoder, d, 2.0 * d, float(wide)),
        source="closed form of the configuration",
    )
    return model if not speech else _whisper(model, reader, d, encoder)


def _positions(inventory: Inventory, reader: Reader, spec: PairFamily, d: int, *, speech: bool) -> int:
    """Position tables of both sides, and the convolutions over speech; the decoder's longest context."""
    if speech:
        mels, source = reader.size("num_mel_bins", 80), reader.size("max_source_positions", 1500)
        context = reader.size("max_target_positions", 448)
        inventory.table("embed_positions", source + context, d)
        inventory.vector("convolutions", Part.OTHER, mels * d * 3 + d + d * d * 3 + d)
        return context
    context = reader.size("max_position_embeddings", 1024)
    if spec.learned_positions:
        inventory.table("embed_positions", 2 * (context + spec.extra_positions), d)
    return context


def _whisper(model: ModelArchitecture, reader: Reader, d: int, layers: int) -> ModelArchitecture:
    """Speech in windows of 30 s: one pass of the encoder, then a pass of the decoder for each token of text."""
    window = reader.size("max_source_positions", 1500) / FRAMES_PER_SECOND
    positions = window * FRAMES_PER_SECOND
    cross = 2.0 * 2 * d * d * model.num_layers  # keys and values of the encoder's output
    convolutions = 2.0 * (reader.size("num_mel_bins", 80) * d * 3 * 2 + d * d * 3)
    encoder = positions * (2 * model.source_matmul_params + cross + convolutions) + 4 * d * layers * positions**2
    looked_back = 2.0 * model.num_layers * 2 * d * positions
    return model.with_law(
        SampleLaw(
            unit="speech",
            audio_s=window,
            window_s=window,
            text_tokens=round(FIGURES.spoken_tokens_per_s * window),
            flops_fixed=2 * model.matmul_params + looked_back,
            extra_flops_per_window=encoder,
            decodes=True,
            layers=model.num_layers,
            read_bytes_per_pass=2.0 * model.num_layers * 2 * d * positions,
            width_of_positions=d,
            positions_per_second=FRAMES_PER_SECOND,
        )
    )


def read_t5(config: Config, name: str) -> ModelArchitecture:
    """T5 and its multilingual and instruction-tuned relatives.

    Whether the head is tied follows the file; v1.1, Flan and mT5 store an own head although newer
    libraries write the contrary.

    Source: Raffel et al. 2019 (arXiv:1910.10683).
    Check: T5-small.
        >>> registered("google-t5/t5-small").total_params
        60506624
    """
    family = str(config["model_type"])
    reader = Reader(config, family)
    d, n, size = reader.size("d_model"), reader.size("num_heads"), reader.size("d_kv")
    f, vocabulary = reader.size("d_ff"), reader.size("vocab_size")
    encoder = reader.size("num_layers")
    decoder = reader.size("num_decoder_layers", encoder)
    gated = "gated" in str(reader.find("feed_forward_proj") or "")
    inventory, inner = Inventory(), n * size
    for side, count, per in (("encoder", encoder, Per.SOURCE), ("decoder", decoder, Per.TOKEN)):
        _t5_side(inventory, count, per, d=d, inner=inner, f=f, gated=gated, crosses=side == "decoder")
        inventory.table("relative_attention_bias", reader.size("relative_attention_num_buckets", 32), n, Part.OTHER)
    inventory.table("embed_tokens", vocabulary, d)
    tied = reader.flag("tie_word_embeddings", default=not gated)
    inventory.head(d, vocabulary, tied=tied)
    macs = 2.0 * inner
    return ModelArchitecture(
        name=name,
        kind=ModelKind.DECODER,
        family=family,
        num_layers=decoder,
        hidden_size=d,
        num_heads=n,
        head_dim=size,
        mlp_width=float(f),
        vocab_size=vocabulary,
        tensors=tuple(inventory.tensors),
        attention=(AttentionGroup(decoder, 2.0 * inner, n, macs, macs),),
        tied_head=tied,
        encoder=EncoderPass(encoder, d, macs, float(f)),
        source="closed form of the configuration",
    )


def _t5_side(
    inventory: Inventory, count: int, per: Per, *, d: int, inner: int, f: int, gated: bool, crosses: bool
) -> None:
    """Layers of one side; the decoder's also look at the encoder's output."""
    every = tuple(range(count))
    for role in ("q_proj", "k_proj", "v_proj"):
        inventory.linear(role, Part.ATTENTION, d, inner, every, per=per)
    inventory.linear("o_proj", Part.ATTENTION, inner, d, every, per=per)
    if crosses:
        for role, inputs, outputs in (("q", d, inner), ("k", d, inner), ("v", d, inner), ("o", inner, d)):
            inventory.linear(f"cross.{role}_proj", Part.ATTENTION, inputs, outputs, every, per=per)
    for role in ("gate_proj", "up_proj") if gated else ("up_proj",):
        inventory.linear(role, Part.MLP, d, f, every, per=per)
    inventory.linear("down_proj", Part.MLP, f, d, every, per=per)
    inventory.vector("norms", Part.NORMS, (3 if crosses else 2) * d, every)
    inventory.vector("final_norm", Part.NORMS, d)
