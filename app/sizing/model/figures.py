"""Numbers chosen for counting a model. They are read before there is a request, so no request overrides them."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption

_NETWORKS = "chosen from the networks named, whose layers were counted"
_TRANSFORMERS = "tensors of a block, counted: Korthikanti et al. 2022 (arXiv:2205.05198)"


@dataclass(frozen=True, slots=True)
class CountingFigures:
    """Each with the range in which counted networks lie, its reason and its source."""

    # FLOPs a network does per element it writes, where its layers are not known
    convolution_flops_per_activation: float = assumption(
        740.0,
        low=300.0,
        high=1500.0,
        unit="FLOP/element",
        reason="ResNet-50: 8.18 GFLOP for 11.1 million elements",
        source=_NETWORKS,
        as_of="2026-11",
    )
    transformer_flops_per_activation: float = assumption(
        1200.0,
        low=600.0,
        high=2500.0,
        unit="FLOP/element",
        reason="ViT-B/16: 35 GFLOP for 30 million elements",
        source=_NETWORKS,
        as_of="2026-11",
    )
    denoiser_flops_per_activation: float = assumption(
        5000.0,
        low=2000.0,
        high=10000.0,
        unit="FLOP/element",
        reason="UNets: wide layers on small pictures",
        source=_NETWORKS,
        as_of="2026-11",
    )
    depthwise_flops_per_activation: float = assumption(
        45.0,
        low=20.0,
        high=120.0,
        unit="FLOP/element",
        reason="EfficientNet, MobileNet: little work per element, which is passed several times",
        source=_NETWORKS,
        as_of="2026-11",
    )
    windowed_flops_per_activation: float = assumption(
        190.0,
        low=80.0,
        high=400.0,
        unit="FLOP/element",
        reason="Swin: windows are shifted, so that elements are copied between layers",
        source=_NETWORKS,
        as_of="2026-11",
    )
    kept_per_activation: float = assumption(
        2.5,
        low=1.0,
        high=4.0,
        unit="1",
        reason="what training keeps beside the outputs: inputs of norms, masks, gradients in flight",
        source="chosen: outputs once, inputs of norms once, half of that in flight",
        as_of="2026-11",
    )
    usual_head_width: float = assumption(
        64.0,
        low=32.0,
        high=128.0,
        unit="1",
        reason="width of a head of networks on samples",
        source="ViT, DINOv2, CLIP",
        as_of="2026-11",
    )
    elementwise_per_activation: float = assumption(
        5.5,
        low=3.0,
        high=9.0,
        unit="1",
        reason="bytes that norms, activations and sums move, forward",
        source="ResNet-50 5.4, EfficientNet-B0 5.5: of what convolutions write, counted",
        as_of="2026-11",
    )
    kernels_per_layer: float = assumption(
        4.0,
        low=3.0,
        high=12.0,
        unit="1",
        reason="kernels of one layer, forward",
        source="ResNet-50: 228 of 54 layers; a transformer's block 12",
        as_of="2026-11",
    )
    live_share: float = assumption(
        0.2,
        low=0.05,
        high=0.5,
        unit="1",
        reason="of all activations, what a network whose layers shrink holds at its widest",
        source=_NETWORKS,
        as_of="2026-11",
    )
    written_bytes_per_width: float = assumption(
        34.0,
        low=24.0,
        high=50.0,
        unit="B",
        reason="what a transformer writes per position and layer for each unit of its width, 16 bit",
        source=_TRANSFORMERS,
        as_of="2026-11",
    )
    live_bytes_per_width: float = assumption(
        24.0,
        low=8.0,
        high=34.0,
        unit="B",
        reason="what of that it holds at its widest",
        source=_TRANSFORMERS,
        as_of="2026-11",
    )
    # what registered facts leave out
    unstated_image_layers: float = assumption(
        24.0,
        low=8.0,
        high=100.0,
        unit="layers",
        reason="depth of an image network whose configuration lists none",
        source="chosen: median of the registered ones",
        as_of="2026-11",
    )
    operations_per_convolutional_block: float = assumption(
        3.0, low=2.0, high=5.0, unit="1", reason="a bottleneck's convolutions", source="He et al. 2015", as_of="2026-11"
    )
    unet_operations: float = assumption(
        70.0,
        low=40.0,
        high=150.0,
        unit="1",
        reason="blocks a picture passes in a UNet",
        source="Stable Diffusion XL (arXiv:2307.01952)",
        as_of="2026-11",
    )
    image_decoder_flops_per_pixel: float = assumption(
        10.47e12 / 1024**2,
        low=5e6,
        high=2e7,
        unit="FLOP/pixel",
        reason="decoding a picture from its latent form, 8 pixels to one: 10.47 TFLOP at 1024 x 1024",
        source="counted at 1024 x 1024",
        as_of="2026-11",
    )
    usual_audio_s: float = assumption(
        30.0,
        low=5.0,
        high=120.0,
        unit="s",
        reason="speech in one sample where a request says nothing",
        source="chosen: Whisper's window",
        as_of="2026-11",
    )
    spoken_tokens_per_s: float = assumption(
        2.2,
        low=1.0,
        high=5.0,
        unit="tokens/s",
        reason="text that speech comes to",
        source="chosen: 100 words a minute, pauses included, of 1.3 tokens",
        as_of="2026-11",
    )
    # a model of which only the size is known
    most_vocabulary_share: float = assumption(
        0.2,
        low=0.05,
        high=0.5,
        unit="1",
        reason="of its parameters, the most that a small model's table takes",
        source="chosen from the decoders of the catalogue below a billion parameters",
        as_of="2026-11",
    )
    most_share_beside_mlp: float = assumption(
        0.7,
        low=0.4,
        high=0.9,
        unit="1",
        reason="of its parameters, the most outside the MLP: layers give way first",
        source="chosen from the decoders of the catalogue",
        as_of="2026-11",
    )
    tied_below_params: float = assumption(
        3e9,
        low=1e9,
        high=1e10,
        unit="parameters",
        reason="models below tie their head to the embedding",
        source="chosen from the decoders of the catalogue",
        as_of="2026-11",
    )
    narrow_below_width: float = assumption(
        2048.0,
        low=1024.0,
        high=4096.0,
        unit="1",
        reason="models narrower have heads of 64, others of 128",
        source="chosen from the decoders of the catalogue",
        as_of="2026-11",
    )
    unstated_context_tokens: float = assumption(
        131_072.0,
        low=4096.0,
        high=1_048_576.0,
        unit="tokens",
        reason="context of a model that states none",
        source="chosen from the decoders of the catalogue of 2025",
        as_of="2026-11",
    )


FIGURES = CountingFigures()
