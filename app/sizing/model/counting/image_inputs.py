"""How each model family divides an image: patches for the vision tower, tokens for the language model.

Source: the image processors of the transformers library; the maximum tiles and tokens are their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.sizing.model.counting.tower import Tower
from app.sizing.model.encoder import ImageInput

MAX_IMAGE_TOKENS = 16_384  # maximum tokens of an image that is read at its own size


def _image_side(tower: Tower) -> int:
    """Side of the image that the file states, pixels; 0 if it states none."""
    size = tower.reader.find_value("image_size")
    return int(size[0]) if isinstance(size, list) and size else int(size) if isinstance(size, int) else 0


def _whole_image_input(tower: Tower) -> ImageInput:
    return ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower))


def _gemma3_input(tower: Tower) -> ImageInput:
    own = tower.outer_reader.integer("mm_tokens_per_image", 256)
    return ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower) or 896, tokens_per_tile=own)


def _gemma4_input(tower: Tower) -> ImageInput:
    merge = tower.reader.size("pooling_kernel_size", 3)
    return ImageInput(
        tower.patch_pixels, merge, max_tokens=tower.outer_reader.integer("vision_soft_tokens_per_image", 280)
    )


def _internvl_input(tower: Tower) -> ImageInput:
    own = tower.outer_reader.integer("image_seq_length", 256)
    return ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower) or 448, max_tiles=12, tokens_per_tile=own)


def _idefics3_input(tower: Tower) -> ImageInput:
    return ImageInput(
        tower.patch_pixels, tower.outer_reader.size("scale_factor", 2), tile_pixels=_image_side(tower), max_tiles=16
    )


def _mistral3_input(tower: Tower) -> ImageInput:
    most = (_image_side(tower) // (2 * tower.patch_pixels)) ** 2 or None
    return ImageInput(
        tower.patch_pixels, tower.outer_reader.size("spatial_merge_size", 2), row_breaks=True, max_tokens=most
    )


def _native_size_input(tower: Tower) -> ImageInput:
    """Image input of models that read an image at its own size (Qwen-VL, Kimi, Muse)."""
    merge = tower.reader.find_value("merge_size") or tower.reader.find_value("spatial_merge_size")
    return ImageInput(tower.patch_pixels, merge if isinstance(merge, int) else 2, max_tokens=MAX_IMAGE_TOKENS)


_BY_TYPE: Mapping[str, Callable[[Tower], ImageInput]] = {
    "gemma3": _gemma3_input,
    "gemma4": _gemma4_input,
    "llama4": lambda tower: ImageInput(tower.patch_pixels, 2, tile_pixels=_image_side(tower), max_tiles=16),
    "mllama": lambda tower: ImageInput(
        tower.patch_pixels, tile_pixels=_image_side(tower), max_tiles=4, tokens_per_tile=0
    ),
    "internvl": _internvl_input,
    "internvl_chat": _internvl_input,
    "idefics3": _idefics3_input,
    "smolvlm": _idefics3_input,
    "phi3_v": lambda tower: ImageInput(tower.patch_pixels, 2, tile_pixels=336, max_tiles=16),
    "llava_next": lambda tower: ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower), max_tiles=4),
    "llava_onevision": lambda tower: ImageInput(tower.patch_pixels, tile_pixels=_image_side(tower), max_tiles=9),
    "llava": _whole_image_input,
    "paligemma": _whole_image_input,
    "mistral3": _mistral3_input,
}


def read_image_input(kind: str, tower: Tower) -> ImageInput:
    """Rule for the patches and tokens of an image, by the type of the wrapping model."""
    return _BY_TYPE.get(kind, _native_size_input)(tower)
