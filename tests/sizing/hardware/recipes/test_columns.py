"""Recipes as columns."""

from app.sizing.hardware.recipes import RECIPES, VOCABULARIES, Recipes, in_16_bit, vocabulary_code, word_at


def test_columns_hold_each_words_place() -> None:
    columns = Recipes.from_recipes(RECIPES)
    assert [VOCABULARIES["loss"][c] for c in columns.loss] == [r.loss for r in RECIPES]
    assert columns.take(columns.loss == vocabulary_code("loss", "fused")).bytes_per_logit.max() == 0.0


def test_a_run_in_16_bit_keeps_weights_and_gradients_so_whatever_a_framework_does() -> None:
    found = in_16_bit(Recipes.from_recipes(RECIPES))
    assert {(word_at(found, "weights", i), word_at(found, "gradients", i)) for i in range(len(found))} == {
        ("16bit", "as_weights")
    }
