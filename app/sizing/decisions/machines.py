"""Candidate machines for a buyer, each at its cheapest allowed price, with rent and ownership on one scale."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

import numpy as np

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GB, Codes, Column, Columns, Mask, column
from app.sizing.decisions.ownership import (
    Parts,
    derived_parts,
    draw_w,
    machine_purchase_usd,
    owned_usd_per_hour,
    rated_power_w,
)
from app.sizing.decisions.places import (
    UNKNOWN_GRID,
    explain_unknown_places,
    find_grids,
    grid_g_per_kwh,
    in_regions,
    in_unplaced_regions,
    possibly_in_regions,
    under_jurisdiction,
)
from app.sizing.decisions.prices import (
    UNINTERRUPTIBLE,
    counts_by_kind,
    firm_listings,
    no_older_than,
    reject_unoffered,
    run_pricing,
    service_pricing,
    without_excluded,
)
from app.sizing.decisions.rejections import NullRejections, Rejections, is_at_most
from app.sizing.decisions.search import Search, Workload
from app.sizing.formula import suspend_recording
from app.sizing.hardware.achieved import vendor_of
from app.sizing.hardware.listings import INVENTORY, PRICING
from app.sizing.hardware.parts import (
    BY_THE_HOUR,
    KINDS,
    LINKS,
    UNNAMED_REGIONS,
    Environment,
    PriceKind,
    PricingModel,
    machine_link,
)
from app.sizing.hardware.slots import installed_machines
from app.sizing.hardware.tables import Machines
from app.sizing.question import Constraints, Deployment, Economics, Objective, Question
from app.sizing.result import FilterStage
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, TrainingWorkload


@dataclass(frozen=True, slots=True)
class ListingPrices(Columns):
    """Price and power of every listing for one buyer."""

    usd_per_hour: Column  # rent, or the hourly cost of owning, USD/h
    purchase_usd: Column  # purchase price of the machine, USD; NaN for rented machines
    draw_w: Column  # mean power of the machine under load, W
    rated_w: Column  # rated power of the machine, W
    paid_share: Column  # share of the price that the buyer pays after the discount
    grid: Codes  # electricity grid where the machine stands; UNKNOWN_GRID if unknown


def listing_prices(catalog: Catalog, keep: Mask, assumed: Assumptions, economics: Economics) -> ListingPrices:
    """Rent, or the hourly cost of owning over the horizon, of the listings to keep, and the power of their machines."""
    listings, rows, paid = catalog.listings, np.flatnonzero(keep), paid_share(catalog, economics)
    rated, draw, purchase = np.full((3, len(listings)), np.nan)
    grid = np.full(len(listings), UNKNOWN_GRID)
    grid[rows] = find_grids(catalog, economics, rows)
    rated[rows] = rated_power_w(catalog.machines.take(listings.machine[rows]), catalog.columns, assumed)
    draw[rows], hourly = draw_w(rated[rows], assumed), listings.usd_per_hour * paid
    bought = np.flatnonzero(keep & listings.is_owned)
    if not len(bought):
        return ListingPrices(hourly, purchase, draw, rated, paid, grid)
    machines = catalog.machines.take(listings.machine[bought])
    parts = discounted_parts(catalog, bought, assumed, paid[bought])
    purchase[bought] = machine_purchase_usd(parts, listings.list_price_usd[bought] * paid[bought])
    hourly[bought] = owned_usd_per_hour(purchase[bought], draw[bought], ~machines.workstation, assumed, economics)
    return ListingPrices(hourly, purchase, draw, rated, paid, grid)


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


def usual_types(
    catalog: Catalog,
    constraints: Constraints,
    allowed: Mask,
    named: Mask,
    assumed: Assumptions,
    rejections: Rejections,
    *,
    serves_many: bool,
) -> Mask:
    """The allowed types that suit the work: no development kits, and no consumer cards or Macs for a service of many
    users.

    These types count if the request names them or a segment, if nothing else is allowed, or if the power limit is
    below that of any server.
    """
    most_w = constraints.max_power_w
    if constraints.segments or (most_w is not None and most_w < assumed.least_server_power_w):
        return allowed
    unusual = catalog.columns.beneath_servers if serves_many else catalog.columns.edge
    kept: Mask = allowed & (named | ~unusual)
    if not kept.any():
        return allowed
    reason = "{name} is sold on development kits."
    if serves_many:
        reason = "{name} is not sold in servers or workstations, which services use by default."
    text = f"{reason} To include it, name it in `accelerators` or its segment in `segments`."
    rejections.reject(np.flatnonzero(allowed & ~kept), "not_for_servers", text, FilterStage.EXCLUDED)
    return kept


# More accelerators than any machine carries: the factor that combines accelerator and count into one key.
MAX_ACCELERATORS_IN_MACHINE = 100_000


@dataclass(frozen=True, slots=True)
class Candidates(Columns):
    """Machines on sale to this buyer, each at its cheapest allowed price, plus a second row for spot capacity."""

    machine: Codes  # index of the machine in the catalog; -1 for an unpriced machine
    listing: Codes  # index of the listing in the catalog; -1 for an unpriced machine
    node: Machines  # hardware of the machine
    spot: Mask  # spot capacity, which the provider may reclaim
    by_the_hour: Mask  # rented by the hour without a commitment
    installed: Mask  # machines of an inventory, which stand in racks and on a network already
    usd_per_hour: Column  # rent, or the hourly cost of owning over the horizon, USD/h
    purchase_usd: Column  # purchase price of the machine, USD; NaN for rented machines
    draw_w: Column  # mean power of the whole machine under load, W
    rated_w: Column  # rated power of the whole machine, W
    ram_bytes: Column  # host memory, bytes; NaN if unknown
    parts: Parts  # parts of machines without a price of their own
    vcpus: Column  # host vCPUs, if the work depends on them; NaN if unknown
    grid: Codes  # electricity grid where the machine stands; UNKNOWN_GRID if unknown

    @property
    def grid_g_per_kwh(self) -> Column:
        """Greenhouse gases of a kWh where the machine stands, g CO2e; NaN if unknown."""
        return grid_g_per_kwh(self.grid)

    @property
    def host_kinds(self) -> tuple[int, Codes]:
        """Number of distinct hosts, by vCPUs per accelerator, and the index of each machine's host."""
        per_accelerator = np.nan_to_num(self.vcpus / self.node.accelerators_per_node, nan=-1.0)
        kinds, which = np.unique(per_accelerator, return_inverse=True)
        return len(kinds), which


