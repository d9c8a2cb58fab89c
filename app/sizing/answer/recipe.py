"""Training recipe that the memory of a run follows: complete for its deployment, and as one sentence."""

from __future__ import annotations

from app.sizing.hardware.recipes import ADAPTER_FIELDS, RECIPES, VOCABULARIES, RecipeSettings, word_at
from app.sizing.hardware.recipes.record import LOSSES
from app.sizing.hardware.recipes.said import SETTABLE_FIELDS, WHOLE
from app.sizing.product_names import product_name
from app.sizing.result import Reason
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.plans import TrainingPlans
from app.sizing.workload import Method, TrainingWorkload


def resolve_recipe(workload: TrainingWorkload, plans: TrainingPlans, row: int) -> RecipeSettings | None:
    """All settings of the recipe of one plan; None for models that work on samples.

    Settings of adapters apply only to runs that train adapters.
    """
    if workload.in_samples:
        return None
    recipes = plans.stack.recipe
    own = RECIPES[int(recipes.record[row])]
    said = {
        name: word_at(recipes, name, row) if name in VOCABULARIES else bool(getattr(recipes, name)[row])
        for name in SETTABLE_FIELDS
        if name not in ADAPTER_FIELDS or workload.method is not Method.FULL
    }
    selective = said.pop("selective")
    if workload.method is Method.LORA:
        said.pop("kbit_widening")
    if plans.optimizer_offload[row]:
        said["optimizer_implementation"] = "offloaded"
    kept = ACTIVATION_CHECKPOINTING[int(plans.activation_checkpointing[row])]
    said["recomputation"] = kept if kept in WHOLE else selective
    return RecipeSettings(**said, name=own.name, source=own.source or None)  # type: ignore[arg-type]


def recipe_reason(recipe: RecipeSettings | None) -> tuple[Reason, ...]:
    """Name of the recipe that the memory follows, and its most important settings."""
    if recipe is None or recipe.loss is None:
        return ()
    loss = LOSSES[recipe.loss]
    title = _recipe_title(recipe.name or "")
    text = f"Memory follows the recipe of {title}: {recipe.kernels} kernels; {loss.description}."
    return (Reason("recipe", text, "loss_bytes_per_logit", loss.bytes_per_logit, "B"),)


def _recipe_title(name: str) -> str:
    """Name of a recipe as a sentence shows it: "TorchTitan 0.3", "Megatron-LM core 0.19"."""
    framework, _, version = name.partition(" ")
    return f"{product_name(framework)} {version}".rstrip()
