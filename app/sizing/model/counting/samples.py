"""Networks that work on samples: images, speech in frames, pictures painted in steps.

Each gives its tensors and a law of its work by the size of a sample.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.errors import UnreadableConfiguration
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.configuration import MAX_LAYERS, Config, Reader
from app.sizing.model.counting.encoders import labels
from app.sizing.model.counting.towers import attention_pool
from app.sizing.model.sample import SampleLaw
from app.sizing.model.tensors import ONCE, Inventory, Part, Per

# Decoding a picture from its latent form, 8 pixels to one: 10.47 TFLOP at 1024 x 1024.
VAE_DECODE_FLOPS_PER_PIXEL = 10.47e12 / 1024**2


def _model(
    name: str, family: str, inventory: Inventory, law: SampleLaw, *, h: int, layers: int, heads: int, f: int
) -> ModelArchitecture:
    return ModelArchitecture(
        name=name,
        kind=ModelKind.SAMPLES,
        family=family,
        num_layers=layers,
        hidden_size=h,
        num_heads=heads,
        head_dim=max(1, h // heads),
        mlp_width=float(f),
        vocab_size=0,
        tensors=tuple(inventory.tensors),
        source="closed form of the configuration",
    ).with_law(law)


def _blocks(
    inventory: Inventory, h: int, f: int, layers: int, *, part: Part | None = None, gated: bool = False, extra: int = 0
) -> None:
    """Transformer blocks with biases: 4(hh + h) + 2hf + f + h + 4h elements each."""
    every = tuple(range(layers))
    for role in ("q_proj", "k_proj", "v_proj", "o_proj"):
        inventory.linear(role, part or Part.ATTENTION, h, h, every, bias=True, quantised=part is None)
    for role in ("gate_proj", "up_proj") if gated else ("up_proj",):
        inventory.linear(role, part or Part.MLP, h, f, every, bias=True, quantised=part is None)
    inventory.linear("down_proj", part or Part.MLP, f, h, every, bias=True, quantised=part is None)
    inventory.vector("norms", part or Part.NORMS, 4 * h + extra, every)


def _patches(
    inventory: Inventory, h: int, patch: int, channels: int, *, bias: bool, part: Part = Part.EMBEDDING
) -> float:
    """The convolution over patches; its multiply-adds per patch."""
    inventory.linear("patch_embedding", part, channels * patch**2, h, ONCE, bias=bias, quantised=False, per=Per.NEVER)
    return float(channels * patch**2 * h)


def _image_law(
    unit: str,
    side: int,
    patch: int,
    *,
    extra_positions: int,
    per_position: float,
    h: int,
    layers: int,
    fixed: float = 0.0,
) -> SampleLaw:
    return SampleLaw(
        unit=unit,
        width=side,
        height=side,
        fixed_positions=float(extra_positions),
        cell_pixels=patch,
        flops_per_position=2 * per_position,
        flops_per_pair=4.0 * h * layers,
        flops_fixed=2 * fixed,
        layers=layers,
        width_of_positions=h,
    )


def _block_macs(h: int, f: int, layers: int, *, gated: bool = False) -> float:
    return float(layers * (4 * h * h + (3 if gated else 2) * h * f))


def read_vit(config: Config, name: str) -> ModelArchitecture:
    """ViT with a class token and a classifier.

    Check: ViT-B/16 has 86 567 656 parameters with 1 000 classes.
    """
    reader = Reader(config, "vit")
    h, f, layers = reader.size("hidden_size"), reader.size("intermediate_size"), reader.size("num_hidden_layers")
    patch, side, channels = reader.size("patch_size"), reader.size("image_size"), reader.size("num_channels", 3)
    inventory = Inventory()
    first = _patches(inventory, h, patch, channels, bias=True)
    inventory.vector("class_and_positions", Part.EMBEDDING, h + ((side // patch) ** 2 + 1) * h)
    _blocks(inventory, h, f, layers)
    inventory.vector("final_norm", Part.NORMS, 2 * h)
    classes = labels(reader)
    if reader.architecture.endswith("Model"):
        inventory.linear("pooler", Part.HEAD, h, h, ONCE, bias=True, quantised=False, per=Per.NEVER)
    else:
        inventory.linear("classifier", Part.HEAD, h, classes, ONCE, bias=True, quantised=False, per=Per.NEVER)
    per_position = _block_macs(h, f, layers) + first
    law = _image_law(
        "image", side, patch, extra_positions=1, per_position=per_position, h=h, layers=layers, fixed=float(h * classes)
    )
    return _model(name, "vit", inventory, law, h=h, layers=layers, heads=reader.size("num_attention_heads"), f=f)


def read_dinov2(config: Config, name: str) -> ModelArchitecture:
    """DINOv2: a ViT with two layer scales a block and, in the giant, a gated MLP."""
    reader = Reader(config, "dinov2")
    h, layers = reader.size("hidden_size"), reader.size("num_hidden_layers")
    patch, side, channels = reader.size("patch_size"), reader.size("image_size"), reader.size("num_channels", 3)
    swiglu = reader.flag("use_swiglu_ffn")
    f = h * reader.size("mlp_ratio", 4)
    f = (int(f * 2 / 3) + 7) // 8 * 8 if swiglu else f
    inventory = Inventory()
    first = _patches(inventory, h, patch, channels, bias=True)
    inventory.vector("class_mask_and_positions", Part.EMBEDDING, 2 * h + ((side // patch) ** 2 + 1) * h)
    _blocks(inventory, h, f, layers, gated=swiglu, extra=2 * h)
    inventory.vector("final_norm", Part.NORMS, 2 * h)
    law = _image_law(
        "image",
        side,
        patch,
        extra_positions=1,
        per_position=_block_macs(h, f, layers, gated=swiglu) + first,
        h=h,
        layers=layers,
    )
    return _model(name, "dinov2", inventory, law, h=h, layers=layers, heads=reader.size("num_attention_heads"), f=f)


def read_clip(config: Config, name: str) -> ModelArchitecture:
    """CLIP: a tower for images, one for texts, and a projection from each. A sample is an image."""
    return _two_towers(config, name, "clip")


def read_siglip(config: Config, name: str) -> ModelArchitecture:
    """SigLIP: as CLIP, with biases, a pooling head and no projections of its own."""
    return _two_towers(config, name, "siglip")


def _two_towers(config: Config, name: str, family: str) -> ModelArchitecture:
    clip, outer = family == "clip", Reader(config, family)
    text, vision = (
        outer.part("text_config", f"{family}_text_model"),
        outer.part("vision_config", f"{family}_vision_model"),
    )
    h, f, layers = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("num_hidden_layers")
    patch, side = vision.size("patch_size"), vision.size("image_size")
    inventory = Inventory()
    first = _patches(inventory, h, patch, vision.size("num_channels", 3), bias=not clip, part=Part.ENCODER_TOWER)
    positions = (side // patch) ** 2
    inventory.vector("positions", Part.ENCODER_TOWER, positions * h + (2 * h if clip else 0))
    inventory.vector("outer_norms", Part.ENCODER_TOWER, 4 * h if clip else 2 * h)
    _blocks(inventory, h, f, layers, part=Part.ENCODER_TOWER)
    if not clip:
        attention_pool(inventory, h, f)
    w, wide, deep = text.size("hidden_size"), text.size("intermediate_size"), text.size("num_hidden_layers")
    inventory.table("embed_tokens", text.size("vocab_size"), w)
    inventory.table("embed_positions", text.size("max_position_embeddings", 77 if clip else 64), w)
    _blocks(inventory, w, wide, deep)
    inventory.vector("final_norm", Part.NORMS, 2 * w)
    width = outer.size("projection_dim", 512) if clip else text.size("projection_size", w)
    if clip:
        inventory.linear("visual_projection", Part.ENCODER_TOWER, h, width, ONCE, quantised=False, per=Per.NEVER)
        inventory.linear("text_projection", Part.HEAD, w, width, ONCE, quantised=False, per=Per.NEVER)
    else:
        inventory.linear("text_projection", Part.HEAD, w, width, ONCE, bias=True, quantised=False, per=Per.NEVER)
    inventory.vector("logit_scale", Part.OTHER, 1 if clip else 2)
    pooled = 0.0 if clip else 2.0 * h * h  # the pooling head's keys and values
    law = _image_law(
        "image",
        side,
        patch,
        extra_positions=1 if clip else 0,
        per_position=_block_macs(h, f, layers) + first + pooled,
        h=h,
        layers=layers,
    )
    return _model(name, family, inventory, law, h=h, layers=layers, heads=vision.size("num_attention_heads"), f=f)


def read_resnet(config: Config, name: str) -> ModelArchitecture:
    """ResNet by its stages: two 3 x 3 convolutions a block, or a bottleneck of a quarter of the width.

    Work is proportional to the pixels. Check: ResNet-50 has 25 557 032 parameters and takes 8.18 GFLOP at 224.
    """
    reader = Reader(config, "resnet")
    widths, depths = reader.sizes("hidden_sizes", most=10**6), reader.sizes("depths", most=1000)
    if len(widths) != len(depths) or sum(depths) > MAX_LAYERS:
        raise UnreadableConfiguration("'hidden_sizes' and 'depths' need one entry for each stage.", key="depths")
    first, channels, side = (
        reader.size("embedding_size", 64),
        reader.size("num_channels", 3),
        reader.integer("image_size", 0) or 224,
    )
    basic = reader.find("layer_type") == "basic"
    inventory, macs, layers = Inventory(), 0.0, 1

    def convolution(inputs: int, outputs: int, kernel: int, shrink: int) -> None:
        """Convolution and batch norm; `shrink` is the side's division of the image."""
        nonlocal macs, layers
        inventory.linear("conv", Part.OTHER, inputs * kernel**2, outputs, ONCE, per=Per.NEVER)
        inventory.vector("batch_norm", Part.NORMS, 2 * outputs)
        macs += inputs * outputs * kernel**2 / shrink**2
        layers += 1

    convolution(channels, first, 7, 2)
    width_in, shrink = first, 4
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        for block in range(depth):
            inner = width if basic else width // 4
            down = 2 if block == 0 and stage > 0 else 1
            if width_in != width or down > 1:
                convolution(width_in, width, 1, shrink * down)
            if basic:
                convolution(width_in, width, 3, shrink * down)
                convolution(width, width, 3, shrink * down)
            else:
                convolution(width_in, inner, 1, shrink)
                convolution(inner, inner, 3, shrink * down)
                convolution(inner, width, 1, shrink * down)
            shrink *= down
            width_in = width
    classes = labels(reader)
    inventory.linear("classifier", Part.HEAD, width_in, classes, ONCE, bias=True, quantised=False, per=Per.NEVER)
    law = SampleLaw(
        unit="image",
        width=side,
        height=side,
        cell_pixels=1,
        flops_per_position=2 * macs,
        flops_fixed=2.0 * width_in * classes,
        network="convolution",
        layers=layers,
    )
    return _model(name, "resnet", inventory, law, h=width_in, layers=layers, heads=1, f=width_in)


