"""Alternatives to what the request allows: hardware, providers, engines, formats, confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.sizing.hardware.parts import KINDS, SEGMENTS, PricingModel
from app.sizing.model.formats import WEIGHT_FORMATS, FormatUse
from app.sizing.question import Constraints, Question
from app.sizing.relaxations.ways import restrict_to_types
from app.sizing.result import FilterStage, Rejection
from app.sizing.serving.plans import default_weight_formats
from app.sizing.words import percent
from app.sizing.workload import InferenceWorkload

ACCURACY = "; check accuracy on your own task"
EIGHT_BIT_CACHES = ("fp8", "int8")
MEDIAN_CONFIDENCE = 0.5
# Factor by which a type may miss its limit and still be worth another try: 8-bit caches or no confidence margin save at
# most half, 4-bit weights at most three quarters.
MAX_MISS, MAX_MISS_4_BIT = 2.0, 4.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """The question with one requirement relaxed, and the caveat that comes with it."""

    label: str
    question: Question
    caveat: str = ""  # caveat to add to the effect


def list_alternatives(question: Question, judged: Sequence[Rejection]) -> Iterator[Alternative]:
    """Questions with one requirement relaxed each, restricted to the accelerator types that the change can help."""
    limits, workload = question.constraints, question.workload

    def make_alternative(label: str, owed: str = "", *, of: Constraints = limits, **changes: Any) -> Alternative:
        return Alternative(label, replace(question, constraints=replace(of, **changes)), owed)

    if limits.accelerators or limits.vendors or limits.segments:
        yield make_alternative("allow other accelerators", accelerators=(), vendors=(), segments=())
    if limits.exclude_accelerators:
        yield make_alternative("allow the excluded accelerators", exclude_accelerators=())
    if limits.environments or limits.providers or limits.regions or limits.pricing_models:
        label = "allow every environment, provider, region and pricing model"
        yield make_alternative(label, environments=(), providers=(), regions=(), pricing_models=())
    if not limits.price_kinds:
        old = ", outdated" if limits.max_price_age_days is None else ""
        label = f"allow broker{old} and estimated prices"
        yield make_alternative(label, "; request a quote before deciding", price_kinds=KINDS)
    if limits.price_kinds or limits.max_price_age_days is not None:
        yield make_alternative("allow prices of every kind and age", price_kinds=KINDS, max_price_age_days=None)
    if not limits.segments:
        risk = "; no data-center support, usually no ECC memory"
        yield make_alternative("allow consumer and edge hardware", risk, segments=SEGMENTS)
    if limits.engines:
        yield make_alternative("allow other engines", engines=())
    over_limits = tuple(r.accelerator for r in judged if r.stage is FilterStage.LIMITS)
    if over_limits and limits.max_usd_per_hour is not None and not limits.pricing_models:
        label = "allow spot capacity, which the provider can reclaim"
        yield make_alternative(label, of=restrict_to_types(limits, over_limits), pricing_models=(PricingModel.SPOT,))
    if isinstance(workload, InferenceWorkload):
        yield from _format_alternatives(workload, limits, judged, make_alternative)
        if over_limits and workload.redundancy.label != "none":
            bare = replace(workload, redundancy=workload.redundancy.with_spare(0))
            yield Alternative(
                "no redundancy",
                replace(make_alternative("", of=restrict_to_types(limits, over_limits)).question, workload=bare),
            )
    near = types_in_reach(judged, MAX_MISS)
    if limits.confidence > MEDIAN_CONFIDENCE and near:
        label = f"lower the confidence to {percent(MEDIAN_CONFIDENCE)}"
        risk = "; such a plan meets every limit in one case out of two"
        yield make_alternative(label, risk, of=restrict_to_types(limits, near), confidence=MEDIAN_CONFIDENCE)


def types_in_reach(judged: Sequence[Rejection], most: float) -> tuple[str, ...]:
    """Accelerator types with an evaluated plan that misses its limit by at most this factor."""
    return tuple(r.accelerator for r in judged if r.stage >= FilterStage.MEMORY and r.shortfall_ratio <= most)


def _format_alternatives(
    workload: InferenceWorkload,
    limits: Constraints,
    judged: Sequence[Rejection],
    make_alternative: Callable[..., Alternative],
) -> Iterator[Alternative]:
    """Weight and cache formats with fewer bits where the request names none, else the formats that it does not name."""
    usual = default_weight_formats(workload.model, personal=workload.is_personal)
    narrow = tuple(sorted({f.name for f in WEIGHT_FORMATS.values() if f.default_use is FormatUse.PERSONAL} - usual))
    untried = tuple(r.accelerator for r in judged if r.code in ("no_layout", "over_budget"))
    reached = dict.fromkeys((*types_in_reach(judged, MAX_MISS_4_BIT), *untried))
    rest = tuple(sorted({*usual, *narrow} - set(limits.weight_formats)))
    if limits.weight_formats and rest:
        yield make_alternative("allow other weight formats", ACCURACY, weight_formats=rest)
    elif narrow and reached and not limits.weight_formats:
        yield make_alternative(
            "allow 4-bit weights", ACCURACY, of=restrict_to_types(limits, tuple(reached)), weight_formats=narrow
        )
    if narrow and not limits.weight_formats and not limits.price_kinds:
        label, owed = "allow 4-bit weights, broker and estimated prices", f"{ACCURACY}, and request a quote"
        yield make_alternative(label, owed, weight_formats=narrow, price_kinds=KINDS)
    near = types_in_reach(judged, MAX_MISS)
    if limits.kv_formats:
        yield make_alternative("allow other KV cache formats", kv_formats=())
    elif near and workload.model.attention and not workload.single_pass:
        yield make_alternative(
            "allow an 8-bit KV cache", ACCURACY, of=restrict_to_types(limits, near), kv_formats=EIGHT_BIT_CACHES
        )
