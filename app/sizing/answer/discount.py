"""Discount at which the runner-up would rank first: buyers can negotiate a price."""

from __future__ import annotations

import math

from app.sizing.answer.money import confident_usd
from app.sizing.formula import formula
from app.sizing.question import Objective, Question
from app.sizing.result import Change, CostSummary, Estimate, Part, Ranked
from app.sizing.words import percent

# Lines of a bill that belong to the price of machines; other lines have prices of their own.
MACHINE_LINES = ("machine", "accelerator", "chassis", "processors", "memory")
UPKEEP, HORIZON = "upkeep_usd", "horizon_hours"
# Larger discounts are unrealistic; smaller differences are reported as near ties.
LARGEST_DISCOUNT, SMALLEST_DISCOUNT = 0.9, 0.005


@formula(unit="1")
def discount_to_lead(own_usd: float, first_usd: float, discountable_usd: float) -> float:
    """Discount on the price of machines at which an option costs as much as the first, as a share.

    Parameters:
        own_usd: cost of the option, USD.
        first_usd: cost of the first recommendation, USD.
        discountable_usd: part of the option's cost that a discount reduces, USD.
    Limits: the option keeps its machines and its layout.
    Check: 12 USD/h, of which 8 USD/h are for machines, against 10 USD/h.
        >>> discount_to_lead(12.0, 10.0, 8.0)
        0.25
    """
    return (own_usd - first_usd) / discountable_usd


def find_leading_discount(question: Question, ranked: tuple[Ranked, ...]) -> tuple[Change, ...]:
    """Discount at which the runner-up would rank first; empty if cost is not the only criterion."""
    if question.objective is not Objective.COST or len(ranked) < 2:
        return ()
    first, second = ranked[0], ranked[1]
    split = first.estimate.deployment.pools or second.estimate.deployment.pools
    if split is not None or first.accelerator.slug == second.accelerator.slug:
        return ()
    least, own, cost = ranking_cost_usd(first.estimate), ranking_cost_usd(second.estimate), second.estimate.cost
    if least is None or own is None or cost is None or not cost.usd_per_hour:
        return ()
    machines = discountable_usd_per_hour(cost) * own / cost.usd_per_hour
    if machines <= 0:
        return ()
    share = math.floor(discount_to_lead(own, least, machines) * 100 + 1) / 100
    if not SMALLEST_DISCOUNT < share < LARGEST_DISCOUNT:
        return ()
    change = f"{percent(share)} off the price of {second.accelerator.name}"
    return (Change(change, "would rank first", {"economics": {"discounts": {second.accelerator.slug: share}}}),)


def ranking_cost_usd(estimate: Estimate) -> float | None:
    """Cost that decides the ranking, in USD: of the whole run at the requested confidence, else per hour."""
    cost = estimate.cost
    return None if cost is None else confident_usd(estimate) or cost.usd_total or cost.usd_per_hour


def discountable_usd_per_hour(cost: CostSummary) -> float:
    """Part of the cost per hour that a discount reduces: machines, and maintenance charged as a share of them."""
    by_name = {part.what: part for part in cost.parts}
    upkeep = by_name.get(UPKEEP, Part(UPKEEP, 0.0)).usd_per_hour or 0.0
    hours = by_name[HORIZON].quantity if HORIZON in by_name else math.inf
    lines = [part for part in cost.parts if part.what in MACHINE_LINES]
    bought = sum(part.quantity * part.unit_usd for part in lines if part.unit_usd is not None)
    rented = sum(part.quantity * part.usd_per_hour for part in lines if part.usd_per_hour is not None)
    return rented + bought * (1 / hours + upkeep)
