"""One immutable view of the catalog as columns: machines, their listings, and the software that runs on them.

Everything that depends on the catalog alone is computed here once, so that requests do not repeat it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np

from app.sizing.columns import Codes, Column, column, column_names
from app.sizing.evidence import Evidence
from app.sizing.hardware.achieved import Achieved, Coefficient, CoefficientTable, Factor, format_class
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.hosts import socket_bytes_per_s
from app.sizing.hardware.listings import ListingBuilder, generic_hosts
from app.sizing.hardware.parts import (
    LINKS,
    Accelerator,
    Environment,
    Link,
    Offer,
    Profile,
    System,
    slicings_by_accelerator,
)
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
    index_by_name,
)
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


def sort_offers(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Offers sorted by seller and place, so that the order of the catalog's rows does not matter."""
    return tuple(sorted(offers, key=lambda o: (o.provider, o.region, o.instance_type, o.pricing_model, o.accelerator)))


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
        version: str,
        prices_as_of: str,
        created_at: str,
    ) -> None:
        self.version, self.prices_as_of, self.created_at = version, prices_as_of, created_at
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

        self.systems, owned = index_systems(self.accelerators, systems)
        self.system_slugs = tuple(self.systems)
        self.offers = sort_offers(offers)
        self.providers = tuple(sorted({o.provider for o in self.offers} | {s.provider for s in self.systems.values()}))
        self.regions = tuple(sorted({o.region for o in self.offers} | {Environment.ON_PREM.value}))
        self.instance_types = tuple(sorted({o.instance_type for o in self.offers}))
        self.machines, self.listings = self._list_machines(owned)
        self.alike = equivalence_keys(self.machines)

    @cached_property
    def socket_bytes_per_s(self) -> Column:
        """Memory bandwidth per socket of every system in bytes/s, in the order of their slugs; NaN where unknown."""
        return column([socket_bytes_per_s(s.cpu_model) for s in self.systems.values()])

    def names_in(self, d: Deployment) -> dict[str, str]:
        """Names of the accelerators and systems of a deployment and its pools, by slug."""
        pools = () if d.pools is None else (d.pools.prefill, d.pools.decode)
        slugs = {slug for part in (d, *pools) for slug in (part.accelerator, part.system) if slug is not None}
        types = {a.slug: a.name for a in self.accelerators if a.slug in slugs}
        return types | {slug: self.systems[slug].name for slug in slugs if slug in self.systems}

    def _list_machines(self, owned: Sequence[System]) -> tuple[Machines, Listings]:
        book = ListingBuilder(
            self.accelerators,
            self.systems,
            providers=self.providers,
            regions=self.regions,
            instance_types=self.instance_types,
        )
        for row, offer in enumerate(self.offers):
            book.add_rented(row, offer)
        for system in owned:
            book.add_owned(system)
        return book.to_machines(), book.to_listings()

    def _build_stacks(self) -> tuple[Stacks, EvidenceIndex]:
        """Every stack, and the evidence near the distinct ones.

        Factors were fitted to token streams; stacks of other phases keep their base values.
        """
        stacks = all_stacks(self.accelerators, self.documents)
        keys = [s.key for s in stacks]
        once, which = distinct_stacks([StackKey(*key) for key in keys])
        columns = stack_columns(
            stacks,
            self.achieved_coefficients(keys, fitted=[s.phase == records.SERVING for s in stacks]),
            which,
            accelerators=self.accelerator_index,
            engines=index_by_name(self.engines),
            families=self.family_index,
            formats=self.format_index,
            phases=index_by_name(self.phases),
        )
        return columns, self.evidence_pools[SERVING].index_stacks(once)

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
