"""Which prices a caller is offered: how they are paid, who stands behind them and how old they may be."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask, distinct
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.listings import PRICING
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.hardware.prices import FIRM, IN_WORDS, KINDS, Commitment, PriceKind, days
from app.sizing.hardware.tables import Listings
from app.sizing.question import Constraints
from app.sizing.result import Reached
from app.sizing.snapshot import Snapshot
from app.sizing.words import together

# What is paid unless a caller binds himself. Spot capacity can be taken back and capacity blocks end; commitments
# outlast a change of mind.
UNBOUND = (PricingModel.ON_DEMAND, PricingModel.OWNED)
# What a deployment that is given may be had at, where it is not to be had unbound.
UNINTERRUPTED = tuple(p for p in PricingModel if p not in (PricingModel.SPOT, PricingModel.CAPACITY_BLOCK))
NO_LONGER_THAN = {
    Commitment.NONE: (),
    Commitment.ONE_YEAR: (Commitment.ONE_YEAR,),
    Commitment.THREE_YEARS: (Commitment.ONE_YEAR, Commitment.THREE_YEARS),
}

# How machines are had, in words.
HAD = {p: "with a commitment" for p in PricingModel if p.commitment is not Commitment.NONE} | {
    PricingModel.ON_DEMAND: "on demand",
    PricingModel.SPOT: "as spot capacity",
    PricingModel.CAPACITY_BLOCK: "in capacity blocks",
    PricingModel.OWNED: "by buying it",
}


def committed(commitment: Commitment) -> tuple[PricingModel, ...]:
    """Ways of renting that bind, but no longer than this."""
    return tuple(p for p in PricingModel if p.commitment in NO_LONGER_THAN[commitment])


def service_pricing(constraints: Constraints) -> tuple[PricingModel, ...]:
    """Pricing models of a service."""
    return _payable(UNBOUND, constraints)


def run_pricing(constraints: Constraints) -> tuple[PricingModel, ...]:
    """Pricing models of work that ends: on demand, and owned where own machines are asked for, which outlast it."""
    own = constraints.max_purchase_usd is not None or constraints.environments == (Environment.ON_PREM,)
    return _payable(UNBOUND if own else (PricingModel.ON_DEMAND,), constraints)


def _payable(usual: tuple[PricingModel, ...], constraints: Constraints) -> tuple[PricingModel, ...]:
    """Those that were named, or the usual ones; with the commitments that are taken."""
    return tuple(dict.fromkeys((*(constraints.pricing_models or usual), *committed(constraints.commitment))))


TOO_OLD = "The newest price of {name} was seen {needed} ago; {available} are allowed."
OVERDUE = (
    "The newest rent of {name} was seen {needed} before the catalogue's newest price; {available} count, "
    "unless max_price_age_days allows more."
)


def backed(
    snapshot: Snapshot,
    constraints: Constraints,
    among: Mask,
    named: Mask,
    today: str,
    assumed: Assumptions,
    rejections: Rejections,
) -> Mask:
    """Of some listings those of the kinds of price asked for and no older than asked.

    Unless kinds are named, that is what somebody stands behind, and brokers where the providers are named; unless an
    age, makers or providers are, rents that were seen about when the catalogue's newest were. Of an accelerator that
    is itself `named` and has nothing of these, any other.
    """
    listings, usual, most_days = snapshot.listings, not constraints.price_kinds, constraints.max_price_age_days
    allowed = among & no_older(listings, most_days, today)
    young = allowed
    if usual and most_days is None and not (constraints.providers or constraints.vendors):
        young = allowed & ~overdue(snapshot, assumed)
    kept = young & _of_kinds(_wanted(constraints))[listings.kind]
    if usual and named.any():
        without = named.copy()
        without[listings.accelerator[kept]] = False
        kept |= allowed & without[listings.accelerator]
    if most_days is not None:
        _lost_to_age(listings, among, allowed, age_days(listings.observed_days, today), most_days, TOO_OLD, rejections)
    elif young is not allowed:
        behind = age_days(listings.observed_days, snapshot.prices_as_of)
        _lost_to_age(listings, allowed, young | kept, behind, assumed.stale_price_days, OVERDUE, rejections)
    _unbacked(listings, young, kept, not usual, rejections)
    return kept


def overdue(snapshot: Snapshot, assumed: Assumptions) -> Mask:
    """Rents that nobody has seen since long before the catalogue's newest price."""
    listings = snapshot.listings
    behind = age_days(listings.observed_days, snapshot.prices_as_of)
    found: Mask = ~listings.owned & (behind > assumed.stale_price_days)
    return found


