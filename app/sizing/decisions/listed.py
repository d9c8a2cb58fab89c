"""What every listing comes to for one caller: rent as it is asked, or owning it per hour, after discounts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.chassis import Parts
from app.sizing.decisions.ownership import (
    draw_w,
    machine_purchase_usd,
    owned_usd_per_hour,
    rated_power_w,
    reckoned_parts,
)
from app.sizing.question import Economics
from app.sizing.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Priced(Columns):
    """What every listing comes to for one caller."""

    usd_per_hour: Column
    purchase_usd: Column  # NaN for rented ones
    draw_w: Column
    rated_w: Column
    paid_share: Column  # of its price, after a discount


def listing_prices(snapshot: Snapshot, keep: Mask, assumed: Assumptions, economics: Economics) -> Priced:
    """Rent as it is asked, ownership of machines to keep per hour over the horizon; power by the machine."""
    listings, rows, paid = snapshot.listings, np.flatnonzero(keep), paid_share(snapshot, economics)
    rated, draw, purchase = np.full((3, len(listings)), np.nan)
    rated[rows] = rated_power_w(snapshot.machines.take(listings.machine[rows]), snapshot.columns, assumed)
    draw[rows], hourly = draw_w(rated[rows], assumed), listings.usd_per_hour * paid
    bought = np.flatnonzero(keep & listings.owned)
    if not len(bought):
        return Priced(usd_per_hour=hourly, purchase_usd=purchase, draw_w=draw, rated_w=rated, paid_share=paid)
    machines = snapshot.machines.take(listings.machine[bought])
    parts = parts_paid(snapshot, bought, assumed, paid[bought])
    purchase[bought] = machine_purchase_usd(parts, listings.list_price_usd[bought] * paid[bought])
    hourly[bought] = owned_usd_per_hour(purchase[bought], draw[bought], ~machines.workstation, assumed, economics)
    return Priced(usd_per_hour=hourly, purchase_usd=purchase, draw_w=draw, rated_w=rated, paid_share=paid)


def paid_share(snapshot: Snapshot, economics: Economics) -> Column:
    """Share of its price that the caller pays of each listing: all of it, but for the discounts said."""
    share = np.ones(len(snapshot.accelerators))
    for slug, discount in economics.discounts:
        share[snapshot.accelerator_index[slug]] = 1 - discount
    of_listings: Column = share[snapshot.listings.accelerator]
    return of_listings


def parts_paid(snapshot: Snapshot, rows: Codes, assumed: Assumptions, paid: Column) -> Parts:
    """What the machines of some listings are put together from, where they are bought and have no price, at the share
    of it that is paid.
    """
    listings = snapshot.listings
    machines, reckoned = snapshot.machines.take(listings.machine[rows]), listings.reckoned[rows]
    return reckoned_parts(machines, snapshot.columns, listings.ram_bytes[rows], reckoned, assumed).at(paid)
