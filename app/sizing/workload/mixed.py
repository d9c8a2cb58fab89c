"""Several traffic classes as one workload: rates add up, lengths are mixed, and each class keeps its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed
from app.sizing.model.architecture import ModelKind
from app.sizing.words import percent
from app.sizing.workload.classes import TrafficClass, common_slo, group_populations, mixed_burstiness
from app.sizing.workload.inference import InferenceWorkload
from app.sizing.workload.lengths import Lengths

MIN_CLASS_SHARE = 0.01  # minimum share of a class; a simulation has too few requests of a smaller one for percentiles
SERVICE_WIDE_NAMES = ("max_context_tokens", "redundancy", "failure_domain")  # values that apply to the whole service


def build_mixed_workload(parts: Sequence[tuple[str, InferenceWorkload]]) -> InferenceWorkload:
    """One service for several named workloads, sorted by name.

    Raises Unanswerable if they cannot share a service.
    """
    parts = sorted(parts, key=lambda part: part[0])
    first = parts[0][1]
    if first.model.kind is not ModelKind.DECODER:
        raise Unanswerable(
            "traffic.classes supports only models that generate tokens. Send one request per class for other models."
        )
    classes = tuple(to_traffic_class(name, part) for name, part in parts)
    total = sum(c.peak_per_s for c in classes)
    for each in classes:
        if each.peak_per_s < MIN_CLASS_SHARE * total:
            raise Unanswerable(
                f"Class {each.name!r} has less than {percent(MIN_CLASS_SHARE)} of the requests, too few to estimate "
                "its "
                "latencies. Omit it, or size it separately."
            )
    return replace(
        first,
        peak_per_s=total,
        average_per_s=sum(c.average_per_s for c in classes),
        burstiness=mixed_burstiness(classes),
        input_tokens=Lengths.from_mixture([(p.share, p.input_tokens) for p in group_populations(classes)]),
        output_tokens=Lengths.from_mixture([(p.share, p.output_tokens) for p in group_populations(classes)]),
        slo=common_slo(classes),
        max_context_tokens=max(c.max_context_tokens for c in classes),
        derived=merge_derived(parts),
        classes=classes,
    )


def to_traffic_class(name: str, part: InferenceWorkload) -> TrafficClass:
    """The traffic class with the parts of a workload that differ between classes."""
    return TrafficClass(
        name=name,
        peak_per_s=part.peak_per_s,
        average_per_s=part.average_per_s,
        burstiness=part.burstiness,
        input_tokens=part.input_tokens,
        output_tokens=part.output_tokens,
        slo=part.slo,
        max_context_tokens=part.max_context_tokens,
        derived=part.derived,
    )


def merge_derived(parts: Sequence[tuple[str, InferenceWorkload]]) -> tuple[Assumed, ...]:
    """Defaults of each class, prefixed with its name, and the service-wide values of the class with the longest
    context.
    """
    longest = max((part for _, part in parts), key=lambda part: part.max_context_tokens)
    chosen = (
        replace(a, name=f"{name}: {a.name}")
        for name, part in parts
        for a in part.derived
        if a.name not in SERVICE_WIDE_NAMES and not a.asked
    )
    return (*chosen, *(a for a in longest.derived if a.name in SERVICE_WIDE_NAMES))


def with_class_limit(workload: InferenceWorkload, name: str, limit: str, seconds: float | None) -> InferenceWorkload:
    """The same workload with another limit for one class."""
    classes = tuple(
        replace(c, slo=replace(c.slo, **{limit: seconds})) if c.name == name else c  # type: ignore[arg-type]
        for c in workload.classes
    )
    return replace(workload, classes=classes, slo=common_slo(classes))
