"""Projectors: matrices from the width of a vision tower to the width of the language model."""

from __future__ import annotations

from app.sizing.model.counting.tower import Tower


def add_llava_projector(tower: Tower) -> None:
    """Add two matrices with an activation between them."""
    tower.add_projector_matrix("projector.1", tower.width, tower.text_width)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width)


def add_llava_next_projector(tower: Tower) -> None:
    """Add LLaVA's projector and a learned vector that ends each row of patches."""
    add_llava_projector(tower)
    tower.add_vector("image_newline", tower.text_width)


def add_gemma3_projector(tower: Tower) -> None:
    """Add a norm and one matrix."""
    tower.add_vector("projector.norm", tower.width)
    tower.add_projector_matrix("projector", tower.width, tower.text_width, bias=False)


def add_paligemma_projector(tower: Tower) -> None:
    """Add one matrix with a bias."""
    tower.add_projector_matrix("projector", tower.width, tower.text_width)


def add_mistral3_projector(tower: Tower) -> None:
    """Add a matrix that merges patches, then two matrices."""
    merge = tower.outer_reader.size("spatial_merge_size", 2)
    bias = tower.outer_reader.flag("multimodal_projector_bias")
    tower.add_vector("projector.norm", tower.width)
    tower.add_projector_matrix("patch_merger", tower.width * merge**2, tower.width, bias=False)
    tower.add_projector_matrix("projector.1", tower.width, tower.text_width, bias=bias)
    tower.add_projector_matrix("projector.2", tower.text_width, tower.text_width, bias=bias)


def add_patch_merger(tower: Tower, merge: int, out: int, *, copies: int = 1) -> None:
    """Add two matrices that `merge` x `merge` concatenated patches pass."""
    wide = tower.width * merge**2
    tower.add_projector_matrix("merger.1", wide, wide, copies=copies)
    tower.add_projector_matrix("merger.2", wide, out, copies=copies)
