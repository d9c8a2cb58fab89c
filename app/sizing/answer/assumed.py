"""What an answer rests on beside what its request had to say."""

from __future__ import annotations

from collections.abc import Iterable

from app.sizing.assumptions import Assumed
from app.sizing.decisions.prices import run_pricing, service_pricing
from app.sizing.hardware.prices import FIRM, Commitment
from app.sizing.question import Deployment, Question
from app.sizing.serving.plans import default_weight_formats
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def assumptions(question: Question, deployment: Deployment | None = None) -> tuple[Assumed, ...]:
    """What the question left open, with what it said in place of that, and every chosen number that was read on the
    way to the answer. To be called last. The formats that a `deployment` says are not left open.
    """
    workload = question.workload
    shape = tuple(
        Assumed("model_shape", text, "text", "only part of the model was given", "usual shapes")
        for text in workload.model.assumed
    )
    return (*shape, *workload.derived, *choices(question, deployment), *question.assumptions.noted().touched())


def choices(question: Question, deployment: Deployment | None) -> Iterable[Assumed]:
    """What was judged or may be paid, as asked or where nobody says."""
    workload, limits, fixed = question.workload, question.constraints, deployment or Deployment("")
    if fixed.pricing_model is None:
        ends = isinstance(workload, TrainingWorkload) or workload.ends
        payable = (run_pricing if ends else service_pricing)(limits)
        asked = bool(limits.pricing_models) or limits.commitment is not Commitment.NONE
        yield _among("pricing_models", payable if asked else (), payable, "what may be paid")
    if deployment is None:
        yield _among("price_kinds", limits.price_kinds, FIRM, "that count: those that somebody stands behind")
    if not isinstance(workload, InferenceWorkload):
        return
    if fixed.weight_format is None:
        usual = sorted(default_weight_formats(workload.model, personal=workload.personal))
        yield _among("weight_formats", limits.weight_formats, usual, "judged: 16 and 8 bits, 4 for personal use")
    if fixed.kv_format is None and not workload.single_pass:
        yield _among("kv_formats", limits.kv_formats, ("bf16",), "of the cache, judged")


def _among(name: str, asked: Iterable[str], usual: Iterable[str], reason: str) -> Assumed:
    """Names that were asked for, or the usual ones."""
    given = tuple(asked)
    return Assumed(name, ", ".join(given or usual), "text", reason, "chosen: usual", asked=bool(given))
