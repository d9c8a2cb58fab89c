"""The recipe that a run's memory rests on: complete in its deployment, and in one sentence."""

from __future__ import annotations

from typing import Any

from app.sizing.hardware.recipes import OF_ADAPTERS, OF_SAMPLES, RECIPES, VOCABULARIES, RecipeSaid, word
from app.sizing.hardware.recipes.record import LOSSES
from app.sizing.hardware.recipes.said import OFFLOADED, REPLACED, WHOLE
from app.sizing.result import Reason
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.plans import TrainingPlans
from app.sizing.workload import Method, TrainingWorkload


def recipe_of_row(workload: TrainingWorkload, plans: TrainingPlans, row: int) -> RecipeSaid:
    """Everything a row's recipe says. What is said of adapters goes with adapters, of logits with tokens."""
    recipes = plans.stack.recipe
    own = RECIPES[int(recipes.record[row])]
    said: dict[str, Any] = {
        name: word(recipes, name, row) if name in VOCABULARIES else bool(getattr(recipes, name)[row])
        for name in (OF_SAMPLES if workload.in_samples else REPLACED)
        if name not in OF_ADAPTERS or workload.method is not Method.FULL
    }
    if workload.method is Method.LORA:
        said.pop("kbit_widening", None)
    if plans.optimizer_offload[row]:
        said["optimizer_implementation"] = OFFLOADED
    if not workload.in_samples:
        kept, selective = ACTIVATION_CHECKPOINTING[int(plans.activation_checkpointing[row])], said.pop("selective")
        said["recomputation"] = kept if kept in WHOLE else selective
    return RecipeSaid(**said, name=own.name, source=own.source)


def recipe_reason(recipe: RecipeSaid) -> Reason:
    """Whose recipe memory is counted by, and what of it decides most."""
    text = f"Memory by the recipe of {recipe.name}: {recipe.kernels} kernels"
    if recipe.loss is None:
        wide = recipe.weights in ("sharded", "autocast")
        return Reason("recipe", f"{text}.", "weight_bytes", 4.0 if wide else 2.0, "B")
    loss = LOSSES[recipe.loss]
    return Reason("recipe", f"{text}; {loss.words}.", "loss_bytes_per_logit", loss.bytes_per_logit, "B")
