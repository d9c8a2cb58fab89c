"""Describes machines as they are sold: accelerator, system, provider, and the price with its date."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.prices import age_days
from app.sizing.hardware.listings import PRICING, purchase_terms
from app.sizing.hardware.parts import Accelerator, PricingModel, System
from app.sizing.result import Price
from app.sizing.snapshot import Catalog


@dataclass(frozen=True, slots=True)
class SoldMachine:
    """One machine as it is sold; without a price where the catalog has no listing of it."""

    accelerator: Accelerator
    system: System | None = None
    provider: str | None = None
    region: str | None = None
    pricing_model: PricingModel | None = None
    instance_type: str | None = None
    price: Price | None = None  # list price or rent with its terms, age and discount


def describe_sold_machines(
    catalog: Catalog, found: Candidates, today: str = "", discounts: tuple[tuple[str, float], ...] = ()
) -> tuple[SoldMachine, ...]:
    """Every row of a table of machines as it is sold; price ages count to `today`."""
    off = dict(discounts)
    return tuple(
        apply_discount(
            _describe_listing(
                catalog, catalog.accelerators[accelerator], listing, today, priced=not math.isnan(usd_per_hour)
            ),
            off,
        )
        for accelerator, listing, usd_per_hour in zip(
            found.node.accelerator.tolist(), found.listing.tolist(), found.usd_per_hour.tolist(), strict=True
        )
    )


def apply_discount(at_sale: SoldMachine, discounts: Mapping[str, float]) -> SoldMachine:
    """The machine with the buyer's discount on its price."""
    off = discounts.get(at_sale.accelerator.slug, 0.0)
    if not off or at_sale.price is None:
        return at_sale
    return replace(at_sale, price=replace(at_sale.price, discount=off))


def _describe_listing(
    catalog: Catalog, accelerator: Accelerator, listing: int, today: str, *, priced: bool
) -> SoldMachine:
    if listing < 0:
        return SoldMachine(accelerator)
    row = catalog.listings
    system = catalog.systems[catalog.system_slugs[row.system[listing]]] if row.system[listing] >= 0 else None
    offer = catalog.offers[row.offer[listing]] if row.offer[listing] >= 0 else None
    pricing = PRICING[row.pricing[listing]]
    terms = offer.terms if offer is not None else None if system is None else purchase_terms(system, accelerator)
    age = age_days(row.observed_days[[listing]], today)[0]
    return SoldMachine(
        accelerator=accelerator,
        system=system,
        provider=catalog.providers[row.provider[listing]],
        region=catalog.regions[row.region[listing]],
        pricing_model=pricing,
        instance_type=None if offer is None else offer.instance_type,
        price=None
        if terms is None or not priced
        else Price(terms, pricing.value, None if math.isnan(age) else int(age)),
    )
