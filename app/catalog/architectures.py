"""From a registered model to the counts sizing needs.

Every model whose blocks are known is counted from its configuration. Networks without a closed form
(convolutional ones other than ResNet, UNets, some denoisers) bring their parameters and FLOPs as
counted on the instantiated network; their work on other sizes of sample follows from those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.read import is_known, read_architecture, without_generation
from app.sizing.model.counting.samples import VAE_DECODE_FLOPS_PER_PIXEL
from app.sizing.model.sample import SampleLaw
from app.sizing.model.tensors import ONCE, Part, Per, Tensor

NETWORKS = {
    "efficientnet": "depthwise",
    "efficientnetv2": "depthwise",
    "mobilenet_v2": "depthwise",
    "mobilenet_v3": "depthwise",
    "convnext": "convolution",
    "densenet": "convolution",
    "vgg": "convolution",
    "yolov8": "convolution",
    "yolo11": "convolution",
    "swin": "windowed",
}

# Denoising steps and guidance (which evaluates the network twice) usual for a family, and the cell
# of pixels that makes a position: eight to one by the image encoder, two to one by the patch.
DENOISING = {
    "unet2d_condition": (30, 2.0),
    "flux2": (28, 1.0),
    "qwen_image": (50, 2.0),
    "z_image": (8, 1.0),
    "wan": (50, 2.0),
    "hunyuan_video": (50, 1.0),
}
CELL_PIXELS = 16
TEXT_TOKENS = 512
TEXT_ENCODER_TOKENS = 77
VIDEO = {"wan": (832, 480, 81), "hunyuan_video": (1280, 720, 129)}


def architecture_of(entry: Mapping[str, Any]) -> ModelArchitecture:
    """The counts of a registry entry."""
    if not is_known(entry["config"]):
        return _registered(entry)
    model = read_architecture(entry["config"], name=entry["hf_id"])
    if entry["modality"] in ("embedding", "reranker") and model.kind is ModelKind.DECODER:
        return without_generation(model)
    components = entry.get("components") or {}
    if components and model.law is not None:
        model = _with_components(model, components)
    return model


def _with_components(model: ModelArchitecture, components: Mapping[str, int]) -> ModelArchitecture:
    """A denoiser with the text encoders and image decoder that run once beside it."""
    beside = sum(v for k, v in components.items() if k not in ("unet", "transformer", "denoiser"))
    tensor = Tensor("text_encoders_and_image_decoder", Part.ENCODER_TOWER, 1, beside, ONCE)
    model = replace(model, tensors=(*model.tensors, tensor))
    assert model.law is not None
    reads_text = sum(v for k, v in components.items() if k.startswith("text_encoder"))
    tokens = max(model.law.fixed_positions, float(TEXT_ENCODER_TOKENS))
    return model.with_law(replace(model.law, extra_flops_fixed=2.0 * reads_text * tokens))


def _registered(entry: Mapping[str, Any]) -> ModelArchitecture:
    """A network known by its counted parameters and FLOPs."""
    config, total = entry["config"], int(entry["total_params"])
    family = str(config.get("model_type", entry["family"]))
    heads, size = config.get("num_attention_heads"), config.get("attention_head_dim")
    wide = heads * size if isinstance(heads, int) and isinstance(size, int) else 1
    model = ModelArchitecture(
        name=entry["hf_id"],
        kind=ModelKind.SAMPLES,
        family=family,
        num_layers=1,
        hidden_size=wide,
        num_heads=1,
        head_dim=wide,
        mlp_width=0.0,
        vocab_size=0,
        tensors=(Tensor("network", Part.OTHER, 1, total, ONCE, quantised=True, per=Per.NEVER),),
        source=f"registered facts ({entry['counted_by']})",
    )
    law = (
        _denoiser(entry, family, config, total)
        if entry["modality"] == "diffusion"
        else _image_network(entry, family, config)
    )
    model = model.with_law(law)
    components = entry.get("components") or {}
    return _with_components(model, components) if components else model


def _image_network(entry: Mapping[str, Any], family: str, config: Mapping[str, Any]) -> SampleLaw:
    """FLOPs of one image, in proportion to its pixels."""
    side = int(entry["resolution"])
    depths = config.get("depths")
    depth = sum(depths) if isinstance(depths, list) else 24
    network = NETWORKS.get(family, "transformer")
    return SampleLaw(
        unit="image",
        width=side,
        height=side,
        cell_pixels=1,
        flops_per_position=float(entry["flops"]["forward_flops_per_image"]) / side**2,
        network=network,
        layers=depth * (1 if network == "transformer" else 3),
    )


def _denoiser(entry: Mapping[str, Any], family: str, config: Mapping[str, Any], total: int) -> SampleLaw:
    """FLOPs of a denoising step: in proportion to the pixels for a UNet, matrices and attention over positions
    otherwise.

    Where no step was counted, a position passes blocks of 12 times the squared width.
    """
    steps, guidance = DENOISING.get(family, (30, 1.0))
    side = int(entry.get("resolution") or 1024)
    width, height, frames = VIDEO.get(family, (side, side, 1))
    counted = float((entry.get("flops") or {}).get("forward_flops_per_step") or 0.0)
    law: dict[str, Any] = {
        "unit": "clip" if frames > 1 else "picture",
        "width": width,
        "height": height,
        "frames": frames,
        "frames_per_position": 4,
        "steps": steps,
        "guidance": guidance,
        "extra_flops_per_pixel": VAE_DECODE_FLOPS_PER_PIXEL,
        "network": "denoiser",
    }
    if family == "unet2d_condition":
        return SampleLaw(**law, cell_pixels=8, flops_per_position=counted / (side // 8) ** 2, layers=70)
    layers = int(config.get("num_layers") or config["n_layers"]) + int(config.get("num_single_layers") or 0)
    wide = int(config.get("dim") or config["num_attention_heads"] * config["attention_head_dim"])
    pairs = 4.0 * wide * layers
    positions = (width // CELL_PIXELS) * (height // CELL_PIXELS) * ((frames - 1) // 4 + 1) + TEXT_TOKENS
    # attention and an MLP of four times the width; image and text may each have their own copy of a block
    linear = (counted - pairs * positions**2) / positions if counted else 2.0 * min(total, 12 * wide * wide * layers)
    return SampleLaw(
        **law,
        cell_pixels=CELL_PIXELS,
        fixed_positions=float(TEXT_TOKENS),
        flops_per_position=max(linear, 0.0),
        flops_per_pair=pairs,
        layers=layers,
        width_of_positions=wide,
        basis="" if counted else "work of a step estimated from width and depth",
    )
