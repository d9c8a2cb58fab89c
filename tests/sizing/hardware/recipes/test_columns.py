"""Recipes as columns. What a deployment says of its recipe."""

from __future__ import annotations

from app.sizing.hardware.recipes import (
    RECIPES,
    VOCABULARIES,
    Recipes,
    RecipeSettings,
    TrainingRecipe,
    apply_settings,
    in_16_bit,
    vocabulary_code,
    word_at,
)


def test_columns_hold_each_words_place() -> None:
    columns = Recipes.from_recipes(RECIPES)
    assert [VOCABULARIES["loss"][c] for c in columns.loss] == [r.loss for r in RECIPES]
    assert columns.take(columns.loss == vocabulary_code("loss", "fused")).bytes_per_logit.max() == 0.0


def test_a_run_in_16_bit_keeps_weights_and_gradients_so_whatever_a_framework_does() -> None:
    found = in_16_bit(Recipes.from_recipes(RECIPES))
    assert {(word_at(found, "weights", i), word_at(found, "gradients", i)) for i in range(len(found))} == {
        ("16bit", "as_weights")
    }


def test_what_is_said_replaces_the_frameworks_own_and_nothing_else() -> None:
    own = TrainingRecipe("torchtitan", (0, 1), loss="compiled", packing="packed")
    said = apply_settings(own, RecipeSettings(loss="fused", recomputation="attention"))
    assert (said.loss, said.selective, said.packing, said.key) == ("fused", "attention", "packed", own.key)
    assert apply_settings(own, None) == own


def test_recomputing_all_or_nothing_leaves_selective_as_it_is() -> None:
    own = TrainingRecipe("torchtitan", selective="operators")
    assert apply_settings(own, RecipeSettings(recomputation="full")).selective == "operators"


def test_an_optimizer_on_the_host_is_said_once() -> None:
    assert RecipeSettings(optimizer_implementation="offloaded").offloads_optimizer is True
    assert RecipeSettings(optimizer_implementation="foreach").offloads_optimizer is False
    assert RecipeSettings().offloads_optimizer is None
