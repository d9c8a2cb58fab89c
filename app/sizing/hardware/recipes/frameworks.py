"""Recipes of all frameworks, oldest version first, and the index of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.sizing.facts import InvalidFact, build, read_tables
from app.sizing.hardware.recipes.record import VOCABULARIES, TrainingRecipe

# Fields that a recipe does not take over from the recipe that it is like.
OWN_FIELDS = frozenset({"framework", "version", "since", "methods", "source", "as_of", "note"})


def read_recipes(name: str | Path) -> tuple[TrainingRecipe, ...]:
    """Recipes of a data file, in its order.

    Raises:
        InvalidFact: `like` names no earlier recipe, a word is not in its vocabulary, or a field is not one of a recipe.
    """
    recipes: list[TrainingRecipe] = []
    tables: dict[str, dict[str, Any]] = {}
    for where, stated in read_tables(name, "recipe"):
        own = dict(stated)
        like = own.pop("like", None)
        if like is not None and like not in [*tables]:
            raise InvalidFact(f"{where}: no earlier recipe is named {like!r}")
        taken = {} if like is None else {k: v for k, v in tables[like].items() if k not in OWN_FIELDS}
        recipe = build(TrainingRecipe, taken | own, where=where)
        for field, words in VOCABULARIES.items():
            if (word := getattr(recipe, field)) not in words:
                raise InvalidFact(f"{where}, {field}: {word!r} is not one of {', '.join(words)}")
        tables.setdefault(recipe.name, taken | own)
        recipes.append(recipe)
    return tuple(recipes)


RECIPES = read_recipes("recipes.toml")
PLACES = {recipe.key: i for i, recipe in enumerate(RECIPES)}
USUAL = next(recipe for recipe in RECIPES if recipe.framework == "pytorch")
