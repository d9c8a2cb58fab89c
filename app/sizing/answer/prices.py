"""Warnings about prices: not a firm offer, outdated, or more machines than the seller has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from app.sizing.answer.cautions import AnswerContext
from app.sizing.hardware.prices import FIRM, PRICE_KIND_TEXTS, PriceKind
from app.sizing.result import Notice, Price, Ranked
from app.sizing.words import format_count, join_words

# Name of the assumption on how many accelerators a seller usually has; other kinds of price have no seller.
USUAL_QUANTITY_ASSUMPTIONS: Mapping[PriceKind, str] = MappingProxyType(
    {kind: f"usual_{kind}_accelerators" for kind in (*FIRM, PriceKind.BROKER)}
)


def price_not_firm(ranked: Sequence[Ranked]) -> Notice | None:
    """Warn about recommendations whose price is not a firm offer."""
    named = [
        f"{r.accelerator.name} ({PRICE_KIND_TEXTS[r.estimate.cost.price.terms.kind]})"
        for r in ranked
        if r.estimate.cost is not None
        and r.estimate.cost.price is not None
        and r.estimate.cost.price.terms.kind not in FIRM
    ]
    if not named:
        return None
    are = "This price is not a firm offer" if len(named) == 1 else "These prices are not firm offers"
    return Notice("price_not_firm", f"{are}: {join_words(named)}. Ask for a quote before deciding.")


def recommendation_price(context: AnswerContext) -> Price | None:
    """Price of the recommendation, where it has one."""
    return None if context.estimate.cost is None else context.estimate.cost.price


def stale_price(context: AnswerContext) -> Notice | None:
    """Warn about a price that is too old to rely on."""
    price = recommendation_price(context)
    if price is None or price.age_days is None or price.age_days <= context.question.assumptions.stale_price_days:
        return None
    seen = f"The price dates from {price.terms.observed}, {price.age_days:,} days ago"
    return Notice("stale_price", f"{seen}. Ask for a current price before deciding.")


def quantity_warning(context: AnswerContext) -> Notice | None:
    """Warn about fewer machines than the minimum quantity, or more than the seller has or usually has."""
    price, d = recommendation_price(context), context.estimate.deployment
    if price is None or not d.nodes or not d.total_accelerators:
        return None
    terms = price.terms
    if d.nodes < terms.min_quantity:
        text = (
            f"The price requires at least {format_count(terms.min_quantity, 'machine')}; this option uses {d.nodes:,}."
        )
        return Notice("below_minimum_quantity", text)
    if terms.max_quantity is not None and d.nodes > terms.max_quantity:
        text = f"The seller has at most {format_count(terms.max_quantity, 'machine')}; this option uses {d.nodes:,}."
        return Notice("above_maximum_quantity", text)
    if terms.max_quantity is not None or terms.kind not in USUAL_QUANTITY_ASSUMPTIONS:
        return None
    usual = getattr(context.question.assumptions, USUAL_QUANTITY_ASSUMPTIONS[terms.kind])
    if d.total_accelerators <= usual:
        return None
    return Notice(
        "beyond_usual_quantity",
        f"{d.total_accelerators:,} accelerators at {PRICE_KIND_TEXTS[terms.kind]}: such sellers rarely have more than "
        f"{usual:,.0f} at once. Confirm availability and price.",
    )
