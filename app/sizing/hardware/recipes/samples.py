"""Training recipes for models on samples (vision, speech and diffusion models), by framework and kind of model."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.facts import build_tables
from app.sizing.model.tasks import ModelTask

# Where 32 bits are used: everywhere, in the weights of 16-bit computation, or only in adapters of a 16-bit base.
SAMPLE_PRECISIONS = ("fp32", "amp", "16bit")


@dataclass(frozen=True, slots=True)
class SampleRecipe:
    """Default behavior of a framework with a kind of sample model."""

    framework: str
    task: ModelTask
    source: str
    as_of: str
    precision: str = "amp"  # of SAMPLE_PRECISIONS
    optimizer: str = "adamw"
    optimizer_implementation: str = "foreach"
    channels_last: bool = False
    recomputation: str = "none"  # of RECOMPUTATIONS
    averaged: bool = False  # keeps an additional 32-bit average of the weights (EMA)
    frozen_bytes_per_param: float = 2.0  # bytes per parameter of frozen parts: text encoders, autoencoder
    is_usual: bool = False  # stands for frameworks without a recipe for this kind of model

    @property
    def name(self) -> str:
        """Framework and kind of model."""
        return f"{self.framework} {self.task.value}"


SAMPLE_RECIPES = build_tables(SampleRecipe, "sample_recipes.toml", "recipe")
_USUAL = {recipe.task: recipe for recipe in SAMPLE_RECIPES if recipe.is_usual}


def sample_recipe_of(framework: str, task: ModelTask) -> SampleRecipe:
    """Recipe of a framework for a kind of model; the usual recipe of that kind if the framework has none.

    Check:
        >>> sample_recipe_of("diffusers", ModelTask.DIFFUSION).recomputation
        'full'
    """
    own = (r for r in SAMPLE_RECIPES if (r.framework, r.task) == (framework, task))
    return next(own, _USUAL.get(task, _USUAL[ModelTask.VISION]))
