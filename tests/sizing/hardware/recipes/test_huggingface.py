"""Recipes of the transformers Trainer and of frameworks built on it."""

import pytest

from app.sizing.hardware.recipes import recipe_of_framework


@pytest.mark.parametrize(
    ("version", "loss", "implementation", "selective"),
    [
        ("4.40.0", "shifted", "foreach", "none"),
        ("4.49.0", "upcast", "foreach", "none"),
        ("4.57.1", "upcast", "fused", "none"),
        ("5.23.0", "upcast", "fused", "every_second_layer"),
    ],
)
def test_transformers_stopped_copying_logits_and_then_fused_its_optimizer(
    version: str, loss: str, implementation: str, selective: str
) -> None:
    recipe = recipe_of_framework("transformers", version)
    assert (recipe.loss, recipe.optimizer_implementation, recipe.selective) == (loss, implementation, selective)


def test_trl_no_longer_widens_a_quantised_base_and_has_narrow_adapters() -> None:
    old, new = (recipe_of_framework("trl", version, "qlora") for version in ("0.24", "0.26"))
    assert (old.kbit_widening, new.kbit_widening) == (True, False)
    assert (old.adapter_precision, new.adapter_precision) == ("autocast", "16bit")
    assert recipe_of_framework("trl", "0.26", "lora").adapter_precision == "autocast"


@pytest.mark.parametrize(
    ("version", "loss"),
    [("2024.7", "in_place"), ("2024.12", "fused"), ("2025.9.3", "fused_limited"), (None, "fused_limited")],
)
def test_unsloth_held_all_logits_until_it_fused_head_and_loss(version: str | None, loss: str) -> None:
    recipe = recipe_of_framework("unsloth", version)
    assert (recipe.loss, recipe.kernels, recipe.offloads_checkpoints) == (loss, "fused", True)
