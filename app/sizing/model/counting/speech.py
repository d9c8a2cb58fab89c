"""Networks that read a waveform: wav2vec 2.0 and HuBERT."""

from __future__ import annotations

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.blocks import add_blocks, block_macs, build_sample_model
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import SampleLaw
from app.sizing.model.tensors import ONCE, Inventory, Part, Per

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
