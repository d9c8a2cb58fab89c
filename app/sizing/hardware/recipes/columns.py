"""Recipes as columns, and the recipe settings of a deployment: overrides in a request, complete in an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, column
from app.sizing.hardware.recipes.frameworks import PLACES
from app.sizing.hardware.recipes.record import LOSSES, VOCABULARIES, TrainingRecipe
from app.sizing.hardware.tables import codes, columns_from, flags


@dataclass(frozen=True, slots=True)
class Recipes(Columns):
    """Recipes, one row each; see `TrainingRecipe`."""

    record: Codes  # the recipe itself, index into RECIPES
    loss: Codes
    kernels: Codes
    weights: Codes
    gradients: Codes
    selective: Codes
    optimizer_implementation: Codes
    adapter_precision: Codes
    packing: Codes
    adapter_dropout: Mask
    kbit_widening: Mask
    published: Mask  # read in the framework's source code
    offloads_checkpoints: Mask  # activation checkpoints are on the host
    bytes_per_logit: Column  # bytes held per logit at the loss
    chunk_bytes_per_logit: Column  # bytes per logit of the chunk in progress
    chunk_logits: Column  # most logits of a chunk, if the loss limits them
    loss_chunks: Column  # chunks of a micro-batch
    gathered_units: Column  # layers gathered at once
    gathers_to_recompute: Mask
    keeps_exchanges: Mask  # lists of saved operators include the all-to-alls of experts
    keeps_gathered: Mask  # in a pipeline, sharded weights and gradients stay whole over all micro-batches
    bucket_bytes: Column  # gradient bytes in communication buckets
    live_params: Column  # gathered parameters that may be held at once
    sent_copies: Column  # copies of tokens in transit to and from experts

    @classmethod
    def from_recipes(cls, recipes: Sequence[TrainingRecipe]) -> Recipes:
        losses = [LOSSES[r.loss] for r in recipes]
        return columns_from(
            cls,
            recipes,
            VOCABULARIES,
            record=codes([PLACES[r.key] for r in recipes]),
            published=flags([r.is_from_source for r in recipes]),
            bytes_per_logit=column([x.bytes_per_logit for x in losses]),
            chunk_bytes_per_logit=column([x.chunk_bytes_per_logit for x in losses]),
            chunk_logits=column([x.chunk_logits for x in losses]),
        )


def in_16_bit(recipes: Recipes) -> Recipes:
    """The same recipes for a run that keeps nothing in 32 bits."""
    weights, gradients = vocabulary_code("weights", "16bit"), vocabulary_code("gradients", "as_weights")
    return replace(
        recipes, weights=np.full_like(recipes.weights, weights), gradients=np.full_like(recipes.gradients, gradients)
    )


def word_at(recipes: Recipes, name: str, row: int) -> str:
    return VOCABULARIES[name][int(getattr(recipes, name)[row])]


def vocabulary_code(name: str, word: str) -> int:
    """Index of a word in the vocabulary of a field.

    Check:
        >>> vocabulary_code("kernels", "fused")
        1
    """
    return VOCABULARIES[name].index(word)


# Recomputation words that are layouts themselves; every other word is a kind of selective recomputation.
WHOLE = ("none", "full")
OFFLOADED = "offloaded"


@dataclass(frozen=True, slots=True)
class RecipeSettings:
    """Words of `VOCABULARIES` for the fields of a recipe; None keeps the framework's own.

    `recomputation` is what the layout recomputes. In an answer, `name` and `source` identify the recipe.
    """

    loss: str | None = None
    kernels: str | None = None
    weights: str | None = None
    gradients: str | None = None
    recomputation: str | None = None
    optimizer_implementation: str | None = None
    adapter_precision: str | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = None
    packing: str | None = None
    name: str | None = None
    source: str | None = None

    @property
    def selective(self) -> str | None:
        """Kind of selective recomputation; None if the layout recomputes everything or nothing."""
        return None if self.recomputation in WHOLE else self.recomputation

    @property
    def recomputation_layout(self) -> str | None:
        """Recomputation layout: "none", "selective" or "full".

        Check:
            >>> [RecipeSettings(recomputation=word).recomputation_layout for word in ("attention", "full")]
            ['selective', 'full']
        """
        return "selective" if self.selective else self.recomputation

    @property
    def offloads_optimizer(self) -> bool | None:
        """Whether the optimizer is on the host; None if not set."""
        said = self.optimizer_implementation
        return None if said is None else said == OFFLOADED


# Fields in which a setting replaces the framework's own.
SETTABLE_FIELDS = (
    "loss",
    "kernels",
    "weights",
    "gradients",
    "selective",
    "optimizer_implementation",
    "adapter_precision",
    "adapter_dropout",
    "kbit_widening",
    "packing",
)
ADAPTER_FIELDS = ("adapter_precision", "adapter_dropout", "kbit_widening")


def apply_settings(recipe: TrainingRecipe, settings: RecipeSettings | None) -> TrainingRecipe:
    """A framework's recipe with the settings of a deployment applied.

    Check:
        >>> apply_settings(TrainingRecipe("fsdp"), RecipeSettings(loss="fused")).loss
        'fused'
    """
    own = {name: getattr(settings, name) for name in SETTABLE_FIELDS if getattr(settings, name, None) is not None}
    return replace(recipe, **own)
