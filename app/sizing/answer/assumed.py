"""Assumptions of an answer: everything it uses that the request left open."""

from __future__ import annotations

from collections.abc import Iterable

from app.sizing.assumptions import Assumed
from app.sizing.decisions.prices import run_pricing, service_pricing
from app.sizing.hardware.prices import FIRM, Commitment
from app.sizing.model.architecture import ModelKind
from app.sizing.question import Deployment, Question
from app.sizing.serving.plans import default_weight_formats
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def collect_assumptions(question: Question, deployment: Deployment | None = None) -> tuple[Assumed, ...]:
    """Assumptions of an answer: values that the question left open, and every assumed number that was read.

    Call this last, after all numbers were read. Formats that a `deployment` fixes are not assumptions.
    """
    workload = question.workload
    shape = tuple(
        Assumed(
            "model_shape", text, "text", "description of the model or sample that the answer uses", "typical shapes"
        )
        for text in workload.model.assumed
    )
    return (
        *shape,
        *workload.derived,
        *considered_choices(question, deployment),
        *question.assumptions.with_recording().used_assumptions(),
    )


def considered_choices(question: Question, deployment: Deployment | None) -> Iterable[Assumed]:
    """Formats, pricing models and price types that were considered: requested ones or the defaults."""
    workload, limits, fixed = question.workload, question.constraints, deployment or Deployment("")
    if fixed.pricing_model is None:
        ends = isinstance(workload, TrainingWorkload) or workload.is_finite
        payable = (run_pricing if ends else service_pricing)(limits)
        is_requested = bool(limits.pricing_models) or limits.commitment is not Commitment.NONE
        yield _assumed_names("pricing_models", payable if is_requested else (), payable, "pricing models considered")
    if deployment is None:
        reason = "price types considered; by default those a seller has published or quoted"
        yield _assumed_names("price_kinds", limits.price_kinds, FIRM, reason)
    if not isinstance(workload, InferenceWorkload):
        return
    if fixed.weight_format is None:
        usual = sorted(default_weight_formats(workload.model, personal=workload.is_personal))
        reason = f"weight formats considered; by default {_usual_formats(workload)}"
        yield _assumed_names("weight_formats", limits.weight_formats, usual, reason)
    if fixed.kv_format is None and not workload.single_pass:
        yield _assumed_names("kv_formats", limits.kv_formats, ("bf16",), "KV cache formats considered")


def _usual_formats(workload: InferenceWorkload) -> str:
    """The weight formats that are considered unless the request names some."""
    if workload.model.kind is not ModelKind.DECODER:
        return "16 bits and the published format"
    return "16 bits, 8 bits and the published format, and 4 bits for personal use"


def _assumed_names(name: str, requested: Iterable[str], usual: Iterable[str], reason: str) -> Assumed:
    """The requested names, or the default ones."""
    names = tuple(requested)
    return Assumed(name, ", ".join(names or usual), "text", reason, "assumed: usual value", asked=bool(names))
