"""Encoder passes over images or source texts, and the number of tokens that an image becomes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EncoderPass:
    """An encoder that reads all its positions at once: patches of a vision tower, frames of speech, or a source text.

    Its matrices are the tensors counted per source position. Attention costs `attention_macs` multiply-adds per pair
    of positions and layer.
    """

    layers: int
    hidden_size: int
    attention_macs: float
    mlp_width: float

    def attention_flops(self, positions: float) -> float:
        """Attention FLOPs of one pass, in which every position attends to every other.

        Limits: towers with windowed layers compute less.
        Check: CLIP ViT-L/14's 576 patches, 2 * 24 layers * 2 * 1024 * 576^2.
            >>> EncoderPass(24, 1024, 2 * 1024.0, 4096.0).attention_flops(576) / 1e9
            32.614907904
        """
        return 2 * self.layers * self.attention_macs * positions**2


@dataclass(frozen=True, slots=True)
class ImageInput:
    """How an image becomes patches for the vision tower and tokens for the language model.

    With `tile_pixels`, the image is cut into tiles of that side, up to `max_tiles`. Each tile gives
    `tokens_per_tile`. If there is more than one tile, one overview tile is added. Without `tile_pixels`, the image
    is read at its own size: `merge` x `merge` patches become one token, up to `max_tokens`.
    """

    patch_pixels: int
    merge: int = 1
    tile_pixels: int | None = None
    max_tiles: int = 1
    tokens_per_tile: int | None = None
    max_tokens: int | None = None
    row_breaks: bool = False

    def _tile_count(self, width: int, height: int) -> int:
        side = self.tile_pixels or 1
        across, down = -(-width // side), -(-height // side)
        if across * down > self.max_tiles:
            scale = math.sqrt(across * down / self.max_tiles)
            across, down = max(1, int(across / scale)), max(1, int(down / scale))
        tiles = across * down
        return tiles + 1 if tiles > 1 else 1

    @property
    def tile_patches(self) -> int:
        """Patches of one tile; 0 if an image is read as a whole."""
        return (self.tile_pixels // self.patch_pixels) ** 2 if self.tile_pixels is not None else 0

    def token_count(self, width: int, height: int) -> int:
        """Tokens of the language model that an image becomes.

        Source: the image processors of the transformers library, one rule per family.
        Limits: processors round sides to multiples of their own; the result is accurate to one or two tokens per
        side.
        Check: Qwen2.5-VL (patch 14, merged 2 x 2), 36 * 36 for 1008 x 1008.
            >>> ImageInput(14, 2).token_count(1008, 1008)
            1296
        """
        if self.tile_pixels is not None:
            own = self.tokens_per_tile if self.tokens_per_tile is not None else self.tile_patches // self.merge**2
            return own * self._tile_count(width, height)
        side = self.patch_pixels * self.merge
        across, down = max(1, round(width / side)), max(1, round(height / side))
        count = across * down + (down if self.row_breaks else 0)
        return count if self.max_tokens is None else min(count, self.max_tokens)

    def patch_count(self, width: int, height: int) -> int:
        """Positions that the vision tower reads."""
        if self.tile_pixels is not None:
            return self.tile_patches * self._tile_count(width, height)
        count = max(1, round(width / self.patch_pixels)) * max(1, round(height / self.patch_pixels))
        return count if self.max_tokens is None else min(count, self.max_tokens * self.merge**2)


def tower_flops(
    tower: EncoderPass, images: ImageInput, patch_params: float, token_params: float, *, width: int, height: int
) -> float:
    """FLOPs of a vision tower and its projector for one image.

    Matrices of the tower count per patch, matrices of the projector per token, and attention per tile.

    Parameters:
        tower: shape of the vision tower.
        images: rule that gives patches and tokens of an image.
        patch_params: elements multiplied per patch.
        token_params: elements multiplied per image token.
        width: width of the image, pixels.
        height: height of the image, pixels.
    Limits: the patches of a tile attend only to each other; pooling inside the tower is not modeled.
    Check: CLIP ViT-L/14 at 336 (LLaVA 1.5): 576 patches through 2 * 302 M elements, attention and projector, in
    TFLOP.
        >>> round(registered("llava-hf/llava-1.5-7b-hf").image_flops(336, 336) / 1e12, 4)
        0.4047
    """
    patches, tokens = images.patch_count(width, height), images.token_count(width, height)
    tiles = max(1.0, patches / images.tile_patches) if images.tile_patches else 1.0
    attention = tiles * tower.attention_flops(patches / tiles)
    return 2 * patch_params * patches + attention + 2.0 * token_params * tokens