def find_candidates(
    catalog: Catalog,
    constraints: Constraints,
    economics: Economics,
    assumed: Assumptions,
    rejections: Rejections,
    *,
    pricing: tuple[PricingModel, ...] = (),
    ends: bool = False,
    fixed: Deployment | None = None,
    zones: int = 1,
    serves_many: bool = False,
    reads_host: bool = False,
    gives_back: bool = False,
    today: str = "",
) -> Candidates:
    """Machines the buyer may use, each at the cheapest listing that the constraints allow.

    A machine whose cheapest listing is spot capacity also appears at its cheapest other listing, because a long run
    may not tolerate interruption. `pricing` names the allowed pricing models; by default they are the usual ones of
    a service, or of a job that `ends`. With several zones, rented machines must be in named regions. If
    `serves_many`, consumer parts and outdated prices of machines to own are rejected. If the work `reads_host`,
    machines with different host processors are separate rows. If it `gives_back` idle machines, those rented by the
    hour are separate rows.
    """
    named = types_named(catalog, constraints.named_accelerators)
    allowed = eligible_types(catalog, constraints, named, assumed, rejections, serves_many=serves_many)
    listings = catalog.listings
    payable = pricing or (run_pricing if ends else service_pricing)(constraints)
    placed = listings_allowed(catalog, constraints, fixed)
    keep = allowed[listings.accelerator] & _is_among(PRICING, payable)[listings.pricing]
    reject_unplaced(catalog, constraints, keep, placed, rejections)
    keep &= placed
    keep = firm_listings(catalog, constraints, keep, named, today, assumed, rejections, serves_many=serves_many)
    keep = without_excluded(catalog, constraints, keep, rejections)
    keep &= ~superseded_listings(catalog, keep)
    keep = available_listings(catalog, constraints, keep, named, rejections, given=fixed is not None)
    with suspend_recording():
        priced = listing_prices(catalog, keep, assumed, economics)
    if constraints.max_purchase_usd is not None:
        keep &= _purchase_affordable(constraints.max_purchase_usd, catalog, priced.purchase_usd, keep, rejections)
    if zones > 1:
        keep = _require_named_regions(catalog, keep, zones, rejections)
    if constraints.weighs_carbon:
        keep = _require_known_grids(catalog, keep, priced.grid != UNKNOWN_GRID, rejections)
    kept = np.flatnonzero(keep)
    vcpus = np.where(reads_host, listings.vcpus, np.nan)
    kinds = machine_kinds(listings.machine, listings.pricing, vcpus, gives_back=gives_back)
    first = cheapest_per_machine(kinds, priced.usd_per_hour, kept)
    if constraints.weighs_carbon:
        first = cheapest_per_carbon(kinds, priced.usd_per_hour, grid_g_per_kwh(priced.grid), kept)
    reject_unoffered(catalog, constraints, allowed, placed, listings.accelerator[first], rejections)
    with suspend_recording():
        return candidates_from_listings(catalog, priced, first, vcpus, assumed)


