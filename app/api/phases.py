"""Fields that belong to another phase, or to another kind of model: refused with what is accepted, never ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from app.api.schemas.requests import DeploymentSpec, EstimateRequest, RecommendRequest
from app.api.schemas.workload import FineTuningSpec, InferenceSpec, TrainingSpec
from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture, ModelKind

# Fields of a deployment that only one of the two says, and what the other says in their place.
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


class Refused(NamedTuple):
    """One field that does not apply, and why."""

    pointer: str
    detail: str


def refuse(found: Iterable[Refused]) -> None:
    """Raise Unanswerable with every field that does not apply."""
    every = list(found)
    if every:
        raise Unanswerable(
            " ".join(dict.fromkeys(one.detail for one in every)),
            errors=[{"pointer": one.pointer, "detail": one.detail} for one in every],
        )


def said(spec: Any) -> set[str]:
    """Fields that a request gave a value."""
    return {name for name in spec.model_fields_set if getattr(spec, name) not in (None, [])}


BATCHES = ("global_batch_tokens", "global_batch_sequences", "global_batch_samples")


def _twice(workload: TrainingSpec | FineTuningSpec) -> Iterable[Refused]:
    """What a run says in two ways, of which one would be ignored."""
    given, at = said(workload), "#/workload"
    batches = [name for name in BATCHES if name in given]
    if len(batches) > 1:
        yield Refused(f"{at}/{batches[1]}", f"{batches[1]} says again what {batches[0]} says; give one of them.")
    if not isinstance(workload, FineTuningSpec):
        return
    amount = next((name for name in ("training_tokens", "training_samples") if name in given), None)
    if "examples" in given and amount is not None:
        yield Refused(f"{at}/examples", f"examples (with epochs) say again what {amount} says; give one of them.")
    elif "epochs" in given and amount is not None:
        yield Refused(f"{at}/epochs", f"epochs goes with examples; {amount} is what all epochs together go through.")
    if workload.method == "full" and "lora" in given:
        yield Refused(f"{at}/lora", "lora goes with method lora or qlora; method full trains every parameter.")


def check_phase(request: RecommendRequest | EstimateRequest) -> None:
    """Refuse fields of serving on a run, and of training on a service."""
    serving = request.workload.phase == "inference"
    phase = "serving" if serving else "training and fine-tuning"
    found = [] if isinstance(request.workload, InferenceSpec) else [*_twice(request.workload)]
    if isinstance(request, EstimateRequest):
        given = said(request.deployment)
        found += _of_other_phase(given, OF_TRAINING if serving else OF_SERVING, "deployment", phase)
    elif not serving:
        found += _of_other_phase(said(request.constraints), CONSTRAINTS_OF_SERVING, "constraints", phase)
    refuse(found)


def _of_other_phase(given: set[str], others: dict[str, str], at: str, phase: str) -> list[Refused]:
    return [
        Refused(
            f"#/{at}/{name}",
            f"{at}.{name} does not apply to {phase}" + (f"; {instead} does." if instead else "; leave it out."),
        )
        for name, instead in others.items()
        if name in given
    ]


def check_units(
    workload: InferenceSpec | TrainingSpec | FineTuningSpec,
    model: ModelArchitecture,
    deployment: DeploymentSpec | None = None,
    *,
    at: str = "#/workload",
) -> None:
    """Refuse tokens of a model that works on samples, and samples of one that works on tokens; `at` is where the
    workload stands.
    """
    if model.kind is ModelKind.SAMPLES and deployment is not None and deployment.recipe is not None:
        detail = f"recipe is of models that work on tokens; {model.name} works on samples."
        refuse([Refused("#/deployment/recipe", detail)])
    if model.kind is not ModelKind.DECODER and deployment is not None and deployment.scheduler is not None:
        detail = f"scheduler is of models that generate tokens; {model.name} answers in one piece."
        refuse([Refused("#/deployment/scheduler", detail)])
    if isinstance(workload, InferenceSpec):
        refuse(_served(workload, model, at))
    else:
        refuse(_trained(workload, model))


def _served(workload: InferenceSpec, model: ModelArchitecture, place: str) -> Iterable[Refused]:
    traffic, at = workload.traffic, f"{place}/traffic"
    if model.kind is ModelKind.SAMPLES:
        accepted = "; ".join(
            (
                "traffic.samples_per_s or another load counts its samples",
                f"sample.{', sample.'.join(model.law.sizes)} say how large they are" if model.law is not None else "",
            )
        ).removesuffix("; ")
        why = f"{model.name} works on samples, not on tokens: {accepted}."
        for name in ("input_tokens", "output_tokens", "images", "turn_gap_s", "trace"):
            if name in said(traffic) and _tokens(getattr(traffic, name)):
                yield Refused(f"{at}/{name}", f"traffic.{name} does not apply: {why}")
        if workload.max_context_tokens is not None:
            yield Refused(f"{place}/max_context_tokens", f"max_context_tokens does not apply: {why}")
    if model.kind is not ModelKind.DECODER and workload.adapters is not None:
        detail = f"adapters are served on models that generate tokens; {model.name} answers in one piece."
        yield Refused(f"{place}/adapters", detail)
    if model.kind is ModelKind.ENCODER and _tokens(traffic.output_tokens):
        yield Refused(
            f"{at}/output_tokens",
            f"{model.name} reads tokens and generates none: leave traffic.output_tokens out or give 0.",
        )
    if model.kind is not ModelKind.DECODER and workload.slo is not None and workload.slo.tpot_ms is not None:
        yield Refused(
            f"{place}/slo/tpot_ms",
            f"{model.name} answers in one piece: slo.e2e_ms limits its wait, slo.tpot_ms does not apply.",
        )


def _tokens(length: Any) -> bool:
    """Whether a length says more than nothing."""
    return bool(length) if length is None or isinstance(length, int | float) else True


def _trained(workload: TrainingSpec | FineTuningSpec, model: ModelArchitecture) -> Iterable[Refused]:
    given = said(workload)
    in_samples = model.kind is ModelKind.SAMPLES
    for name, instead in (
        (("training_tokens", "training_samples"), ("global_batch_tokens", "global_batch_samples"))
        if in_samples
        else (("training_samples", "training_tokens"), ("global_batch_samples", "global_batch_sequences"))
    ):
        if name in given:
            works = "samples, not on tokens" if in_samples else "tokens, not on samples"
            yield Refused(f"#/workload/{name}", f"{model.name} works on {works}: {instead} is accepted, not {name}.")
    if in_samples and "sequence_length" in given:
        yield Refused("#/workload/sequence_length", f"{model.name} works on samples, which have no sequence_length.")
