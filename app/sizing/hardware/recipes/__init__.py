"""Training recipes: what each framework and version does with memory where nobody says otherwise.

A framework that does its work with another one has a recipe of its own, or that one's. What has none is as
PyTorch's own loop: a loss in 32 bit, modules that store what they form, 32-bit weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from app.sizing.hardware.engines import engine_named, release_of
from app.sizing.hardware.recipes.columns import Recipes, code, in_16_bit, word
from app.sizing.hardware.recipes.frameworks import RECIPES, USUAL
from app.sizing.hardware.recipes.record import LOSSES, RECOMPUTATIONS, VOCABULARIES, TrainingRecipe
from app.sizing.hardware.recipes.said import OF_ADAPTERS, WHOLE, RecipeSaid, as_said
from app.sizing.hardware.support.records import FULL, LORA, QLORA

__all__ = [
    "LOSSES",
    "OF_ADAPTERS",
    "RECIPES",
    "RECOMPUTATIONS",
    "VOCABULARIES",
    "WHOLE",
    "RecipeSaid",
    "Recipes",
    "TrainingRecipe",
    "as_said",
    "code",
    "in_16_bit",
    "recipe_of_framework",
    "recipes_of_framework",
    "recipes_today",
    "word",
]


# Ways of training that adapt.
ADAPTERS = (LORA, QLORA)


@cache
def recipe_of_framework(name: str, version: str | None = None, method: str | None = None) -> TrainingRecipe:
    """What a framework does at a version, today's where none is said, when it trains in a way.

    Its own recipe, else that of the engine that adapts or does its work; of several that suit the last, which is the
    newest and most particular.

    Check:
        >>> recipe_of_framework("unsloth").loss
        'fused'
    """
    release, engine = release_of(version), engine_named(name)
    for framework in dict.fromkeys((name, engine.underneath(adapts=method in ADAPTERS), engine.underneath())):
        found = [r for r in RECIPES if r.framework == framework and r.suits(release, method)]
        if found:
            return found[-1]
    return USUAL


def recipes_today(frameworks: Sequence[str]) -> Mapping[str, Recipes]:
    """What each of some frameworks does today, a row each, by way of training."""
    return {
        method: Recipes.of([recipe_of_framework(name, None, method) for name in frameworks])
        for method in (FULL, *ADAPTERS)
    }


def recipes_of_framework(name: str) -> tuple[TrainingRecipe, ...]:
    """Every recipe of a framework, or of the engine that does its work, oldest first.

    Check:
        >>> [recipe.name for recipe in recipes_of_framework("lightning")]
        ['lightning 2.4', 'lightning 2.6']
    """
    for framework in dict.fromkeys((name, engine_named(name).underneath())):
        found = tuple(r for r in RECIPES if r.framework == framework)
        if found:
            return found
    return (USUAL,)
