"""Networks that generate a picture in denoising steps (FLUX.1, Stable Diffusion 3), and their building blocks."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import (
    FLUX_DISTILLED,
    FLUX_FAST,
    LATENT_PIXELS,
    SD3,
    Config,
    DefaultSettings,
    Reader,
)
from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import Network, SampleLaw
from app.sizing.model.tensors import ONCE, Inventory, Part, Per


def build_sample_model(
    name: str,
    family: str,
    inventory: Inventory,
    law: SampleLaw,
    *,
    hidden_size: int,
    layers: int,
    heads: int,
    mlp_width: int,
) -> ModelArchitecture:
    """The model of a network that works on samples of its usual size."""
    return ModelArchitecture(
        name=name,
        kind=ModelKind.SAMPLES,
        family=family,
        num_layers=layers,
        hidden_size=hidden_size,
        num_heads=heads,
        head_dim=max(1, hidden_size // heads),
        mlp_width=float(mlp_width),
        vocab_size=0,
        tensors=tuple(inventory.tensors),
        source="closed form of the configuration",
    ).with_law(law)


def add_blocks(
    inventory: Inventory,
    hidden_size: int,
    mlp_width: int,
    layers: int,
    *,
    part: Part | None = None,
    gated: bool = False,
    extra: int = 0,
) -> None:
    """Add transformer blocks with biases, each of 4(hh + h) + 2hf + f + h + 4h elements."""
    h, f, every = hidden_size, mlp_width, tuple(range(layers))
    for role in ("q_proj", "k_proj", "v_proj", "o_proj"):
        inventory.add_linear(role, part or Part.ATTENTION, h, h, every, bias=True, quantized=part is None)
    for role in ("gate_proj", "up_proj") if gated else ("up_proj",):
        inventory.add_linear(role, part or Part.MLP, h, f, every, bias=True, quantized=part is None)
    inventory.add_linear("down_proj", part or Part.MLP, f, h, every, bias=True, quantized=part is None)
    inventory.add_vector("norms", part or Part.NORMS, 4 * h + extra, every)


def block_macs(hidden_size: int, mlp_width: int, layers: int, *, gated: bool = False) -> float:
    """Multiply-adds of all blocks for one position, attention scores excluded.

    Source: Vaswani et al. 2017 (arXiv:1706.03762).
    Limits: the heads together are as wide as the model.
    Check: ViT-B/16, 12 * (4 * 768^2 + 2 * 768 * 3072).
        >>> block_macs(768, 3072, 12)
        84934656.0
    """
    return float(layers * (4 * hidden_size**2 + (3 if gated else 2) * hidden_size * mlp_width))


def add_patch_embedding(
    inventory: Inventory, hidden_size: int, patch: int, channels: int, *, bias: bool, part: Part = Part.EMBEDDING
) -> float:
    """Add the convolution over patches and return its multiply-adds per patch."""
    size = channels * patch**2
    inventory.add_linear("patch_embedding", part, size, hidden_size, ONCE, bias=bias, quantized=False, per=Per.NEVER)
    return float(size * hidden_size)


def build_image_law(
    side: int,
    patch: int,
    *,
    extra_positions: int,
    macs_per_position: float,
    hidden_size: int,
    layers: int,
    fixed_macs: float = 0.0,
) -> SampleLaw:
    return SampleLaw(
        unit="image",
        width=side,
        height=side,
        fixed_positions=float(extra_positions),
        cell_pixels=patch,
        flops_per_position=2 * macs_per_position,
        flops_per_pair=4.0 * hidden_size * layers,
        flops_fixed=2 * fixed_macs,
        layers=layers,
        width_of_positions=hidden_size,
    )


Layers = tuple[int, ...]


def _add_timestep_embedding(inventory: Inventory, width: int, pooled: int, *, guidance: bool) -> None:
    """Add the matrices that combine step, guidance and pooled text into one vector."""
    for role, inputs in (("time", 256), *((("guidance", 256),) if guidance else ()), ("pooled_text", pooled)):
        _add_outer_matrix(inventory, f"{role}.1", inputs, width)
        _add_outer_matrix(inventory, f"{role}.2", width, width)


def _add_outer_matrix(inventory: Inventory, role: str, inputs: int, outputs: int) -> None:
    """Add a matrix outside the blocks."""
    inventory.add_linear(role, Part.OTHER, inputs, outputs, ONCE, bias=True, quantized=False, per=Per.NEVER)


def _add_feed_forward(inventory: Inventory, prefix: str, width: int, on: Layers) -> None:
    inventory.add_linear(prefix + "up_proj", Part.MLP, width, 4 * width, on, bias=True)
    inventory.add_linear(prefix + "down_proj", Part.MLP, 4 * width, width, on, bias=True)


def _build_denoiser_law(
    usual: DefaultSettings, *, width: int, layers: int, patch: int, side: int, macs: float, last_text_macs: float = 0.0
) -> SampleLaw:
    """The law of a denoiser. The image encoder reduces each side eightfold before patches are cut; text tokens join the
    image's.
    """
    return SampleLaw(
        unit="picture",
        width=side,
        height=side,
        fixed_positions=float(usual.text_tokens),
        cell_pixels=LATENT_PIXELS * patch,
        flops_per_position=2 * macs,
        flops_per_pair=4.0 * width * layers,
        flops_fixed=-2 * last_text_macs * usual.text_tokens,
        steps=usual.steps,
        guidance=usual.guidance,
        extra_flops_per_pixel=FIGURES.image_decoder_flops_per_pixel,
        network=Network.DENOISER,
        layers=layers,
        width_of_positions=width,
    )


def read_flux(config: Config, name: str) -> ModelArchitecture:
    """FLUX.1: blocks with separate weights for image and text, then blocks with shared weights; guidance is distilled.

    Source: the model definition of the diffusers library.
    Check: FLUX.1-dev, the elements of its blocks and TFLOP of a step at 1024 with 512 text tokens.
        >>> flux = registered("black-forest-labs/FLUX.1-dev")
        >>> flux.total_params - flux.parts["encoder_tower"], round(flux.sample.flops / 1e12, 1)
        (11901408320, 74.4)
    """
    reader = Reader(config, "flux")
    heads, size = reader.size("num_attention_heads"), reader.size("head_dim")
    width, both, single = heads * size, reader.size("num_layers"), reader.size("num_single_layers")
    joint, channels = reader.size("joint_attention_dim"), reader.size("in_channels", 64)
    distilled = reader.flag("guidance_embeds")
    inventory = Inventory()
    first, second = tuple(range(both)), tuple(range(both, both + single))
    for role, inputs, outputs in (
        ("q_proj", width, width),
        ("k_proj", width, width),
        ("v_proj", width, width),
        ("o_proj", width, width),
        ("up_proj", width, 4 * width),
        ("down_proj", 4 * width, width),
    ):
        part = Part.MLP if role in ("up_proj", "down_proj") else Part.ATTENTION
        inventory.add_linear(role, part, inputs, outputs, first, bias=True, copies=2, used=1)
    inventory.add_linear("modulation", Part.OTHER, width, 6 * width, first, bias=True, copies=2, per=Per.NEVER)
    inventory.add_vector("qk_norm", Part.NORMS, 4 * size, first)
    for role in ("q_proj", "k_proj", "v_proj"):
        inventory.add_linear(role, Part.ATTENTION, width, width, second, bias=True)
    inventory.add_linear("up_proj", Part.MLP, width, 4 * width, second, bias=True)
    inventory.add_linear("out_proj", Part.MLP, 5 * width, width, second, bias=True)
    inventory.add_linear("modulation", Part.OTHER, width, 3 * width, second, bias=True, per=Per.NEVER)
    inventory.add_vector("qk_norm", Part.NORMS, 2 * size, second)
    _add_timestep_embedding(inventory, width, reader.size("pooled_projection_dim"), guidance=distilled)
    for role, inputs, outputs in (
        ("image_in", channels, width),
        ("text_in", joint, width),
        ("norm_out", width, 2 * width),
        ("image_out", width, channels),
    ):
        _add_outer_matrix(inventory, role, inputs, outputs)
    usual, layers = FLUX_DISTILLED if distilled else FLUX_FAST, both + single
    law = _build_denoiser_law(
        usual, width=width, layers=layers, patch=2, side=usual.width, macs=12.0 * width * width * layers
    )
    model = build_sample_model(
        name, "flux", inventory, law, hidden_size=width, layers=layers, heads=heads, mlp_width=4 * width
    )
    return _with_all_copies_active(model)


def _with_all_copies_active(model: ModelArchitecture) -> ModelArchitecture:
    """The model with every copy of a block active, because image and text each pass their own copy."""
    return replace(model, tensors=tuple(replace(t, used=t.copies) for t in model.tensors))


def read_sd3(config: Config, name: str) -> ModelArchitecture:
    """Stable Diffusion 3: joint blocks, the last without a text side, and some with a second attention on the image.

    Source: Esser et al. 2024 (arXiv:2403.03206) and the model definition of the diffusers library.
    Check: SD3 medium.
        >>> sd3 = registered("stabilityai/stable-diffusion-3-medium-diffusers")
        >>> sd3.total_params - sd3.parts["encoder_tower"]
        2028328000
    """
    reader = Reader(config, "sd3")
    heads, size = reader.size("num_attention_heads"), reader.size("head_dim")
    width, layers, patch = heads * size, reader.size("num_layers"), reader.size("patch_size", 2)
    dual = reader.find_value("dual_attention_layers") or []
    twice = tuple(int(i) for i in dual if isinstance(i, int) and 0 <= i < layers)
    inventory = Inventory()
    _add_joint_blocks(inventory, width, layers, twice, qk_norm=2 * size if reader.find_value("qk_norm") else 0)
    _add_timestep_embedding(inventory, width, reader.size("pooled_projection_dim"), guidance=False)
    channels, caption = reader.size("in_channels", 16), reader.size("caption_projection_dim", width)
    _add_outer_matrix(inventory, "image_in", channels * patch**2, width)
    _add_outer_matrix(inventory, "text_in", reader.size("joint_attention_dim"), caption)
    _add_outer_matrix(inventory, "norm_out", width, 2 * width)
    _add_outer_matrix(inventory, "image_out", width, patch**2 * reader.size("out_channels", channels))
    law = _build_denoiser_law(
        SD3,
        width=width,
        layers=layers,
        patch=patch,
        side=LATENT_PIXELS * reader.size("sample_size", 128),
        macs=12.0 * width * width * layers,
        last_text_macs=9.0 * width * width,
    )
    if twice:
        law = _with_second_attention(law, width, len(twice), patch)
    return build_sample_model(
        name, "sd3", inventory, law, hidden_size=width, layers=layers, heads=heads, mlp_width=4 * width
    )


def _add_joint_blocks(inventory: Inventory, width: int, layers: int, twice: Layers, *, qk_norm: int) -> None:
    """Add the blocks of Stable Diffusion 3: an image side, a text side, and a second attention in the layers
    `twice`.
    """
    every, most = tuple(range(layers)), tuple(range(layers - 1))
    for prefix, on, out in (("", every, every), ("text.", every, most), ("second.", twice, twice)):
        for role in ("q_proj", "k_proj", "v_proj"):
            inventory.add_linear(prefix + role, Part.ATTENTION, width, width, on, bias=True)
        inventory.add_linear(prefix + "o_proj", Part.ATTENTION, width, width, out, bias=True)
        inventory.add_vector(prefix + "qk_norm", Part.NORMS, qk_norm, on)
    _add_feed_forward(inventory, "", width, every)
    _add_feed_forward(inventory, "text.", width, most)
    for role, wide, on in (
        ("modulation", 6, tuple(i for i in every if i not in twice)),
        ("modulation", 9, twice),
        ("text.modulation", 6, most),
        ("text.modulation", 2, (layers - 1,)),
    ):
        inventory.add_linear(role, Part.OTHER, width, wide * width, on, bias=True, per=Per.NEVER)


def _with_second_attention(law: SampleLaw, width: int, layers: int, patch: int) -> SampleLaw:
    """The law with a second attention that only image positions pass."""
    text = SD3.text_tokens
    per_image_position = 2 * 4.0 * width * width * layers
    images = (law.width // (LATENT_PIXELS * patch)) ** 2
    per_pair = 4.0 * width * layers * images**2 / (images + text) ** 2
    return replace(
        law,
        flops_per_position=law.flops_per_position + per_image_position,
        flops_fixed=law.flops_fixed - per_image_position * text,
        flops_per_pair=law.flops_per_pair + per_pair,
    )
