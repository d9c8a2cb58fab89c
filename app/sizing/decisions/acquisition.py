"""Other ways to acquire the machines of a deployment, the month in which owning breaks even, and the bill."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import HOURS_PER_MONTH, LEAST_PER_S, Codes, Column, Columns, Mask, at, one
from app.sizing.decisions.cost import (
    MONEY_LIMITS,
    Cost,
    deployment_cost,
    estimate_ancillary_costs,
    meets_limits,
    network_price,
    node_gbit_per_s,
    paid_power_w,
    paid_usd_per_hour,
)
from app.sizing.decisions.machines import (
    Candidates,
    candidates_from_listings,
    listing_prices,
    listings_on_sale,
)
from app.sizing.decisions.ownership import (
    floor_usd_per_hour,
    horizon_hours,
    memory_usd,
    power_usd_per_hour,
    upkeep_usd_per_hour,
)
from app.sizing.decisions.places import UNKNOWN_GRID, possible_countries
from app.sizing.decisions.prices import age_days
from app.sizing.decisions.search import Search, Workload
from app.sizing.formula import formula, suspend_recording
from app.sizing.hardware.grids import Grid, list_grids
from app.sizing.hardware.listings import INVENTORY, PRICING, purchase_terms
from app.sizing.hardware.parts import COUNTED, KINDS, Accelerator, PricingModel, System
from app.sizing.hardware.terms import find_lead_time
from app.sizing.question import Economics, Question
from app.sizing.result import OPTION_OF_PRICING, AcquisitionOption, Alternative, Part, Price
from app.sizing.snapshot import Catalog


def itemize_costs(
    found: Candidates,
    nodes: Column,
    linked_nodes: Column,
    assumed: Assumptions,
    economics: Economics,
    *,
    host_bytes: Column | float = 0.0,
    idle_share: Column | float = 0.0,
) -> tuple[tuple[Part, ...], ...]:
    """Itemized bill of each of a few deployments, consistent with `cost.deployment_cost`.

    Parameters:
        nodes: machines of each deployment.
        idle_share: share of their hours that the load does not need, as in `cost.paid_usd_per_hour`.
    """
    host, idle = (np.broadcast_to(np.asarray(v, dtype=np.float64), nodes.shape) for v in (host_bytes, idle_share))
    with suspend_recording():
        return tuple(
            (*_bill_lines(found.take(row), nodes[row], linked_nodes[row], host[row], idle[row], assumed, economics),)
            for row in np.arange(len(nodes))[:, None]
        )


def _bill_lines(
    found: Candidates,
    nodes: Column,
    linked_nodes: Column,
    host_bytes: Column,
    idle_share: Column,
    assumed: Assumptions,
    economics: Economics,
) -> Iterator[Part]:
    """Bill lines of one deployment: purchases with a unit price, then hourly costs, the power of a machine and the
    horizon. Rented machines and power are means over the day.
    """
    machines, kilowatts = one(nodes), one(found.draw_w) / 1e3
    if not np.isnan(found.purchase_usd[0]):
        bought = (*_machine_parts(found, machines), *_ancillary_parts(found, nodes, linked_nodes, host_bytes, assumed))
        yield from bought
        spent = sum(part.quantity * (part.unit_usd or 0.0) for part in bought)
        yield Part("upkeep_usd", spent, usd_per_hour=one(upkeep_usd_per_hour(np.ones(1), assumed)))
        floor = one(floor_usd_per_hour(np.full(1, 1e3), ~found.node.workstation, assumed))
        if floor > 0:
            yield Part("floor_kw", machines * kilowatts, usd_per_hour=floor)
        drawn = one(paid_power_w(nodes * kilowatts, idle_share, found.by_the_hour, assumed))
        yield Part("power_kw", drawn, usd_per_hour=one(power_usd_per_hour(np.full(1, 1e3), economics)))
    elif not np.isnan(found.usd_per_hour[0]):
        rented = machines * (1 - one(idle_share)) if found.by_the_hour[0] else machines
        yield Part("machine", rented, usd_per_hour=one(found.usd_per_hour))
    yield Part("machine_kw", kilowatts)
    yield Part("horizon_hours", horizon_hours(economics))


def _machine_parts(found: Candidates, machines: float) -> Iterator[Part]:
    """Owned machines as one line, or itemized by part where the machine has no price of its own."""
    parts = found.parts
    if np.isnan(parts.accelerators_usd[0]):
        yield Part("machine", machines, unit_usd=one(found.purchase_usd))
        return
    count = one(found.node.accelerators_per_node)
    yield Part("accelerator", machines * count, unit_usd=one(parts.accelerators_usd) / count)
    memory = memory_usd(parts.memory_bytes, parts.memory_usd_per_gib)
    for what, usd in (("chassis", parts.chassis_usd), ("processors", parts.processors_usd), ("memory", memory)):
        if usd[0] > 0:
            yield Part(what, machines, unit_usd=one(usd))


def _ancillary_parts(
    found: Candidates, nodes: Column, linked_nodes: Column, host_bytes: Column, assumed: Assumptions
) -> Iterator[Part]:
    """Ancillary purchases for owned machines: network, racks and extra memory."""
    ancillary = estimate_ancillary_costs(found, nodes, linked_nodes, host_bytes, assumed)
    if ancillary.network_usd[0] > 0:
        rate = one(nodes * node_gbit_per_s(found, assumed))
        yield Part("network_gbit_per_s", rate, unit_usd=one(network_price(found, linked_nodes, assumed)))
    if ancillary.racks_usd[0] > 0:
        yield Part("rack_kw", one(nodes * found.rated_w) / 1e3, unit_usd=assumed.rack_usd_per_kw)
    if ancillary.more_memory_usd[0] > 0:
        price = one(found.parts.memory_usd_per_gib)
        yield Part("more_memory_gib", one(ancillary.more_memory_usd) / price, unit_usd=price)


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
    grid: Grid | None = None  # electricity grid where it stands; None if unknown


def describe_sold_machines(
    catalog: Catalog, found: Candidates, today: str = "", discounts: tuple[tuple[str, float], ...] = ()
) -> tuple[SoldMachine, ...]:
    """Every row of a table of machines as it is sold; price ages count to `today`."""
    off = dict(discounts)
    return tuple(
        apply_discount(
            replace(
                _describe_listing(
                    catalog, catalog.accelerators[accelerator], listing, today, priced=not math.isnan(usd_per_hour)
                ),
                grid=None if grid == UNKNOWN_GRID else list_grids()[grid],
            ),
            off,
        )
        for accelerator, listing, usd_per_hour, grid in zip(
            *(column.tolist() for column in (found.node.accelerator, found.listing, found.usd_per_hour, found.grid)),
            strict=True,
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
    provider, region = catalog.providers[row.provider[listing]], catalog.regions[row.region[listing]]
    unplaced = offer is not None and region not in catalog.region_countries
    countries = tuple(sorted(possible_countries(catalog, provider, None))) or None if unplaced else None
    sold = system if offer is None and provider != INVENTORY else None
    return SoldMachine(
        accelerator=accelerator,
        system=system,
        provider=provider,
        region=region,
        pricing_model=pricing,
        instance_type=None if offer is None else offer.instance_type,
        price=None
        if terms is None or not priced
        else Price(
            terms,
            pricing.value,
            None if math.isnan(age) else int(age),
            countries=countries,
            trend_30d=None if offer is None else offer.trend_30d,
            availability=None if offer is None else offer.availability,
            lead_time=None if sold is None else find_lead_time(sold.slug, accelerator.slug, until=today),
        ),
    )


ACQUISITION_OPTIONS = tuple(AcquisitionOption)
ON_DEMAND, OWNED = (
    ACQUISITION_OPTIONS.index(AcquisitionOption.ON_DEMAND),
    ACQUISITION_OPTIONS.index(AcquisitionOption.OWNED),
)
NOT_AN_OPTION = -1
# Acquisition option of each pricing model, as indices: entry i is that of `PRICING[i]`.
OPTION_CODES: Codes = np.array(
    [ACQUISITION_OPTIONS.index(OPTION_OF_PRICING[p]) if p in OPTION_OF_PRICING else NOT_AN_OPTION for p in PRICING]
)
COUNTED_CODES: Mask = np.array([kind in COUNTED for kind in KINDS])


@formula(unit="USD/h")
def running_usd_per_hour(owned_usd_per_hour: Column, purchase_usd: Column, horizon_hours: float) -> Column:
    """Hourly cost of owned hardware without its purchase: power, floor space and maintenance.

    Parameters:
        owned_usd_per_hour: total hourly cost of owning, purchase included, USD/h.
        purchase_usd: purchase price, USD.
        horizon_hours: hours over which the purchase is spread.
    Limits: the same in every year.
    Check:
        >>> round(running_usd_per_hour(23.98, 400_000.0, 26_280.0), 2)
        8.76
    """
    return owned_usd_per_hour - purchase_usd / horizon_hours


@formula(unit="months")
def break_even_month(purchase_usd: Column, running_usd_per_hour: Column, rent_usd_per_hour: Column) -> Column:
    """Months after which owning has cost less than renting the same; infinite where running owned hardware costs as
    much as rent.

    Parameters:
        purchase_usd: purchase price, USD.
        running_usd_per_hour: hourly cost of owned hardware without its purchase, USD/h.
        rent_usd_per_hour: rent of the same machines, USD/h.
    Limits: use in all hours, constant rent, no resale value, no cost of capital.
    Check: 400,000 USD upfront and 10 USD/h against a rent of 60 USD/h break even after 8,000 hours.
        >>> round(float(break_even_month(400_000.0, 10.0, 60.0)), 2)
        10.96
    """
    saved = (rent_usd_per_hour - running_usd_per_hour) * HOURS_PER_MONTH
    return np.where(saved > 0, purchase_usd / np.maximum(saved, LEAST_PER_S), np.inf)


@dataclass(frozen=True, slots=True)
class DeployedMachines(Columns):
    """Deployments with their machines, their cost and what a replacement machine must offer."""

    machines: Candidates  # machine of each deployment
    cost: Cost  # cost of each deployment; per hour the mean of a day
    nodes: Column  # machines of the deployment
    linked_nodes: Column  # machines that one network joins; the network is priced only where machines are owned
    spanning: Mask  # whether the work crosses the network between machines
    host_bytes: Column  # host memory used on each machine, bytes
    idle_share: Column  # share of the machine-hours of a day that the load does not need, from 0 to 1


def find_alternatives(search: Search[Workload], deployments: DeployedMachines) -> tuple[tuple[Alternative, ...], ...]:
    """For each deployment, the cheapest equivalent listing of every other acquisition option.

    Listings with a firm price are preferred: a price without a seller is used only where the option has no firm one.
    """
    assumed, economics, offered = search.question.assumptions, search.question.economics, deployments.machines
    with suspend_recording():
        types = np.isin(np.arange(len(search.catalog.accelerators)), offered.node.accelerator)
        on_sale = listings_on_sale(search.question, search.catalog, types)
        on_sale &= OPTION_CODES[search.catalog.listings.pricing] != NOT_AN_OPTION
        prices = listing_prices(search.catalog, on_sale, assumed, economics)
        rows = _sort_firm_then_cheap(search.catalog, np.flatnonzero(on_sale), prices.usd_per_hour)
        of, way, row = _first_listing_per_option(search.catalog, deployments, rows)
        found = candidates_from_listings(search.catalog, prices, row, search.catalog.listings.vcpus, assumed)
        nodes, linked, host = deployments.nodes[of], deployments.linked_nodes[of], deployments.host_bytes[of]
        others = deployment_cost(found, nodes, linked, assumed, economics, host_bytes=host)
        accelerators = nodes * found.node.accelerators_per_node
        kept = meets_limits(MONEY_LIMITS, search.question.constraints, accelerators, others)
        idle, terms = deployments.idle_share[of], (found.by_the_hour, way == OWNED, assumed, economics)
        hourly = paid_usd_per_hour(others.usd_per_hour, others.power_w, idle, *terms)
        others = replace(others, usd_per_hour=hourly)
        kept &= _cheaper_than_on_demand(search.catalog, deployments, others, of, way)
        found, others, of, way = found.take(kept), others.take(kept), of[kept], way[kept]
        months = _break_even_months(search.question, deployments.cost, others, of, way)
    by_deployment: list[list[Alternative]] = [[] for _ in range(len(offered))]
    for i, at_sale in enumerate(
        describe_sold_machines(search.catalog, found, search.question.today, search.question.economics.discounts)
    ):
        assert at_sale.price is not None and at_sale.provider is not None and at_sale.region is not None
        by_deployment[of[i]].append(
            Alternative(
                way=ACQUISITION_OPTIONS[way[i]],
                provider=at_sale.provider,
                region=at_sale.region,
                usd_per_hour=at(others.usd_per_hour, i),
                purchase_usd=at(others.purchase_usd, i) if way[i] == OWNED else None,
                kind=at_sale.price.terms.kind,
                observed=at_sale.price.terms.observed,
                ownable=not np.isnan(months[i]),
                break_even_month=float(months[i]) if np.isfinite(months[i]) else None,
            )
        )
    return tuple(map(tuple, by_deployment))


def _sort_firm_then_cheap(catalog: Catalog, rows: Codes, usd_per_hour: Column) -> Codes:
    """The given listings, firm prices first, then by price."""
    return rows[np.lexsort((usd_per_hour[rows], ~COUNTED_CODES[catalog.listings.kind[rows]]))]


def _first_listing_per_option(catalog: Catalog, deployed: DeployedMachines, rows: Codes) -> tuple[Codes, Codes, Codes]:
    """(deployment, option, listing) of the first equivalent listing of each option other than the deployment's own."""
    listings, offered = catalog.listings, deployed.machines
    ways, own = OPTION_CODES[listings.pricing[rows]], OPTION_CODES[listings.pricing[offered.listing]]
    good = equivalent_or_better(catalog, deployed, rows) & (ways != own[:, None]) & (offered.listing >= 0)[:, None]
    each = good[:, None, :] & (ways == np.arange(len(ACQUISITION_OPTIONS))[:, None])  # deployment x way x listing
    of, way = np.nonzero(each.any(axis=2))
    return of, way, rows[each[of, way].argmax(axis=1)] if len(of) else of


