"""Rejects fields that belong to another phase or another kind of model, with the accepted alternative."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from app.api.schemas.requests import DeploymentSpec, EstimateRequest, RecommendRequest
from app.api.schemas.workload import FineTuningSpec, InferenceSpec, TrainingSpec
from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture, ModelKind

# Deployment fields of one phase, each with the field that replaces it in the other phase.
OF_SERVING = {
    "engine": "framework",
    "engine_version": "framework_version",
    "weight_format": "workload.precision",
    "kv_format": "",
    "max_batch": "micro_batch_sequences",
    "max_batched_tokens": "micro_batch_sequences",
    "scheduler": "",
    "memory_fraction": "",
    "weights_on_host": "optimizer_offload",
    "speculative": "",
    "pools": "",
}
OF_TRAINING = {
    "framework": "engine",
    "zero_stage": "",
    "micro_batch_sequences": "max_batch",
    "activation_checkpointing": "",
    "optimizer_offload": "",
    "activation_offload": "",
    "parameter_offload": "",
    "virtual_pipeline": "",
    "sequence_parallel": "",
    "flash_attention": "",
    "framework_version": "engine_version",
    "recipe": "",
}
CONSTRAINTS_OF_SERVING = {"kv_formats": "", "weight_formats": "workload.precision"}


class FieldError(NamedTuple):
    """One field that does not apply, and the reason."""

    pointer: str
    detail: str


def raise_field_errors(found: Iterable[FieldError]) -> None:
    """Raises Unanswerable with every field that does not apply; returns if there is none."""
    every = list(found)
    if every:
        raise Unanswerable(
            " ".join(dict.fromkeys(one.detail for one in every)),
            errors=[{"pointer": one.pointer, "detail": one.detail} for one in every],
        )


def explicit_fields(spec: Any) -> set[str]:
    """Returns the names of the fields that the request set."""
    return {name for name in spec.model_fields_set if getattr(spec, name) not in (None, [])}


BATCHES = ("global_batch_tokens", "global_batch_sequences", "global_batch_samples")


def _duplicate_fields(workload: TrainingSpec | FineTuningSpec) -> Iterable[FieldError]:
    """Yields fields of a run that state the same quantity twice, so that one would be ignored."""
    names, at = explicit_fields(workload), "#/workload"
    batches = [name for name in BATCHES if name in names]
    if len(batches) > 1:
        yield FieldError(
            f"{at}/{batches[1]}", f"{batches[0]} and {batches[1]} both set the batch size. Omit one of them."
        )
    if not isinstance(workload, FineTuningSpec):
        return
    amount = next((name for name in ("training_tokens", "training_samples") if name in names), None)
    if "examples" in names and amount is not None:
        yield FieldError(f"{at}/examples", f"examples and {amount} both set the run size. Omit one of them.")
    elif "epochs" in names and amount is not None:
        yield FieldError(f"{at}/epochs", f"epochs requires examples. Omit it: {amount} already covers all epochs.")
    if workload.method == "full" and "lora" in names:
        yield FieldError(f"{at}/lora", "lora requires method lora or qlora; method full trains every parameter.")


def check_phase(request: RecommendRequest | EstimateRequest) -> None:
    """Rejects serving fields on a training run and training fields on a service."""
    serving = request.workload.phase == "inference"
    phase = "serving" if serving else "training and fine-tuning"
    errors = [] if isinstance(request.workload, InferenceSpec) else [*_duplicate_fields(request.workload)]
    if isinstance(request, EstimateRequest):
        names = explicit_fields(request.deployment)
        errors += _wrong_phase_fields(names, OF_TRAINING if serving else OF_SERVING, "deployment", phase)
    elif not serving:
        errors += _wrong_phase_fields(
            explicit_fields(request.constraints), CONSTRAINTS_OF_SERVING, "constraints", phase
        )
    raise_field_errors(errors)


def _wrong_phase_fields(names: set[str], others: dict[str, str], at: str, phase: str) -> list[FieldError]:
    return [
        FieldError(
            f"#/{at}/{name}",
            f"{at}.{name} does not apply to {phase}. " + (f"Use {instead} instead." if instead else "Omit it."),
        )
        for name, instead in others.items()
        if name in names
    ]


def check_units(
    workload: InferenceSpec | TrainingSpec | FineTuningSpec,
    model: ModelArchitecture,
    deployment: DeploymentSpec | None = None,
    *,
    at: str = "#/workload",
) -> None:
    """Rejects token fields for a model that processes samples, and sample fields for one that processes tokens. `at` is
    the pointer of the workload.
    """
    if model.kind is ModelKind.SAMPLES and deployment is not None and deployment.recipe is not None:
        detail = f"recipe applies to models that process tokens; {model.name} processes samples. Omit it."
        raise_field_errors([FieldError("#/deployment/recipe", detail)])
    if model.kind is not ModelKind.DECODER and deployment is not None and deployment.scheduler is not None:
        detail = f"scheduler applies to models that generate tokens; {model.name} answers in one pass. Omit it."
        raise_field_errors([FieldError("#/deployment/scheduler", detail)])
    if isinstance(workload, InferenceSpec):
        raise_field_errors(_serving_unit_errors(workload, model, at))
    else:
        raise_field_errors(_training_unit_errors(workload, model))


def _serving_unit_errors(workload: InferenceSpec, model: ModelArchitecture, place: str) -> Iterable[FieldError]:
    traffic, at = workload.traffic, f"{place}/traffic"
    if model.kind is ModelKind.SAMPLES:
        accepted = "; ".join(
            (
                "Set traffic.samples_per_s or another load in samples",
                f"set their size with sample.{', sample.'.join(model.law.size_fields)}"
                if model.law is not None
                else "",
            )
        ).removesuffix("; ")
        why = f"{model.name} processes samples, not tokens. {accepted}."
        for name in ("input_tokens", "output_tokens", "images", "turn_gap_s", "trace"):
            if name in explicit_fields(traffic) and _is_positive(getattr(traffic, name)):
                yield FieldError(f"{at}/{name}", f"traffic.{name} does not apply. {why}")
        if workload.max_context_tokens is not None:
            yield FieldError(f"{place}/max_context_tokens", f"max_context_tokens does not apply. {why}")
    if model.kind is not ModelKind.DECODER and workload.adapters is not None:
        detail = f"adapters apply to models that generate tokens; {model.name} answers in one pass. Omit them."
        yield FieldError(f"{place}/adapters", detail)
    if model.kind is ModelKind.ENCODER and _is_positive(traffic.output_tokens):
        yield FieldError(
            f"{at}/output_tokens",
            f"{model.name} does not generate tokens. Omit traffic.output_tokens or set it to 0.",
        )
    if model.kind is not ModelKind.DECODER and workload.slo is not None and workload.slo.tpot_ms is not None:
        yield FieldError(
            f"{place}/slo/tpot_ms",
            f"slo.tpot_ms does not apply: {model.name} answers in one pass. Use slo.e2e_ms instead.",
        )


def _is_positive(length: Any) -> bool:
    """True if a length is more than zero."""
    return bool(length) if length is None or isinstance(length, int | float) else True


def _training_unit_errors(workload: TrainingSpec | FineTuningSpec, model: ModelArchitecture) -> Iterable[FieldError]:
    names = explicit_fields(workload)
    in_samples = model.kind is ModelKind.SAMPLES
    for name, instead in (
        (("training_tokens", "training_samples"), ("global_batch_tokens", "global_batch_samples"))
        if in_samples
        else (("training_samples", "training_tokens"), ("global_batch_samples", "global_batch_sequences"))
    ):
        if name in names:
            works = "samples, not tokens" if in_samples else "tokens, not samples"
            yield FieldError(f"#/workload/{name}", f"{model.name} processes {works}. Use {instead} instead of {name}.")
    if in_samples and "sequence_length" in names:
        yield FieldError(
            "#/workload/sequence_length", f"sequence_length does not apply: {model.name} processes samples. Omit it."
        )
