"""Networks that read an image in patches: ViT, DINOv2, CLIP, SigLIP."""

from __future__ import annotations

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.blocks import block_macs, blocks, image_law, patches, sample_model
from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.counting.encoders import labels
from app.sizing.model.counting.tower import attention_pool
from app.sizing.model.tensors import ONCE, Inventory, Part, Per


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
    first = patches(inventory, h, patch, channels, bias=True)
    inventory.vector("class_and_positions", Part.EMBEDDING, h + ((side // patch) ** 2 + 1) * h)
    blocks(inventory, h, f, layers)
    inventory.vector("final_norm", Part.NORMS, 2 * h)
    classes = labels(reader)
    if reader.architecture.endswith("Model"):
        inventory.linear("pooler", Part.HEAD, h, h, ONCE, bias=True, quantised=False, per=Per.NEVER)
    else:
        inventory.linear("classifier", Part.HEAD, h, classes, ONCE, bias=True, quantised=False, per=Per.NEVER)
    law = image_law(
        side,
        patch,
        extra_positions=1,
        macs_per_position=block_macs(h, f, layers) + first,
        hidden_size=h,
        layers=layers,
        fixed_macs=float(h * classes),
    )
    heads = reader.size("num_attention_heads")
    return sample_model(name, "vit", inventory, law, hidden_size=h, layers=layers, heads=heads, mlp_width=f)


def read_dinov2(config: Config, name: str) -> ModelArchitecture:
    """DINOv2: a ViT with two layer scales per block and, in the giant model, a gated MLP."""
    reader = Reader(config, "dinov2")
    h, layers = reader.size("hidden_size"), reader.size("num_hidden_layers")
    patch, side, channels = reader.size("patch_size"), reader.size("image_size"), reader.size("num_channels", 3)
    swiglu = reader.flag("use_swiglu_ffn")
    f = h * reader.size("mlp_ratio", 4)
    f = (int(f * 2 / 3) + 7) // 8 * 8 if swiglu else f
    inventory = Inventory()
    first = patches(inventory, h, patch, channels, bias=True)
    inventory.vector("class_mask_and_positions", Part.EMBEDDING, 2 * h + ((side // patch) ** 2 + 1) * h)
    blocks(inventory, h, f, layers, gated=swiglu, extra=2 * h)
    inventory.vector("final_norm", Part.NORMS, 2 * h)
    macs = block_macs(h, f, layers, gated=swiglu) + first
    law = image_law(side, patch, extra_positions=1, macs_per_position=macs, hidden_size=h, layers=layers)
    heads = reader.size("num_attention_heads")
    return sample_model(name, "dinov2", inventory, law, hidden_size=h, layers=layers, heads=heads, mlp_width=f)


def read_clip(config: Config, name: str) -> ModelArchitecture:
    """CLIP: a tower for images, a tower for texts, and a projection from each. A sample is an image."""
    return _two_towers(config, name, "clip")


def read_siglip(config: Config, name: str) -> ModelArchitecture:
    """SigLIP: like CLIP, but with biases, a pooling head and no image projection."""
    return _two_towers(config, name, "siglip")


def _two_towers(config: Config, name: str, family: str) -> ModelArchitecture:
    clip, outer = family == "clip", Reader(config, family)
    text = outer.part("text_config", f"{family}_text_model")
    vision = outer.part("vision_config", f"{family}_vision_model")
    h, f, layers = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("num_hidden_layers")
    patch, side = vision.size("patch_size"), vision.size("image_size")
    inventory = Inventory()
    first = patches(inventory, h, patch, vision.size("num_channels", 3), bias=not clip, part=Part.ENCODER_TOWER)
    positions = (side // patch) ** 2
    inventory.vector("positions", Part.ENCODER_TOWER, positions * h + (2 * h if clip else 0))
    inventory.vector("outer_norms", Part.ENCODER_TOWER, 4 * h if clip else 2 * h)
    blocks(inventory, h, f, layers, part=Part.ENCODER_TOWER)
    if not clip:
        attention_pool(inventory, h, f)
    w, wide, deep = text.size("hidden_size"), text.size("intermediate_size"), text.size("num_hidden_layers")
    inventory.table("embed_tokens", text.size("vocab_size"), w)
    inventory.table("embed_positions", text.size("max_position_embeddings", 77 if clip else 64), w)
    blocks(inventory, w, wide, deep)
    inventory.vector("final_norm", Part.NORMS, 2 * w)
    width = outer.size("projection_dim", 512) if clip else text.size("projection_size", w)
    if clip:
        inventory.linear("visual_projection", Part.ENCODER_TOWER, h, width, ONCE, quantised=False, per=Per.NEVER)
    inventory.linear("text_projection", Part.HEAD, w, width, ONCE, bias=not clip, quantised=False, per=Per.NEVER)
    inventory.vector("logit_scale", Part.OTHER, 1 if clip else 2)
    pooled = 0.0 if clip else 2.0 * h * h  # keys and values of the pooling head
    macs = block_macs(h, f, layers) + first + pooled
    law = image_law(side, patch, extra_positions=1 if clip else 0, macs_per_position=macs, hidden_size=h, layers=layers)
    heads = vision.size("num_attention_heads")
    return sample_model(name, family, inventory, law, hidden_size=h, layers=layers, heads=heads, mlp_width=f)
