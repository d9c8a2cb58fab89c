"""What a recipe may say."""

import pytest

from app.sizing.hardware.recipes import LOSSES, RECIPES, VOCABULARIES, TrainingRecipe


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.name} {'+'.join(r.methods)}")
def test_a_recipe_says_words_of_the_vocabularies(recipe: TrainingRecipe) -> None:
    for name, words in VOCABULARIES.items():
        assert getattr(recipe, name) in words


def test_a_loss_holds_less_the_later_it_is_listed() -> None:
    held = [loss.bytes_per_logit for loss in LOSSES.values()]
    assert held == sorted(held, reverse=True)
