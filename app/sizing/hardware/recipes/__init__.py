"""Training recipes: default memory behavior of each framework and version.

A framework that runs on top of another one has its own recipe or that of the other. A framework without any recipe
uses that of PyTorch's own loop: a loss in 32 bits, modules that store their intermediate results, 32-bit weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from app.sizing.hardware.engines import engine_named, release_of
from app.sizing.hardware.recipes.columns import (
    ADAPTER_FIELDS,
    WHOLE,
    Recipes,
    RecipeSettings,
    apply_settings,
    in_16_bit,
    vocabulary_code,
    word_at,
)
from app.sizing.hardware.recipes.frameworks import RECIPES, USUAL
from app.sizing.hardware.recipes.record import LOSSES, RECOMPUTATIONS, VOCABULARIES, TrainingRecipe
from app.sizing.hardware.support.records import FULL, LORA, QLORA

# Training methods with adapters.
ADAPTERS = (LORA, QLORA)


@cache
def recipe_of_framework(name: str, version: str | None = None, method: str | None = None) -> TrainingRecipe:
    """Recipe of a framework at a version (the current one if None) for a training method.

    The framework's own recipe takes precedence over that of the engine that trains adapters, and that over the
    engine underneath. Of several matching recipes the last one applies, which is the newest and most specific.

    Check:
        >>> recipe_of_framework("unsloth").loss
        'fused_limited'
    """
    release, engine = release_of(version), engine_named(name)
    for framework in dict.fromkeys((name, engine.base_engine(adapts=method in ADAPTERS), engine.base_engine())):
        found = [r for r in RECIPES if r.framework == framework and r.applies_to(release, method)]
        if found:
            return found[-1]
    return USUAL


def recipes_today(frameworks: Sequence[str]) -> Mapping[str, Recipes]:
    """Current recipe of each framework, one row each, by training method."""
    return {
        method: Recipes.from_recipes([recipe_of_framework(name, None, method) for name in frameworks])
        for method in (FULL, *ADAPTERS)
    }


def recipes_of_framework(name: str) -> tuple[TrainingRecipe, ...]:
    """All recipes of a framework, or of the engine underneath, oldest first.

    Check:
        >>> [recipe.name for recipe in recipes_of_framework("lightning")]
        ['lightning 2.4', 'lightning 2.6']
    """
    for framework in dict.fromkeys((name, engine_named(name).base_engine())):
        found = tuple(r for r in RECIPES if r.framework == framework)
        if found:
            return found
    return (USUAL,)
