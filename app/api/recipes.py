"""A training recipe that does not go with the rest of its request: refused with what does."""

from __future__ import annotations

from collections.abc import Iterable

from app.api.phases import Refused, refuse
from app.api.schemas.recipe import RecipeSpec
from app.api.schemas.requests import DeploymentSpec, EstimateRequest
from app.api.schemas.workload import FineTuningSpec, InferenceSpec, TrainingSpec
from app.sizing.hardware.engines import release_of
from app.sizing.hardware.recipes import OF_ADAPTERS
from app.sizing.hardware.recipes.record import GRADIENTS, WEIGHTS

AT, VERSION_AT = "#/deployment/recipe", "#/deployment/framework_version"
PURE = "bf16-true"  # precision in which nothing is 32 bit
OFFLOADED = "offloaded"


def check_recipe(request: EstimateRequest) -> None:
    """Refuse words of a recipe that contradict the layout, the method or the precision."""
    d, workload = request.deployment, request.workload
    found = [*_version(d)]
    if d.recipe is not None and not isinstance(workload, InferenceSpec):
        found += [*_layout(d, d.recipe), *_method(d.recipe, workload), *_precision(d.recipe, workload)]
    refuse(found)


def _version(d: DeploymentSpec) -> Iterable[Refused]:
    said = d.framework_version
    if said is None:
        return
    if d.framework is None:
        yield Refused(VERSION_AT, "framework_version goes with framework: name it too.")
    elif release_of(said) is None:
        yield Refused(
            VERSION_AT,
            f"framework_version {said!r} has no major and minor number: write it as 0.6 or 0.6.1, or leave it out for "
            "today's.",
        )


def _layout(d: DeploymentSpec, recipe: RecipeSpec) -> Iterable[Refused]:
    asked, said = d.activation_checkpointing, recipe.to_recipe().layout
    if None not in (asked, said) and asked != said:
        yield Refused(
            f"{AT}/recomputation",
            f"recipe.recomputation {recipe.recomputation} is activation_checkpointing {said}, not {asked}: give one of "
            "them, or both alike.",
        )
    offloaded = recipe.optimizer_implementation == OFFLOADED
    if recipe.optimizer_implementation is not None and d.optimizer_offload not in (None, offloaded):
        yield Refused(
            f"{AT}/optimizer_implementation",
            f"recipe.optimizer_implementation {recipe.optimizer_implementation} does not go with optimizer_offload "
            f"{str(d.optimizer_offload).lower()}: give one of them.",
        )


def _method(recipe: RecipeSpec, workload: TrainingSpec | FineTuningSpec) -> Iterable[Refused]:
    method = workload.method if isinstance(workload, FineTuningSpec) else "full"
    taken = {"full": (), "lora": OF_ADAPTERS[:2], "qlora": OF_ADAPTERS}[method]
    for name in OF_ADAPTERS:
        if getattr(recipe, name) is not None and name not in taken:
            goes = "method qlora" if name == OF_ADAPTERS[-1] else "method lora or qlora"
            yield Refused(f"{AT}/{name}", f"recipe.{name} goes with {goes}; this run is {method}.")


def _precision(recipe: RecipeSpec, workload: TrainingSpec | FineTuningSpec) -> Iterable[Refused]:
    if workload.precision != PURE:
        return
    for name, goes, words in (("weights", "16bit", WEIGHTS), ("gradients", "as_weights", GRADIENTS)):
        said = getattr(recipe, name)
        if said not in (None, goes):
            yield Refused(
                f"{AT}/{name}",
                f"recipe.{name} {said} ({words[said]}) does not go with precision {PURE}, which keeps nothing in "
                "32 bit: precision bf16 does.",
            )