def _wanted(constraints: Constraints) -> set[PriceKind]:
    """The kinds of price that count."""
    if constraints.price_kinds:
        return {*constraints.price_kinds}
    return {*FIRM, PriceKind.BROKER} if constraints.providers else {*FIRM}


def unoffered(
    snapshot: Snapshot, constraints: Constraints, allowed: Mask, placed: Mask, had: Codes, rejections: Rejections
) -> None:
    """Turn down the types that nothing is left of: those without any price, those that may be had where asked for but
    only when paid in another way, and those that may not be had there.
    """
    listings = snapshot.listings
    unpriced = allowed.copy()
    unpriced[listings.accelerator] = False
    code = "no_offer"
    rejections.reject(np.flatnonzero(unpriced), code, "The catalogue has no price for {name}.", Reached.UNSOLD)
    among, kept = allowed[listings.accelerator] & placed, np.isin(listings.accelerator, had)
    counts = _of_kinds(_wanted(constraints))[listings.kind]
    _paid_otherwise(listings, rejections.left_without(listings.accelerator, kept, among & counts), rejections)
    _paid_otherwise(listings, rejections.left_without(listings.accelerator, kept, among), rejections, backed=False)
    asked = "within the environments, providers, regions and pricing models asked for"
    text = f"The catalogue has no price for {{name}} {asked}."
    rejections.without(np.flatnonzero(allowed), had, code, text, Reached.UNSOLD)


def _paid_otherwise(listings: Listings, rows: Codes, rejections: Rejections, *, backed: bool = True) -> None:
    """Turn down the types that are had in ways only that this work does not take unasked."""
    types = listings.accelerator[rows]
    for accelerator in np.unique(types).tolist():
        of = rows[types == accelerator]
        ways, kinds = {PRICING[p] for p in listings.pricing[of]}, {KINDS[k] for k in listings.kind[of]}
        text = f"{{name}} is only to be had {together(sorted({HAD[w] for w in ways}), 'or')}"
        named = f"{', '.join(sorted(ways))} in `pricing_models`"
        if not backed:
            text += ", at a price that nobody stands behind"
            named += f" and {', '.join(sorted(kinds))} in `price_kinds`"
        reached = Reached.OFFERS if backed else Reached.UNSOLD
        rejections.reject(np.array([accelerator]), "no_offer", f"{text}: name {named} and it counts.", reached)


def _of_kinds(kinds: Iterable[PriceKind]) -> Mask:
    wanted = set(kinds)
    return np.array([kind in wanted for kind in KINDS], dtype=bool)


def age_days(observed_days: Column, today: str) -> Column:
    """Days since prices were seen; NaN where either day is not known."""
    age: Column = np.maximum(days([today])[0] - observed_days, 0.0)
    return age


def no_older(listings: Listings, most_days: float | None, today: str) -> Mask:
    """Prices that are at most so many days old; of unknown age none."""
    if most_days is None:
        return np.ones(len(listings), dtype=bool)
    young: Mask = age_days(listings.observed_days, today) <= most_days
    return young


def _lost_to_age(
    listings: Listings, among: Mask, kept: Mask, age: Column, most_days: float, text: str, rejections: Rejections
) -> None:
    """Turn down the types of which only prices are known that are older than these days."""
    rows = np.flatnonzero(among & np.isfinite(age))
    rejections.lost(
        listings.accelerator[rows],
        kept[rows],
        code="price_too_old",
        text=text,
        needed=age[rows],
        available=np.full(len(rows), most_days),
        unit="days",
        count=np.ones(len(rows)),
        reached=Reached.OFFERS,
    )


def _unbacked(listings: Listings, young: Mask, kept: Mask, asked: bool, rejections: Rejections) -> None:
    """Turn down the types that have prices, but none of a kind that counts."""
    rows = rejections.left_without(listings.accelerator, kept, young)
    if not len(rows):
        return
    types = np.unique(listings.accelerator[rows])
    known = np.zeros((len(types), len(KINDS)), dtype=bool)
    known[np.searchsorted(types, listings.accelerator[rows]), listings.kind[rows]] = True
    first, which = distinct(known @ (1 << np.arange(len(KINDS))))
    for group, row in enumerate(first.tolist()):
        kinds = [kind for kind, has in zip(KINDS, known[row].tolist(), strict=True) if has]
        words, allow = together([IN_WORDS[kind] for kind in kinds]), ", ".join(kinds)
        code = "no_offer" if asked else "no_firm_price"
        text = f"Nobody stands behind a price of {{name}}: there is only {words}; price_kinds {allow} would count."
        if asked:
            text = f"Of {{name}} there is no price of the kinds asked for, only {words}."
        rejections.reject(types[which == group], code, text)
