"""Images and source texts: positions a tower reads, tokens they become."""

from __future__ import annotations

import pytest

from app.sizing.model.encoder import EncoderPass, ImageInput

WHOLE = ImageInput(14, 2, max_tokens=1000)
TILED = ImageInput(14, tile_pixels=336, max_tiles=6, tokens_per_tile=144)


def test_every_position_attends_to_every_other() -> None:
    tower = EncoderPass(24, 1024, 2048.0, 4096.0)
    assert tower.attention_flops(100) == 2 * 24 * 2048 * 100**2
    assert tower.attention_flops(200) == 4 * tower.attention_flops(100)


@pytest.mark.parametrize(
    ("images", "width", "height", "tokens", "patches"),
    [
        (WHOLE, 280, 560, 10 * 20, 20 * 40),
        (WHOLE, 2800, 2800, 1000, 4000),  # 100 x 100 tokens would be too many
        (WHOLE, 1, 1, 1, 1),
        (ImageInput(14, 2, row_breaks=True), 280, 560, 10 * 20 + 20, 20 * 40),
        (TILED, 336, 336, 144, 24**2),
        (TILED, 672, 336, 3 * 144, 3 * 24**2),  # two tiles and an overview
        (TILED, 3360, 3360, 5 * 144, 5 * 24**2),  # ten by ten shrunk to two by two, and an overview
        (ImageInput(14, 2, tile_pixels=336), 336, 336, 144, 576),  # four patches to a token
    ],
)
def test_an_image_becomes_patches_and_tokens(
    images: ImageInput, width: int, height: int, tokens: int, patches: int
) -> None:
    assert (images.token_count(width, height), images.patch_count(width, height)) == (tokens, patches)
