"""What a model reads beside text: the pass over an image or a source text, and the tokens an image takes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EncoderPass:
    """A part that reads all its positions at once: a vision tower's patches, frames of speech, a source text.

    Its matrices are the tensors counted per source position; attention costs `attention_macs`
    multiply-adds per pair of positions and layer.
    """

    layers: int
    hidden_size: int
    attention_macs: float
    mlp_width: float

    def attention_flops(self, positions: float) -> float:
        return 2 * self.layers * self.attention_macs * positions**2


@dataclass(frozen=True, slots=True)
class ImageInput:
    """How an image becomes patches for the tower and tokens for the language model.

    With `tile_pixels` the image is cut into tiles of that side, up to `max_tiles`, each giving
    `tokens_per_tile`, and one overview tile is added where there is more than one; otherwise its
    own size counts, `merge` patches a side to a token, within `max_tokens`.
    """

    patch_pixels: int
    merge: int = 1
    tile_pixels: int | None = None
    max_tiles: int = 1
    tokens_per_tile: int | None = None
    max_tokens: int | None = None
    row_breaks: bool = False

    def _tiles(self, width: int, height: int) -> int:
        side = self.tile_pixels or 1
        across, down = -(-width // side), -(-height // side)
        if across * down > self.max_tiles:
            scale = math.sqrt(across * down / self.max_tiles)
            across, down = max(1, int(across / scale)), max(1, int(down / scale))
        tiles = across * down
        return tiles + 1 if tiles > 1 else 1

    @property
    def tile_patches(self) -> int:
        """Patches of one tile; 0 where an image is read whole."""
        return (self.tile_pixels // self.patch_pixels) ** 2 if self.tile_pixels is not None else 0

    def tokens(self, width: int, height: int) -> int:
        """Tokens of the language model that an image takes.

        Check: Qwen2.5-VL (patch 14, merged 2 x 2) takes 36 * 36 = 1 296 tokens for 1008 x 1008.
        """
        if self.tile_pixels is not None:
            own = self.tokens_per_tile if self.tokens_per_tile is not None else self.tile_patches // self.merge**2
            return own * self._tiles(width, height)
        side = self.patch_pixels * self.merge
        across, down = max(1, round(width / side)), max(1, round(height / side))
        found = across * down + (down if self.row_breaks else 0)
        return found if self.max_tokens is None else min(found, self.max_tokens)

    def patches(self, width: int, height: int) -> int:
        """Positions the tower reads."""
        if self.tile_pixels is not None:
            return self.tile_patches * self._tiles(width, height)
        found = max(1, round(width / self.patch_pixels)) * max(1, round(height / self.patch_pixels))
        return found if self.max_tokens is None else min(found, self.max_tokens * self.merge**2)