def read_wav2vec2(config: Config, name: str) -> ModelArchitecture:
    """wav2vec 2.0 and HuBERT: convolutions over the waveform at 16 kHz, then an encoder at 50 positions a second.

    Check: wav2vec2-base with a letter head has 94 396 320 parameters.
    """
    family = str(config["model_type"])
    reader = Reader(config, family)
    h, f, layers = reader.size("hidden_size"), reader.size("intermediate_size"), reader.size("num_hidden_layers")
    dims = reader.sizes("conv_dim", most=10**6, default=(512,) * 7)
    kernels = reader.sizes("conv_kernel", most=1000, default=(10, 3, 3, 3, 3, 2, 2))
    strides = reader.sizes("conv_stride", most=1000, default=(5, 2, 2, 2, 2, 2, 2))
    if not len(dims) == len(kernels) == len(strides):
        raise UnreadableConfiguration(
            "'conv_dim', 'conv_kernel' and 'conv_stride' need one entry for each convolution.", key="conv_dim"
        )
    inventory, before, rate, convolved = Inventory(), 1, 16000.0, 0.0
    bias, every_norm = reader.flag("conv_bias"), reader.find("feat_extract_norm") == "layer"
    for i, (out, kernel, stride) in enumerate(zip(dims, kernels, strides, strict=True)):
        rate /= stride
        inventory.linear("conv", Part.OTHER, before * kernel, out, ONCE, bias=bias, quantised=False, per=Per.NEVER)
        inventory.vector("conv_norm", Part.NORMS, 2 * out if every_norm or i == 0 else 0)
        convolved += rate * before * out * kernel
        before = out
    inventory.vector("projection_norm", Part.NORMS, 2 * before)
    inventory.linear("feature_projection", Part.OTHER, before, h, ONCE, bias=True, quantised=False, per=Per.NEVER)
    kernel, groups = reader.size("num_conv_pos_embeddings", 128), reader.size("num_conv_pos_embedding_groups", 16)
    inventory.vector("positional_convolution", Part.OTHER, h * (h // groups) * kernel + h + kernel)
    inventory.vector("mask_embedding", Part.OTHER, h)
    inventory.vector("encoder_norm", Part.NORMS, 2 * h)
    _blocks(inventory, h, f, layers)
    wanted = reader.architecture
    if wanted.endswith("ForCTC"):
        inventory.linear(
            "lm_head", Part.HEAD, h, reader.size("vocab_size", 32), ONCE, bias=True, quantised=False, per=Per.NEVER
        )
    elif wanted.endswith("ForPreTraining"):
        _quantiser(inventory, reader, h, before)
    positions = convolved / rate + before * h + h * (h // groups) * kernel
    law = SampleLaw(
        unit="speech",
        audio_s=30.0,
        positions_per_second=rate,
        flops_per_position=2 * (_block_macs(h, f, layers) + positions),
        flops_per_pair=4.0 * h * layers,
        layers=layers,
        width_of_positions=h,
    )
    return _model(name, family, inventory, law, h=h, layers=layers, heads=reader.size("num_attention_heads"), f=f)


def _quantiser(inventory: Inventory, reader: Reader, h: int, conv: int) -> None:
    """The codebooks that pre-training contrasts with."""
    groups, codes = reader.size("num_codevector_groups", 2), reader.size("num_codevectors_per_group", 320)
    size, projected = reader.size("codevector_dim", 256), reader.size("proj_codevector_dim", 256)
    inventory.vector("codevectors", Part.OTHER, codes * size)
    for role, inputs, outputs in (
        ("quantiser", conv, groups * codes),
        ("project_hid", h, projected),
        ("project_q", size, projected),
    ):
        inventory.linear(role, Part.HEAD, inputs, outputs, ONCE, bias=True, quantised=False, per=Per.NEVER)


def _timestep(inventory: Inventory, d: int, pooled: int, *, guidance: bool) -> None:
    """Step, guidance and pooled text become one vector."""
    for role, inputs in (("time", 256), *((("guidance", 256),) if guidance else ()), ("pooled_text", pooled)):
        inventory.linear(f"{role}.1", Part.OTHER, inputs, d, ONCE, bias=True, quantised=False, per=Per.NEVER)
        inventory.linear(f"{role}.2", Part.OTHER, d, d, ONCE, bias=True, quantised=False, per=Per.NEVER)


def _outside(inventory: Inventory, role: str, inputs: int, outputs: int) -> None:
    inventory.linear(role, Part.OTHER, inputs, outputs, ONCE, bias=True, quantised=False, per=Per.NEVER)


def _denoiser_law(
    *,
    d: int,
    layers: int,
    patch: int,
    text: int,
    macs: float,
    guidance: float,
    steps: int,
    side: int,
    last_text_macs: float = 0.0,
    pair_layers: int | None = None,
    dual_layers: int = 0,
) -> SampleLaw:
    """Pixels are compressed eight to one a side before patches are cut; text tokens join the image's."""
    pairs = 4.0 * d * (layers if pair_layers is None else pair_layers)
    return SampleLaw(
        unit="picture",
        width=side,
        height=side,
        fixed_positions=float(text),
        cell_pixels=8 * patch,
        flops_per_position=2 * macs,
        flops_per_pair=pairs + 4.0 * d * dual_layers,
        flops_fixed=-2 * last_text_macs * text,
        steps=steps,
        guidance=guidance,
        extra_flops_per_pixel=VAE_DECODE_FLOPS_PER_PIXEL,
        network="denoiser",
        layers=layers,
        width_of_positions=d,
    )


def read_flux(config: Config, name: str) -> ModelArchitecture:
    """FLUX.1: blocks with separate weights for image and text, then blocks that share them; guidance is distilled.

    Check: FLUX.1-dev has 11 901 408 320 parameters and takes 74.4 TFLOP a step at 1024 with 512 text tokens.
    """
    reader = Reader(config, "flux")
    heads, size = reader.size("num_attention_heads"), reader.size("head_dim")
    d, both, single = heads * size, reader.size("num_layers"), reader.size("num_single_layers")
    joint, channels = reader.size("joint_attention_dim"), reader.size("in_channels", 64)
    distilled = reader.flag("guidance_embeds")
    inventory = Inventory()
    first, second = tuple(range(both)), tuple(range(both, both + single))
    for role, inputs, outputs in (
        ("q_proj", d, d),
        ("k_proj", d, d),
        ("v_proj", d, d),
        ("o_proj", d, d),
        ("up_proj", d, 4 * d),
        ("down_proj", 4 * d, d),
    ):
        part = Part.MLP if role in ("up_proj", "down_proj") else Part.ATTENTION
        inventory.linear(role, part, inputs, outputs, first, bias=True, copies=2, used=1)
    inventory.linear("modulation", Part.OTHER, d, 6 * d, first, bias=True, copies=2, per=Per.NEVER)
    inventory.vector("qk_norm", Part.NORMS, 4 * size, first)
    for role in ("q_proj", "k_proj", "v_proj"):
        inventory.linear(role, Part.ATTENTION, d, d, second, bias=True)
    inventory.linear("up_proj", Part.MLP, d, 4 * d, second, bias=True)
    inventory.linear("out_proj", Part.MLP, 5 * d, d, second, bias=True)
    inventory.linear("modulation", Part.OTHER, d, 3 * d, second, bias=True, per=Per.NEVER)
    inventory.vector("qk_norm", Part.NORMS, 2 * size, second)
    _timestep(inventory, d, reader.size("pooled_projection_dim"), guidance=distilled)
    _outside(inventory, "image_in", channels, d)
    _outside(inventory, "text_in", joint, d)
    _outside(inventory, "norm_out", d, 2 * d)
    _outside(inventory, "image_out", d, channels)
    law = _denoiser_law(
        d=d,
        layers=both + single,
        patch=2,
        text=512 if distilled else 256,
        macs=12.0 * d * d * (both + single),
        guidance=1.0,
        steps=28 if distilled else 4,
        side=1024,
    )
    model = _model(name, "flux", inventory, law, h=d, layers=both + single, heads=heads, f=4 * d)
    return _all_active(model)


def _all_active(model: ModelArchitecture) -> ModelArchitecture:
    """Image and text each pass their own copy of a block, so every copy is active."""
    tensors = tuple(replace(t, used=t.copies) for t in model.tensors)
    return replace(model, tensors=tensors)


def read_sd3(config: Config, name: str) -> ModelArchitecture:
    """Stable Diffusion 3: joint blocks, the last without a text side; some with a second attention on the image.

    Check: SD3 medium has 2 028 328 000 parameters.
    """
    reader = Reader(config, "sd3")
    heads, size = reader.size("num_attention_heads"), reader.size("head_dim")
    d, layers = heads * size, reader.size("num_layers")
    joint, caption = reader.size("joint_attention_dim"), reader.size("caption_projection_dim", heads * size)
    channels, patch = reader.size("in_channels", 16), reader.size("patch_size", 2)
    normed, dual = bool(reader.find("qk_norm")), reader.find("dual_attention_layers") or []
    inventory, every, most = Inventory(), tuple(range(layers)), tuple(range(layers - 1))
    twice = tuple(int(i) for i in dual if isinstance(i, int) and 0 <= i < layers)
    once = tuple(i for i in every if i not in twice)

    def side(prefix: str, on: tuple[int, ...], *, out: tuple[int, ...]) -> None:
        for role in ("q_proj", "k_proj", "v_proj"):
            inventory.linear(prefix + role, Part.ATTENTION, d, d, on, bias=True)
        inventory.linear(prefix + "o_proj", Part.ATTENTION, d, d, out, bias=True)
        inventory.vector(prefix + "qk_norm", Part.NORMS, 2 * size if normed else 0, on)

    def feed_forward(prefix: str, on: tuple[int, ...]) -> None:
        inventory.linear(prefix + "up_proj", Part.MLP, d, 4 * d, on, bias=True)
        inventory.linear(prefix + "down_proj", Part.MLP, 4 * d, d, on, bias=True)

    side("", every, out=every)
    side("text.", every, out=most)
    side("second.", twice, out=twice)
    feed_forward("", every)
    feed_forward("text.", most)
    for role, wide, on in (
        ("modulation", 6, once),
        ("modulation", 9, twice),
        ("text.modulation", 6, most),
        ("text.modulation", 2, (layers - 1,)),
    ):
        inventory.linear(role, Part.OTHER, d, wide * d, on, bias=True, per=Per.NEVER)
    _timestep(inventory, d, reader.size("pooled_projection_dim"), guidance=False)
    _outside(inventory, "image_in", channels * patch**2, d)
    _outside(inventory, "text_in", joint, caption)
    _outside(inventory, "norm_out", d, 2 * d)
    _outside(inventory, "image_out", d, patch**2 * reader.size("out_channels", channels))
    law = _denoiser_law(
        d=d,
        layers=layers,
        patch=patch,
        text=333,
        macs=12.0 * d * d * layers,
        last_text_macs=9.0 * d * d,
        guidance=2.0,
        steps=28,
        side=8 * reader.size("sample_size", 128),
    )
    if twice:
        extra = 2 * 4.0 * d * d * len(twice)
        images = (law.width // (8 * patch)) ** 2
        pairs = 4.0 * d * len(twice) * images**2
        law = _with_second_attention(law, extra, pairs / (images + 333) ** 2, 333)
    return _model(name, "sd3", inventory, law, h=d, layers=layers, heads=heads, f=4 * d)


def _with_second_attention(law: SampleLaw, per_image_position: float, per_pair: float, text: int) -> SampleLaw:
    """A second attention that image positions alone pass."""
    return replace(
        law,
        flops_per_position=law.flops_per_position + per_image_position,
        flops_fixed=law.flops_fixed - per_image_position * text,
        flops_per_pair=law.flops_per_pair + per_pair,
    )


READERS: dict[str, Any] = {
    "vit": read_vit,
    "dinov2": read_dinov2,
    "clip": read_clip,
    "siglip": read_siglip,
    "resnet": read_resnet,
    "wav2vec2": read_wav2vec2,
    "hubert": read_wav2vec2,
    "flux": read_flux,
    "sd3": read_sd3,
}
