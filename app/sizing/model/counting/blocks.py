"""Building blocks of networks on samples: transformer blocks with biases, patch embeddings, and the law of an image."""

from __future__ import annotations

from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.sample import SampleLaw
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
    """The law of a transformer over the patches of an image."""
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
