"""Recipes of all frameworks, oldest version first, and the index of each."""

from __future__ import annotations

from app.sizing.hardware.recipes.clusters import CLUSTERS
from app.sizing.hardware.recipes.huggingface import HUGGING_FACE
from app.sizing.hardware.recipes.pytorch import PYTORCH, USUAL
from app.sizing.hardware.recipes.record import TrainingRecipe

__all__ = ["PLACES", "RECIPES", "USUAL"]

RECIPES: tuple[TrainingRecipe, ...] = (*PYTORCH, *HUGGING_FACE, *CLUSTERS)
PLACES = {recipe.key: i for i, recipe in enumerate(RECIPES)}
