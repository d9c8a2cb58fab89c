"""Counts one vision tower: patches, blocks, and the matrices of its projector."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.model.counting.configuration import Config, Reader
from app.sizing.model.tensors import ONCE, Inventory, Part, Per

PART = Part.ENCODER_TOWER


@dataclass(slots=True)
class Tower:
    """Shape and counted tensors of a vision tower. `text_width` is the hidden size of the language model that reads its
    output.
    """

    inventory: Inventory
    reader: Reader
    config: Config
    width: int
    mlp_width: int
    layers: int
    heads: int
    patch_pixels: int
    text_width: int

    @property
    def outer_reader(self) -> Reader:
        """Reader of the whole file."""
        return Reader(self.config)

    @property
    def patch_positions(self) -> int:
        """Patches of an image of the tower's own size."""
        size = self.reader.find_value("image_size")
        side = size[0] if isinstance(size, list) and size else self.reader.size("image_size")
        return (int(side) // self.patch_pixels) ** 2

    def add_projector_matrix(self, role: str, inputs: int, outputs: int, *, bias: bool = True, copies: int = 1) -> None:
        """Add a matrix of the projector, multiplied once per image token."""
        self.inventory.add_linear(
            role, PART, inputs, outputs, ONCE, bias=bias, quantized=False, per=Per.IMAGE_TOKEN, copies=copies
        )

    def add_vector(self, role: str, size: int) -> None:
        """Add learnable elements that nothing multiplies."""
        self.inventory.add_vector(role, PART, size)

    def add_patch_embedding(self, *, bias: bool, frames: int = 1, channels: int = 3) -> None:
        """Add the convolution that turns a patch into a vector."""
        size = channels * frames * self.patch_pixels**2
        self.inventory.add_linear(
            "patch_embedding", PART, size, self.width, ONCE, bias=bias, quantized=False, per=Per.NEVER
        )

    def add_blocks(
        self,
        *,
        attention_bias: bool = True,
        out_bias: bool = True,
        mlp_bias: bool = True,
        gated: bool = False,
        norms: int = 4,
        extra: int = 0,
        layers: int | None = None,
        heads_width: int | None = None,
    ) -> None:
        """Add transformer blocks. `norms` counts normalization vectors per block, and `extra` other elements per block.

        Check: CLIP ViT-L/14 multiplies 24 * (4 * 1024^2 + 2 * 1024 * 4096) elements per patch.
            >>> registered("llava-hf/llava-1.5-7b-hf").source_matmul_params
            301989888.0
        """
        every = tuple(range(self.layers if layers is None else layers))
        h, f, inner = self.width, self.mlp_width, heads_width or self.width
        into = self.inventory

        def add_matrix(role: str, inputs: int, outputs: int, bias: bool) -> None:
            into.add_linear(role, PART, inputs, outputs, every, bias=bias, quantized=False, per=Per.SOURCE)

        for role in ("q", "k", "v"):
            add_matrix(f"tower.{role}_proj", h, inner, attention_bias)
        add_matrix("tower.o_proj", inner, h, out_bias)
        for role in ("up", "gate")[: 2 if gated else 1]:
            add_matrix(f"tower.{role}_proj", h, f, mlp_bias)
        add_matrix("tower.down_proj", f, h, mlp_bias)
        into.add_vector("tower.norms", PART, norms * h + extra, every)


def add_attention_pool(inventory: Inventory, hidden_size: int, mlp_width: int) -> None:
    """Add SigLIP's pooling head, in which one learned query attends to all patches."""
    h, f = hidden_size, mlp_width
    inventory.add_vector("pool", PART, h + 4 * (h * h + h) + 2 * h + 2 * h * f + f + h)
