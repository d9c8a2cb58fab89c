"""What frameworks keep, counted once for each of them and way to recompute: plans look their row up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.formula import unrecorded
from app.sizing.hardware.recipes import Recipes, code
from app.sizing.training.counts import Counts
from app.sizing.training.layer import LayerBytes, kinds_of, layer_bytes
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING, FULL, SELECTIVE
from app.sizing.training.widths import ParamBytes, param_bytes, param_kinds

WAYS = len(ACTIVATION_CHECKPOINTING)
RECOMPUTES_NONE, RECOMPUTES_ALL = code("recomputation", "none"), code("recomputation", "full")


@dataclass(frozen=True, slots=True)
class Keeping(Columns):
    """What a framework keeps of a token in a layer, and of a parameter."""

    layer: LayerBytes
    params: ParamBytes


@dataclass(frozen=True, slots=True)
class KeepingTable:
    """Rows by framework, by whether weights are sharded, and by how activations are checkpointed."""

    rows: Keeping

    def places(self, stack: Codes, zero_stage: Column, activation_checkpointing: Codes) -> Codes:
        """Where plans stand in it."""
        found: Codes = (2 * stack + (zero_stage >= 3)) * WAYS + activation_checkpointing
        return found


def keeping_table(counts: Counts, recipe: Recipes, *, flash: bool) -> KeepingTable:
    """What each of some frameworks keeps in every way that a plan may choose."""
    every = np.arange(len(recipe) * 2 * WAYS)
    sharded = (every // WAYS) % 2 == 1
    with unrecorded():
        return KeepingTable(keeping(counts, recipe.take(every // (2 * WAYS)), sharded, every % WAYS, flash=flash))


def keeping(counts: Counts, recipe: Recipes, sharded: Mask, checkpointing: Codes, *, flash: bool) -> Keeping:
    """What recipes keep in the way that each row says."""
    params = param_kinds(counts.recipe, recipe, sharded)
    some = np.where(checkpointing == SELECTIVE, recipe.selective, RECOMPUTES_NONE)
    recomputes = np.where(checkpointing == FULL, RECOMPUTES_ALL, some)
    kinds = kinds_of(counts.recipe, recipe, recomputes, params.autocast, np.full(len(recipe), flash))
    return Keeping(layer_bytes(counts, kinds), param_bytes(counts.recipe, params))