NOT_SEEN = "No feed has seen {{name}} with capacity since {since}. Omit `available_within_hours` to include it."
SOLD_OUT = "Every offer of {name} has been sold out for 7 days or longer. Name it or its provider to include it."


def available_listings(
    catalog: Catalog, constraints: Constraints, keep: Mask, named: Mask, rejections: Rejections, *, given: bool
) -> Mask:
    """The listings that have capacity as far as feeds state it; types left without any are rejected.

    With `available_since`, only rents that were seen with capacity since then, and the inventory. Otherwise, offers
    that have been sold out for long are dropped, unless the deployment is given or the request names their seller or
    type.
    """
    listings, capacity = catalog.listings, catalog.capacity
    rented = listings.offer >= 0
    if constraints.available_since is not None:
        seen = np.zeros(len(listings), dtype=bool)
        if capacity is not None:
            seen[rented] = capacity.seen_at[listings.offer[rented]] >= constraints.available_since
        if INVENTORY in catalog.providers:
            seen |= listings.provider == catalog.providers.index(INVENTORY)
        code, text, kept = "not_available", NOT_SEEN.format(since=constraints.available_since), keep & seen
    elif capacity is None or given or constraints.providers:
        return keep
    else:
        sold_out = np.zeros(len(listings), dtype=bool)
        sold_out[rented] = capacity.sold_out[listings.offer[rented]]
        code, text, kept = "sold_out", SOLD_OUT, keep & ~(sold_out & ~named[listings.accelerator])
    rejections.reject_if_none_left(listings.accelerator[keep], listings.accelerator[kept], code, text)
    return kept


def reject_unplaced(
    catalog: Catalog, constraints: Constraints, keep: Mask, placed: Mask, rejections: Rejections
) -> None:
    """Reject the types whose remaining rents may be where the request wants them, but not certainly."""
    if not constraints.names_places:
        return
    elsewhere = replace(constraints, regions=(), countries=())
    unplaced = keep & in_unplaced_regions(catalog) & listings_allowed(catalog, elsewhere, None)
    unplaced &= counts_by_kind(catalog.listings, constraints)
    accelerator = catalog.listings.accelerator
    rows = rejections.rows_of_eliminated_types(accelerator, keep & placed, unplaced)
    for of_type in np.unique(accelerator[rows]).tolist():
        text = explain_unknown_places(catalog, constraints, rows[accelerator[rows] == of_type])
        if text:
            rejections.reject(np.array([of_type]), "no_offer", text)


def _purchase_affordable(
    most_usd: float, catalog: Catalog, purchase_usd: Column, keep: Mask, rejections: Rejections
) -> Mask:
    """Listings that are rented, or whose single machine fits the purchase budget; types left without any are
    rejected.
    """
    listings = catalog.listings
    owned = keep & listings.is_owned
    payable: Mask = ~listings.is_owned | is_at_most(purchase_usd, most_usd)
    within = np.unique(listings.accelerator[keep & payable])
    accelerator = listings.accelerator[owned]
    rejections.reject_with_shortfall(
        accelerator,
        np.isin(accelerator, within),
        code="over_budget",
        text="One machine with {name} costs {needed} USD; the purchase budget is {available} USD.",
        needed=purchase_usd[owned],
        available=np.full(len(accelerator), most_usd),
        unit="usd",
        count=catalog.machines.accelerators_per_node[listings.machine[owned]],
        reached=FilterStage.OFFERS,
    )
    return payable


def superseded_listings(catalog: Catalog, keep: Mask) -> Mask:
    """Listings with a derived price where another of the same accelerator and count has a price of its own."""
    listings, count = catalog.listings, catalog.machines.accelerators_per_node
    owned = np.flatnonzero(listings.is_owned)
    key = listings.accelerator[owned] * MAX_ACCELERATORS_IN_MACHINE + count[listings.machine[owned]]
    estimated = np.isnan(listings.list_price_usd[owned])
    superseded: Mask = np.zeros(len(listings), dtype=bool)
    superseded[owned] = estimated & np.isin(key, key[keep[owned] & ~estimated])
    return superseded


