"""Compares one service for all traffic classes with a separate service for each class."""

from __future__ import annotations

from app.sizing.answer.money import finite_or_none, format_usd
from app.sizing.columns import at
from app.sizing.decisions.search import Search, Workload
from app.sizing.result import ClassLatencies, Estimate, SeparateService, SharedFleet, total_usd_per_hour
from app.sizing.serving.choice import best_single_service
from app.sizing.words import format_count
from app.sizing.workload import InferenceWorkload, TrafficClass

TOGETHER, APART = "together", "apart"


def shared_fleet(search: Search[Workload], found: Estimate) -> SharedFleet | None:
    """All classes on one deployment compared with the best service for each.

    None where the workload has no classes or the deployment does not run.
    """
    workload, p = search.question.workload, found.performance
    if not isinstance(workload, InferenceWorkload) or not workload.classes or p is None:
        return None
    separate = tuple(separate_service(search.of(workload), each) for each in workload.classes)
    ours, theirs = None if found.cost is None else found.cost.usd_per_hour, total_usd_per_hour(separate)
    cheaper = None if ours is None else TOGETHER if theirs is None or ours <= theirs else APART
    saved = None if ours is None or theirs is None else abs(ours - theirs)
    return SharedFleet(
        replicas=found.deployment.replicas or 0,
        usd_per_hour=ours,
        by_class=p.by_class,
        separate_services=separate,
        cheaper=cheaper,
        saving_usd_per_hour=saved,
        why=explain_sharing(p.by_class, separate, ours, theirs),
    )


def separate_service(search: Search[InferenceWorkload], traffic_class: TrafficClass) -> SeparateService:
    """Best service for one class alone, under the same constraints."""
    best = best_single_service(search.of(search.workload.single_class_workload(traffic_class)))
    if best is None:
        return SeparateService(traffic_class.name, None, None, None)
    accelerator = search.catalog.accelerators[int(best.accelerator[0])]
    return SeparateService(
        traffic_class.name,
        accelerator.slug,
        int(at(best.fleet.replicas, 0)),
        finite_or_none(at(best.cost.usd_per_hour, 0)),
        total_accelerators=int(at(best.fleet.accelerators, 0)),
        engine=search.catalog.engines[int(best.plans.engine[0])],
        accelerator_name=accelerator.name,
    )


def explain_sharing(
    by_class: tuple[ClassLatencies, ...], apart: tuple[SeparateService, ...], ours: float | None, theirs: float | None
) -> str:
    """Cost of the shared service compared with separate ones, and the class with the tightest limits."""
    tightest = min(by_class, key=lambda each: each.within_per_s).name
    binds = (
        f"With rising load, a shared service exceeds the limits of {tightest} first. It must meet them for all traffic."
    )
    missing = [each.name for each in apart if each.usd_per_hour is None]
    if ours is None:
        return f"{binds} The price of the shared service is unknown."
    if theirs is None:
        return f"{binds} No separate service for {' or '.join(missing)} meets the constraints."
    services = format_count(len(apart), "separate service")
    if ours <= theirs:
        return (
            f"{binds} The shared service still costs only {format_usd(ours)}/h; {services} cost {format_usd(theirs)}/h."
        )
    return f"{binds} The shared service costs {format_usd(ours)}/h; {services} cost {format_usd(theirs)}/h."
