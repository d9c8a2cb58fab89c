"""Projectors: from the width of a vision tower to that of the language model."""

from __future__ import annotations

from app.sizing.model.counting.tower import Tower


def llava(t: Tower) -> None:
    """Two matrices, an activation between them."""
    t.matrix("projector.1", t.width, t.text_width)
    t.matrix("projector.2", t.text_width, t.text_width)


def newline(t: Tower) -> None:
    """LLaVA's, and a learned end of a row of patches."""
    llava(t)
    t.small("image_newline", t.text_width)


def gemma3(t: Tower) -> None:
    """A norm and one matrix."""
    t.small("projector.norm", t.width)
    t.matrix("projector", t.width, t.text_width, bias=False)


def paligemma(t: Tower) -> None:
    """One matrix with a bias."""
    t.matrix("projector", t.width, t.text_width)


def mistral3(t: Tower) -> None:
    """Patches are merged, then two matrices."""
    merge = t.outer.size("spatial_merge_size", 2)
    bias = t.outer.flag("multimodal_projector_bias")
    t.small("projector.norm", t.width)
    t.matrix("patch_merger", t.width * merge**2, t.width, bias=False)
    t.matrix("projector.1", t.width, t.text_width, bias=bias)
    t.matrix("projector.2", t.text_width, t.text_width, bias=bias)


def merger(t: Tower, merge: int, out: int, *, copies: int = 1) -> None:
    """`merge` x `merge` patches side by side pass two matrices."""
    wide = t.width * merge**2
    t.matrix("merger.1", wide, wide, copies=copies)
    t.matrix("merger.2", wide, out, copies=copies)