def listings_on_sale(question: Question, catalog: Catalog, types: Mask, *, possible: bool = False) -> Mask:
    """Listings of some types that the filters, the price age and the zones of a request allow.

    Prices of every kind and all pricing models count; a derived price that another one supersedes does not. With
    `possible`, rents count that may be in the requested regions, but not certainly.
    """
    limits, workload, listings = question.constraints, question.workload, catalog.listings
    allowed = listings_allowed(catalog, limits, None)
    if possible and limits.names_places:
        elsewhere = replace(limits, regions=(), countries=())
        allowed |= listings_allowed(catalog, elsewhere, None) & possibly_in_regions(catalog, limits)
    keep: Mask = types[listings.accelerator] & allowed
    keep &= no_older_than(listings, limits.max_price_age_days, question.today)
    keep &= ~superseded_listings(catalog, keep)
    if isinstance(workload, InferenceWorkload) and workload.redundancy.zones > 1:
        keep &= in_named_regions(catalog)
    return keep


def in_named_regions(catalog: Catalog) -> Mask:
    """Listings that can span several zones: owned ones, and rented ones in a named region."""
    listings = catalog.listings
    found: Mask = listings.is_owned | ~_is_among(catalog.regions, UNNAMED_REGIONS)[listings.region]
    return found


def _require_named_regions(catalog: Catalog, keep: Mask, zones: int, rejections: Rejections) -> Mask:
    """The kept listings that can span several zones; types left without any are rejected."""
    listings = catalog.listings
    named: Mask = keep & in_named_regions(catalog)
    text = f"The catalog lists {{name}} for rent only without a named region; {zones} zones require named regions."
    rejections.reject_if_none_left(listings.accelerator[keep], listings.accelerator[named], "no_zones", text)
    return named


def _require_known_grids(catalog: Catalog, keep: Mask, is_known: Mask, rejections: Rejections) -> Mask:
    """The kept listings whose electricity grid is known; types left without any are rejected."""
    accelerator = catalog.listings.accelerator
    known: Mask = keep & is_known
    text = (
        "The country in which {name} would stand is not known, so its carbon cannot be calculated. For owned machines, "
        "set `economics.country`."
    )
    rejections.reject_if_none_left(accelerator[keep], accelerator[known], "unknown_carbon", text, FilterStage.LIMITS)
    return known


def _is_spot(pricing: Codes) -> Mask:
    """Which listings are spot capacity."""
    found: Mask = pricing == PRICING.index(PricingModel.SPOT)
    return found


def eligible_types(
    catalog: Catalog,
    constraints: Constraints,
    named: Mask,
    assumed: Assumptions,
    rejections: Rejections,
    *,
    serves_many: bool,
) -> Mask:
    """Types that the request allows and that suit the work; the others are rejected."""
    allowed = types_allowed(catalog, constraints)
    text = "The vendor, segment and accelerator filters exclude {name}."
    rejections.reject(np.flatnonzero(~allowed), "excluded", text, FilterStage.EXCLUDED)
    return usual_types(catalog, constraints, allowed, named, assumed, rejections, serves_many=serves_many)


def types_allowed(catalog: Catalog, constraints: Constraints) -> Mask:
    """Accelerator types that pass the vendor, segment and name filters."""
    allowed = np.ones(len(catalog.accelerators), dtype=bool)
    if constraints.vendors:
        allowed &= _is_among(catalog.vendors, {v.lower() for v in constraints.vendors})[catalog.vendor_of]
    if constraints.segments:
        allowed &= np.array([not {*constraints.segments}.isdisjoint(a.segments) for a in catalog.accelerators])
    if constraints.accelerators:
        allowed &= types_named(catalog, constraints.accelerators)
    if constraints.exclude_accelerators:
        allowed &= ~types_named(catalog, constraints.exclude_accelerators)
    return allowed


def with_relevant_measurements(question: Question, catalog: Catalog) -> Catalog:
    """The catalog with those of the user's own measurements that can move a prediction of a question: of services or of
    training runs, as the question is, on accelerators of the vendors that it allows.
    """
    if catalog.measured is None:
        return catalog
    allowed, limits = types_allowed(catalog, question.constraints), question.constraints
    if limits.inventory_only:
        allowed &= types_named(catalog, (owned.accelerator for owned in question.inventory))
    vendors = {vendor_of(a.family) for a, is_allowed in zip(catalog.accelerators, allowed, strict=True) if is_allowed}
    workload = question.workload
    if isinstance(workload, InferenceWorkload) and workload.single_pass and not question.companions:
        vendors = set()  # no measurement moves work without a decode phase
    relevant = catalog.measured.limit_to(vendors, trains=isinstance(workload, TrainingWorkload))
    return catalog if relevant is catalog.measured else catalog.with_measurements(relevant)


