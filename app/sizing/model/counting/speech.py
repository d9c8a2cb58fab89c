"""Encoders of speech in front of a language model, and their projectors.

Source: the model definitions of the transformers library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.tensors import ONCE, Inventory, Part

PART = Part.ENCODER_TOWER


def add_conformer(into: Inventory, width: int, layers: int, heads: int, kernel: int, channels: Sequence[int]) -> None:
    """Add a conformer for speech: two half feed-forward parts around attention and a convolution."""
    first, second = channels
    attention, feed_forward, convolution = (
        5 * width * width + width // heads,
        2 * (8 * width * width + 2 * width),
        3 * width * width + (kernel + 2) * width,
    )
    into.add_vector("audio.layers", PART, attention + feed_forward + convolution + 3 * width, tuple(range(layers)))
    subsampling = 9 * first + first + 9 * first * second + second + second * 32 * width
    into.add_vector("audio.subsampling", PART, subsampling)


# Models that read images and speech, and the type of their vision tower.
OMNI_TYPES = {
    **dict.fromkeys(("qwen2_5_omni", "qwen2_5_omni_thinker"), "qwen2_5_vl"),
    **dict.fromkeys(("qwen3_omni_moe", "qwen3_omni_moe_thinker"), "qwen3_vl_moe"),
}
SPEECH_TYPES = frozenset({"voxtral", "voxtral_realtime", "glmasr", "qwen2_audio", "qwen3_asr", *OMNI_TYPES})


def _speech_projector_size(kind: str, width: int, mlp: int, text: int) -> int:
    """Elements of the projector from an encoder of speech to a text model of a width."""
    match kind:
        case "voxtral":
            return mlp * text + text * text
        case "glmasr":
            return mlp * 2 * text + 2 * text * text + 3 * text
        case "qwen3_asr" | "qwen3_omni_moe" | "qwen3_omni_moe_thinker":
            return width * (width + 1) + (width + 1) * text
    return (width + 1) * text


def read_speech_tower(config: Config, model: ModelArchitecture) -> ModelArchitecture:
    """The model with its encoder of speech: Whisper's, or Qwen3's with three convolutions over the spectrum."""
    kind, outer = str(config.get("model_type")), Reader(config)
    thinker = outer.nested_part("thinker_config")
    audio = (thinker if thinker.config else outer).nested_part("audio_config")
    width = audio.integer("d_model", 0) or audio.size("hidden_size", 1280)
    mlp = audio.integer("encoder_ffn_dim", 0) or audio.size("intermediate_size", 4 * width)
    layers = audio.integer("encoder_layers", 0) or audio.size("num_hidden_layers", 32)
    bands, channels = audio.size("num_mel_bins", 128), audio.integer("downsample_hidden_size", 0)
    into = Inventory()
    if kind == "voxtral_realtime":
        _add_realtime_encoder(into, outer, audio, model)
        return replace(model, tensors=(*model.tensors, *into.tensors))
    block = 4 * width * width + (9 if channels else 8) * width + 2 * width * mlp + mlp  # Whisper's keys have no bias
    into.add_vector("speech.layers", PART, block, tuple(range(layers)))
    if channels:
        front = 9 * channels + 18 * channels**2 + 3 * channels + channels * (bands // 8) * width
    else:
        positions = 0 if kind == "glmasr" or kind in OMNI_TYPES else audio.integer("max_source_positions", 1500)
        front = 3 * bands * width + 3 * width * width + 2 * width + positions * width
    into.add_vector("speech.front", PART, front + 2 * width, ONCE)
    text = audio.integer("output_dim", 0) or model.hidden_size
    into.add_vector("speech.projector", PART, _speech_projector_size(kind, width, mlp, text), ONCE)
    return replace(model, tensors=(*model.tensors, *into.tensors))


def _add_realtime_encoder(into: Inventory, outer: Reader, audio: Reader, model: ModelArchitecture) -> None:
    """Add the causal encoder of Voxtral Realtime, its projector of four positions at once, and the norms of its text
    model, which adapt to the delay.
    """
    width, mlp = audio.size("hidden_size", 1280), audio.size("intermediate_size", 5120)
    bands, inner = audio.size("num_mel_bins", 128), audio.size("num_attention_heads", 32) * audio.size("head_dim", 64)
    block = 4 * width * inner + 2 * inner + 2 * width + 3 * width * mlp + 2 * width
    into.add_vector("speech.layers", PART, block, tuple(range(audio.size("num_hidden_layers", 32))))
    into.add_vector("speech.front", PART, 3 * bands * width + 3 * width * width + 3 * width)
    text, joined = model.hidden_size, width * outer.size("downsample_factor", 4)
    into.add_vector("speech.projector", PART, joined * text + text * text)
    into.add_vector("delay_norms", Part.NORMS, 2 * 32 * text, tuple(range(model.num_layers)))


def add_phi4_encoder(into: Inventory, audio: Reader, text: int) -> None:
    """Add Phi-4 multimodal's conformer: convolutions over the spectrum, blocks with one gated part on each side, and a
    projector each for speech alone and for speech with images.
    """
    width, mlp = audio.size("hidden_size", 1024), audio.size("intermediate_size", 1536)
    channels, kernel = audio.size("nemo_conv_channels", 1024), audio.size("kernel_size", 3)
    out, deep = audio.size("ext_pw_out_channel", 1024), audio.size("depthwise_separable_out_channel", 1024)
    steps = (audio.size("time_reduction", 8).bit_length() - 1) or 1
    rows = audio.size("bias_max_distance", 1000) * (1 if audio.flag("bias_symmetric") else 2)
    feed_forward = 2 * width + width * 2 * mlp + 2 * mlp + mlp * width + width
    attention = 4 * (width * width + width)
    convolution = 2 * width + 2 * out + (width + 1) * 2 * out + width * kernel + width + width * deep + deep
    convolution += (deep + 1) * out
    block = 2 * feed_forward + attention + convolution + 4 * width
    into.add_vector("speech.layers", PART, block, tuple(range(audio.size("num_blocks", 24))))
    front = steps * (9 * channels + channels) + (steps - 1) * (channels * channels + channels)
    front += channels * audio.size("nemo_final_size", 10) * width + width
    into.add_vector("speech.front", PART, front + rows * audio.size("num_attention_heads", 16))
    into.add_vector("speech.projector", PART, 2 * ((width + 1) * text + (text + 1) * text))


def add_muse_encoder(into: Inventory, audio: Reader, text: int) -> None:
    """Add Muse Spark's encoder of sound: stages that join steps, each with blocks of a convolution and an MLP."""
    before, kernel = 1, audio.size("conv_kernel_size", 7)
    widths = audio.size_list("hidden_sizes", most=10**6, default=(256, 512, 1024, 2048))
    steps = audio.size_list("patch_sizes", most=10**4, default=(16, 6, 5, 4))
    depths = audio.size_list("depths", most=1000, default=(2,) * len(widths))
    ratio = audio.number("mlp_ratio", 4.0)
    for width, step, depth in zip(widths, steps, depths, strict=True):
        inner = int(ratio * width)
        block = width * kernel + 2 * width + 2 * width * inner + inner + width
        into.add_vector("speech.stage", PART, step * before * width + 2 * width + depth * block)
        before = width
    into.add_vector("speech.projector", PART, before + (before + 1) * text + text)


def add_dots3_encoder(into: Inventory, audio: Reader, text: int) -> None:
    """Add the encoder of speech of dots3: three convolutions over the spectrum, gated blocks, and an adapter."""
    width, mlp = audio.size("hidden_size", 1280), audio.size("intermediate_size", 5120)
    channels, layers = audio.size("downsample_hidden_size", 480), audio.size("num_hidden_layers", 32)
    block = 4 * width * width + 3 * width + 3 * width * mlp + 2 * mlp + 3 * width
    into.add_vector("speech.layers", PART, block, tuple(range(layers)))
    front = 9 * channels + 18 * channels**2 + 3 * channels + audio.size("conv_output_size", 7680) * width
    into.add_vector("speech.front", PART, front + width)
    into.add_vector("speech.projector", PART, 2 * width + (width + 1) * text + (text + 1) * text)
