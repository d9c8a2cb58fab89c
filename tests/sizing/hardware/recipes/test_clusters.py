"""Recipes of Megatron, DeepSpeed and frameworks built on them, of JAX, and of vendors' own frameworks."""

from app.sizing.hardware.recipes import LOSSES, recipe_of_framework


def test_megatron_keeps_gradients_in_32_bit_and_overwrites_its_logits() -> None:
    recipe = recipe_of_framework("megatron")
    assert (recipe.weights, recipe.gradients, recipe.selective) == ("master", "32bit", "attention")
    # one 32-bit copy becomes softmax and gradient, and leaves as 16 bit
    assert LOSSES[recipe.loss].bytes_per_logit == 4 + 2


def test_deepspeed_steps_a_copy_of_its_gradients() -> None:
    recipe = recipe_of_framework("deepspeed")
    assert (recipe.weights, recipe.gradients) == ("master", "copied")
    assert recipe.bucket_bytes == 5e8 * 2  # elements in 16 bit


def test_what_apple_trains_has_nothing_in_32_bit() -> None:
    assert recipe_of_framework("mlx").weights == "16bit"
