"""The recipe of each framework."""

from app.sizing.hardware.recipes import recipe_of_framework


def test_a_framework_without_a_recipe_has_that_of_the_engine_underneath() -> None:
    assert recipe_of_framework("primus").kernels == "fused"


def test_what_nobody_described_is_pytorchs_own_loop() -> None:
    assert recipe_of_framework("something-new").weights == "sharded"
