"""What to know of the prices an answer rests on: that nobody stands behind one, its age, more than a seller has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from app.sizing.answer.cautions import Told
from app.sizing.hardware.prices import FIRM, IN_WORDS, PriceKind
from app.sizing.result import Notice, Price, Ranked
from app.sizing.words import counted, together

# The assumption of how many accelerators one seller usually has at once; of other kinds there is no seller.
USUAL: Mapping[PriceKind, str] = MappingProxyType(
    {kind: f"usual_{kind}_accelerators" for kind in (*FIRM, PriceKind.BROKER)}
)


def price_not_firm(ranked: Sequence[Ranked]) -> Notice | None:
    """Recommendations at prices that nobody stands behind."""
    named = [
        f"{r.accelerator.name} ({IN_WORDS[r.estimate.cost.price.terms.kind]})"
        for r in ranked
        if r.estimate.cost is not None
        and r.estimate.cost.price is not None
        and r.estimate.cost.price.terms.kind not in FIRM
    ]
    if not named:
        return None
    return Notice("price_not_firm", f"Nobody stands behind the price of {together(named)}: ask before deciding.")


def price_of(told: Told) -> Price | None:
    """What a recommendation is paid at."""
    return None if told.estimate.cost is None else told.estimate.cost.price


def stale_price(told: Told) -> Notice | None:
    """A price that was seen so long ago that it has to be asked for again."""
    price = price_of(told)
    if price is None or price.age_days is None or price.age_days <= told.question.assumptions.stale_price_days:
        return None
    seen = f"The price was seen {price.terms.observed}, {price.age_days:,} days ago"
    return Notice("stale_price", f"{seen}: ask for today's before deciding.")


def quantity(told: Told) -> Notice | None:
    """More or fewer machines than the seller has, or more than sellers of this kind usually have."""
    price, d = price_of(told), told.estimate.deployment
    if price is None or not d.nodes or not d.total_accelerators:
        return None
    terms = price.terms
    if d.nodes < terms.min_quantity:
        text = f"The price holds from {counted(terms.min_quantity, 'machine')} on; this takes {d.nodes:,}."
        return Notice("below_minimum_quantity", text)
    if terms.max_quantity is not None and d.nodes > terms.max_quantity:
        text = f"The seller has at most {counted(terms.max_quantity, 'machine')}; this takes {d.nodes:,}."
        return Notice("above_maximum_quantity", text)
    if terms.max_quantity is not None or terms.kind not in USUAL:
        return None
    usual = getattr(told.question.assumptions, USUAL[terms.kind])
    if d.total_accelerators <= usual:
        return None
    return Notice(
        "beyond_usual_quantity",
        f"{d.total_accelerators:,} accelerators at {IN_WORDS[terms.kind]}: such a seller usually has {usual:,.0f} at "
        "once. Ask whether so many are to be had, and at which price.",
    )
