"""The recipe of each framework and version."""

from __future__ import annotations

from app.sizing.hardware.recipes.record import TrainingRecipe

# What has no recipe is as PyTorch's own loop.
USUAL = TrainingRecipe("pytorch", loss="held", weights="sharded")
RECIPES: tuple[TrainingRecipe, ...] = (
    USUAL,
    TrainingRecipe("fsdp", loss="held", weights="sharded"),
    TrainingRecipe("deepspeed", loss="held", gradients="copied"),
    TrainingRecipe("peft+bitsandbytes", loss="held", weights="sharded"),
    TrainingRecipe("optimum-neuron", kernels="fused"),
    TrainingRecipe("unsloth", loss="fused", kernels="fused", optimizer_implementation="fused"),
    TrainingRecipe("axolotl", loss="fused", weights="sharded"),
    TrainingRecipe("megatron", kernels="fused", selective="attention", optimizer_implementation="fused"),
    TrainingRecipe("nemo", kernels="fused", selective="attention", optimizer_implementation="fused"),
    TrainingRecipe("maxtext", kernels="fused", weights="sharded", gradients="32bit", optimizer_implementation="fused"),
    TrainingRecipe("torchtitan", kernels="fused", weights="sharded", optimizer_implementation="fused"),
    TrainingRecipe("neuronx", kernels="fused", gradients="32bit", optimizer_implementation="fused"),
)
PLACES = {recipe.key: i for i, recipe in enumerate(RECIPES)}
