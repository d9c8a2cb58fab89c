"""Projectors: matrices from the width of a vision tower to the width of the language model."""

from __future__ import annotations

from app.sizing.model.counting.tower import Tower


def llava(tower: Tower) -> None:
    """Add two matrices with an activation between them."""
    tower.matrix("projector.1", tower.width, tower.text_width)
    tower.matrix("projector.2", tower.text_width, tower.text_width)


def newline(tower: Tower) -> None:
    """Add LLaVA's projector and a learned vector that ends each row of patches."""
    llava(tower)
    tower.small("image_newline", tower.text_width)


def gemma3(tower: Tower) -> None:
    """Add a norm and one matrix."""
    tower.small("projector.norm", tower.width)
    tower.matrix("projector", tower.width, tower.text_width, bias=False)


def paligemma(tower: Tower) -> None:
    """Add one matrix with a bias."""
    tower.matrix("projector", tower.width, tower.text_width)


def mistral3(tower: Tower) -> None:
    """Add a matrix that merges patches, then two matrices."""
    merge = tower.outer.size("spatial_merge_size", 2)
    bias = tower.outer.flag("multimodal_projector_bias")
    tower.small("projector.norm", tower.width)
    tower.matrix("patch_merger", tower.width * merge**2, tower.width, bias=False)
    tower.matrix("projector.1", tower.width, tower.text_width, bias=bias)
    tower.matrix("projector.2", tower.text_width, tower.text_width, bias=bias)


def merger(tower: Tower, merge: int, out: int, *, copies: int = 1) -> None:
    """Add two matrices that `merge` x `merge` concatenated patches pass."""
    wide = tower.width * merge**2
    tower.matrix("merger.1", wide, wide, copies=copies)
    tower.matrix("merger.2", wide, out, copies=copies)
