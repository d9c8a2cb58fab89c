"""Alternatives to what the request allows: hardware, providers, engines, formats, confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.sizing.hardware.parts import SEGMENTS, PricingModel
from app.sizing.hardware.prices import KINDS
from app.sizing.model.formats import WEIGHT_FORMATS, Use
from app.sizing.question import Constraints, Question
from app.sizing.relaxations.ways import only
from app.sizing.result import Reached, Rejection
from app.sizing.serving.plans import default_weight_formats
from app.sizing.words import percent
from app.sizing.workload import InferenceWorkload

ACCURACY = "; check accuracy on your own task"
EIGHT_BIT_CACHES = ("fp8", "int8")
AS_PREDICTED = 0.5
# Factor by which a type may miss its limit and still be worth another try: 8-bit caches or no confidence margin save at
# most half, 4-bit weights at most three quarters.
IN_REACH, IN_REACH_OF_4_BITS = 2.0, 4.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """The question with one requirement relaxed, and the caveat that comes with it."""

    label: str
    question: Question
    owed: str = ""  # caveat to add to the effect


def alternatives(question: Question, judged: Sequence[Rejection]) -> Iterator[Alternative]:
    """Questions with one requirement relaxed each, restricted to the accelerator types that the change can help."""
    limits, workload = question.constraints, question.workload

    def other(label: str, owed: str = "", *, of: Constraints = limits, **changes: Any) -> Alternative:
        return Alternative(label, replace(question, constraints=replace(of, **changes)), owed)

    if limits.accelerators or limits.vendors or limits.segments:
        yield other("allow other accelerators", accelerators=(), vendors=(), segments=())
    if limits.exclude_accelerators:
        yield other("allow the excluded accelerators", exclude_accelerators=())
    if limits.environments or limits.providers or limits.regions or limits.pricing_models:
        label = "allow every environment, provider, region and pricing model"
        yield other(label, environments=(), providers=(), regions=(), pricing_models=())
    if not limits.price_kinds:
        old = ", outdated" if limits.max_price_age_days is None else ""
        label = f"allow broker{old} and estimated prices"
        yield other(label, "; request a quote before deciding", price_kinds=KINDS)
    if limits.price_kinds or limits.max_price_age_days is not None:
        yield other("allow prices of every kind and age", price_kinds=KINDS, max_price_age_days=None)
    if not limits.segments:
        risk = "; no data-center support, usually no ECC memory"
        yield other("allow consumer and edge hardware", risk, segments=SEGMENTS)
    if limits.engines:
        yield other("allow other engines", engines=())
    dear = tuple(r.accelerator for r in judged if r.reached is Reached.LIMITS)
    if dear and limits.max_usd_per_hour is not None and not limits.pricing_models:
        label = "allow spot capacity, which the provider can reclaim"
        yield other(label, of=only(limits, dear), pricing_models=(PricingModel.SPOT,))
    if isinstance(workload, InferenceWorkload):
        yield from _formats(workload, limits, judged, other)
        if dear and workload.redundancy.label != "none":
            bare = replace(workload, redundancy=workload.redundancy.with_spare(0))
            yield Alternative("no redundancy", replace(other("", of=only(limits, dear)).question, workload=bare))
    near = in_reach(judged, IN_REACH)
    if limits.confidence > AS_PREDICTED and near:
        label = f"lower the confidence to {percent(AS_PREDICTED)}"
        risk = "; such a plan meets every limit in one case out of two"
        yield other(label, risk, of=only(limits, near), confidence=AS_PREDICTED)


def in_reach(judged: Sequence[Rejection], most: float) -> tuple[str, ...]:
    """Accelerator types with an evaluated plan that misses its limit by at most this factor."""
    return tuple(r.accelerator for r in judged if r.reached >= Reached.MEMORY and r.miss <= most)


def _formats(
    workload: InferenceWorkload, limits: Constraints, judged: Sequence[Rejection], other: Callable[..., Alternative]
) -> Iterator[Alternative]:
    """Weight and cache formats with fewer bits where the request names none, else the formats that it does not name."""
    usual = default_weight_formats(workload.model, personal=workload.personal)
    narrow = tuple(sorted({f.name for f in WEIGHT_FORMATS.values() if f.default is Use.PERSONAL} - usual))
    untried = tuple(r.accelerator for r in judged if r.code in ("no_layout", "over_budget"))
    reached = dict.fromkeys((*in_reach(judged, IN_REACH_OF_4_BITS), *untried))
    rest = tuple(sorted({*usual, *narrow} - set(limits.weight_formats)))
    if limits.weight_formats and rest:
        yield other("allow other weight formats", ACCURACY, weight_formats=rest)
    elif narrow and reached and not limits.weight_formats:
        yield other("allow 4-bit weights", ACCURACY, of=only(limits, tuple(reached)), weight_formats=narrow)
    if narrow and not limits.weight_formats and not limits.price_kinds:
        label, owed = "allow 4-bit weights, broker and estimated prices", f"{ACCURACY}, and request a quote"
        yield other(label, owed, weight_formats=narrow, price_kinds=KINDS)
    near = in_reach(judged, IN_REACH)
    if limits.kv_formats:
        yield other("allow other KV cache formats", kv_formats=())
    elif near and workload.model.attention and not workload.single_pass:
        yield other("allow an 8-bit KV cache", ACCURACY, of=only(limits, near), kv_formats=EIGHT_BIT_CACHES)
