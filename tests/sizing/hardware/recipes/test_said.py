"""What a deployment says of its recipe."""

from app.sizing.hardware.recipes import RecipeSaid, TrainingRecipe, as_said


def test_what_is_said_replaces_the_frameworks_own_and_nothing_else() -> None:
    own = TrainingRecipe("torchtitan", (0, 1), loss="compiled", packing="packed")
    said = as_said(own, RecipeSaid(loss="fused", recomputation="attention"))
    assert (said.loss, said.selective, said.packing, said.key) == ("fused", "attention", "packed", own.key)
    assert as_said(own, None) == own


def test_recomputing_all_or_nothing_leaves_selective_as_it_is() -> None:
    own = TrainingRecipe("torchtitan", selective="operators")
    assert as_said(own, RecipeSaid(recomputation="full")).selective == "operators"


def test_an_optimizer_on_the_host_is_said_once() -> None:
    assert RecipeSaid(optimizer_implementation="offloaded").offloads is True
    assert RecipeSaid(optimizer_implementation="foreach").offloads is False
    assert RecipeSaid().offloads is None
