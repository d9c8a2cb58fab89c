"""One immutable view of the catalogue as columns: machines, what they are sold for, what runs on them.

Machines that differ in nothing a formula reads share one row, so the search judges each kind of
machine once; every price that can be paid for it is a listing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, column
from app.sizing.evidence import Evidence
from app.sizing.hardware.achieved import RATES, Achieved, Coefficient, CoefficientTable, Factor, format_class
from app.sizing.hardware.engines import (
    RULES,
    SMALL_STEP_FAMILIES,
    EngineMemory,
    Framework,
    engine_named,
    serving_order,
    training_order,
)
from app.sizing.hardware.links import LINKS, link_of
from app.sizing.hardware.parts import Accelerator, Environment, Offer, PricingModel, System
from app.sizing.hardware.support import EngineSupport, _least_tentative
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS
from app.sizing.units import GIB

PRICING = tuple(PricingModel)


@dataclass(frozen=True, slots=True)
class AcceleratorColumns(Columns):
    """Per accelerator type; NaN where the catalogue has no number."""

    bytes_per_s: Column
    fp32: Column
    bit16: Column
    fp8: Column
    int8: Column
    fp4: Column
    power_w: Column
    price_low_usd: Column
    price_high_usd: Column
    has_bf16: Mask
    training_class: Mask  # built into clusters; the others train within one machine
    unified: Mask  # memory is the system's
    desktop: Mask  # consumer, workstation and edge parts, which live in a desktop host
    memory_is_reported: Mask  # by the device's driver; otherwise it is the label
    large_steps: Mask  # engines take their larger steps where its memory is large

    def rate(self, name: str) -> Column:
        """Matrix rate by a name of RATES; NaN where the hardware has none."""
        return {"fp32": self.fp32, "16bit": self.bit16, "fp8": self.fp8, "int8": self.int8, "fp4": self.fp4}[name]


@dataclass(frozen=True, slots=True)
class Machines(Columns):
    """Kinds of machine: what the formulas read of a node."""

    accelerator: Codes
    accelerators_per_node: Column
    memory_bytes: Column  # per accelerator
    link: Codes  # index into LINKS
    link_bytes_per_s: Column  # per accelerator and direction, inside the scale-up domain
    scale_up_domain: Column  # accelerators that reach one another at that rate
    network_bytes_per_s: Column  # per accelerator, between machines; NaN unknown
    power_w: Column  # whole machine; NaN unknown
    on_prem: Mask
    workstation: Mask


@dataclass(frozen=True, slots=True)
class Listings(Columns):
    """Prices of machines: hourly for rented ones, purchase range for owned ones."""

    machine: Codes
    offer: Codes  # index into Market.offers, -1 for owned
    system: Codes  # index into Market.system_slugs, -1 unknown
    provider: Codes
    region: Codes
    pricing: Codes
    usd_per_hour: Column
    list_price_usd: Column  # of the whole machine; NaN: sum of parts
    marketplace: Mask


@dataclass(frozen=True, slots=True)
class MemoryRules(Columns):
    """How an engine divides a device, one row per stack."""

    fraction: Column
    rule: Codes  # what the fraction is of, an index into RULES
    logits_copies: Column
    graphs_inside: Mask
    sequences: Column  # most at once; NaN: the usual
    reserves: Mask

    @classmethod
    def of(cls, rules: Sequence[EngineMemory]) -> MemoryRules:
        return cls(
            fraction=column([r.fraction for r in rules]),
            rule=np.array([tuple(RULES).index(r.fraction_of) for r in rules], dtype=np.int64),
            logits_copies=column([r.logits_copies for r in rules]),
            graphs_inside=np.array([r.graphs_inside for r in rules], dtype=bool),
            sequences=column([r.sequences for r in rules]),
            reserves=np.array([r.reserves for r in rules], dtype=bool),
        )


@dataclass(frozen=True, slots=True)
class Frameworks(Columns):
    """What engines are as frameworks, one row per entry of Market.engines; see `engines.Framework`."""

    rank: Codes  # the lowest is judged of those that train a family alike
    splits: Mask
    shards: Mask
    fused_modules: Mask
    wide_gradients: Mask
    sharded_master: Mask
    fused_loss: Mask
    offloads: Mask
    copies_gradients: Mask
    alone: Mask


@dataclass(frozen=True, slots=True)
class Stacks(Columns):
    """Engine x family x weight format: what was made to run together, with its coefficients."""

    family: Codes
    engine: Codes
    weight_format: Codes
    native: Mask
    tentative: Mask  # judged only where the engine is asked for by name
    keeps_kv: Mask  # a column per cache format, in the order of KV_FORMATS
    phase: Codes
    small_engine: Mask
    ggml: Mask
    pads_heads: Mask
    rate: Codes  # what it multiplies in, an index into RATES
    wide: Mask  # weights of 16 bits and more
    fp8_cache: Mask  # its checkpoints in this format carry an FP8 cache
    padded_experts: Mask  # experts' rows are padded to whole blocks when they are loaded
    memory: MemoryRules
    achieved: Achieved


class Market:
    """The catalogue as sizing reads it. Built once per catalogue version; never changed."""

    def __init__(
        self,
        *,
        accelerators: Sequence[Accelerator],
        systems: Sequence[System],
        offers: Sequence[Offer],
        support: Sequence[EngineSupport],
        coefficients: Sequence[Coefficient],
        factors: Sequence[Factor] = (),
        evidence: Evidence | None = None,
        version: str,
        prices_as_of: str,
        created_at: str,
    ) -> None:
        self.accelerators = tuple(sorted(accelerators, key=lambda a: a.slug))
        self.offers = tuple(
            sorted(
                (o for o in offers if o.accelerator_count == 0 or o.accelerator_count >= 1),
                key=lambda o: (o.provider, o.region, o.instance_type, o.pricing_model, o.accelerator),
            )
        )
        self.systems: Mapping[str, System] = {s.slug: s for s in sorted(systems, key=lambda s: s.slug)}
        self.support = _least_tentative(support)
        self.coefficients = CoefficientTable(coefficients, factors)
        self.evidence = evidence if evidence is not None else Evidence(())
        self.version = version
        self.prices_as_of = prices_as_of
        self.created_at = created_at

        self.accelerator_index = {a.slug: i for i, a in enumerate(self.accelerators)}
        self.families = tuple(sorted({a.family for a in self.accelerators} | {s.family for s in support}))
        self.family_index = {f: i for i, f in enumerate(self.families)}
        self.family_of: Codes = np.array([self.family_index[a.family] for a in self.accelerators])
        self.system_slugs = tuple(self.systems)
        self.providers = tuple(sorted({o.provider for o in self.offers} | {s.provider for s in systems}))
        self.regions = tuple(sorted({o.region for o in self.offers} | {"on_prem"}))
        self.engines = tuple(sorted({s.engine for s in support}))
        self.formats = tuple(sorted(WEIGHT_FORMATS))
        self.format_index = {f: i for i, f in enumerate(self.formats)}
        self.phases = tuple(sorted({s.phase for s in support}))
        self.columns = self._accelerator_columns()
        self.machines, self.listings = self._machines()
        self.stacks = self._stacks()
        self.frameworks = self._frameworks()
        ram = [s.ram_bytes for s in self.systems.values()]
        self.system_ram_bytes: Column = column([*ram, None])  # index -1: unknown

    def _accelerator_columns(self) -> AcceleratorColumns:
        def rate(*names: str) -> Column:
            def first(a: Accelerator) -> float | None:
                return next((a.flops_per_s[n] for n in names if n in a.flops_per_s), None)

            return column([first(a) for a in self.accelerators])

        return AcceleratorColumns(
            bytes_per_s=column([a.memory_bytes_per_s for a in self.accelerators]),
            fp32=rate("tf32", "fp32"),
            bit16=rate("bf16", "fp16"),
            fp8=rate("fp8"),
            int8=rate("int8"),
            fp4=rate("fp4"),
            power_w=column([a.power_w for a in self.accelerators]),
            price_low_usd=column([a.list_price_usd_low for a in self.accelerators]),
            price_high_usd=column([a.list_price_usd_high for a in self.accelerators]),
            has_bf16=np.array(["bf16" in a.flops_per_s for a in self.accelerators]),
            training_class=np.array([a.training_class for a in self.accelerators]),
            unified=np.array([a.kind == "soc" for a in self.accelerators]),
            desktop=np.array([a.segment != "datacenter" for a in self.accelerators]),
            memory_is_reported=np.array([a.memory_is_reported for a in self.accelerators]),
            large_steps=np.array([a.family not in SMALL_STEP_FAMILIES for a in self.accelerators]),
        )

    def _owned_systems(self) -> list[System]:
        """On-premises systems of the catalogue, and plain hosts for accelerators sold without one."""
        owned = [s for s in self.systems.values() if s.environment is Environment.ON_PREM]
        covered = {s.accelerator for s in owned}
        built = {s.accelerator for s in self.systems.values()}
        for a in self.accelerators:
            if a.slug in covered or a.list_price_usd_high is None or a.kind in ("cpu", "soc"):
                continue
            boards = a.form_factor in ("SXM", "OAM")
            if boards and a.slug not in built:
                continue  # a module that nobody is known to build into a server cannot be bought
            for count in sorted({a.typical_node_size} if boards else {1, a.typical_node_size}):
                desk = a.segment in ("consumer", "workstation")
                owned.append(
                    System(
                        slug=f"host-{count}x-{a.slug}",
                        name=f"{count} x {a.name} in a plain host",
                        kind="workstation" if desk else "server",
                        provider="generic",
                        accelerator=a.slug,
                        accelerator_count=float(count),
                        ram_bytes=None,
                        topology="" if boards else "PCIe" if count > 1 else "single",
                        network_bytes_per_s=None,
                        power_w=None,
                        list_price_usd=None,
                        source=f"accelerator list price plus an assumed host; {a.source}",
                        as_of=a.as_of,
                    )
                )
        return owned

    def _machines(self) -> tuple[Machines, Listings]:
        owned = self._owned_systems()
        self.systems = {**self.systems, **{s.slug: s for s in owned}}
        self.system_slugs = tuple(self.systems)
        self.providers = tuple(sorted({*self.providers, "generic"}))
        system_index = {s: i for i, s in enumerate(self.system_slugs)}
        provider_index = {p: i for i, p in enumerate(self.providers)}
        region_index = {r: i for i, r in enumerate(self.regions)}
        pricing_index = {p: i for i, p in enumerate(PRICING)}
        kinds: dict[tuple[float, ...], int] = {}
        listings: list[tuple[float, ...]] = []

        def kind_of(accelerator: Accelerator, count: float, system: System | None) -> int | None:
            memory = accelerator.memory_bytes
            if system is not None and system.ram_bytes and (memory is None or accelerator.kind == "soc"):
                memory = system.ram_bytes / count
            topology = system.topology if system is not None else ""
            link, rate, domain = link_of(accelerator, count=count, topology=topology)
            network = system.network_bytes_per_s / count if system and system.network_bytes_per_s else np.nan
            power = system.power_w if system is not None and system.power_w else np.nan
            on_prem = system is not None and system.environment is Environment.ON_PREM
            desk = system is not None and system.kind == "workstation"
            key = (
                self.accelerator_index[accelerator.slug],
                count,
                -1.0 if memory is None else memory,
                LINKS.index(link),
                rate,
                domain,
                -1.0 if np.isnan(network) else network,
                -1.0 if np.isnan(power) else power,
                on_prem,
                desk,
            )
            return kinds.setdefault(key, len(kinds))

        for i, offer in enumerate(self.offers):
            system = self.systems.get(offer.system) if offer.system else None
            accelerator = self.accelerators[self.accelerator_index[offer.accelerator]]
            count = offer.accelerator_count or (system.accelerator_count if system else 0.0)
            if count < 1:
                continue
            listings.append(
                (
                    kind_of(accelerator, count, system) or 0,
                    i,
                    system_index[system.slug] if system else -1,
                    provider_index[offer.provider],
                    region_index[offer.region],
                    pricing_index[offer.pricing_model],
                    offer.usd_per_hour,
                    np.nan,
                )
            )
        for system in owned:
            accelerator = self.accelerators[self.accelerator_index[system.accelerator]]
            priced = system.list_price_usd is not None or accelerator.list_price_usd_high is not None
            if system.accelerator_count < 1 or not priced:
                continue
            listings.append(
                (
                    kind_of(accelerator, system.accelerator_count, system) or 0,
                    -1,
                    system_index[system.slug],
                    provider_index[system.provider],
                    region_index["on_prem"],
                    pricing_index[PricingModel.OWNED],
                    np.nan,
                    np.nan if system.list_price_usd is None else system.list_price_usd,
                )
            )
        k = np.array(list(kinds), dtype=np.float64)

        def known(values: Column) -> Column:
            return np.where(values < 0, np.nan, values)

        machines = Machines(
            accelerator=k[:, 0].astype(np.int64),
            accelerators_per_node=k[:, 1],
            memory_bytes=known(k[:, 2]),
            link=k[:, 3].astype(np.int64),
            link_bytes_per_s=k[:, 4],
            scale_up_domain=k[:, 5],
            network_bytes_per_s=known(k[:, 6]),
            power_w=known(k[:, 7]),
            on_prem=k[:, 8] > 0,
            workstation=k[:, 9] > 0,
        )
        t = np.array(listings, dtype=np.float64)
        whole = t[:, :6].astype(np.int64)
        return machines, Listings(
            machine=whole[:, 0],
            offer=whole[:, 1],
            system=whole[:, 2],
            provider=whole[:, 3],
            region=whole[:, 4],
            pricing=whole[:, 5],
            usd_per_hour=t[:, 6],
            list_price_usd=t[:, 7],
            marketplace=np.array([o >= 0 and self.offers[o].marketplace for o in whole[:, 1].tolist()]),
        )

    def _stacks(self) -> Stacks:
        rows = sorted(self.support, key=lambda s: (serving_order(s.engine), s.family, s.phase))
        flat = [(s, f, native) for s in rows for f, native in sorted(s.weight_formats.items())]
        engine_index = {e: i for i, e in enumerate(self.engines)}
        engines = [engine_named(s.engine) for s, _, _ in flat]
        stored = [WEIGHT_FORMATS[f] for _, f, _ in flat]

        return Stacks(
            family=np.array([self.family_index[s.family] for s, _, _ in flat]),
            engine=np.array([engine_index[s.engine] for s, _, _ in flat]),
            weight_format=np.array([self.format_index[f] for _, f, _ in flat]),
            native=np.array([native for _, _, native in flat]),
            tentative=np.array([s.tentative for s, _, _ in flat]),
            keeps_kv=np.array([[kv.is_kept_by(s.kv_formats) for kv in KV_FORMATS.values()] for s, _, _ in flat]),
            phase=np.array([self.phases.index(s.phase) for s, _, _ in flat]),
            small_engine=np.array([e.small for e in engines]),
            ggml=np.array([e.ggml for e in engines]),
            pads_heads=np.array([e.pads_heads for e in engines]),
            rate=np.array(
                [
                    RATES.index(w.rate if native and w.rate in RATES else "16bit")
                    for w, (_, _, native) in zip(stored, flat, strict=True)
                ]
            ),
            wide=np.array([w.nominal_bits >= 16 for w in stored]),
            fp8_cache=np.array(
                [
                    w.name == "nvfp4" or (w.name == "fp8" and e.fp8_checkpoints_cache_fp8)
                    for w, e in zip(stored, engines, strict=True)
                ]
            ),
            padded_experts=np.array([w.name == "mxfp4" for w in stored]),
            memory=MemoryRules.of([e.memory for e in engines]),
            achieved=self.achieved(
                [(s.engine, s.family, format_class(f, native)) for s, f, native in flat],
                fitted=[s.phase == "inference" for s, _, _ in flat],
            ),
        )

    def _frameworks(self) -> Frameworks:
        traits = [engine_named(name).framework for name in self.engines]
        ordered = sorted(self.engines, key=training_order)
        return Frameworks(
            rank=np.array([ordered.index(name) for name in self.engines]),
            **{f.name: np.array([getattr(t, f.name) for t in traits], dtype=bool) for f in fields(Framework)},
        )

    def achieved(
        self, stacks: Sequence[tuple[str, str, str]], generation: str = "today", fitted: Sequence[bool] | None = None
    ) -> Achieved:
        """Coefficients of (engine, family, format class) stacks, one row each.

        Factors were fitted to token streams; where a stack is not `fitted`, it keeps its base values.
        """

        def value(name: str, i: int) -> float:
            engine, family, kind = stacks[i]
            whole = fitted is None or fitted[i]
            return self.coefficients.value(
                name, family=family, format_class=kind, engine=engine, generation=generation, fitted=whole
            )

        return Achieved(**{name: column([value(name, i) for i in range(len(stacks))]) for name in Achieved.__slots__})

    def of_version(self, stacks: Stacks, version: str | None) -> Stacks:
        """Stacks with the memory rules and the coefficients of an engine's version; all of one engine."""
        if not version or not len(stacks):
            return stacks
        engine = engine_named(self.engines[int(stacks.engine[0])])
        ruled = replace(stacks, memory=MemoryRules.of([engine.memory_at(version)] * len(stacks)))
        if engine.generation(version) == "today":
            return ruled
        rows = zip(stacks.family.tolist(), stacks.weight_format.tolist(), stacks.native.tolist(), strict=True)
        at = [(engine.name, self.families[f], format_class(self.formats[w], native)) for f, w, native in rows]
        return replace(ruled, achieved=self.achieved(at, generation="before"))

    @cached_property
    def name_of_offer(self) -> Mapping[tuple[str, str, str, str], int]:
        """Offer index by provider, region, instance type and pricing model."""
        return {(o.provider, o.region, o.instance_type, o.pricing_model.value): i for i, o in enumerate(self.offers)}

    def usable_gib(self, slug: str) -> float | None:
        memory = self.accelerators[self.accelerator_index[slug]].memory_bytes
        return None if memory is None else memory / GIB
