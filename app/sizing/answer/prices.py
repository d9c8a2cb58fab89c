"""Warnings about prices: not a firm offer, outdated, or more machines than the seller has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from app.sizing.answer.cautions import Told
from app.sizing.hardware.prices import FIRM, IN_WORDS, PriceKind
from app.sizing.result import Notice, Price, Ranked
from app.sizing.words import counted, together

# Name of the assumption on how many accelerators a seller usually has; other kinds of price have no seller.
USUAL: Mapping[PriceKind, str] = MappingProxyType(
    {kind: f"usual_{kind}_accelerators" for kind in (*FIRM, PriceKind.BROKER)}
)


def price_not_firm(ranked: Sequence[Ranked]) -> Notice | None:
    """Warn about recommendations whose price is not a firm offer."""
    named = [
        f"{r.accelerator.name} ({IN_WORDS[r.estimate.cost.price.terms.kind]})"
        for r in ranked
        if r.estimate.cost is not None
        and r.estimate.cost.price is not None
        and r.estimate.cost.price.terms.kind not in FIRM
    ]
    if not named:
        return None
    are = "This price is not a firm offer" if len(named) == 1 else "These prices are not firm offers"
    return Notice("price_not_firm", f"{are}: {together(named)}. Ask for a quote before deciding.")


def price_of(context: Told) -> Price | None:
    """Price of the recommendation, where it has one."""
    return None if context.estimate.cost is None else context.estimate.cost.price


def stale_price(context: Told) -> Notice | None:
    """Warn about a price that is too old to rely on."""
    price = price_of(context)
    if price is None or price.age_days is None or price.age_days <= context.question.assumptions.stale_price_days:
        return None
    seen = f"The price dates from {price.terms.observed}, {price.age_days:,} days ago"
    return Notice("stale_price", f"{seen}. Ask for a current price before deciding.")


def quantity(context: Told) -> Notice | None:
    """Warn about fewer machines than the minimum quantity, or more than the seller has or usually has."""
    price, d = price_of(context), context.estimate.deployment
    if price is None or not d.nodes or not d.total_accelerators:
        return None
    terms = price.terms
    if d.nodes < terms.min_quantity:
        text = f"The price requires at least {counted(terms.min_quantity, 'machine')}; this option uses {d.nodes:,}."
        return Notice("below_minimum_quantity", text)
    if terms.max_quantity is not None and d.nodes > terms.max_quantity:
        text = f"The seller has at most {counted(terms.max_quantity, 'machine')}; this option uses {d.nodes:,}."
        return Notice("above_maximum_quantity", text)
    if terms.max_quantity is not None or terms.kind not in USUAL:
        return None
    usual = getattr(context.question.assumptions, USUAL[terms.kind])
    if d.total_accelerators <= usual:
        return None
    return Notice(
        "beyond_usual_quantity",
        f"{d.total_accelerators:,} accelerators at {IN_WORDS[terms.kind]}: such sellers rarely have more than "
        f"{usual:,.0f} at once. Confirm availability and price.",
    )
