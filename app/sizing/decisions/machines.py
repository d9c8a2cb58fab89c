"""Machines on sale to a caller, each at its cheapest allowed price, rented and owned on one scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, column
from app.sizing.decisions.ownership import machine_power_w, owned_usd_per_hour, purchase_usd
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.links import LINKS, link_of
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.question import Constraints, Deployment, Economics
from app.sizing.snapshot import PRICING, Listings, Machines, Market

# Spot capacity can be taken back and capacity blocks end; neither is offered unless asked for.
SERVICE_PRICING = tuple(p for p in PricingModel if p not in (PricingModel.SPOT, PricingModel.CAPACITY_BLOCK))

# A run ends; commitments and purchases outlast it, so they are offered for a run only when asked for.
RUN_PRICING = (PricingModel.ON_DEMAND,)


@dataclass(frozen=True, slots=True)
class Candidates(Columns):
    """Machines on sale to this caller, each at its cheapest allowed price."""

    machine: Codes
    listing: Codes
    node: Machines
    usd_per_hour: Column  # effective: rent, or what owning it costs per hour over the horizon
    purchase_usd: Column  # NaN for rented ones
    draw_w: Column  # mean draw under load, whole machine
    rated_w: Column
    ram_bytes: Column  # of the host; NaN unknown


def _matches(names: tuple[str, ...], patterns: tuple[str, ...]) -> Mask:
    return np.array([any(fnmatchcase(n, p.lower()) for p in patterns) for n in names], dtype=bool)


def candidates(
    market: Market,
    constraints: Constraints,
    economics: Economics,
    assumed: Assumptions,
    rejections: Rejections,
    *,
    pricing: tuple[PricingModel, ...] = SERVICE_PRICING,
    fixed: Deployment | None = None,
) -> Candidates:
    """Machines the caller may have, each at the cheapest listing that the constraints allow.

    Marketplace hosts carry no service level, so they count only where their provider is named.
    `pricing` is what may be paid where the constraints name no pricing model.
    """
    allowed = np.ones(len(market.accelerators), dtype=bool)
    if constraints.vendors:
        vendors = {v.lower() for v in constraints.vendors}
        allowed &= np.array([a.vendor.lower() in vendors for a in market.accelerators])
    slugs = [a.slug for a in market.accelerators]
    if constraints.accelerators:
        allowed &= np.isin(slugs, constraints.accelerators)
    if constraints.exclude_accelerators:
        allowed &= ~np.isin(slugs, constraints.exclude_accelerators)
    rejections.reject(np.flatnonzero(~allowed), "excluded", "{name} is outside the vendors and types asked for.")

    of_allowed = np.flatnonzero(allowed[market.machines.accelerator[market.listings.machine]])
    listings = market.listings.take(of_allowed)
    m = market.machines.take(listings.machine)
    keep = np.ones(len(listings), dtype=bool)
    pricing = constraints.pricing_models or pricing
    keep &= np.isin(listings.pricing, [PRICING.index(p) for p in pricing])
    if constraints.environments:
        on_prem = m.on_prem & (listings.offer < 0)
        keep &= (on_prem & (Environment.ON_PREM in constraints.environments)) | (
            ~on_prem & (Environment.CLOUD in constraints.environments)
        )
    named = constraints.providers or (fixed is not None and fixed.provider is not None)
    if not named:
        keep &= ~listings.marketplace
    if constraints.providers:
        keep &= np.isin(listings.provider, np.flatnonzero(np.isin(market.providers, constraints.providers)))
    if constraints.regions:
        regional = _matches(market.regions, constraints.regions)
        keep &= regional[listings.region] | (listings.offer < 0)
    if fixed is not None:
        keep &= _fixed_listings(market, listings, fixed)
    rated = machine_power_w(market, m, assumed)
    draw = rated * assumed.load_power_fraction
    owned = listings.offer < 0
    purchase = np.where(owned, purchase_usd(market, m, listings.list_price_usd, assumed), np.nan)
    hourly = np.where(
        owned, owned_usd_per_hour(purchase, draw, ~m.workstation, assumed, economics), listings.usd_per_hour
    )
    keep &= ~np.isnan(hourly)
    if constraints.max_purchase_usd is not None:
        keep &= ~owned | (purchase <= constraints.max_purchase_usd)
        within = np.unique(m.accelerator[keep])
        rejections.lost(
            m.accelerator[owned],
            np.isin(m.accelerator[owned], within),
            code="over_budget",
            text="One machine with {name} costs {needed} USD; {available} may be spent.",
            needed=purchase[owned],
            available=np.full(int(owned.sum()), constraints.max_purchase_usd),
            unit="usd",
        )
    rows = np.flatnonzero(keep)
    order = rows[np.lexsort((rows, hourly[rows], listings.machine[rows]))]
    first = order[np.unique(listings.machine[order], return_index=True)[1]]
    offered = np.unique(m.accelerator[first])
    rejections.reject(
        np.setdiff1d(np.flatnonzero(allowed), offered),
        "no_offer",
        "The catalogue has no price for {name} within the environments, providers, regions and pricing models asked for.",
    )
    return Candidates(
        machine=listings.machine[first],
        listing=of_allowed[first],
        node=m.take(first),
        usd_per_hour=hourly[first],
        purchase_usd=purchase[first],
        draw_w=draw[first],
        rated_w=rated[first],
        ram_bytes=market.system_ram_bytes[listings.system[first]],
    )


def oversubscribed(found: Candidates, assumed: Assumptions) -> Candidates:
    """Machines behind switches that carry less than their network cards do."""
    return replace(
        found,
        node=replace(found.node, network_bytes_per_s=found.node.network_bytes_per_s / assumed.network_oversubscription),
    )


def undominated(found: Candidates) -> Candidates:
    """Machines without those that another of the same accelerator and count beats or equals in everything: links,
    network, memory, power and price. What they would do is never better, so a search need not judge them."""
    m = found.node
    more = np.stack(
        [
            m.memory_bytes,
            m.link_bytes_per_s,
            m.scale_up_domain,
            np.nan_to_num(m.network_bytes_per_s),
            np.nan_to_num(found.ram_bytes, nan=np.inf),
        ]
    )
    less = np.stack([found.usd_per_hour, found.draw_w, found.rated_w, np.nan_to_num(found.purchase_usd, nan=0.0)])
    alike = (m.accelerator[:, None] == m.accelerator[None, :]) & (
        m.accelerators_per_node[:, None] == m.accelerators_per_node[None, :]
    )
    beaten = (
        alike & (more[:, None, :] >= more[:, :, None]).all(axis=0) & (less[:, None, :] <= less[:, :, None]).all(axis=0)
    )
    equal = beaten & beaten.T
    order = np.arange(len(found))
    keep: Mask = ~(beaten & (~equal | (order[None, :] < order[:, None]))).any(axis=1)
    return found.take(keep)


def _fixed_listings(market: Market, listings: Listings, fixed: Deployment) -> Mask:
    """Listings that agree with what the caller named of system and offer."""
    keep = np.ones(len(listings), dtype=bool)
    if fixed.system is not None:
        keep &= listings.system == market.system_slugs.index(fixed.system)
    if fixed.provider is not None:
        keep &= listings.provider == (
            market.providers.index(fixed.provider) if fixed.provider in market.providers else -1
        )
    if fixed.region is not None:
        keep &= listings.region == (market.regions.index(fixed.region) if fixed.region in market.regions else -1)
    if fixed.pricing_model is not None:
        keep &= listings.pricing == PRICING.index(fixed.pricing_model)
    if fixed.instance_type is not None:
        named = np.array([o.instance_type == fixed.instance_type for o in market.offers] + [False])
        keep &= named[listings.offer]
    return keep


# Accelerators one host can carry where no listing says otherwise.
LARGEST_HOST = 16


def unpriced(market: Market, deployment: Deployment, assumed: Assumptions) -> Candidates:
    """A machine of the accelerator's usual size where nobody in the catalogue sells one."""
    index = market.accelerator_index[deployment.accelerator]
    accelerator = market.accelerators[index]
    wanted = deployment.accelerators_per_replica or deployment.total_accelerators or 1
    count = float(wanted if accelerator.typical_node_size < wanted <= LARGEST_HOST else accelerator.typical_node_size)
    link, rate, domain = link_of(accelerator, count=count, topology="")
    nan = column([None])
    machine = Machines(
        accelerator=np.array([index]),
        accelerators_per_node=column([count]),
        memory_bytes=column([accelerator.memory_bytes]),
        link=np.array([LINKS.index(link)]),
        link_bytes_per_s=column([rate]),
        scale_up_domain=column([domain]),
        network_bytes_per_s=nan,
        power_w=nan,
        on_prem=np.array([True]),
        workstation=np.array([False]),
    )
    rated = machine_power_w(market, machine, assumed)
    return Candidates(
        machine=np.array([-1]),
        listing=np.array([-1]),
        node=machine,
        usd_per_hour=nan,
        purchase_usd=nan,
        draw_w=rated * assumed.load_power_fraction,
        rated_w=rated,
        ram_bytes=nan,
    )