def types_named(catalog: Catalog, names: Iterable[str]) -> Mask:
    """Mask of the accelerator types with these slugs; unknown slugs are ignored."""
    index = catalog.accelerator_index
    named: Mask = np.zeros(len(catalog.accelerators), dtype=bool)
    named[[index[name] for name in names if name in index]] = True
    return named


def listings_allowed(catalog: Catalog, constraints: Constraints, fixed: Deployment | None) -> Mask:
    """Listings of the requested environments, providers and regions, and of the fixed deployment if one is given."""
    listings = catalog.listings
    owned = listings.is_owned
    keep = np.ones(len(listings), dtype=bool)
    if constraints.environments:
        keep &= (owned & (Environment.ON_PREM in constraints.environments)) | (
            ~owned & (Environment.CLOUD in constraints.environments)
        )
    if constraints.providers:
        keep &= _is_among(catalog.providers, constraints.providers)[listings.provider]
    if constraints.names_places:
        keep &= in_regions(catalog, constraints)
    if constraints.jurisdictions:
        keep &= under_jurisdiction(catalog, constraints)
    if fixed is not None:
        if fixed.instance_type is None and fixed.system is None:
            keep &= catalog.machines.share[listings.machine] == 1  # a named accelerator means a whole one
        for named, names, column_of in (
            (fixed.system, catalog.system_slugs, listings.system),
            (fixed.provider, catalog.providers, listings.provider),
            (fixed.region, catalog.regions, listings.region),
            (fixed.pricing_model, PRICING, listings.pricing),
            (fixed.instance_type, catalog.instance_types, listings.instance_type),
        ):
            if named is not None:
                keep &= column_of == (names.index(named) if named in names else NO_SUCH_CODE)
    return keep


NO_SUCH_CODE = -2  # code that no listing has


def _is_among(names: Iterable[str], wanted: Container[str]) -> Mask:
    return np.array([name in wanted for name in names], dtype=bool)


def machine_kinds(machine: Codes, pricing: Codes, vcpus: Column, *, gives_back: bool = False) -> Codes:
    """A number shared by listings of the same machine, host processors and interruptibility.

    With `gives_back`, machines rented by the hour have numbers of their own.
    """
    if not np.isnan(vcpus).all():  # otherwise, the work does not depend on the host
        host = np.unique(np.nan_to_num(vcpus, nan=-1.0), return_inverse=True)[1]
        machine = machine * (int(host.max(initial=0)) + 1) + host
    separate = gives_back & _is_among(PRICING, BY_THE_HOUR)[pricing]
    return machine * 4 + 2 * separate + _is_spot(pricing)


def cheapest_per_machine(machine: Codes, usd_per_hour: Column, rows: Codes) -> Codes:
    """The cheapest of the rows of each machine kind, the first of equals; ordered by machine kind."""
    dearest_first = rows[np.argsort(usd_per_hour[rows], kind="stable")][::-1]
    last = np.full(int(machine.max(initial=-1)) + 1, -1)
    last[machine[dearest_first]] = dearest_first  # the last of several rows of a machine wins
    return last[last >= 0]


def cheapest_per_carbon(machine: Codes, usd_per_hour: Column, g_per_kwh: Column, rows: Codes) -> Codes:
    """The rows of each machine kind than which no other of that kind is as cheap and causes as little carbon.

    Ordered by machine kind, cheapest first.

    Check: of three prices of one machine, the second causes more carbon than the first, the third less.
        >>> g = np.array([300.0, 400.0, 20.0])
        >>> cheapest_per_carbon(np.array([0, 0, 0]), np.array([1.0, 2.0, 3.0]), g, np.array([2, 1, 0])).tolist()
        [0, 2]
    """
    if not len(rows):
        return rows
    order = rows[np.lexsort((rows, g_per_kwh[rows], usd_per_hour[rows], machine[rows]))]
    kind = np.unique(machine[order], return_inverse=True)[1]
    least = np.minimum.accumulate(g_per_kwh[order] - ABOVE_ANY_GRID * kind)  # starts anew with each kind
    kept: Codes = order[np.concatenate([[True], least[1:] < least[:-1]])]
    return kept


