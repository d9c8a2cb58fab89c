"""Recipes as columns."""

from app.sizing.hardware.recipes import RECIPES, VOCABULARIES, Recipes, code


def test_columns_hold_each_words_place() -> None:
    columns = Recipes.of(RECIPES)
    assert [VOCABULARIES["loss"][c] for c in columns.loss] == [r.loss for r in RECIPES]
    assert columns.take(columns.loss == code("loss", "fused")).bytes_per_logit.max() == 0.0
