"""Bytes that each framework keeps per token and per parameter, computed once per recomputation mode.

Plans look their row up in the table instead of evaluating the formulas again.
"""

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
    """Bytes that a framework keeps per token of a layer, and per parameter."""

    layer: LayerBytes  # activation bytes per token of a mean layer
    params: ParamBytes  # bytes per parameter


@dataclass(frozen=True, slots=True)
class KeepingTable:
    """Bytes for every combination of framework, sharding of weights and activation checkpointing mode."""

    rows: Keeping  # one row per combination

    def places(self, stack: Codes, zero_stage: Column, activation_checkpointing: Codes) -> Codes:
        """Return the row of the table for each plan."""
        rows: Codes = (2 * stack + (zero_stage >= 3)) * WAYS + activation_checkpointing
        return rows


def keeping_table(counts: Counts, recipe: Recipes, *, flash: bool) -> KeepingTable:
    """Build the table of every framework in every mode that a plan may choose."""
    rows = np.arange(len(recipe) * 2 * WAYS)
    sharded = (rows // WAYS) % 2 == 1
    with unrecorded():
        return KeepingTable(keeping(counts, recipe.take(rows // (2 * WAYS)), sharded, rows % WAYS, flash=flash))


def keeping(counts: Counts, recipe: Recipes, sharded: Mask, checkpointing: Codes, *, flash: bool) -> Keeping:
    """Return the bytes that each recipe keeps in the checkpointing mode of its row."""
    params = param_kinds(counts.recipe, recipe, sharded)
    some = np.where(checkpointing == SELECTIVE, recipe.selective, RECOMPUTES_NONE)
    recomputes = np.where(checkpointing == FULL, RECOMPUTES_ALL, some)
    kinds = kinds_of(counts.recipe, recipe, recomputes, params.autocast, np.full(len(recipe), flash))
    return Keeping(layer_bytes(counts, kinds), param_bytes(counts.recipe, params))
