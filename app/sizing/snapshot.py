"""One immutable view of the catalog as columns: machines, their listings, and the software that runs on them.

Everything that depends on the catalog alone is computed here once, so that requests do not repeat it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from app.sizing.columns import Codes, Column, Mask, column, column_names
from app.sizing.evidence import Evidence
from app.sizing.hardware.achieved import Achieved, Coefficient, CoefficientTable, Factor, format_class
from app.sizing.hardware.benchmarks import place_names
from app.sizing.hardware.checkpoints import loaded_weights
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.hosts import HostProcessor, hosts_of_machines, other_host, socket_bytes_per_s
from app.sizing.hardware.listings import (
    PRICING,
    ListingBuilder,
    generic_hosts,
    has_price,
    purchase_terms,
    whole_host_offers,
)
from app.sizing.hardware.parts import (
    LINKS,
    Accelerator,
    Environment,
    Link,
    Offer,
    Places,
    PricingModel,
    Profile,
    System,
    slicings_by_accelerator,
)
from app.sizing.hardware.published_use import maker_of, published_recipes
from app.sizing.hardware.recipes import recipes_today
from app.sizing.hardware.stacks import Software, all_stacks, stack_columns
from app.sizing.hardware.support import records
from app.sizing.hardware.support.builds import BUILDS
from app.sizing.hardware.support.records import EngineSupport, Work
from app.sizing.hardware.support.rules import PublishedResult, SupportEvidence
from app.sizing.hardware.tables import (
    FORMATS,
    AcceleratorColumns,
    Frameworks,
    Listings,
    Machines,
    MemoryRules,
    SchedulingColumns,
    Stacks,
    codes,
    equivalence_keys,
    flags,
    index_by_name,
)
from app.sizing.measured import MeasuredStacks
from app.sizing.question import Deployment
from app.sizing.result import HostedPrice
from app.sizing.uncertainty import (
    SERVING,
    EvidenceIndex,
    Spread,
    Spreads,
    StackKey,
    build_evidence_pools,
    distinct_stacks,
    evidence_pool,
    sample_spreads,
)

# Places of a catalog that knows none.
NOWHERE: Mapping[str, Any] = MappingProxyType({})


SOLD_OUT_DAYS = 7.0  # from which an offer without capacity is ranked only if the request names its seller or type


@dataclass(frozen=True, slots=True)
class OfferCapacity:
    """Capacity of the offers of a catalog, one row each."""

    seen_at: np.ndarray[Any, np.dtype[np.str_]]  # last moment with capacity, RFC 3339 UTC; empty if none
    sold_out: Mask  # whether the offer has been sold out for SOLD_OUT_DAYS


def sort_offers(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Offers sorted by seller and place, so that the order of the catalog's rows does not matter."""
    return tuple(sorted(offers, key=lambda o: (o.provider, o.region, o.instance_type, o.pricing_model, o.accelerator)))


def last_day_of(date: str) -> str:
    """The last day of an ISO 8601 year or month; a day itself.

    Check:
        >>> last_day_of("2025")
        '2025-12-31'
    """
    return date + "-12-31"[len(date) - 4 :] if date else ""


def was_observed_by(observed: str, day: str) -> bool:
    """Whether a price had been observed by a day. A month or year counts from its last day; an unknown date never does.

    Check:
        >>> was_observed_by("2025-03", "2025-03-31"), was_observed_by("2025-03", "2025-03-30")
        (True, False)
    """
    return bool(observed) and last_day_of(observed) <= day


def offers_in_force(offers: Sequence[Offer], past: Sequence[Offer], day: str) -> tuple[Offer, ...]:
    """Prices in force on a day: the newest one of each offer that had been observed by then.

    Providers rename and withdraw what they sell. A past offer that is no longer listed therefore counts only until its
    provider's next price under the same pricing model that is of the same accelerator or from the same source.
    """
    newest: dict[tuple[object, ...], Offer] = {}
    next_days: dict[tuple[object, ...], str] = {}
    for offer in sorted((*past, *offers), key=lambda o: o.as_of):
        if was_observed_by(offer.as_of, day):
            newest[offer.key] = offer
            next_days |= dict.fromkeys(_series(offer), offer.as_of)
    listed = {offer.key for offer in offers}

    def is_last(offer: Offer) -> bool:
        return all(next_days[series] == offer.as_of for series in _series(offer))

    return sort_offers([offer for key, offer in newest.items() if key in listed or is_last(offer)])