ABOVE_ANY_GRID = 1e6  # greater than the intensity of any grid, g/kWh


def candidates_from_listings(
    catalog: Catalog, priced: ListingPrices, rows: Codes, vcpus: Column, assumed: Assumptions
) -> Candidates:
    """Candidates of the listings at the given rows."""
    listings, types = catalog.listings, catalog.columns
    node = catalog.machines.take(listings.machine[rows])
    desk = node.workstation & types.desktop[node.accelerator]
    return Candidates(
        machine=listings.machine[rows],
        listing=rows,
        node=installed_machines(node, types, host_socket_bytes_per_s(catalog, rows, desk, assumed), assumed),
        spot=_is_spot(listings.pricing[rows]),
        by_the_hour=_is_among(PRICING, BY_THE_HOUR)[listings.pricing[rows]],
        installed=_is_among(catalog.providers, (INVENTORY,))[listings.provider[rows]],
        usd_per_hour=priced.usd_per_hour[rows],
        purchase_usd=priced.purchase_usd[rows],
        draw_w=priced.draw_w[rows],
        rated_w=priced.rated_w[rows],
        ram_bytes=listings.ram_bytes[rows],
        vcpus=vcpus[rows],
        grid=priced.grid[rows],
        parts=discounted_parts(catalog, rows, assumed, priced.paid_share[rows]),
    )


def host_socket_bytes_per_s(catalog: Catalog, listing: Codes, desk: Mask, assumed: Assumptions) -> Column:
    """Data-sheet memory bandwidth of one CPU socket, B/s; the usual one of a desktop or server where none is known.

    Parameters:
        listing: listing of each machine; -1 if nothing sells it.
        desk: whether the machine is a desktop.
    """
    system = np.where(listing < 0, -1, catalog.listings.system[listing])
    named = np.where(system < 0, np.nan, catalog.socket_bytes_per_s[system])
    usual = np.where(desk, assumed.desktop_host_gb_per_s, assumed.server_host_gb_per_s) * GB
    return np.where(np.isnan(named), usual, named)


def apply_oversubscription(found: Candidates, assumed: Assumptions) -> Candidates:
    """Machines whose network bandwidth is divided by the oversubscription of the switches."""
    return replace(
        found,
        node=replace(found.node, network_bytes_per_s=found.node.network_bytes_per_s / assumed.network_oversubscription),
    )


def drop_dominated(found: Candidates, *, weighs_carbon: bool = False) -> Candidates:
    """Machines that no other of the same accelerator and count equals or beats in everything.

    Compared are links, network, memory, power, price and whether the machine is spot capacity. A dominated machine
    is never the better choice, so the search need not evaluate it. The network of an owned machine raises its cost,
    so owned machines are compared at equal network bandwidth. With `weighs_carbon`, grids are compared as well.
    """
    m = found.node
    more = np.stack(
        [
            m.memory_bytes,
            m.link_bytes_per_s,
            m.scale_up_domain,
            np.nan_to_num(m.network_bytes_per_s),
            np.nan_to_num(found.ram_bytes, nan=np.inf),
            np.nan_to_num(found.vcpus),
        ]
    )
    bought = np.nan_to_num(found.purchase_usd, nan=0.0)
    paid = np.where(np.isnan(found.purchase_usd), 0.0, np.nan_to_num(m.network_bytes_per_s))
    grid = found.grid_g_per_kwh if weighs_carbon else np.zeros(len(found))
    less = np.stack([found.usd_per_hour, found.draw_w, found.rated_w, bought, found.spot, paid, grid])
    row, other = _equal_key_pairs(np.stack([m.accelerator.astype(np.float64), m.accelerators_per_node, m.share]))
    as_good = (more[:, other] >= more[:, row]).all(axis=0) & (less[:, other] <= less[:, row]).all(axis=0)
    better = ~((more[:, row] >= more[:, other]).all(axis=0) & (less[:, row] <= less[:, other]).all(axis=0))
    keep: Mask = np.ones(len(found), dtype=bool)
    keep[row[as_good & (better | (other < row))]] = False  # the first of equal rows wins
    return found.take(keep)


