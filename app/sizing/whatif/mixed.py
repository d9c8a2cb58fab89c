"""A service on groups of replicas behind one router: on machines that the caller owns, and on machines for sale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.sizing.answer.money import format_usd
from app.sizing.answer.summary import describe_hardware
from app.sizing.question import Constraints, Deployment, LoadUnit, Objective, Question, SoughtLoad
from app.sizing.result import FleetGroup, MixedFleet, Ranked
from app.sizing.snapshot import Catalog
from app.sizing.whatif.largest import at_largest_load
from app.sizing.words import join_words, percent
from app.sizing.workload import InferenceWorkload, Load

FindFirst = Callable[[Question, Catalog], Ranked | None]
MAX_OWNED_GROUPS = 3  # accelerator types of the inventory that carry a part of the load
SMALLEST_SHARE = 1e-6  # of the load: less is nothing


def can_mix(question: Question) -> bool:
    """Whether groups of replicas can share the load: that of a service to run at least cost, which requests join one by
    one.
    """
    workload = question.workload
    return (
        isinstance(workload, InferenceWorkload)
        and workload.load in (Load.OPEN, Load.CLOSED)
        and not workload.is_finite
        and question.objective is Objective.COST
        and not question.companions
        and question.largest is None
    )


def find_owned_groups(
    question: Question, own: Question, stocked: Catalog, find_first: FindFirst
) -> tuple[FleetGroup, ...]:
    """Groups of owned replicas that carry a load or a part of it: each type of the inventory carries as much as it can,
    the type with the largest share first. Each group meets all limits for its share by itself, with its own spares.

    Parameters:
        own: the question restricted to its inventory.
        stocked: the catalog with the machines of the inventory alone.
        find_first: returns the first recommendation for a question, None if there is none.
    """
    groups = list[FleetGroup]()
    while can_mix(question) and share_left(groups) and len(groups) < MAX_OWNED_GROUPS:
        remaining = with_unused_types(own, groups)
        group = None if remaining is None else largest_group(remaining, stocked, share_left(groups), find_first)
        if group is None:
            break
        groups.append(group)
    return tuple(groups)


def share_left(groups: Sequence[FleetGroup]) -> float:
    """Share of the load that no group carries; 0 if it is negligible."""
    left = 1.0 - sum(group.share for group in groups)
    return left if left > SMALLEST_SHARE else 0.0


def complete_groups(
    question: Question, groups: Sequence[FleetGroup], catalog: Catalog, find_first: FindFirst
) -> tuple[FleetGroup, ...]:
    """Owned groups with the cheapest machines for sale that carry the rest of the load; empty if there are none, or if
    only the inventory counts and is not enough.
    """
    left = share_left(groups)
    if not left or not groups or question.constraints.inventory_only:
        return () if left else tuple(groups)
    limits = limits_left(question, groups)
    bought = None if limits is None else find_first(at_share(replace(question, constraints=limits), left), catalog)
    return () if bought is None else (*groups, FleetGroup(False, left, bought))


def at_share(question: Question, share: float) -> Question:
    """A question about a share of the load and without an inventory."""
    workload = question.workload
    assert isinstance(workload, InferenceWorkload)
    part = workload.scale_load(share)
    part = replace(part, in_flight=round(part.in_flight, 6))  # whole requests stay whole
    return replace(question, workload=part, inventory=(), extras=frozenset())


def largest_group(question: Question, stocked: Catalog, left: float, find_first: FindFirst) -> FleetGroup | None:
    """The group of owned replicas that carries the largest share of the load, at most `left`; None if none carries
    any.
    """
    workload = question.workload
    assert isinstance(workload, InferenceWorkload)
    whole = find_first(at_share(question, left), stocked)
    if whole is not None:
        return FleetGroup(True, left, whole)
    closed = workload.load is Load.CLOSED
    unit, load = (LoadUnit.USERS, workload.in_flight) if closed else (LoadUnit.REQUESTS, workload.peak_per_s)
    sought = SoughtLoad(unit, load, lambda times: at_share(question, times).workload)

    def is_carried(asked: Question) -> bool:
        part = asked.workload
        assert isinstance(part, InferenceWorkload)
        share = (part.in_flight if closed else part.peak_per_s) / load
        return share < left and find_first(asked, stocked) is not None

    found, largest = at_largest_load(replace(at_share(question, 1.0), largest=sought), stocked, is_carried)
    first = None if largest is None else find_first(found, stocked)
    return None if largest is None or first is None else FleetGroup(True, largest.times, first)


def list_parts(d: Deployment) -> tuple[Deployment, ...]:
    """The pools of a deployment, or itself."""
    return (d,) if d.pools is None else (d.pools.prefill, d.pools.decode)


def with_unused_types(own: Question, groups: Sequence[FleetGroup]) -> Question | None:
    """The question restricted to the types of the inventory that no group uses, and to what the groups leave of its
    limits; None if nothing is left.
    """
    limits = limits_left(own, groups)
    used = {part.accelerator for group in groups for part in list_parts(group.first.estimate.deployment)}
    unused = tuple(name for name in own.constraints.accelerators if name not in used)
    return None if limits is None or not unused else replace(own, constraints=replace(limits, accelerators=unused))


def limits_left(question: Question, groups: Sequence[FleetGroup]) -> Constraints | None:
    """The limits of a question on money, power, carbon and accelerators without what some groups take; None if nothing
    is left of one.
    """
    limits, costs = question.constraints, [cost for group in groups if (cost := group.first.estimate.cost) is not None]
    taken = {
        "max_usd_per_hour": sum(cost.full_usd_per_hour or 0.0 for cost in costs),
        "max_purchase_usd": sum(cost.purchase_usd or 0.0 for cost in costs),
        "max_power_w": sum(cost.power_w for cost in costs) / question.assumptions.load_power_fraction,
        "max_carbon_kg": sum(math.inf if cost.carbon is None else cost.carbon.kg for cost in costs),
        "max_accelerators": sum(group.first.estimate.deployment.total_accelerators or 0 for group in groups),
    }
    left = {name: most - taken[name] for name in taken if (most := getattr(limits, name)) is not None}
    return replace(limits, **left) if all(value > 0 for value in left.values()) else None


def mixed_fleet(groups: Sequence[FleetGroup], first: Ranked | None) -> MixedFleet | None:
    """The groups as one fleet, with their text and what they save; None if a price is missing, or if they cost as much
    as the first option without an inventory, or more.

    Parameters:
        first: that option; None if there is none.
    """
    costs = [group.first.estimate.cost for group in groups]
    hourly = [None if cost is None else cost.usd_per_hour for cost in costs]
    alone = None if first is None or first.estimate.cost is None else first.estimate.cost.usd_per_hour
    usd_per_hour = sum(usd or 0.0 for usd in hourly)
    if not groups or None in hourly or (alone is not None and usd_per_hour >= alone):
        return None
    *others, last = (f"{describe_hardware(g.first)} for {percent(g.share)} of the requests" for g in groups)
    parts = join_words([*others, last]) if groups[-1].owned else f"{join_words(others)}; add {last}"
    saved = None if alone is None else 1 - usd_per_hour / alone
    less = "" if saved is None else f", {percent(saved)} less than hardware for sale alone"
    speeds = [(group.first.estimate.performance, group.share) for group in groups]
    capacities = (p.requests_per_s_capacity / share for p, share in speeds if p and p.requests_per_s_capacity)
    bought = [cost.purchase_usd for cost in costs if cost is not None and cost.purchase_usd is not None]
    return MixedFleet(
        groups=tuple(groups),
        text=f"Use {parts}. Together they cost {format_usd(usd_per_hour)}/h{less}.",
        requests_per_s_capacity=min(capacities, default=None),
        usd_per_hour=usd_per_hour,
        purchase_usd=sum(bought) if bought else None,
        saves_share=saved,
    )