def _without_market(offer: Offer) -> Offer:
    """An offer without what was seen later than its price: its trend and its availability."""
    if offer.trend_30d is None and offer.availability is None:
        return offer
    return replace(offer, trend_30d=None, availability=None)


def _series(offer: Offer) -> tuple[tuple[object, ...], ...]:
    """The series of a provider's prices in which an offer may be replaced: of its accelerator, and of its source."""
    source = offer.source.partition("@")[0]  # without the version that was read
    of = offer.provider, offer.pricing_model
    return (*of, "accelerator", offer.accelerator), (*of, "source", source)


def prices_by_model(prices: Sequence[HostedPrice]) -> Mapping[str, tuple[HostedPrice, ...]]:
    """Hosted API prices by model."""
    found: dict[str, list[HostedPrice]] = {}
    for price in sorted(prices, key=lambda p: (p.model, p.provider)):
        found.setdefault(price.model, []).append(price)
    return {model: tuple(of_model) for model, of_model in found.items()}


def index_systems(
    accelerators: Sequence[Accelerator], systems: Sequence[System]
) -> tuple[Mapping[str, System], list[System]]:
    """Every system by its slug, plain hosts included, and the systems that can be owned."""
    sold = sorted(systems, key=lambda s: s.slug)
    owned = [s for s in sold if s.environment is Environment.ON_PREM] + [*generic_hosts(accelerators, sold)]
    return {s.slug: s for s in (*sold, *owned)}, owned


def measured_stacks(evidence: Evidence, engines: Container[str]) -> Iterator[PublishedResult]:
    """Stacks with a published result, restricted to engines that the service sizes."""
    for r in evidence.rows:
        s = r.setting
        if s.engine in engines:
            yield PublishedResult(s.engine, s.family, s.format_class, evidence_pool(r.kind) != SERVING)


