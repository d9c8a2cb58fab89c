"""What each class of traffic would take on a service of its own, beside all of them on one."""

from __future__ import annotations

from app.sizing.answer.money import finite, usd
from app.sizing.columns import at
from app.sizing.question import Question
from app.sizing.result import Estimate
from app.sizing.serving.alone import best_alone
from app.sizing.snapshot import Snapshot
from app.sizing.values.classes import Apart, SharedFleet, total_usd_per_hour
from app.sizing.values.latencies import ClassWaits
from app.sizing.words import counted
from app.sizing.workload import InferenceWorkload, TrafficClass

TOGETHER, APART = "together", "apart"


def shared_fleet(question: Question, market: Snapshot, found: Estimate) -> SharedFleet | None:
    """The classes of a workload together, as one deployment serves them, beside the best service for each; None of
    one kind of traffic, or of what does not run.
    """
    workload, p = question.workload, found.performance
    if not isinstance(workload, InferenceWorkload) or not workload.classes or p is None:
        return None
    apart = tuple(apart_of(question, market, workload, each) for each in workload.classes)
    ours, theirs = None if found.cost is None else found.cost.usd_per_hour, total_usd_per_hour(apart)
    cheaper = None if ours is None else TOGETHER if theirs is None or ours <= theirs else APART
    saved = None if ours is None or theirs is None else abs(ours - theirs)
    return SharedFleet(
        replicas=found.deployment.replicas or 0,
        usd_per_hour=ours,
        by_class=p.by_class,
        apart=apart,
        cheaper=cheaper,
        saving_usd_per_hour=saved,
        why=why(p.by_class, apart, ours, theirs),
    )


def apart_of(question: Question, market: Snapshot, workload: InferenceWorkload, of: TrafficClass) -> Apart:
    """What is best for one class by itself, by what was asked of all."""
    best = best_alone(question, workload.alone(of), market)
    if best is None:
        return Apart(of.name, None, None, None)
    return Apart(
        of.name,
        market.accelerators[int(best.accelerator[0])].slug,
        int(at(best.fleet.replicas, 0)),
        finite(at(best.cost.usd_per_hour, 0)),
    )


def why(by_class: tuple[ClassWaits, ...], apart: tuple[Apart, ...], ours: float | None, theirs: float | None) -> str:
    """What one service costs beside several, and whose limits bind it."""
    tightest = min(by_class, key=lambda each: each.within_per_s).name
    binds = f"On one service every replica keeps the limits of {tightest}, which are passed first, under all traffic"
    missing = [each.name for each in apart if each.usd_per_hour is None]
    if ours is None:
        return f"{binds}; its price is not known."
    if theirs is None:
        return f"{binds}; nothing serves {' or '.join(missing)} alone within what is asked."
    services = counted(len(apart), "service")
    if ours <= theirs:
        return f"{binds}, and still costs {usd(ours)} per hour; {services} apart cost {usd(theirs)}."
    return f"{binds}, for {usd(ours)} per hour; {services} apart cost {usd(theirs)}."
