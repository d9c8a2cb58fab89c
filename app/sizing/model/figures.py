"""Assumed values for counting a model. They apply before a request is read, so a request cannot override them."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption

_NETWORKS = "assumed from the layers of the networks named"
_TRANSFORMERS = "sum of the tensors of a block, as in Korthikanti et al. 2022 (arXiv:2205.05198)"


@dataclass(frozen=True, slots=True)
class CountingFigures:
    """Assumed values, each with the range of the counted networks, a reason and a source."""

    # FLOPs of a network per element that it writes, if its layers are not known
    convolution_flops_per_activation: float = assumption(
        740.0,
        low=300.0,
        high=1500.0,
        unit="FLOP/element",
        reason="ResNet-50: 8.18 GFLOP for 11.1 million elements",
        source=_NETWORKS,
    )
    transformer_flops_per_activation: float = assumption(
        1200.0,
        low=600.0,
        high=2500.0,
        unit="FLOP/element",
        reason="ViT-B/16: 35 GFLOP for 30 million elements",
        source=_NETWORKS,
    )
    denoiser_flops_per_activation: float = assumption(
        5000.0,
        low=2000.0,
        high=10000.0,
        unit="FLOP/element",
        reason="UNets have wide layers on small pictures",
        source=_NETWORKS,
    )
    depthwise_flops_per_activation: float = assumption(
        45.0,
        low=20.0,
        high=120.0,
        unit="FLOP/element",
        reason="EfficientNet, MobileNet: little work per element, and elements are read and written several times",
        source=_NETWORKS,
    )
    windowed_flops_per_activation: float = assumption(
        190.0,
        low=80.0,
        high=400.0,
        unit="FLOP/element",
        reason="Swin: shifted windows copy elements between layers",
        source=_NETWORKS,
    )
    kept_per_activation: float = assumption(
        2.5,
        low=1.0,
        high=4.0,
        reason="training keeps outputs, inputs of norms, masks and gradients in flight, relative to the bytes written",
        source="assumed: outputs once, inputs of norms once, half of that in flight",
    )
    usual_head_width: float = assumption(
        64.0,
        low=32.0,
        high=128.0,
        reason="width of an attention head in networks on samples",
        source="ViT, DINOv2, CLIP",
    )
    elementwise_per_activation: float = assumption(
        5.5,
        low=3.0,
        high=9.0,
        reason="forward bytes moved by norms, activations and sums, relative to the bytes that convolutions write",
        source="counted: ResNet-50 5.4, EfficientNet-B0 5.5",
    )
    kernels_per_layer: float = assumption(
        4.0,
        low=3.0,
        high=12.0,
        reason="forward kernels per layer",
        source="ResNet-50 has 228 kernels in 54 layers; a transformer block has 12",
    )
    live_share: float = assumption(
        0.2,
        low=0.05,
        high=0.5,
        reason="peak share of all activations that a network with shrinking layers holds at a time",
        source=_NETWORKS,
    )
    written_bytes_per_width: float = assumption(
        34.0,
        low=24.0,
        high=50.0,
        unit="B",
        reason="16-bit bytes that a transformer writes per position, layer and unit of width",
        source=_TRANSFORMERS,
    )
    live_bytes_per_width: float = assumption(
        24.0,
        low=8.0,
        high=34.0,
        unit="B",
        reason="16-bit bytes that a transformer holds at its peak per position and unit of width",
        source=_TRANSFORMERS,
    )
    # Values that registered facts omit
    unstated_image_layers: float = assumption(
        24.0,
        low=8.0,
        high=100.0,
        unit="layers",
        reason="depth of an image network whose configuration states none",
        source="assumed: median of the registered image networks",
    )
    operations_per_convolutional_block: float = assumption(
        3.0,
        low=2.0,
        high=5.0,
        reason="convolutions of a bottleneck",
        source="He et al. 2015",
    )
    unet_operations: float = assumption(
        70.0,
        low=40.0,
        high=150.0,
        reason="blocks that a picture passes in a UNet",
        source="Stable Diffusion XL (arXiv:2307.01952)",
    )
    image_decoder_flops_per_pixel: float = assumption(
        10.47e12 / 1024**2,
        low=5e6,
        high=2e7,
        unit="FLOP/pixel",
        reason="decoding a picture from a latent with an eighth of its side takes 10.47 TFLOP at 1024 x 1024",
        source="counted at 1024 x 1024",
    )
    usual_audio_s: float = assumption(
        30.0,
        low=5.0,
        high=120.0,
        unit="s",
        reason="speech in one sample if the request does not state it",
        source="assumed: the window of Whisper",
    )
    spoken_tokens_per_s: float = assumption(
        2.2,
        low=1.0,
        high=5.0,
        unit="tokens/s",
        reason="text tokens per second of speech",
        source="assumed: 100 words per minute, pauses included, and 1.3 tokens per word",
    )
    # Models of which only the size is known
    max_vocabulary_share: float = assumption(
        0.2,
        low=0.05,
        high=0.5,
        reason="maximum share of the vocabulary table in the parameters of a small model",
        source="assumed from the catalog's decoders below one billion parameters",
    )
    max_share_outside_mlp: float = assumption(
        0.7,
        low=0.4,
        high=0.9,
        reason="maximum share of parameters outside the MLP; layers are removed until it holds",
        source="assumed from the catalog's decoders",
    )
    tied_below_params: float = assumption(
        3e9,
        low=1e9,
        high=1e10,
        unit="parameters",
        reason="models below this size tie their head to the embedding",
        source="assumed from the catalog's decoders",
    )
    narrow_below_width: float = assumption(
        2048.0,
        low=1024.0,
        high=4096.0,
        reason="narrower models have heads of 64, others of 128",
        source="assumed from the catalog's decoders",
    )
    unstated_context_tokens: float = assumption(
        131_072.0,
        low=4096.0,
        high=1_048_576.0,
        unit="tokens",
        reason="context length of a model that states none",
        source="assumed from the catalog's decoders of 2025",
    )


FIGURES = CountingFigures()
