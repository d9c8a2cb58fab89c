"""Rejects a training recipe that contradicts the rest of its request."""

from __future__ import annotations

from collections.abc import Iterable

from app.api.phases import FieldError, raise_field_errors
from app.api.schemas.recipe import RecipeSpec
from app.api.schemas.requests import DeploymentSpec, EstimateRequest
from app.api.schemas.workload import FineTuningSpec, InferenceSpec, TrainingSpec
from app.sizing.hardware.engines import release_of
from app.sizing.hardware.recipes import ADAPTER_FIELDS
from app.sizing.hardware.recipes.record import GRADIENTS, WEIGHTS

AT, VERSION_AT = "#/deployment/recipe", "#/deployment/framework_version"
PURE = "bf16-true"  # precision that keeps nothing in 32 bits
OFFLOADED = "offloaded"


def check_recipe(request: EstimateRequest) -> None:
    """Rejects recipe settings that contradict the layout, the method or the precision."""
    d, workload = request.deployment, request.workload
    errors = [*_check_version(d)]
    if d.recipe is not None and not isinstance(workload, InferenceSpec):
        errors += [
            *_check_layout(d, d.recipe),
            *_check_method(d.recipe, workload),
            *_check_precision(d.recipe, workload),
        ]
    raise_field_errors(errors)


def _check_version(d: DeploymentSpec) -> Iterable[FieldError]:
    version = d.framework_version
    if version is None:
        return
    if d.framework is None:
        yield FieldError(VERSION_AT, "framework_version requires framework. Set both.")
    elif release_of(version) is None:
        yield FieldError(
            VERSION_AT,
            f"framework_version {version!r} has no major and minor number. Write it as 0.6 or 0.6.1, or omit it for "
            "the current version.",
        )


def _check_layout(d: DeploymentSpec, recipe: RecipeSpec) -> Iterable[FieldError]:
    checkpointing, implied = d.activation_checkpointing, recipe.to_recipe().recomputation_layout
    if None not in (checkpointing, implied) and checkpointing != implied:
        yield FieldError(
            f"{AT}/recomputation",
            f"recipe.recomputation {recipe.recomputation} means activation_checkpointing {implied}, not "
            f"{checkpointing}. Omit one of them, or make them match.",
        )
    offloaded = recipe.optimizer_implementation == OFFLOADED
    if recipe.optimizer_implementation is not None and d.optimizer_offload not in (None, offloaded):
        yield FieldError(
            f"{AT}/optimizer_implementation",
            f"recipe.optimizer_implementation {recipe.optimizer_implementation} contradicts optimizer_offload "
            f"{str(d.optimizer_offload).lower()}. Omit one of them.",
        )


def _check_method(recipe: RecipeSpec, workload: TrainingSpec | FineTuningSpec) -> Iterable[FieldError]:
    method = workload.method if isinstance(workload, FineTuningSpec) else "full"
    taken = {"full": (), "lora": ADAPTER_FIELDS[:2], "qlora": ADAPTER_FIELDS}[method]
    for name in ADAPTER_FIELDS:
        if getattr(recipe, name) is not None and name not in taken:
            goes = "method qlora" if name == ADAPTER_FIELDS[-1] else "method lora or qlora"
            yield FieldError(f"{AT}/{name}", f"recipe.{name} requires {goes}; this run uses method {method}.")


def _check_precision(recipe: RecipeSpec, workload: TrainingSpec | FineTuningSpec) -> Iterable[FieldError]:
    if workload.precision != PURE:
        return
    for name, goes, words in (("weights", "16bit", WEIGHTS), ("gradients", "as_weights", GRADIENTS)):
        setting = getattr(recipe, name)
        if setting not in (None, goes):
            yield FieldError(
                f"{AT}/{name}",
                f"recipe.{name} {setting} ({words[setting]}) contradicts precision {PURE}, which keeps nothing in "
                "32 bits. Use precision bf16 instead.",
            )
