"""Price of every listing for one buyer: rent, or the hourly cost of owning, after discounts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.chassis import Parts
from app.sizing.decisions.ownership import (
    derived_parts,
    draw_w,
    machine_purchase_usd,
    owned_usd_per_hour,
    rated_power_w,
)
from app.sizing.question import Economics
from app.sizing.snapshot import Catalog


@dataclass(frozen=True, slots=True)
class ListingPrices(Columns):
    """Price and power of every listing for one buyer."""

    usd_per_hour: Column  # rent, or the hourly cost of owning, USD/h
    purchase_usd: Column  # purchase price of the machine, USD; NaN for rented machines
    draw_w: Column  # mean power of the machine under load, W
    rated_w: Column  # rated power of the machine, W
    paid_share: Column  # share of the price that the buyer pays after the discount


def listing_prices(catalog: Catalog, keep: Mask, assumed: Assumptions, economics: Economics) -> ListingPrices:
    """Rent, or the hourly cost of owning over the horizon, of the listings to keep, and the power of their machines."""
    listings, rows, paid = catalog.listings, np.flatnonzero(keep), paid_share(catalog, economics)
    rated, draw, purchase = np.full((3, len(listings)), np.nan)
    rated[rows] = rated_power_w(catalog.machines.take(listings.machine[rows]), catalog.columns, assumed)
    draw[rows], hourly = draw_w(rated[rows], assumed), listings.usd_per_hour * paid
    bought = np.flatnonzero(keep & listings.is_owned)
    if not len(bought):
        return ListingPrices(usd_per_hour=hourly, purchase_usd=purchase, draw_w=draw, rated_w=rated, paid_share=paid)
    machines = catalog.machines.take(listings.machine[bought])
    parts = discounted_parts(catalog, bought, assumed, paid[bought])
    purchase[bought] = machine_purchase_usd(parts, listings.list_price_usd[bought] * paid[bought])
    hourly[bought] = owned_usd_per_hour(purchase[bought], draw[bought], ~machines.workstation, assumed, economics)
    return ListingPrices(usd_per_hour=hourly, purchase_usd=purchase, draw_w=draw, rated_w=rated, paid_share=paid)


def paid_share(catalog: Catalog, economics: Economics) -> Column:
    """Share of its price that the buyer pays for each listing: 1 minus the discount on its accelerator."""
    share = np.ones(len(catalog.accelerators))
    for slug, discount in economics.discounts:
        share[catalog.accelerator_index[slug]] = 1 - discount
    of_listings: Column = share[catalog.listings.accelerator]
    return of_listings


def discounted_parts(catalog: Catalog, rows: Codes, assumed: Assumptions, paid: Column) -> Parts:
    """Parts of the machines of some listings, at the share of their price that the buyer pays.

    All NaN for rented machines and those with a price of their own.
    """
    listings = catalog.listings
    machines, derived = catalog.machines.take(listings.machine[rows]), listings.is_estimated[rows]
    return derived_parts(machines, catalog.columns, listings.ram_bytes[rows], derived, assumed).at_paid_share(paid)
