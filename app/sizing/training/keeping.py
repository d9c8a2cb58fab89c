"""Bytes that each framework keeps per token and per parameter, computed once per recomputation mode.

Plans look their row up in the table instead of evaluating the formulas again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.formula import suspend_recording
from app.sizing.hardware.recipes import Recipes, vocabulary_code
from app.sizing.training.counts import Counts
from app.sizing.training.layer import LayerBytes, layer_bytes, layer_kinds
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING, FULL, SELECTIVE
from app.sizing.training.widths import ParamBytes, param_bytes, param_kinds

CHECKPOINTING_MODE_COUNT = len(ACTIVATION_CHECKPOINTING)
RECOMPUTES_NONE, RECOMPUTES_ALL = vocabulary_code("recomputation", "none"), vocabulary_code("recomputation", "full")


@dataclass(frozen=True, slots=True)
class FrameworkBytes(Columns):
    """Bytes that a framework keeps per token of a layer, and per parameter."""

    layer: LayerBytes  # activation bytes per token of a mean layer
    params: ParamBytes  # bytes per parameter


@dataclass(frozen=True, slots=True)
class FrameworkBytesTable:
    """Bytes for every combination of framework, sharding of weights and activation checkpointing mode."""

    rows: FrameworkBytes  # one row per combination

    def row_indices(self, stack: Codes, zero_stage: Column, activation_checkpointing: Codes) -> Codes:
        """Return the row of the table for each plan."""
        rows: Codes = (2 * stack + (zero_stage >= 3)) * CHECKPOINTING_MODE_COUNT + activation_checkpointing
        return rows


def build_framework_bytes_table(counts: Counts, recipe: Recipes, *, flash: bool) -> FrameworkBytesTable:
    """Build the table of every framework in every mode that a plan may choose."""
    rows = np.arange(len(recipe) * 2 * CHECKPOINTING_MODE_COUNT)
    sharded = (rows // CHECKPOINTING_MODE_COUNT) % 2 == 1
    with suspend_recording():
        return FrameworkBytesTable(
            framework_bytes(
                counts,
                recipe.take(rows // (2 * CHECKPOINTING_MODE_COUNT)),
                sharded,
                rows % CHECKPOINTING_MODE_COUNT,
                flash=flash,
            )
        )


def framework_bytes(
    counts: Counts, recipe: Recipes, sharded: Mask, checkpointing: Codes, *, flash: bool
) -> FrameworkBytes:
    """Return the bytes that each recipe keeps in the checkpointing mode of its row."""
    params = param_kinds(counts.recipe, recipe, sharded)
    some = np.where(checkpointing == SELECTIVE, recipe.selective, RECOMPUTES_NONE)
    recomputes = np.where(checkpointing == FULL, RECOMPUTES_ALL, some)
    kinds = layer_kinds(counts.recipe, recipe, recomputes, params.autocast, np.full(len(recipe), flash))
    return FrameworkBytes(layer_bytes(counts, kinds), param_bytes(counts.recipe, params))