class Catalog:
    """The catalog as sizing reads it. Built once per catalog version; never changed."""

    def __init__(
        self,
        *,
        accelerators: Sequence[Accelerator],
        systems: Sequence[System],
        offers: Sequence[Offer],
        support: Sequence[EngineSupport],
        coefficients: Sequence[Coefficient],
        factors: Sequence[Factor] = (),
        spreads: Sequence[Spread] = (),
        evidence: Evidence | None = None,
        hosted: Sequence[HostedPrice] = (),
        slices: Sequence[Profile] = (),
        past_offers: Sequence[Offer] = (),
        observed_days: Sequence[str] = (),
        places: Mapping[str, Places] = NOWHERE,
        region_countries: Mapping[str, str] = NOWHERE,
        version: str,
        prices_as_of: str,
        created_at: str,
    ) -> None:
        self.version, self.prices_as_of, self.created_at = version, prices_as_of, created_at
        self.priced_on = ""  # day of the prices if it is before the newest one
        self.measured: MeasuredStacks | None = None  # the user's own measurements
        self.evidence = evidence if evidence is not None else Evidence(())
        self.evidence_pools = build_evidence_pools(self.evidence.rows)
        self.hosted, self.slicings = prices_by_model(hosted), slicings_by_accelerator(slices)
        self.coefficients = CoefficientTable(coefficients, factors)
        of_samples = sample_spreads(
            *(self.coefficients.find_value(f"sample_interval_{end}") for end in ("low", "high"))
        )
        self.spreads = Spreads({s.quantity: s for s in (*spreads, *of_samples)})
        self.engines = tuple(sorted({s.engine for s in support} | set(BUILDS)))
        self.documents = SupportEvidence(support, measured_stacks(self.evidence, self.engines))

        self.accelerators = tuple(sorted(accelerators, key=lambda a: a.slug))
        self.accelerator_index = index_by_name([a.slug for a in self.accelerators])
        self.columns = AcceleratorColumns.from_accelerators(self.accelerators)
        self.vendors = tuple(sorted({a.vendor.lower() for a in self.accelerators}))
        self.vendor_of: Codes = codes([self.vendors.index(a.vendor.lower()) for a in self.accelerators])
        self.families = tuple(sorted({a.family for a in self.accelerators} | {s.family for s in support}))
        self.family_index = index_by_name(self.families)
        self.family_of: Codes = codes([self.family_index[a.family] for a in self.accelerators])
        self.formats, self.format_index = FORMATS, index_by_name(FORMATS)
        self.phases = records.PHASES
        self.frameworks, self.recipes = Frameworks.from_engines(self.engines), recipes_today(self.engines)
        self.software = Software(self.accelerators, self.documents, self.engines, self.families)
        self.stacks, self.stack_evidence = self._build_stacks()
        self.stacks_cache: dict[tuple[Work, frozenset[str], tuple[str, ...]], Stacks] = {}  # cache of selected stacks

        self._index_prices(systems, offers, past_offers)
        self.places, self.region_countries = places, region_countries
        self.place_grids: dict[tuple[str, str], int] = {}  # cache of the grids of providers' regions
        self.observed_days = tuple(observed_days)  # days of prices that stay in the database

    def _sort_offers(self, offers: Sequence[Offer]) -> tuple[Offer, ...]:
        """Offers of whole hosts, sorted."""
        return sort_offers([*whole_host_offers(offers, self.systems.values())])

    def _index_prices(self, systems: Sequence[System], offers: Sequence[Offer], past_offers: Sequence[Offer]) -> None:
        """Index machines for sale and their prices."""
        self.systems, self.owned_systems = index_systems(self.accelerators, systems)
        self.system_slugs = tuple(self.systems)
        self.host_counts = hosts_of_machines(self.systems.values())
        self.offers, self.past_offers = self._sort_offers(offers), self._sort_offers(past_offers)
        known = (*self.offers, *self.past_offers)
        self.providers = tuple(sorted({o.provider for o in known} | {s.provider for s in self.systems.values()}))
        self.regions = tuple(sorted({o.region for o in known} | {Environment.ON_PREM.value}))
        self.instance_types = tuple(sorted({o.instance_type for o in known}))
        self.machines, self.listings = self.list_machines()
        self.alike = equivalence_keys(self.machines)

    @cached_property
    def socket_bytes_per_s(self) -> Column:
        """Memory bandwidth per socket of every system in bytes/s, in the order of their slugs; NaN where unknown."""
        return column([socket_bytes_per_s(s.cpu_model) for s in self.systems.values()])

    @cached_property
    def capacity(self) -> OfferCapacity | None:
        """Capacity of every offer as last seen; None if no feed has stated any."""
        if not any(o.availability for o in self.offers):
            return None
        seen = [o.availability for o in self.offers]
        return OfferCapacity(
            np.array(["" if a is None or not a.has_capacity else a.seen_at for a in seen]),
            np.array([a is not None and a.sold_out_days >= SOLD_OUT_DAYS for a in seen]),
        )

    @cached_property
    def price_days(self) -> tuple[str, ...]:
        """Dates of prices, oldest first: of machines, rents and hosted APIs."""
        parts = {a.slug: a for a in self.accelerators}
        priced = (s for s in self.owned_systems if has_price(s, parts[s.accelerator]))
        bought = {purchase_terms(s, parts[s.accelerator]).observed for s in priced}
        hosted = {price.observed for prices in self.hosted.values() for price in prices}
        rented = (o.as_of for o in (*self.offers, *self.past_offers))
        return tuple(sorted({*bought, *hosted, *rented, *self.observed_days} - {""}))

    @cached_property
    def first_rent_day(self) -> str:
        """Day of the oldest rent; empty if the catalog has none."""
        return min((o.as_of for o in (*self.offers, *self.past_offers)), default="")

    def newest_price_day(self, day: str) -> str:
        """The last day up to `day` on which a price was observed; empty if no price is newer than `day`."""
        if not self.price_days or self.price_days[-1] <= day:
            return ""
        return max((last_day_of(seen) for seen in self.price_days if was_observed_by(seen, day)), default=day)

    @property
    def identity(self) -> str:
        """Version of the catalog, with the digest of the user's own measurements if there are any."""
        return self.version if self.measured is None else f"{self.version}|{self.measured.digest}"

    def with_measurements(self, measured: MeasuredStacks | None) -> Catalog:
        """A copy whose predictions follow the user's own measurements; None: no measurements."""
        copied = copy(self)
        copied.measured = measured
        return copied

    def on_day(self, day: str, observed: Sequence[Offer] = ()) -> Catalog:
        """The catalog with the prices in force on a day, and none observed later; itself if no price is newer.
        `observed` are the newest observations until that day, where later ones have replaced them.
        """
        if not self.newest_price_day(day):
            return self
        dated, parts = copy(self), {a.slug: a for a in self.accelerators}
        dated.priced_on = day
        if day < self.prices_as_of:
            past = [*self.past_offers, *self._sort_offers(observed)]
            dated.__dict__.pop("capacity", None)
            dated.offers = tuple(_without_market(o) for o in offers_in_force(self.offers, past, day))
        dated.owned_systems = [
            s for s in self.owned_systems if was_observed_by(purchase_terms(s, parts[s.accelerator]).observed, day)
        ]
        dated.hosted = {
            model: kept
            for model, prices in self.hosted.items()
            if (kept := tuple(p for p in prices if was_observed_by(p.observed, day)))
        }
        dated.prices_as_of = max((o.as_of for o in dated.offers), default="")
        dated.machines, dated.listings = dated.list_machines()
        dated.alike = equivalence_keys(dated.machines)
        return dated

    def published_recipes(self, task: str | None, engine: Codes, family: Codes) -> Column:
        """Published recipes for a task of the table with each engine on each family of accelerators."""
        pairs = zip(engine.tolist(), family.tolist(), strict=True)
        named = ((self.engines[e], self.families[f]) for e, f in pairs)
        return column([published_recipes(task, e, f, self._makers[f]) for e, f in named])

    def with_weights_of(self, model_name: str, native: str, stacks: Stacks) -> Stacks:
        """Stacks with the known checkpoints of a model. Devices without FP8 rates ignore an FP8 cache."""
        rows = zip(stacks.weight_format.tolist(), stacks.engine.tolist(), stacks.family.tolist(), strict=True)
        named = [(self.formats[w], self.engines[e], self.families[f]) for w, e, f in rows]
        found = [loaded_weights(model_name, native, w, e, self._makers[f].lower()) for w, e, f in named]
        states = [one.fp8_cache and f in self._fp8_families for one, (_, _, f) in zip(found, named, strict=True)]
        converts = flags([one.user_converts for one in found])
        return replace(stacks, fp8_cache=stacks.fp8_cache | flags(states), user_converts=converts)

    @cached_property
    def starts_adapters(self) -> Mask:
        """Whether a known start command of each engine serves LoRA adapters."""
        servers = [engine_named(name).benchmark.server for name in self.engines]
        return flags([server is not None and "adapters" in place_names(server.command) for server in servers])

    @cached_property
    def _fp8_families(self) -> frozenset[str]:
        """Families that multiply in FP8."""
        return frozenset(a.family for a in self.accelerators if "fp8" in a.flops_per_s)

    @cached_property
    def _makers(self) -> dict[str, str]:
        """Maker of each family; empty for families of several vendors."""
        return {f: maker_of(a.vendor for a in self.accelerators if a.family == f) for f in self.families}

    def sells_system(self, slug: str, *, spot: bool) -> bool:
        """Whether a listing sells or rents the machine with this slug. Spot capacity counts only with `spot`."""
        listed = self.listings.system == self.system_slugs.index(slug)
        return bool((listed & (spot | (self.listings.pricing != PRICING.index(PricingModel.SPOT)))).any())

    def names_in(self, d: Deployment) -> dict[str, str]:
        """Names of the accelerators and systems of a deployment and its pools, by slug."""
        pools = () if d.pools is None else (d.pools.prefill, d.pools.decode)
        slugs = {slug for part in (d, *pools) for slug in (part.accelerator, part.system) if slug is not None}
        types = {a.slug: a.name for a in self.accelerators if a.slug in slugs}
        return types | {slug: self.systems[slug].name for slug in slugs if slug in self.systems}

    def other_hosts_in(self, d: Deployment) -> dict[str, HostProcessor]:
        """Host processors of a deployment and its pools that are not x86-64, by the name of the accelerator."""
        pools = () if d.pools is None else (d.pools.prefill, d.pools.decode)
        found = dict[str, HostProcessor]()
        for part in (d, *pools):
            system = self.systems.get(part.system or "")
            host = other_host(None if system is None else system.cpu_model, part.accelerator)
            if host is not None:
                found[self.accelerators[self.accelerator_index[part.accelerator]].name] = host
        return found

    def list_machines(self) -> tuple[Machines, Listings]:
        """Machines for sale and their listings, from the offers and the systems that can be owned."""
        book = ListingBuilder(
            self.accelerators,
            self.systems,
            providers=self.providers,
            regions=self.regions,
            instance_types=self.instance_types,
        )
        for row, offer in enumerate(self.offers):
            book.add_rented(row, offer)
        for system in self.owned_systems:
            book.add_owned(system)
        return book.to_machines(), book.to_listings()

    def _build_stacks(self) -> tuple[Stacks, EvidenceIndex]:
        """Every stack, and the evidence near the distinct ones.

        Factors were fitted to token streams; stacks of other phases keep their base values.
        """
        stacks = all_stacks(self.accelerators, self.documents)
        keys = [s.key for s in stacks]
        once, which = distinct_stacks([StackKey(*key) for key in keys])
        streams = [s.phase == records.SERVING for s in stacks]
        pool = self.evidence_pools[SERVING]
        unmeasured = pool.lacks_results([(engine_named(s.engine).base_engine(), s.family) for s in stacks])
        columns = stack_columns(
            stacks,
            self.achieved_coefficients(keys, fitted=streams),
            which,
            np.array(streams, bool) & unmeasured,
            accelerators=self.accelerator_index,
            engines=index_by_name(self.engines),
            families=self.family_index,
            formats=self.format_index,
            phases=index_by_name(self.phases),
        )
        return columns, pool.index_stacks(once)

    def achieved_coefficients(
        self, stacks: Sequence[tuple[str, str, str]], generation: str = "today", fitted: Sequence[bool] | None = None
    ) -> Achieved:
        """Coefficients of (engine, family, format class) stacks, one row each.

        Parameters:
            stacks: the stacks.
            generation: engine generation, "today" or "before".
            fitted: whether each stack takes the fitted factors, which come from token streams; base values
                otherwise.
        """

        requested = [*zip(stacks, [True] * len(stacks) if fitted is None else fitted, strict=True)]
        once = {key: i for i, key in enumerate(dict.fromkeys(requested))}
        rows = codes([once[key] for key in requested])

        def coefficient_column(name: str) -> Column:
            return column(
                [
                    self.coefficients.find_value(
                        name, family=family, format_class=kind, engine=engine, generation=generation, fitted=whole
                    )
                    for (engine, family, kind), whole in once
                ]
            )

        return Achieved(**{name: coefficient_column(name)[rows] for name in column_names(Achieved)})

    def with_slower_type(self, accelerator: str, *, compute: float = 1.0, link: float = 1.0) -> Catalog:
        """A copy in which one accelerator type computes, or reaches others over its PCIe slot, at a share of its
        rate.
        """
        row, copied = self.accelerator_index[accelerator], copy(self)
        of_type = np.arange(len(self.accelerators)) == row
        computes, reaches = np.where(of_type, compute, 1.0), np.where(of_type, link, 1.0)
        rates = {name: getattr(self.columns, name) * computes for name in ("fp32", "bit16", "fp8", "int8", "fp4")}
        slots = self.columns.slot_bytes_per_s * reaches
        copied.columns = replace(self.columns, slot_bytes_per_s=slots, **rates)
        on_slots = (self.machines.accelerator == row) & (self.machines.link == LINKS.index(Link.PCIE))
        slower = self.machines.link_bytes_per_s * np.where(on_slots, link, 1.0)
        copied.machines = replace(self.machines, link_bytes_per_s=slower)
        return copied

    def with_more_memory(self, accelerator: str, factor: float) -> Catalog:
        """A copy in which one accelerator type has `factor` times its memory."""
        row, copied = self.accelerator_index[accelerator], copy(self)
        memory = self.machines.memory_bytes * np.where(self.machines.accelerator == row, factor, 1.0)
        copied.machines = replace(self.machines, memory_bytes=memory)
        return copied

    def stacks_of_version(self, stacks: Stacks, version: str | None) -> Stacks:
        """Stacks of one engine with the rules and coefficients of a given version."""
        if not version or not len(stacks):
            return stacks
        engine = engine_named(self.engines[int(stacks.engine[0])])
        families = [self.families[family] for family in stacks.family.tolist()]
        ruled = replace(
            stacks,
            memory=MemoryRules.from_rules([engine.memory_at(version)] * len(stacks)),
            scheduling=SchedulingColumns.from_rules([engine.scheduling_at(version)] * len(stacks), families),
        )
        if engine.generation_at(version) == "today":
            return ruled
        rows = zip(stacks.family.tolist(), stacks.weight_format.tolist(), stacks.native.tolist(), strict=True)
        at = [(engine.name, self.families[f], format_class(self.formats[w], native)) for f, w, native in rows]
        return replace(ruled, achieved=self.achieved_coefficients(at, generation="before"))