def equivalent_or_better(catalog: Catalog, deployed: DeployedMachines, rows: Codes) -> Mask:
    """Which listings (columns) sell the same count of each deployment's accelerator (rows) in an equal or better
    machine.
    """
    mine, theirs = (
        catalog.machines.take(deployed.machines.machine),
        catalog.machines.take(catalog.listings.machine[rows]),
    )
    network = np.where(deployed.spanning, np.nan_to_num(mine.network_bytes_per_s), 0.0)
    rented = ~catalog.listings.is_owned[rows]  # an owned machine that lacks memory gets it as an ancillary purchase
    good: Mask = mine.accelerator[:, None] == theirs.accelerator
    good &= mine.accelerators_per_node[:, None] == theirs.accelerators_per_node
    for least, there in (
        (mine.share, theirs.share),
        (mine.memory_bytes, theirs.memory_bytes),
        (mine.link_bytes_per_s, theirs.link_bytes_per_s),
        (mine.scale_up_domain, theirs.scale_up_domain),
        (network, np.nan_to_num(theirs.network_bytes_per_s)),
        (np.nan_to_num(deployed.machines.vcpus), np.nan_to_num(catalog.listings.vcpus[rows], nan=np.inf)),
        (deployed.host_bytes, np.where(rented, np.nan_to_num(catalog.listings.ram_bytes[rows], nan=np.inf), np.inf)),
    ):
        good &= there >= least[:, None]
    return good


