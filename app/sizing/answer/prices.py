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
    by_kind: dict[PriceKind, list[str]] = {}
    for r in ranked:
        price = None if r.estimate.cost is None else r.estimate.cost.price
        if price is not None and price.terms.kind not in FIRM:
            by_kind.setdefault(price.terms.kind, []).append(r.accelerator.name)
    if not by_kind:
        return None
    several = sum(len(names) for names in by_kind.values()) > 1
    are = "These prices are not firm offers" if several else "This price is not a firm offer"
    named = "; ".join(f"{join_words(names)} ({PRICE_KIND_TEXTS[kind]})" for kind, names in by_kind.items())
    return Notice("price_not_firm", f"{are}: {named}. Ask for a quote before deciding.")


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
        f"This option uses {d.total_accelerators:,} accelerators. Sellers with this type of price "
        f"({PRICE_KIND_TEXTS[terms.kind]}) rarely have more than {usual:,.0f} at once. Confirm availability and price.",
    )
