"""Resolves the names in a request or a list filter to catalog names; naming errors carry their location."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy.orm import Session

from app.api.doubts import unit_hint
from app.api.problems import escape_pointer_step
from app.api.schemas.inventory import InventorySpec
from app.api.schemas.replica import ReplicaSpec
from app.api.schemas.requests import ConstraintsSpec, DeploymentSpec, EconomicsSpec, EstimateRequest, RecommendRequest
from app.catalog.lists import column_values
from app.catalog.names import NAME_TABLES, countries_named, engine_slug, quote_name
from app.catalog.snapshot import WILDCARD, CatalogIndex, HardwareMatch, closest_names, compact_name, machine_key
from app.errors import AmbiguousName, AppError, Unanswerable, UnknownAccelerator, UnknownName, UnknownSystem
from app.sizing.assumptions import BY_NAME, Assumptions
from app.sizing.hardware.engines import ALIASES, ENGINES
from app.sizing.hardware.grids import list_grids
from app.sizing.hardware.listings import INVENTORY
from app.sizing.hardware.parts import OwnedHardware, PricingModel
from app.sizing.hardware.support.builds import BUILDS
from app.sizing.words import join_words

MAX_ERRORS_SHOWN = 20
UNION = ("eu", "europeanunion")  # the area that is a jurisdiction
MAX_CHOICES = 8
MAX_LISTED = 24  # names of a closed list that a rejection lists whole


def list_names(names: Sequence[str]) -> str:
    """Returns the first few names as text, with the number of further names."""
    more = len(names) - MAX_CHOICES
    return ", ".join(names[:MAX_CHOICES]) + (f" and {more} more" if more > 0 else "")


def did_you_mean(close: Sequence[str]) -> str:
    """Returns the closest names as a question with a leading space; empty if there are none."""
    return f" Did you mean {join_words(close, 'or')}?" if close else ""


def common_prefix(names: Sequence[str]) -> str:
    """Returns the common prefix of several names.

    Check: for "nvidia-h100-nvl-94gb" and "nvidia-h100-pcie-80gb" it is "nvidia-h100-".
    """
    first, last = min(names), max(names)
    alike = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:alike]


@cache
def known_engines(evident: tuple[str, ...]) -> Mapping[str, str]:
    """Returns engines and frameworks with a record, a build or evidence, by their normalized spelling."""
    aliases = {compact_name(alias): name for alias, name in ALIASES.items()}
    return aliases | {compact_name(name): name for name in (*BUILDS, *ENGINES, *evident)}


@dataclass(frozen=True, slots=True)
class NameProblem:
    """One name that matches nothing, or more than one entry."""

    error: type[AppError]
    pointer: str
    detail: str
    nearest: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


class NameResolver:
    """Resolves names and collects the errors."""

    def __init__(self, catalog_index: CatalogIndex) -> None:
        self.directory = catalog_index
        self.catalog = catalog_index.catalog
        self.engines = known_engines(self.catalog.engines)
        self.problems: list[NameProblem] = []

    @property
    def _is_full(self) -> bool:
        """True if the response would not show any further errors."""
        return len(self.problems) >= MAX_ERRORS_SHOWN

    def raise_problems(self) -> None:
        """Raises the first error, with all errors in its facts."""
        if not self.problems:
            return
        first, more = self.problems[0], len(self.problems) - 1
        facts: dict[str, Any] = {
            "errors": [{"pointer": p.pointer, "detail": p.detail} for p in self.problems[:MAX_ERRORS_SHOWN]]
        }
        facts |= {"nearest": list(first.nearest)} if not first.choices else {"choices": list(first.choices)}
        count = f" ({more} more error{'s' if more > 1 else ''})" if more else ""
        raise first.error(first.detail + count, **facts)

    def resolve_accelerator(self, name: str, pointer: str, *, how_many: str = "") -> HardwareMatch | None:
        """Returns the one accelerator with this name, and the system if the name implies one. None after an error.

        `how_many` is the field to name in the error for a count ("8x H100"), if the place of the name takes none.
        """
        match = (
            HardwareMatch(self.directory.match_pattern(name))
            if WILDCARD.search(name)
            else self.directory.resolve_name(name)
        )
        if len(match.accelerators) != 1:
            self._add_accelerator_problem(name, match.accelerators, pointer)
            return None
        if how_many and not match.is_machine and match.count not in (None, 1):
            self.add_problem(
                UnknownName,
                pointer,
                f"{quote_name(name)} includes a count. Send {match.accelerators[0]} and set the count in {how_many}.",
                nearest=match.accelerators,
            )
        return match

    def _add_accelerator_problem(self, name: str, matches: tuple[str, ...], pointer: str) -> None:
        if matches:
            together = common_prefix(matches) + "*"
            whole = self.directory.match_pattern(together) == matches
            self.add_problem(
                AmbiguousName,
                pointer,
                f"{quote_name(name)} matches {len(matches)} accelerators: {list_names(matches)}. Choose one."
                + (f" In a list, {together} selects all of them." if whole else ""),
                choices=matches[:MAX_CHOICES],
            )
            return
        close = () if self._is_full else self.directory.nearest_accelerators(name)
        what = "No accelerator matches the pattern" if WILDCARD.search(name) else "Unknown accelerator"
        self.add_problem(
            UnknownAccelerator,
            pointer,
            f"{what} {quote_name(name)}.{did_you_mean(close)} GET /catalog/accelerators lists all.",
            nearest=close,
        )

    def resolve_accelerators(self, names: Sequence[str], pointer: str) -> tuple[list[str], list[str]]:
        """Returns all accelerators that a list matches, and those named exactly. A pattern matches every name that fits
        it.
        """
        every: dict[str, None] = {}
        outright: dict[str, None] = {}
        for i, name in enumerate(names):
            if WILDCARD.search(name) and (fit := self.directory.match_pattern(name)):
                every |= dict.fromkeys(fit)
            elif (match := self.resolve_accelerator(name, f"{pointer}/{i}", how_many="max_accelerators")) is not None:
                outright |= dict.fromkeys(match.accelerators)
        return [*(every | outright)], [*outright]

    def resolve_listed_name(self, what: str, name: str, known: Mapping[str, str], pointer: str, where: str) -> str:
        """Returns the entry of a closed list that matches a name in any spelling. Adds an error if there is none."""
        names = sorted({*known.values()})
        entry = name if name in names else known.get(compact_name(name))
        if entry is None:
            spellings = () if self._is_full else closest_names(compact_name(name), known)
            close = tuple(dict.fromkeys(known[spelling] for spelling in spellings))
            hint = did_you_mean(close) or ("" if len(names) > MAX_LISTED else f" Accepted: {list_names(names)}.")
            self.add_problem(UnknownName, pointer, f"Unknown {what} {quote_name(name)}.{hint} {where}", nearest=close)
        return entry or name

    def resolve_provider(self, name: str, pointer: str) -> str:
        where = "GET /catalog/providers lists all; POST /catalog/offers stores prices quoted to you."
        return self.resolve_listed_name("provider", name, self.directory.providers, pointer, where)

    def resolve_engine(self, name: str, pointer: str, what: str = "engine") -> str:
        slug = engine_slug(name)
        where = "GET /catalog/engines and /catalog/frameworks list all."
        return (
            slug
            if slug in self.engines.values()
            else self.resolve_listed_name(what, name, self.engines, pointer, where)
        )

    def resolve_regions(self, name: str, pointer: str) -> tuple[str, ...]:
        """Returns the regions that a name, a pattern, a country or an area matches."""
        matches, countries = self.directory.find_regions(name), self.directory.find_countries(name)
        if countries and not matches and not self.directory.has_data_centers(countries):
            where = list_names(sorted(countries))
            self.add_problem(UnknownName, pointer, f"No provider in the catalog is known to have machines in {where}.")
        if not matches and not countries:
            close = () if self._is_full else closest_names(name, self.directory.regions)
            what = "No region matches the pattern" if WILDCARD.search(name) else "Unknown region"
            self.add_problem(
                UnknownName,
                pointer,
                f"{what} {quote_name(name)}.{did_you_mean(close)} Countries and areas (DE, EU, US, asia) are also "
                "accepted. GET /catalog/regions lists all.",
                nearest=close,
            )
        return matches

    def resolve_jurisdiction(self, name: str, pointer: str) -> tuple[str, ...]:
        """Returns the ISO codes of a country, or of the members of the European Union."""
        key = compact_name(name)
        is_other = WILDCARD.search(name) or (key in NAME_TABLES.areas and key not in UNION)
        codes = frozenset() if is_other else countries_named(key)
        if not codes:
            detail = f"Unknown jurisdiction {quote_name(name)}. Send an ISO 3166 country code such as DE, or EU."
            self.add_problem(UnknownName, pointer, detail)
        return tuple(sorted(codes))

    def resolve_country(self, name: str, pointer: str) -> str:
        """Returns the ISO code of one country."""
        key = compact_name(name)
        codes = frozenset() if key in NAME_TABLES.areas else countries_named(key)
        whole = (grid for grid in list_grids() if grid.grid == grid.country)
        codes |= {grid.country for grid in whole if key in (grid.grid.lower(), compact_name(grid.name))}
        if WILDCARD.search(name) or len(codes) != 1:
            detail = f"Unknown country {quote_name(name)}. Send one ISO 3166 country code such as DE."
            self.add_problem(UnknownName, pointer, detail)
            return name
        return min(codes)

    def check_assumptions(self, overrides: Mapping[str, float]) -> None:
        """Checks that every overridden assumption exists and that its value is within the allowed range."""
        for name, value in overrides.items():
            pointer = f"#/assumptions/{escape_pointer_step(name)}"
            if name not in BY_NAME:
                close = closest_names(name, BY_NAME)
                self.add_problem(
                    UnknownName,
                    pointer,
                    f"Unknown assumption {quote_name(name)}.{did_you_mean(close)} GET /catalog/assumptions lists all.",
                    nearest=close,
                )
                continue
            low, high = Assumptions.allowed_range(name)
            if not low <= value <= high:
                unit = BY_NAME[name].metadata["unit"]
                unit_text = "" if unit == "1" else f" {unit}"
                doubt = unit_hint(
                    name, "less_than_equal" if value > high else "greater_than_equal", value, {"le": high}
                )
                self.add_problem(
                    Unanswerable, pointer, f"{name} must be between {low:g} and {high:g}{unit_text}{doubt}."
                )

    def add_problem(self, error: type[AppError], pointer: str, detail: str, **names: tuple[str, ...]) -> None:
        """Adds an error; `nearest` or `choices` are the names that would be accepted instead."""
        self.problems.append(NameProblem(error, pointer, detail, **names))


def resolve_constraints(
    spec: ConstraintsSpec, naming: NameResolver, at: str
) -> tuple[ConstraintsSpec, tuple[str, ...]]:
    """Returns constraints with catalog names, and the accelerators that only a pattern matched."""
    every, outright = naming.resolve_accelerators(spec.accelerators, f"{at}/accelerators")
    excluded, _ = naming.resolve_accelerators(spec.exclude_accelerators, f"{at}/exclude_accelerators")
    vendors, where = naming.directory.vendors, "GET /catalog/accelerators lists the vendors."
    regions = [naming.resolve_regions(name, f"{at}/regions/{i}") for i, name in enumerate(spec.regions)]
    seats = [
        naming.resolve_jurisdiction(name, f"{at}/provider_jurisdiction/{i}")
        for i, name in enumerate(spec.provider_jurisdiction)
    ]
    changed = spec.model_copy(
        update={
            "accelerators": every,
            "exclude_accelerators": excluded,
            "providers": [
                naming.resolve_provider(name, f"{at}/providers/{i}") for i, name in enumerate(spec.providers)
            ],
            "vendors": [
                naming.resolve_listed_name("vendor", name, vendors, f"{at}/vendors/{i}", where)
                for i, name in enumerate(spec.vendors)
            ],
            "engines": [naming.resolve_engine(name, f"{at}/engines/{i}") for i, name in enumerate(spec.engines)],
            "regions": [*dict.fromkeys(name for names in regions for name in names)],
            "provider_jurisdiction": [*dict.fromkeys(code for codes in seats for code in codes)],
        }
    )
    return changed, tuple(slug for slug in every if slug not in outright)


def resolve_inventory(specs: Sequence[InventorySpec], naming: NameResolver, at: str) -> tuple[OwnedHardware, ...]:
    """Returns the inventory with catalog names. All machines of an accelerator type must be of one kind."""
    owned: dict[str, OwnedHardware] = {}
    for i, spec in enumerate(specs):
        one = resolve_owned(spec, naming, f"{at}/{i}")
        if one is None:
            continue
        before = owned.setdefault(one.accelerator, one)
        if before is one:
            continue
        if replace(before, count=one.count) != one:
            detail = f"Entries with {one.accelerator} describe different machines. Send one kind of machine per type."
            naming.add_problem(Unanswerable, f"{at}/{i}", detail)
        owned[one.accelerator] = replace(before, count=before.count + one.count)
    return tuple(owned.values())


def resolve_owned(spec: InventorySpec, naming: NameResolver, at: str) -> OwnedHardware | None:
    """Returns one entry with catalog names; None after an error."""
    field, how_many = ("accelerator", "count") if spec.system is None else ("system", "")
    match = naming.resolve_accelerator(spec.accelerator or spec.system or "", f"{at}/{field}", how_many=how_many)
    if match is None:
        return None
    slug = match.accelerators[0]
    if spec.accelerator is not None and match.is_machine:
        detail = f"{quote_name(spec.accelerator)} is a machine. Send it as system, and the number of machines as count."
        naming.add_problem(UnknownName, f"{at}/accelerator", detail)
        return None
    if spec.system is not None:
        system = match.system or _resolve_system(spec.system, slug, naming, f"{at}/system")
        record = naming.catalog.systems.get(system)
        return None if record is None else spec.to_owned(slug, max(1, int(record.accelerator_count)), system)
    usual = naming.catalog.accelerators[naming.catalog.accelerator_index[slug]].typical_node_size
    per_machine = spec.accelerators_per_machine or min(spec.count, usual)
    if spec.count % per_machine:
        detail = (
            f"{spec.count} x {slug} do not fill machines of {per_machine}, the usual number. Set "
            "accelerators_per_machine, or send one entry for each kind of machine."
        )
        naming.add_problem(Unanswerable, f"{at}/accelerators_per_machine", detail)
    return spec.to_owned(slug, per_machine, None)


def resolve_deployment(spec: DeploymentSpec, naming: NameResolver, at: str) -> DeploymentSpec:
    """Returns a deployment with catalog names. A machine given as the accelerator becomes the system."""
    changed = resolve_replica(spec, spec.accelerator, naming, at)
    if spec.engine is not None:
        changed["engine"] = naming.resolve_engine(spec.engine, f"{at}/engine")
    if spec.framework is not None:
        changed["framework"] = naming.resolve_engine(spec.framework, f"{at}/framework", "framework")
    if spec.pools is not None:
        pools = {name: getattr(spec.pools, name) for name in ("prefill", "decode")}
        named = {
            name: pool.model_copy(
                update=resolve_replica(pool, pool.accelerator or spec.accelerator, naming, f"{at}/pools/{name}")
            )
            for name, pool in pools.items()
        }
        changed["pools"] = spec.pools.model_copy(update=named)
    return spec.model_copy(update=changed)


def resolve_replica(spec: ReplicaSpec, accelerator: str, naming: NameResolver, at: str) -> dict[str, Any]:
    """Returns accelerator, system, count and offer of a replica with catalog names.

    A machine that no listing sells gives only its accelerator and their count.
    """
    sized = any(getattr(spec, name, None) is not None for name in _SIZES)
    how_many = "total_accelerators" if sized else ""
    match = naming.resolve_accelerator(accelerator, f"{at}/accelerator", how_many=how_many)
    changed: dict[str, Any] = {}
    if spec.offer is not None and spec.offer.provider == INVENTORY:
        detail = "POST /recommend alone takes an inventory. Omit system and offer to estimate hardware for sale."
        naming.add_problem(Unanswerable, f"{at}/offer/provider", detail)
        return changed
    if match is not None:
        changed["accelerator"] = match.accelerators[0]
        if match.count is not None and not sized and spec.accelerator is not None and _ranks(spec) <= match.count:
            changed["total_accelerators"] = match.count
        if spec.system is not None:
            changed["system"] = _resolve_system(spec.system, match.accelerators[0], naming, f"{at}/system")
        elif match.system is not None and naming.catalog.sells_system(match.system, spot=_asks_for_spot(spec)):
            changed["system"] = match.system
    if spec.offer is not None:
        offer: dict[str, Any] = {}
        if spec.offer.provider is not None:
            offer["provider"] = naming.resolve_provider(spec.offer.provider, f"{at}/offer/provider")
        if spec.offer.region is not None:
            offer["region"] = _resolve_region(spec.offer.region, naming, f"{at}/offer/region")
        if spec.offer.instance_type is not None:
            types = naming.catalog.instance_types
            known = {compact_name(n): n for n in types} | {n: n for n in types}
            where = "GET /catalog/offers lists all."
            offer["instance_type"] = naming.resolve_listed_name(
                "instance type", spec.offer.instance_type, known, f"{at}/offer/instance_type", where
            )
        changed["offer"] = spec.offer.model_copy(update=offer)
    return changed


_SIZES = ("accelerators_per_replica", "replicas", "nodes", "total_accelerators", "pools")
_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel")


def _asks_for_spot(spec: ReplicaSpec) -> bool:
    return spec.offer is not None and spec.offer.pricing_model == PricingModel.SPOT


def _ranks(spec: ReplicaSpec) -> int:
    """Returns the accelerators that the stated layout of a replica needs."""
    return math.prod(getattr(spec, name) or 1 for name in _DEGREES)


def _resolve_region(name: str, naming: NameResolver, pointer: str) -> str:
    matches = naming.resolve_regions(name, pointer)
    if len(matches) > 1:
        naming.add_problem(
            AmbiguousName,
            pointer,
            f"{quote_name(name)} matches {len(matches)} regions: {list_names(matches)}. A deployment runs in one "
            "region. "
            "Choose one.",
            choices=matches[:MAX_CHOICES],
        )
    return matches[0] if matches else name


def _resolve_system(name: str, accelerator: str, naming: NameResolver, pointer: str) -> str:
    """Returns the system with this name, which must contain the accelerator."""
    systems = naming.catalog.systems
    slug = name.lower() if name.lower() in systems else naming.directory.systems.get(machine_key(name), "")
    if slug in systems and systems[slug].accelerator == accelerator:
        return slug
    carriers = [s.slug for s in systems.values() if s.accelerator == accelerator]
    close = closest_names(name, carriers) or tuple(carriers[:5])
    why = (
        f"System {quote_name(name)} contains {systems[slug].accelerator}, not {accelerator}"
        if slug in systems
        else f"Unknown system {quote_name(name)}"
    )
    naming.add_problem(
        UnknownSystem,
        pointer,
        f"{why}. Systems with {accelerator}: {list_names(close)}. GET /catalog/systems lists all.",
        nearest=close,
    )
    return name


def resolve_economics(spec: EconomicsSpec, naming: NameResolver) -> EconomicsSpec:
    """Returns economics with catalog names in the discounts. An exact name overrides a pattern."""
    named: dict[str, float] = {}
    fitting: dict[str, float] = {}
    for name, share in spec.discounts.items():
        if WILDCARD.search(name) and (fit := naming.directory.match_pattern(name)):
            fitting |= dict.fromkeys(fit, share)
        elif (
            match := naming.resolve_accelerator(
                name, f"#/economics/discounts/{escape_pointer_step(name)}", how_many="total_accelerators"
            )
        ) is not None:
            named |= dict.fromkeys(match.accelerators, share)
    country = None if spec.country is None else naming.resolve_country(spec.country, "#/economics/country")
    return spec.model_copy(update={"discounts": fitting | named, "country": country})


def resolve_recommend_names(
    request: RecommendRequest, catalog_index: CatalogIndex
) -> tuple[RecommendRequest, tuple[str, ...], tuple[OwnedHardware, ...]]:
    """Returns the request with catalog names, the accelerators that only a pattern matched, and the inventory."""
    naming = NameResolver(catalog_index)
    constraints, by_pattern = resolve_constraints(request.constraints, naming, "#/constraints")
    economics = resolve_economics(request.economics, naming)
    inventory = resolve_inventory(request.inventory, naming, "#/inventory")
    naming.check_assumptions(request.assumptions)
    naming.raise_problems()
    named = request.model_copy(update={"constraints": constraints, "economics": economics})
    return named, by_pattern, () if request.constraints.inventory == "ignore" else inventory


def resolve_estimate_names(request: EstimateRequest, catalog_index: CatalogIndex) -> EstimateRequest:
    naming = NameResolver(catalog_index)
    deployment = resolve_deployment(request.deployment, naming, "#/deployment")
    economics = resolve_economics(request.economics, naming)
    naming.check_assumptions(request.assumptions)
    naming.raise_problems()
    return request.model_copy(update={"deployment": deployment, "economics": economics})


Values = tuple[str, ...]


def resolve_filters(
    session: Session, what: str, filters: Mapping[str, str | None], catalog_index: CatalogIndex
) -> dict[str, Values]:
    """Returns the matching row values for each filter that is set. Raises UnknownName if no row can match."""
    return {
        name: _resolve_filter(session, what, name, typed, catalog_index)
        for name, typed in filters.items()
        if typed is not None
    }


def _resolve_filter(session: Session, what: str, name: str, typed: str, catalog_index: CatalogIndex) -> Values:
    if name == "accelerator":
        values = (
            catalog_index.match_pattern(typed)
            if WILDCARD.search(typed)
            else catalog_index.resolve_name(typed).accelerators
        )
        close = () if values else catalog_index.nearest_accelerators(typed)
        known: Sequence[str] = ()
    else:
        known = column_values(session, what, name)
        values = matching_values(name, typed, known, catalog_index)
        close = () if values else closest_names(typed, known)
    if not values:
        hint = did_you_mean(close) if close else f" Accepted: {list_names(known)}." if known else ""
        detail = f"Unknown {name.replace('_', ' ')} {quote_name(typed)}.{hint}"
        raise UnknownName(detail, errors=[{"pointer": f"query/{name}", "detail": detail}], nearest=list(close))
    return values


def matching_values(name: str, typed: str, known: Sequence[str], catalog_index: CatalogIndex) -> Values:
    """Returns the values of a column that a name matches: exactly, in another spelling, or by an alias.

    Check: "Reserved 1Y" matches reserved_1y, the provider "Amazon" matches aws, the engine "trt-llm" matches
    tensorrt-llm.
    """
    if typed in known:
        return (typed,)
    if name == "region" and (regions := catalog_index.find_regions(typed)):
        return regions
    also = {"provider": catalog_index.providers, "vendor": catalog_index.vendors}.get(name, {})
    aliased = engine_slug(typed) if name == "engine" else also.get(compact_name(typed), typed)
    key = machine_key if name == "instance_type" else compact_name
    return tuple(value for value in known if key(value) == key(aliased)) if key(aliased) else ()
