"""Networks that read a waveform: wav2vec 2.0 and HuBERT."""

from __future__ import annotations

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.blocks import block_macs, blocks, sample_model
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import SampleLaw
from app.sizing.model.tensors import ONCE, Inventory, Part, Per

SAMPLES_PER_S = 16_000.0


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
    channels, rate, convolved = _waveform(inventory, reader)
    inventory.vector("projection_norm", Part.NORMS, 2 * channels)
    inventory.linear(
        "feature_projection", Part.OTHER, channels, hidden_size, ONCE, bias=True, quantised=False, per=Per.NEVER
    )
    kernel, groups = reader.size("num_conv_pos_embeddings", 128), reader.size("num_conv_pos_embedding_groups", 16)
    inventory.vector(
        "positional_convolution", Part.OTHER, hidden_size * (hidden_size // groups) * kernel + hidden_size + kernel
    )
    inventory.vector("mask_embedding", Part.OTHER, hidden_size)
    inventory.vector("encoder_norm", Part.NORMS, 2 * hidden_size)
    blocks(inventory, hidden_size, mlp_width, layers)
    if reader.architecture.endswith("ForCTC"):
        letters = reader.size("vocab_size", 32)
        inventory.linear("lm_head", Part.HEAD, hidden_size, letters, ONCE, bias=True, quantised=False, per=Per.NEVER)
    elif reader.architecture.endswith("ForPreTraining"):
        _quantiser(inventory, reader, hidden_size, channels)
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
    return sample_model(
        name, family, inventory, law, hidden_size=hidden_size, layers=layers, heads=heads, mlp_width=mlp_width
    )


def _waveform(inventory: Inventory, reader: Reader) -> tuple[int, float, float]:
    """Add the convolutions over the waveform; return (output channels, positions per second, multiply-adds per
    second).
    """
    dims = reader.sizes("conv_dim", most=10**6, default=(512,) * 7)
    kernels = reader.sizes("conv_kernel", most=1000, default=(10, 3, 3, 3, 3, 2, 2))
    strides = reader.sizes("conv_stride", most=1000, default=(5, 2, 2, 2, 2, 2, 2))
    if not len(dims) == len(kernels) == len(strides):
        raise UnreadableConfiguration(
            "'conv_dim', 'conv_kernel' and 'conv_stride' must each have one entry per convolution.", key="conv_dim"
        )
    before, rate, convolved = 1, SAMPLES_PER_S, 0.0
    bias, every_norm = reader.flag("conv_bias"), reader.find("feat_extract_norm") == "layer"
    for i, (out, kernel, stride) in enumerate(zip(dims, kernels, strides, strict=True)):
        rate /= stride
        inventory.linear("conv", Part.OTHER, before * kernel, out, ONCE, bias=bias, quantised=False, per=Per.NEVER)
        inventory.vector("conv_norm", Part.NORMS, 2 * out if every_norm or i == 0 else 0)
        convolved += rate * before * out * kernel
        before = out
    return before, rate, convolved


def _quantiser(inventory: Inventory, reader: Reader, hidden_size: int, channels: int) -> None:
    """Add the codebooks of contrastive pre-training."""
    groups, codes = reader.size("num_codevector_groups", 2), reader.size("num_codevectors_per_group", 320)
    size, projected = reader.size("codevector_dim", 256), reader.size("proj_codevector_dim", 256)
    inventory.vector("codevectors", Part.OTHER, codes * size)
    for role, inputs, outputs in (
        ("quantiser", channels, groups * codes),
        ("project_hid", hidden_size, projected),
        ("project_q", size, projected),
    ):
        inventory.linear(role, Part.HEAD, inputs, outputs, ONCE, bias=True, quantised=False, per=Per.NEVER)
