"""Collects the changes that make a question feasible: single changes first, pairs only where no single change is
enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.columns import one
from app.sizing.question import Constraints, Question
from app.sizing.relaxations.allowed import list_alternatives
from app.sizing.relaxations.times import relax_time_limits, without_latencies
from app.sizing.relaxations.tried import cheapest_confirmed, min_confirmed_value
from app.sizing.relaxations.ways import (
    FeasiblePlans,
    ResourceLimit,
    describe_cheapest,
    find_feasible_plans,
    meets_resource_limits,
    requested_limits,
)
from app.sizing.result import Change, FilterStage, Rejection
from app.sizing.snapshot import Catalog

NOT_FEASIBLE = "still not feasible"


def find_relaxations(question: Question, catalog: Catalog, rejected: Sequence[Rejection]) -> tuple[Change, ...]:
    """Changes that would make an infeasible question feasible, each with the smallest sufficient value."""
    sizes = requested_limits(question.constraints)
    judged = [r for r in rejected if r.stage is not FilterStage.EXCLUDED]
    enough = relax_each_limit(
        question,
        sizes,
        find_feasible_plans(question, catalog, types_helped_by_resources(question.constraints, judged)),
        catalog,
    )
    single = [Change(size.label, enough.get(size.name, NOT_FEASIBLE)) for size in sizes]
    single += relax_time_limits(question, catalog, judged, sizes)
    double: list[Change] = []
    for other in list_alternatives(question, judged):
        ways = find_feasible_plans(other.question, catalog)
        within_limits = ways.take(meets_resource_limits(sizes, ways))
        confirmed = cheapest_confirmed(other.question, catalog, within_limits) if len(within_limits) else None
        if confirmed is not None:
            single.append(Change(other.label, f"feasible with {describe_cheapest(confirmed, catalog)}{other.caveat}"))
            continue
        enough = relax_each_limit(other.question, sizes, ways, catalog)
        double += [
            Change(f"{other.label}, {size.label}", enough[size.name] + other.caveat)
            for size in sizes
            if size.name in enough
        ]
    if all(change.effect == NOT_FEASIBLE for change in single):
        single += double or relax_all_limits(question, catalog, sizes)
    return tuple(single)


def relax_each_limit(
    question: Question, sizes: Sequence[ResourceLimit], ways: FeasiblePlans, catalog: Catalog
) -> dict[str, str]:
    """For each resource limit that is enough to relax alone: the smallest feasible value and the plan that uses it.

    The keys are the names of the limits.
    """
    enough: dict[str, str] = {}
    for size in sizes:
        rest = ways.take(meets_resource_limits([other for other in sizes if other is not size], ways))
        if len(rest):
            least = size.least_demanding(rest)
            confirmed = min_confirmed_value(question, catalog, size.with_value, one(size.needed(least)), least)
            if confirmed is not None:
                value = min(confirmed[0], one(size.needed(confirmed[1])))  # the steps of a trial may exceed the need
                enough[size.name] = (
                    f"feasible at {size.format_value(value)}: {describe_cheapest(confirmed[1], catalog)}"
                )
    return enough


def types_helped_by_resources(limits: Constraints, judged: Sequence[Rejection]) -> tuple[str, ...]:
    """Accelerator types that more accelerators, money or power may help.

    With a limit on accelerators or purchase price, some machines and layouts are not evaluated at all, so types that
    failed earlier count too.
    """
    if limits.max_accelerators is None and limits.max_purchase_usd is None:
        return tuple(r.accelerator for r in judged if r.stage is FilterStage.LIMITS)
    return tuple(
        r.accelerator for r in judged if r.stage >= FilterStage.MEMORY or r.code in ("no_layout", "over_budget")
    )


def relax_all_limits(question: Question, catalog: Catalog, sizes: Sequence[ResourceLimit]) -> list[Change]:
    """Last resort where two changes are not enough: remove every latency limit, then also relax one resource limit, or
    all.
    """
    question = without_latencies(question)
    ways = find_feasible_plans(question, catalog)
    if not len(ways):
        return []
    within_limits = ways.take(meets_resource_limits(sizes, ways))
    confirmed = cheapest_confirmed(question, catalog, within_limits) if len(within_limits) else None
    if confirmed is not None:
        return [Change("remove every latency limit", f"feasible with {describe_cheapest(confirmed, catalog)}")]
    enough = relax_each_limit(question, sizes, ways, catalog)
    pairs = [Change(f"remove every latency limit, {s.label}", enough[s.name]) for s in sizes if s.name in enough]
    label = "remove every limit on latency, accelerators, money and power"
    return pairs or [Change(label, f"feasible with {describe_cheapest(ways, catalog)}")]
