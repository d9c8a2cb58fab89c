"""What might be allowed or asked otherwise: hardware, places, engines, formats, confidence."""

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
from app.sizing.workload import InferenceWorkload

ACCURACY = "; check accuracy on your own task"
EIGHT_BIT_CACHES = ("fp8", "int8")
AS_PREDICTED = 0.5
# How many times its limit a type may miss and still come within reach: half the bits of a cache, a margin left out, and
# a quarter of the bits of weights save no more.
IN_REACH, IN_REACH_OF_4_BITS = 2.0, 4.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """One thing asked otherwise, and what is owed for it."""

    label: str
    question: Question
    owed: str = ""


def alternatives(question: Question, judged: Sequence[Rejection]) -> Iterator[Alternative]:
    """What might be allowed or asked otherwise; types that it cannot help are left out."""
    limits, workload = question.constraints, question.workload

    def other(label: str, owed: str = "", *, of: Constraints = limits, **changes: Any) -> Alternative:
        return Alternative(label, replace(question, constraints=replace(of, **changes)), owed)

    if limits.accelerators or limits.vendors or limits.segments:
        yield other("allow other accelerators", accelerators=(), vendors=(), segments=())
    if limits.exclude_accelerators:
        yield other("allow the accelerators left out", exclude_accelerators=())
    if limits.environments or limits.providers or limits.regions or limits.pricing_models:
        label = "allow every environment, provider, region and pricing model"
        yield other(label, environments=(), providers=(), regions=(), pricing_models=())
    if not limits.price_kinds:
        old = "old prices and " if limits.max_price_age_days is None else ""
        label = f"count {old}prices that nobody stands behind"
        yield other(label, "; ask for a quote before deciding", price_kinds=KINDS)
    if limits.price_kinds or limits.max_price_age_days is not None:
        yield other("count prices of every kind and age", price_kinds=KINDS, max_price_age_days=None)
    if not limits.segments:
        risk = "; no data-centre support, mostly no ECC memory"
        yield other("allow consumer and edge hardware", risk, segments=SEGMENTS)
    if limits.engines:
        yield other("allow other engines", engines=())
    dear = tuple(r.accelerator for r in judged if r.reached is Reached.LIMITS)
    if dear and limits.max_usd_per_hour is not None and not limits.pricing_models:
        label = "allow spot capacity, which may be taken back"
        yield other(label, of=only(limits, dear), pricing_models=(PricingModel.SPOT,))
    if isinstance(workload, InferenceWorkload):
        yield from _formats(workload, limits, judged, other)
        if dear and workload.redundancy.label != "none":
            bare = replace(workload, redundancy=workload.redundancy.with_spare(0))
            yield Alternative("no redundancy", replace(other("", of=only(limits, dear)).question, workload=bare))
    near = in_reach(judged, IN_REACH)
    if limits.confidence > AS_PREDICTED and near:
        risk = "; that holds in one case of two"
        yield other(f"confidence {AS_PREDICTED:g}", risk, of=only(limits, near), confidence=AS_PREDICTED)


def in_reach(judged: Sequence[Rejection], most: float) -> tuple[str, ...]:
    """Types of which a plan was judged, and missed by no more than this."""
    return tuple(r.accelerator for r in judged if r.reached >= Reached.MEMORY and r.miss <= most)


def _formats(
    workload: InferenceWorkload, limits: Constraints, judged: Sequence[Rejection], other: Callable[..., Alternative]
) -> Iterator[Alternative]:
    """Weights and caches of fewer bits where nobody named any, or those that were not named."""
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
        label, owed = "allow 4-bit weights and prices that nobody stands behind", f"{ACCURACY}, and ask for a quote"
        yield other(label, owed, weight_formats=narrow, price_kinds=KINDS)
    near = in_reach(judged, IN_REACH)
    if limits.kv_formats:
        yield other("allow other cache formats", kv_formats=())
    elif near and workload.model.attention and not workload.single_pass:
        yield other("allow 8-bit caches", ACCURACY, of=only(limits, near), kv_formats=EIGHT_BIT_CACHES)