def _equal_key_pairs(key: Column) -> tuple[Codes, Codes]:
    """All ordered pairs of rows with equal keys, as two columns of row numbers."""
    order = np.lexsort(key)
    changes = (key[:, order[1:]] != key[:, order[:-1]]).any(axis=0)
    first = np.flatnonzero(np.concatenate([[True], changes]))
    size = np.diff(np.append(first, len(order)))
    many = np.repeat(size, size)  # for each row, the number of rows with its key
    row = np.repeat(np.arange(len(order)), many)
    begin = np.repeat(np.repeat(first, size), many)
    other = begin + np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    return order[row], order[other]


def unpriced_machine(catalog: Catalog, deployment: Deployment, assumed: Assumptions) -> Candidates:
    """A machine of the accelerator's usual size without a price, for accelerators that no listing sells."""
    index = catalog.accelerator_index[deployment.accelerator]
    accelerator = catalog.accelerators[index]
    usual = accelerator.typical_node_size
    wanted = deployment.accelerators_per_replica or deployment.total_accelerators or 1
    count = float(wanted if usual < wanted <= assumed.largest_host_accelerators else usual)
    if deployment.nodes is not None and deployment.total_accelerators is not None:
        count = max(1.0, float(deployment.total_accelerators // deployment.nodes))  # the size that the estimate echoes
    link, rate, domain = machine_link(accelerator, count=count)
    nan = column([None])
    machine = Machines(
        accelerator=np.array([index]),
        accelerators_per_node=column([count]),
        share=column([1.0]),
        memory_bytes=column([accelerator.memory_bytes]),
        link=np.array([LINKS.index(link)]),
        link_bytes_per_s=column([rate]),
        scale_up_domain=column([domain]),
        network_bytes_per_s=nan,
        power_w=nan,
        on_prem=np.array([True]),
        workstation=np.array([False]),
    )
    desk = catalog.columns.desktop[machine.accelerator]
    with suspend_recording():
        socket = host_socket_bytes_per_s(catalog, np.array([-1]), desk, assumed)
        machine = installed_machines(machine, catalog.columns, socket, assumed)
        rated = rated_power_w(machine, catalog.columns, assumed)
        draw = draw_w(rated, assumed)
    return Candidates(
        machine=np.array([-1]),
        listing=np.array([-1]),
        node=machine,
        spot=np.array([False]),
        by_the_hour=np.array([False]),
        installed=np.array([False]),
        usd_per_hour=nan,
        purchase_usd=nan,
        draw_w=draw,
        rated_w=rated,
        ram_bytes=nan,
        vcpus=nan,
        grid=np.array([UNKNOWN_GRID]),
        parts=Parts.empty_rows(1),
    )


def required_connection(group: Column, largest: Column) -> Column:
    """Accelerators of a group that a machine must connect without the network.

    Where a machine on sale connects the whole group, every machine must. A larger group needs machines with several
    accelerators, if any are on sale.

    Parameters:
        group: accelerators that exchange data.
        largest: accelerators that the largest machine on sale connects.
    Check: four accelerators and 16 where the largest machine connects eight, and four where all have one.
        >>> required_connection(np.array([4, 16, 4]), np.array([8, 8, 1])).tolist()
        [4.0, 2.0, 1.0]
    """
    return np.where(group <= largest, group, np.minimum(largest, 2.0))


def within_machine_limits(machines: Candidates, constraints: Constraints) -> Mask:
    """Whether one of each machine stays within the limits on accelerators, hourly cost, purchase and power."""
    within: Mask = np.ones(len(machines), dtype=bool)
    for most, each in (
        (constraints.max_accelerators, machines.node.accelerators_per_node),
        (constraints.max_usd_per_hour, machines.usd_per_hour),
        (constraints.max_purchase_usd, machines.purchase_usd),
        (constraints.max_power_w, machines.rated_w),
    ):
        if most is not None:
            within &= ~(each > most)
    return within


def find_wider_machines(search: Search[Workload], deployment: Deployment, size: int, needed: int) -> Candidates:
    """Machines at any price, and those to own for a job that ends where only they connect `size` accelerators. If no
    listing connects those `needed`, an unpriced machine of the accelerator's usual size does.
    """
    question = search.question
    every = filter_by_size(find_machines(search, deployment, KINDS), question, deployment)
    every = every if len(every) else unlisted_machine(search, deployment)
    if max_connected_accelerators(every) >= size or deployment.pricing_model is not None:
        return every
    owned = filter_by_size(find_machines(search, deployment, KINDS, UNINTERRUPTIBLE), question, deployment)
    wider = max((every, owned), key=max_connected_accelerators)
    catalog = search.catalog
    usual_size = catalog.accelerators[catalog.accelerator_index[deployment.accelerator]].typical_node_size
    if deployment.names_listing or deployment.nodes or not max_connected_accelerators(wider) < needed <= usual_size:
        return wider
    return unpriced_machine(catalog, deployment, question.assumptions)


def find_machines(
    search: Search[Workload],
    deployment: Deployment,
    kinds: tuple[PriceKind, ...] = (),
    pricing: tuple[PricingModel, ...] = (),
) -> Candidates:
    """Listings that match the fields named in a deployment, or one unpriced machine if the catalog lists none. A named
    machine that is only sold interruptibly counts at that price.

    `kinds` and `pricing` replace the price kinds and the pricing models that count by default. Raises `Conflict` if
    the named fields match no listing.
    """
    constraints = Constraints(
        accelerators=(deployment.accelerator,),
        pricing_models=(deployment.pricing_model,) if deployment.pricing_model else (),
        price_kinds=kinds,
        outdated_prices=True,
        weighs_carbon=search.question.objective is Objective.CARBON,
        excluded_listings=search.question.constraints.excluded_listings,
    )
    unread, workload = NullRejections(search.catalog.accelerators), search.question.workload
    zones = workload.redundancy.zones if isinstance(workload, InferenceWorkload) else 1
    ends = isinstance(workload, TrainingWorkload) or workload.is_finite
    reads_host = isinstance(workload, InferenceWorkload) and workload.single_pass
    sought = (search.catalog, constraints, search.question.economics, search.question.assumptions, unread)
    machines = find_candidates(
        *sought, pricing=pricing, ends=ends, fixed=deployment, zones=zones, reads_host=reads_host
    )
    named = deployment.names_listing
    for wider in (UNINTERRUPTIBLE, *((tuple(PricingModel),) if named else ())):
        if not len(machines) and deployment.pricing_model is None:
            machines = find_candidates(*sought, pricing=wider, fixed=deployment, zones=zones, reads_host=reads_host)
    if len(machines):
        return machines
    if named or deployment.pricing_model:
        raise Conflict(
            "No catalog listing sells this accelerator with the given system, provider, region, instance type and "
            "pricing model. Omit them, or choose values from GET /catalog/offers."
            + (" With several zones, rented machines must be in named regions." if zones > 1 else "")
        )
    return unpriced_machine(search.catalog, deployment, search.question.assumptions)


def filter_by_size(machines: Candidates, question: Question, deployment: Deployment) -> Candidates:
    """The machines whose accelerator count matches `total_accelerators` divided by `nodes`.

    A training run that matches none of them may use any machine.
    """
    if deployment.nodes is None or deployment.total_accelerators is None:
        return machines
    held = machines.node.accelerators_per_node * deployment.nodes
    matching = machines.take(np.flatnonzero(held == deployment.total_accelerators))
    return machines if isinstance(question.workload, TrainingWorkload) and not len(matching) else matching


def unlisted_machine(search: Search[Workload], deployment: Deployment) -> Candidates:
    """An unpriced machine of the requested size; raises `Conflict` if no machine can have that size."""
    named = deployment.names_listing
    total, nodes = deployment.total_accelerators or 0, deployment.nodes or 1
    if named or total % nodes:
        reason = "the named machine has another size" if named else "each would hold a fraction of an accelerator"
        raise Conflict(
            f"{nodes} nodes cannot hold exactly {total} accelerators: {reason}. Omit `nodes` or `total_accelerators`."
        )
    return unpriced_machine(search.catalog, deployment, search.question.assumptions)


def min_connected_accelerators(search: Search[Workload], deployment: Deployment) -> int:
    """Accelerators that one machine must connect: those of a replica or a small training run, or the requested total
    per machine. A larger training run needs machines of the accelerator's usual size.
    """
    if deployment.nodes is not None and deployment.total_accelerators is not None:
        return deployment.total_accelerators // deployment.nodes
    size = deployment.accelerators_per_replica or deployment.tensor_parallel
    if isinstance(search.workload, TrainingWorkload):
        size = deployment.total_accelerators or size or 1
        usual = search.catalog.accelerators[search.catalog.accelerator_index[deployment.accelerator]].typical_node_size
        return size if size <= search.question.assumptions.largest_host_accelerators else usual
    if deployment.accelerators_per_replica is None and deployment.data_parallel is not None:
        size = (size or 1) * deployment.data_parallel
    return size or 1


def max_connected_accelerators(machines: Candidates) -> float:
    """Most accelerators that one of the given machines connects without the network."""
    return float(machines.node.connected_accelerators.max(initial=0.0))
