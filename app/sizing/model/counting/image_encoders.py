"""Encoders of images on their own: ViT, DINOv2, and the pairs of an image and a text tower, CLIP and SigLIP."""

from __future__ import annotations

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.counting.denoisers import (
    add_blocks,
    add_patch_embedding,
    block_macs,
    build_image_law,
    build_sample_model,
)
from app.sizing.model.counting.encoders import class_count
from app.sizing.model.tensors import ONCE, Inventory, Part, Per


def add_attention_pool(inventory: Inventory, hidden_size: int, mlp_width: int) -> None:
    """Add SigLIP's pooling head, in which one learned query attends to all patches."""
    h, f = hidden_size, mlp_width
    inventory.add_vector("pool", Part.ENCODER_TOWER, h + 4 * (h * h + h) + 2 * h + 2 * h * f + f + h)


def read_vit(config: Config, name: str) -> ModelArchitecture:
    """ViT with a class token and a classifier.

    Source: Dosovitskiy et al. 2020 (arXiv:2010.11929).
    Check: ViT-B/16 with 1,000 classes.
        >>> registered("google/vit-base-patch16-224").total_params
        86567656
    """
    reader = Reader(config, "vit")
    h, f, layers = reader.size("hidden_size"), reader.size("intermediate_size"), reader.size("num_hidden_layers")
    patch, side, channels = reader.size("patch_size"), reader.size("image_size"), reader.size("num_channels", 3)
    inventory = Inventory()
    first = add_patch_embedding(inventory, h, patch, channels, bias=True)
    inventory.add_vector("class_and_positions", Part.EMBEDDING, h + ((side // patch) ** 2 + 1) * h)
    add_blocks(inventory, h, f, layers)
    inventory.add_vector("final_norm", Part.NORMS, 2 * h)
    classes = class_count(reader)
    if reader.architecture_class.endswith("Model"):
        inventory.add_linear("pooler", Part.HEAD, h, h, ONCE, bias=True, quantized=False, per=Per.NEVER)
    else:
        inventory.add_linear("classifier", Part.HEAD, h, classes, ONCE, bias=True, quantized=False, per=Per.NEVER)
    law = build_image_law(
        side,
        patch,
        extra_positions=1,
        macs_per_position=block_macs(h, f, layers) + first,
        hidden_size=h,
        layers=layers,
        fixed_macs=float(h * classes),
    )
    heads = reader.size("num_attention_heads")
    return build_sample_model(name, "vit", inventory, law, hidden_size=h, layers=layers, heads=heads, mlp_width=f)


def read_dinov2(config: Config, name: str) -> ModelArchitecture:
    """DINOv2: a ViT with two layer scales per block and, in the giant model, a gated MLP."""
    reader = Reader(config, "dinov2")
    h, layers = reader.size("hidden_size"), reader.size("num_hidden_layers")
    patch, side, channels = reader.size("patch_size"), reader.size("image_size"), reader.size("num_channels", 3)
    swiglu = reader.flag("use_swiglu_ffn")
    f = h * reader.size("mlp_ratio", 4)
    f = (int(f * 2 / 3) + 7) // 8 * 8 if swiglu else f
    inventory = Inventory()
    first = add_patch_embedding(inventory, h, patch, channels, bias=True)
    inventory.add_vector("class_mask_and_positions", Part.EMBEDDING, 2 * h + ((side // patch) ** 2 + 1) * h)
    add_blocks(inventory, h, f, layers, gated=swiglu, extra=2 * h)
    inventory.add_vector("final_norm", Part.NORMS, 2 * h)
    macs = block_macs(h, f, layers, gated=swiglu) + first
    law = build_image_law(side, patch, extra_positions=1, macs_per_position=macs, hidden_size=h, layers=layers)
    heads = reader.size("num_attention_heads")
    return build_sample_model(name, "dinov2", inventory, law, hidden_size=h, layers=layers, heads=heads, mlp_width=f)


def read_clip(config: Config, name: str) -> ModelArchitecture:
    """CLIP: a tower for images, a tower for texts, and a projection from each. A sample is an image."""
    return _read_two_towers(config, name, "clip")


def read_siglip(config: Config, name: str) -> ModelArchitecture:
    """SigLIP: like CLIP, but with biases, a pooling head and no image projection."""
    return _read_two_towers(config, name, "siglip")


def _read_two_towers(config: Config, name: str, family: str) -> ModelArchitecture:
    clip, outer = family == "clip", Reader(config, family)
    text = outer.nested_part("text_config", f"{family}_text_model")
    vision = outer.nested_part("vision_config", f"{family}_vision_model")
    h, f, layers = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("num_hidden_layers")
    patch, side = vision.size("patch_size"), vision.size("image_size")
    inventory = Inventory()
    first = add_patch_embedding(
        inventory, h, patch, vision.size("num_channels", 3), bias=not clip, part=Part.ENCODER_TOWER
    )
    positions = (side // patch) ** 2
    inventory.add_vector("positions", Part.ENCODER_TOWER, positions * h + (2 * h if clip else 0))
    inventory.add_vector("outer_norms", Part.ENCODER_TOWER, 4 * h if clip else 2 * h)
    add_blocks(inventory, h, f, layers, part=Part.ENCODER_TOWER)
    if not clip:
        add_attention_pool(inventory, h, f)
    w, wide, deep = text.size("hidden_size"), text.size("intermediate_size"), text.size("num_hidden_layers")
    inventory.add_table("embed_tokens", text.size("vocab_size"), w)
    inventory.add_table("embed_positions", text.size("max_position_embeddings", 77 if clip else 64), w)
    add_blocks(inventory, w, wide, deep)
    inventory.add_vector("final_norm", Part.NORMS, 2 * w)
    width = outer.size("projection_dim", 512) if clip else text.size("projection_size", w)
    if clip:
        inventory.add_linear("visual_projection", Part.ENCODER_TOWER, h, width, ONCE, quantized=False, per=Per.NEVER)
    inventory.add_linear("text_projection", Part.HEAD, w, width, ONCE, bias=not clip, quantized=False, per=Per.NEVER)
    inventory.add_vector("logit_scale", Part.OTHER, 1 if clip else 2)
    pooled = 0.0 if clip else 2.0 * h * h  # keys and values of the pooling head
    macs = block_macs(h, f, layers) + first + pooled
    law = build_image_law(
        side, patch, extra_positions=1 if clip else 0, macs_per_position=macs, hidden_size=h, layers=layers
    )
    heads = vision.size("num_attention_heads")
    return build_sample_model(name, family, inventory, law, hidden_size=h, layers=layers, heads=heads, mlp_width=f)
