"""Several classes of traffic as one workload: rates add, lengths are mixed, every class keeps its own limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed
from app.sizing.model.architecture import ModelKind
from app.sizing.workload.classes import TrafficClass, common_slo, mixed_burstiness, populations
from app.sizing.workload.inference import InferenceWorkload
from app.sizing.workload.lengths import Lengths

LEAST_SHARE = 0.01  # of requests, below which a simulation has too few of a class to tell its percentiles
OF_ALL = ("max_context_tokens", "redundancy", "failure_domain")  # what is said once, of the service


def mixed_workload(parts: Sequence[tuple[str, InferenceWorkload]]) -> InferenceWorkload:
    """One service of several named workloads, by name. Raises Unanswerable where they cannot be judged together."""
    parts = sorted(parts, key=lambda part: part[0])
    first = parts[0][1]
    if first.model.kind is not ModelKind.DECODER:
        raise Unanswerable("classes are of models that generate tokens; ask for others one by one.")
    classes = tuple(class_of(name, part) for name, part in parts)
    total = sum(c.peak_per_s for c in classes)
    for each in classes:
        if each.peak_per_s < LEAST_SHARE * total:
            raise Unanswerable(
                f"Class {each.name!r} is less than {LEAST_SHARE:.0%} of the requests: too few to tell its latencies "
                "beside the others'. Leave it out, or ask for it by itself."
            )
    return replace(
        first,
        peak_per_s=total,
        average_per_s=sum(c.average_per_s for c in classes),
        burstiness=mixed_burstiness(classes),
        input_tokens=Lengths.mixed([(p.share, p.input_tokens) for p in populations(classes)]),
        output_tokens=Lengths.mixed([(p.share, p.output_tokens) for p in populations(classes)]),
        slo=common_slo(classes),
        max_context_tokens=max(c.max_context_tokens for c in classes),
        derived=derived_of(parts),
        classes=classes,
    )


def class_of(name: str, part: InferenceWorkload) -> TrafficClass:
    """What of a workload is its own beside others."""
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


def derived_of(parts: Sequence[tuple[str, InferenceWorkload]]) -> tuple[Assumed, ...]:
    """What was chosen for each class, by its name, and what is of the service once: of the longest context."""
    longest = max((part for _, part in parts), key=lambda part: part.max_context_tokens)
    chosen = (
        replace(a, name=f"{name}: {a.name}")
        for name, part in parts
        for a in part.derived
        if a.name not in OF_ALL and not a.asked
    )
    return (*chosen, *(a for a in longest.derived if a.name in OF_ALL))


def with_limit(workload: InferenceWorkload, name: str, limit: str, seconds: float | None) -> InferenceWorkload:
    """The same with another limit of one class."""
    classes = tuple(
        replace(c, slo=replace(c.slo, **{limit: seconds})) if c.name == name else c  # type: ignore[arg-type]
        for c in workload.classes
    )
    return replace(workload, classes=classes, slo=common_slo(classes))
