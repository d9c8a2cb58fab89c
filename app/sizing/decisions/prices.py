"""Filters listings by pricing model, kind of price and age of the price."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask, distinct_rows
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.listings import PRICING
from app.sizing.hardware.parts import (
    COUNTED,
    KINDS,
    PRICE_KIND_TEXTS,
    Commitment,
    Environment,
    PriceKind,
    PricingModel,
    Terms,
    day_numbers,
)
from app.sizing.hardware.tables import Listings
from app.sizing.question import Constraints
from app.sizing.result import Estimate, FilterStage
from app.sizing.snapshot import Catalog
from app.sizing.words import join_words

# Pricing models without a commitment. Spot capacity can be reclaimed, capacity blocks end, and commitments bind the
# buyer; none of these counts unless the request names it.
WITHOUT_COMMITMENT = (PricingModel.ON_DEMAND, PricingModel.OWNED)
# Pricing models for a given deployment that is not sold without a commitment.
UNINTERRUPTIBLE = tuple(p for p in PricingModel if p not in (PricingModel.SPOT, PricingModel.CAPACITY_BLOCK))
COMMITMENTS_UP_TO = {
    Commitment.NONE: (),
    Commitment.ONE_YEAR: (Commitment.ONE_YEAR,),
    Commitment.THREE_YEARS: (Commitment.ONE_YEAR, Commitment.THREE_YEARS),
}

# How machines are acquired, in words.
PRICING_IN_WORDS = {p: "with a commitment" for p in PricingModel if p.commitment is not Commitment.NONE} | {
    PricingModel.ON_DEMAND: "on demand",
    PricingModel.SPOT: "as spot capacity",
    PricingModel.CAPACITY_BLOCK: "in capacity blocks",
    PricingModel.OWNED: "by purchase",
}


def commitment_models(commitment: Commitment) -> tuple[PricingModel, ...]:
    """Pricing models with a commitment, up to the given length."""
    return tuple(p for p in PricingModel if p.commitment in COMMITMENTS_UP_TO[commitment])


def service_pricing(constraints: Constraints) -> tuple[PricingModel, ...]:
    """Pricing models of a service."""
    return _with_commitments(WITHOUT_COMMITMENT, constraints)


def run_pricing(constraints: Constraints) -> tuple[PricingModel, ...]:
    """Pricing models of a job that ends: on demand, plus owned machines if the request asks for them."""
    own = constraints.max_purchase_usd is not None or constraints.environments == (Environment.ON_PREM,)
    return _with_commitments(WITHOUT_COMMITMENT if own else (PricingModel.ON_DEMAND,), constraints)


def _with_commitments(usual: tuple[PricingModel, ...], constraints: Constraints) -> tuple[PricingModel, ...]:
    """The pricing models that the request names, or the usual ones, plus the accepted commitments."""
    return tuple(dict.fromkeys((*(constraints.pricing_models or usual), *commitment_models(constraints.commitment))))


def quotes_of_other_quantities(estimates: Iterable[Estimate], catalog: Catalog) -> tuple[int, ...]:
    """Listings of the quotes that price these deployments but do not hold for their number of machines."""
    wrong = set[Terms]()
    for each in estimates:
        price, nodes = None if each.cost is None else each.cost.price, each.deployment.nodes
        if price is not None and price.terms.kind is PriceKind.QUOTE and nodes and not price.terms.holds_for(nodes):
            wrong.add(price.terms)
    if not wrong:
        return ()
    listings = catalog.listings
    quoted = np.flatnonzero(listings.kind == KINDS.index(PriceKind.QUOTE)).tolist()
    return tuple(row for row in quoted if _terms_of(catalog, row) in wrong)


def _terms_of(catalog: Catalog, row: int) -> Terms | None:
    """Terms of a listing with a price of its own."""
    offer, system = catalog.listings.offer[row], catalog.listings.system[row]
    return catalog.offers[offer].terms if offer >= 0 else catalog.systems[catalog.system_slugs[system]].terms


def without_excluded(catalog: Catalog, constraints: Constraints, among: Mask, rejections: Rejections) -> Mask:
    """The listings but for the excluded quotes; types left without any are rejected."""
    if not constraints.excluded_listings:
        return among
    kept = among.copy()
    kept[list(constraints.excluded_listings)] = False
    text = "The only price of {name} is a quote for another number of machines than this needs."
    accelerator = catalog.listings.accelerator
    rejections.reject_if_none_left(accelerator[among], accelerator[kept], "no_offer", text)
    return kept


PRICE_TOO_OLD = "price_too_old"  # code of types whose prices are all too old
TOO_OLD = "The newest price of {name} is {needed} old; the limit is {available}."
OUTDATED = (
    "The newest price of {name} is {needed} older than the newest price in the catalog; the limit is {available}. Set "
    "`max_price_age_days` to allow older prices."
)


def firm_listings(
    catalog: Catalog,
    constraints: Constraints,
    among: Mask,
    named: Mask,
    today: str,
    assumed: Assumptions,
    rejections: Rejections,
    *,
    serves_many: bool = False,
) -> Mask:
    """The listings of the requested kinds of price that are not too old.

    If the request names no kinds, firm prices and surveys count, and brokers' prices if it names providers. If it
    names no maximum age, outdated prices are dropped, whatever the request names; with `outdated_prices`, they count
    for types that have no other price. An accelerator that the request names and that has no price of these kinds keeps
    its other prices.
    """
    listings, usual, most_days = catalog.listings, not constraints.price_kinds, constraints.max_price_age_days
    allowed = among & no_older_than(listings, most_days, today)
    recent = allowed if most_days is not None else allowed & ~outdated_prices(catalog, assumed, serves_many=serves_many)
    kept = _counted_listings(listings, constraints, recent, named)
    of_any_age = _counted_listings(listings, constraints, allowed, named)
    if constraints.outdated_prices:
        without = np.ones(len(catalog.accelerators), dtype=bool)
        without[listings.accelerator[kept]] = False
        kept |= of_any_age & without[listings.accelerator]
    if most_days is not None:
        _reject_too_old(
            listings, among, allowed, age_days(listings.observed_days, today), most_days, TOO_OLD, rejections
        )
    else:
        behind = age_days(listings.observed_days, catalog.prices_as_of)
        _reject_too_old(listings, of_any_age, recent | kept, behind, assumed.stale_price_days, OUTDATED, rejections)
    _reject_without_firm_price(listings, allowed, kept, not usual, rejections)
    return kept


def _counted_listings(listings: Listings, constraints: Constraints, among: Mask, named: Mask) -> Mask:
    """The listings whose kind of price counts, and all listings of named types that have none of them."""
    kept: Mask = among & counts_by_kind(listings, constraints)
    if not constraints.price_kinds and named.any():
        without = named.copy()
        without[listings.accelerator[kept]] = False
        kept = kept | (among & without[listings.accelerator])
    return kept


def outdated_prices(catalog: Catalog, assumed: Assumptions, *, serves_many: bool) -> Mask:
    """Rents much older than the newest price in the catalog, and prices of machines to own for a service of many users:
    the list price of a desktop machine stays until the maker replaces it.
    """
    listings = catalog.listings
    old: Mask = age_days(listings.observed_days, catalog.prices_as_of) > assumed.stale_price_days
    return old if serves_many else old & ~listings.is_owned


def counts_by_kind(listings: Listings, constraints: Constraints) -> Mask:
    """Listings whose kind of price counts."""
    found: Mask = _is_price_kind(_counted_price_kinds(constraints))[listings.kind]
    return found


def _counted_price_kinds(constraints: Constraints) -> set[PriceKind]:
    """The kinds of price that count."""
    if constraints.price_kinds:
        return {*constraints.price_kinds}
    return {*COUNTED, PriceKind.BROKER} if constraints.providers else {*COUNTED}


def reject_unoffered(
    catalog: Catalog, constraints: Constraints, allowed: Mask, placed: Mask, remaining: Codes, rejections: Rejections
) -> None:
    """Reject the types without a remaining listing.

    These are types without any price, types available only with another pricing model, and types not available where
    requested.
    """
    listings = catalog.listings
    unpriced = allowed.copy()
    unpriced[listings.accelerator] = False
    code = "no_offer"
    seen = f" that was observed by {catalog.priced_on}" if catalog.priced_on else ""
    text = f"The catalog has no price for {{name}}{seen}."
    rejections.reject(np.flatnonzero(unpriced), code, text, FilterStage.UNSOLD)
    offered = np.zeros(len(allowed), dtype=bool)
    offered[remaining] = True
    among, kept = allowed[listings.accelerator] & placed, offered[listings.accelerator]
    counts = counts_by_kind(listings, constraints)
    _reject_other_pricing(
        listings, rejections.rows_of_eliminated_types(listings.accelerator, kept, among & counts), rejections
    )
    _reject_other_pricing(
        listings, rejections.rows_of_eliminated_types(listings.accelerator, kept, among), rejections, firm=False
    )
    requested = "within the requested environments, providers, regions and pricing models"
    text = f"The catalog has no price for {{name}} {requested}{seen}."
    rejections.reject_if_none_left(np.flatnonzero(allowed), remaining, code, text, FilterStage.UNSOLD)


def _reject_other_pricing(listings: Listings, rows: Codes, rejections: Rejections, *, firm: bool = True) -> None:
    """Reject the types available only with pricing models that this work does not use unless the request names them."""
    types = listings.accelerator[rows]
    for accelerator in np.unique(types).tolist():
        of = rows[types == accelerator]
        ways, kinds = {PRICING[p] for p in listings.pricing[of]}, {KINDS[k] for k in listings.kind[of]}
        text = f"{{name}} is available only {join_words(sorted({PRICING_IN_WORDS[w] for w in ways}), 'or')}"
        addition = f"{join_words([f'`{way}`' for way in sorted(ways)])} to `pricing_models`"
        if not firm:
            text += ", at a price that no seller has published or quoted"
            addition += f", and {join_words([f'`{kind}`' for kind in sorted(kinds)])} to `price_kinds`"
        reached = FilterStage.OFFERS if firm else FilterStage.UNSOLD
        rejections.reject(np.array([accelerator]), "no_offer", f"{text}. To include it, add {addition}.", reached)


def _is_price_kind(kinds: Iterable[PriceKind]) -> Mask:
    wanted = set(kinds)
    return np.array([kind in wanted for kind in KINDS], dtype=bool)


def age_days(observed_days: Column, today: str) -> Column:
    """Age of prices in days; NaN where either date is unknown."""
    age: Column = np.maximum(day_numbers([today])[0] - observed_days, 0.0)
    return age


def no_older_than(listings: Listings, most_days: float | None, today: str) -> Mask:
    """Prices that are at most `most_days` days old; prices of unknown age never are."""
    if most_days is None:
        return np.ones(len(listings), dtype=bool)
    young: Mask = age_days(listings.observed_days, today) <= most_days
    return young


def _reject_too_old(
    listings: Listings, among: Mask, kept: Mask, age: Column, most_days: float, text: str, rejections: Rejections
) -> None:
    """Reject the types whose prices are all older than `most_days` days."""
    rows = np.flatnonzero(among & np.isfinite(age))
    rejections.reject_with_shortfall(
        listings.accelerator[rows],
        kept[rows],
        code=PRICE_TOO_OLD,
        text=text,
        needed=age[rows],
        available=np.full(len(rows), most_days),
        unit="days",
        count=np.ones(len(rows)),
        reached=FilterStage.OFFERS,
    )


def _reject_without_firm_price(
    listings: Listings, allowed: Mask, kept: Mask, kinds_requested: bool, rejections: Rejections
) -> None:
    """Reject the types whose prices are all of kinds that do not count."""
    rows = rejections.rows_of_eliminated_types(listings.accelerator, kept, allowed)
    if not len(rows):
        return
    types = np.unique(listings.accelerator[rows])
    known = np.zeros((len(types), len(KINDS)), dtype=bool)
    known[np.searchsorted(types, listings.accelerator[rows]), listings.kind[rows]] = True
    first, which = distinct_rows(known @ (1 << np.arange(len(KINDS))))
    for group, row in enumerate(first.tolist()):
        kinds = [kind for kind, has in zip(KINDS, known[row].tolist(), strict=True) if has]
        words, allow = (
            join_words([PRICE_KIND_TEXTS[kind] for kind in kinds]),
            join_words([f"`{kind}`" for kind in kinds]),
        )
        code = "no_offer" if kinds_requested else "no_firm_price"
        text = f"For {{name}}, the catalog has only {words}. To allow it, include {allow} in `price_kinds`."
        if kinds_requested:
            text = f"The catalog has no price of the requested kinds for {{name}}, only {words}."
        rejections.reject(types[which == group], code, text)
