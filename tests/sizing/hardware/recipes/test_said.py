"""What a deployment says of its recipe."""

from app.sizing.hardware.recipes import RecipeSettings, TrainingRecipe, apply_settings


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