def _cheaper_than_on_demand(catalog: Catalog, deployed: DeployedMachines, others: Cost, of: Codes, way: Codes) -> Mask:
    """All rows except commitments and spot capacity that cost at least as much as the same machines on demand."""
    own = OPTION_CODES[catalog.listings.pricing[deployed.machines.listing]]
    plain = np.where(own == ON_DEMAND, deployed.cost.usd_per_hour, np.inf)
    on_demand = way == ON_DEMAND
    plain[of[on_demand]] = others.usd_per_hour[on_demand]
    kept: Mask = on_demand | (way == OWNED) | (others.usd_per_hour < plain[of])
    return kept


def _break_even_months(question: Question, cost: Cost, others: Cost, of: Codes, way: Codes) -> Column:
    """Month from which owning has cost less than the rent of each row.

    Where a row is owned, it is compared with the rent of its deployment. NaN where no purchase price is known;
    infinite beyond the horizon.
    """
    hours = horizon_hours(question.economics)
    purchase, owned = cost.purchase_usd.copy(), cost.usd_per_hour.copy()
    bought = way == OWNED
    purchase[of[bought]], owned[of[bought]] = others.purchase_usd[bought], others.usd_per_hour[bought]
    rent = np.where(bought, cost.usd_per_hour[of], others.usd_per_hour)
    running = running_usd_per_hour(owned[of], purchase[of], hours)
    months = break_even_month(purchase[of], running, rent)
    months = np.where(months <= question.economics.horizon_months, months, np.inf)
    return np.where(np.isnan(purchase[of]), np.nan, months)
