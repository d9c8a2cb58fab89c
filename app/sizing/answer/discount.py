"""At which discount the runner-up would be first: a price is what a buyer can change by asking."""

from __future__ import annotations

import math

from app.sizing.answer.money import surely_usd
from app.sizing.formula import formula
from app.sizing.question import Objective, Question
from app.sizing.result import Change, CostSummary, Estimate, Part, Ranked

# Lines of a bill that are the price of machines; what stands beside them has prices of its own.
OF_MACHINES = ("machine", "accelerator", "chassis", "processors", "memory")
UPKEEP, HORIZON = "upkeep_usd", "horizon_hours"
# Nobody gives more away; less is a near tie, which is told as such.
MOST, LEAST = 0.9, 0.005


@formula(unit="1")
def discount_to_lead(own_usd: float, first_usd: float, discountable_usd: float) -> float:
    """Share off the price of machines at which something costs as much as the first.

    Source: definition.
    Limits: of the same machines, laid out as they are.
    Check: 12 USD an hour, of which 8 are the machines', beside 10.
        >>> discount_to_lead(12.0, 10.0, 8.0)
        0.25
    """
    return (own_usd - first_usd) / discountable_usd


def price_flip(question: Question, ranked: tuple[Ranked, ...]) -> tuple[Change, ...]:
    """What the runner-up would have to be had at to be first; nothing where money does not decide, or not alone."""
    if question.objective is not Objective.COST or len(ranked) < 2:
        return ()
    first, second = ranked[0], ranked[1]
    split = first.estimate.deployment.pools or second.estimate.deployment.pools
    if split is not None or first.accelerator.slug == second.accelerator.slug:
        return ()
    least, own, cost = spent(first.estimate), spent(second.estimate), second.estimate.cost
    if least is None or own is None or cost is None or not cost.usd_per_hour:
        return ()
    machines = discountable_usd_per_hour(cost) * own / cost.usd_per_hour
    if machines <= 0:
        return ()
    told = math.floor(discount_to_lead(own, least, machines) * 100 + 1) / 100
    if not LEAST < told < MOST:
        return ()
    change = f"{told:.0%} off the price of {second.accelerator.name}"
    return (Change(change, "it would be first", {"economics": {"discounts": {second.accelerator.slug: told}}}),)


def spent(estimate: Estimate) -> float | None:
    """What is ranked by: of work that ends all of it, with the confidence asked."""
    cost = estimate.cost
    return None if cost is None else surely_usd(estimate) or cost.usd_total or cost.usd_per_hour


def discountable_usd_per_hour(cost: CostSummary) -> float:
    """What of a cost is the price of machines, and upkeep that is a share of it."""
    by_name = {part.what: part for part in cost.parts}
    upkeep = by_name.get(UPKEEP, Part(UPKEEP, 0.0)).usd_per_hour or 0.0
    hours = by_name[HORIZON].quantity if HORIZON in by_name else math.inf
    lines = [part for part in cost.parts if part.what in OF_MACHINES]
    bought = sum(part.quantity * part.unit_usd for part in lines if part.unit_usd is not None)
    rented = sum(part.quantity * part.usd_per_hour for part in lines if part.usd_per_hour is not None)
    return rented + bought * (1 / hours + upkeep)
