"""Recipes of PyTorch's own loop and of frameworks built on its sharding."""

import pytest

from app.sizing.hardware.recipes import recipe_of_framework


@pytest.mark.parametrize(
    ("version", "loss", "implementation"),
    [
        ("0.2.1", "held", "foreach"),
        ("0.3.0", "chunked_eager", "foreach"),
        ("0.6.1", "chunked_eager", "fused"),
        (None, "chunked_eager", "fused"),
    ],
)
def test_torchtune_took_chunks_and_then_a_fused_optimizer(version: str | None, loss: str, implementation: str) -> None:
    recipe = recipe_of_framework("torchtune", version)
    assert (recipe.loss, recipe.optimizer_implementation) == (loss, implementation)
    assert (recipe.weights, recipe.adapter_precision) == ("16bit", "16bit")  # dtype: bf16


def test_lightning_gathers_in_sixteen_bit_since_its_fix() -> None:
    assert recipe_of_framework("lightning", "2.4.0").weights == "autocast"
    assert recipe_of_framework("lightning", "2.6.1").weights == "sharded"


def test_torchtitan_saves_the_outputs_of_every_second_matrix() -> None:
    assert recipe_of_framework("torchtitan").selective == recipe_of_framework("torchtitan").recomputation == "operators"


def test_frameworks_on_sharded_pytorch_have_their_own_defaults() -> None:
    fused, compiled = recipe_of_framework("veomni"), recipe_of_framework("prime-rl")
    assert (fused.loss, fused.kernels, fused.recomputation, fused.weights) == ("fused", "fused", "full", "sharded")
    assert (compiled.loss, compiled.kernels, compiled.recomputation) == ("held", "compiled", "full")
    assert compiled.offloads_checkpoints and not fused.offloads_checkpoints
