"""Names of a request as the catalogue has them; or everything that is wrong with them, each with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from app.api.doubts import doubted
from app.api.problems import escaped
from app.api.schemas.replica import ReplicaSpec
from app.api.schemas.requests import ConstraintsSpec, DeploymentSpec, EconomicsSpec, EstimateRequest, RecommendRequest
from app.catalog.directory import WILD, Directory, Named, close_to, machine_key, run_together
from app.catalog.names import engine_slug, quoted
from app.errors import AmbiguousName, AppError, Unanswerable, UnknownAccelerator, UnknownName, UnknownSystem
from app.sizing.assumptions import BY_NAME, Assumptions
from app.sizing.hardware.engines import ALIASES, ENGINES
from app.sizing.hardware.support.builds import BUILDS

MOST_TOLD = 20
MOST_CHOICES = 8


def listed(names: Sequence[str]) -> str:
    """The first few of several names, and how many there are beyond."""
    more = len(names) - MOST_CHOICES
    return ", ".join(names[:MOST_CHOICES]) + (f" and {more} more" if more > 0 else "")


def beginning(names: Sequence[str]) -> str:
    """What several names begin with alike.

    Check: of "nvidia-h100-nvl-94gb" and "nvidia-h100-pcie-80gb" it is "nvidia-h100-".
    """
    first, last = min(names), max(names)
    alike = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:alike]


@cache
def engines_known(evident: tuple[str, ...]) -> Mapping[str, str]:
    """Engines and frameworks with a record, a build or evidence, by how they are written run together."""
    aliases = {run_together(alias): name for alias, name in ALIASES.items()}
    return aliases | {run_together(name): name for name in (*BUILDS, *ENGINES, *evident)}


@dataclass(frozen=True, slots=True)
class Misnamed:
    """One name that means nothing, or too much."""

    error: type[AppError]
    pointer: str
    detail: str
    nearest: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


class Naming:
    """Looks names up and gathers what is wrong with them."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.market = directory.market
        self.engines = engines_known(self.market.engines)
        self.problems: list[Misnamed] = []

    @property
    def _enough(self) -> bool:
        """Whether nobody will be told of further problems."""
        return len(self.problems) >= MOST_TOLD

    def raise_problems(self) -> None:
        """Raise the first of what is wrong, with all of it among its facts."""
        if not self.problems:
            return
        first, more = self.problems[0], len(self.problems) - 1
        facts: dict[str, Any] = {
            "errors": [{"pointer": p.pointer, "detail": p.detail} for p in self.problems[:MOST_TOLD]]
        }
        facts |= {"nearest": list(first.nearest)} if not first.choices else {"choices": list(first.choices)}
        raise first.error(first.detail + (f" {more} more: see errors." if more else ""), **facts)

    def accelerator(self, name: str, pointer: str, *, how_many: str = "total_accelerators") -> Named | None:
        """The one accelerator of a name, with the machine it may have named."""
        found = Named(self.directory.matching(name)) if WILD.search(name) else self.directory.named(name)
        if len(found.accelerators) != 1:
            self._not_one(name, found.accelerators, pointer)
            return None
        if found.count not in (None, 1):
            self.add(
                UnknownName,
                pointer,
                f"{quoted(name)} says how many as well: name {found.accelerators[0]} alone and give the number in "
                f"{how_many}.",
                nearest=found.accelerators,
            )
        return found

    def _not_one(self, name: str, found: tuple[str, ...], pointer: str) -> None:
        if found:
            together = beginning(found) + "*"
            whole = self.directory.matching(together) == found
            self.add(
                AmbiguousName,
                pointer,
                f"{quoted(name)} fits {len(found)} accelerators: {listed(found)}. Name one"
                + (f"; lists also take {together} for all of them." if whole else "."),
                choices=found[:MOST_CHOICES],
            )
            return
        close = () if self._enough else self.directory.nearest(name)
        hint = f" Nearest: {', '.join(close)}." if close else ""
        what = "fits the pattern" if WILD.search(name) else "is called"
        self.add(
            UnknownAccelerator,
            pointer,
            f"No accelerator of the catalogue {what} {quoted(name)}.{hint} GET /catalog/accelerators lists all.",
            nearest=close,
        )

    def accelerators(self, names: Sequence[str], pointer: str) -> tuple[list[str], list[str]]:
        """Those that a list means, and of them those named outright; a pattern means all that fit it."""
        every: dict[str, None] = {}
        outright: dict[str, None] = {}
        for i, name in enumerate(names):
            if WILD.search(name) and (fit := self.directory.matching(name)):
                every |= dict.fromkeys(fit)
            elif (found := self.accelerator(name, f"{pointer}/{i}", how_many="max_accelerators")) is not None:
                outright |= dict.fromkeys(found.accelerators)
        return [*(every | outright)], [*outright]

    def one_of(self, what: str, name: str, known: Mapping[str, str], pointer: str, where: str) -> str:
        """A name of a closed list, however it is written."""
        names = sorted({*known.values()})
        found = name if name in names else known.get(run_together(name))
        if found is None:
            close = () if self._enough else close_to(name, names)
            told = f"Nearest: {', '.join(close)}." if close else f"There are {listed(names)}."
            self.add(UnknownName, pointer, f"No {what} is called {quoted(name)}. {told} {where}", nearest=close)
        return found or name

    def provider(self, name: str, pointer: str) -> str:
        return self.one_of("provider", name, self.directory.providers, pointer, "GET /catalog/providers lists all.")

    def engine(self, name: str, pointer: str, what: str = "engine") -> str:
        slug = engine_slug(name)
        where = "GET /catalog/engines and /catalog/frameworks list all."
        return slug if slug in self.engines.values() else self.one_of(what, name, self.engines, pointer, where)

    def regions(self, name: str, pointer: str) -> tuple[str, ...]:
        """Regions that a name, a pattern, a country or an area means."""
        found = self.directory.regions_named(name)
        if not found:
            close = () if self._enough else close_to(name, self.directory.regions)
            told = f" Nearest: {', '.join(close)}." if close else ""
            what = "fits the pattern" if WILD.search(name) else "is called"
            self.add(
                UnknownName,
                pointer,
                f"No region {what} {quoted(name)}.{told} Countries and areas (DE, EU, US, asia) are taken too; "
                "GET /catalog/regions lists all.",
                nearest=close,
            )
        return found

    def assumptions(self, overrides: Mapping[str, float]) -> None:
        """Check that every number to replace is one that was chosen, and within its range."""
        for name, value in overrides.items():
            pointer = f"#/assumptions/{escaped(name)}"
            if name not in BY_NAME:
                close = close_to(name, BY_NAME)
                told = f" Nearest: {', '.join(close)}." if close else ""
                self.add(
                    UnknownName,
                    pointer,
                    f"There is no assumption named {quoted(name)}.{told} GET /catalog/assumptions lists all.",
                    nearest=close,
                )
                continue
            low, high = Assumptions.bounds(name)
            if not low <= value <= high:
                unit = BY_NAME[name].metadata["unit"]
                said = "" if unit == "1" else f" {unit}"
                doubt = doubted(name, "less_than_equal" if value > high else "greater_than_equal", value, {"le": high})
                self.add(Unanswerable, pointer, f"{name} must be from {low:g} to {high:g}{said}{doubt}.")

    def add(self, error: type[AppError], pointer: str, detail: str, **names: tuple[str, ...]) -> None:
        """Note what is wrong with a name; `nearest` or `choices` are what would be taken in its place."""
        self.problems.append(Misnamed(error, pointer, detail, **names))


def constraints_named(spec: ConstraintsSpec, naming: Naming, at: str) -> tuple[ConstraintsSpec, tuple[str, ...]]:
    """Constraints in names of the catalogue, and the accelerators among them that only a pattern brought in."""
    every, outright = naming.accelerators(spec.accelerators, f"{at}/accelerators")
    excluded, _ = naming.accelerators(spec.exclude_accelerators, f"{at}/exclude_accelerators")
    vendors, where = naming.directory.vendors, "GET /catalog/accelerators names the maker of each."
    regions = [naming.regions(name, f"{at}/regions/{i}") for i, name in enumerate(spec.regions)]
    changed = spec.model_copy(
        update={
            "accelerators": every,
            "exclude_accelerators": excluded,
            "providers": [naming.provider(name, f"{at}/providers/{i}") for i, name in enumerate(spec.providers)],
            "vendors": [
                naming.one_of("vendor", name, vendors, f"{at}/vendors/{i}", where)
                for i, name in enumerate(spec.vendors)
            ],
            "engines": [naming.engine(name, f"{at}/engines/{i}") for i, name in enumerate(spec.engines)],
            "regions": [*dict.fromkeys(name for found in regions for name in found)],
        }
    )
    return changed, tuple(slug for slug in every if slug not in outright)


def deployment_named(spec: DeploymentSpec, naming: Naming, at: str) -> DeploymentSpec:
    """A deployment in names of the catalogue; a machine named as the accelerator is the system."""
    changed = placed(spec, spec.accelerator, naming, at)
    if spec.engine is not None:
        changed["engine"] = naming.engine(spec.engine, f"{at}/engine")
    if spec.framework is not None:
        changed["framework"] = naming.engine(spec.framework, f"{at}/framework", "framework")
    if spec.pools is not None:
        pools = {name: getattr(spec.pools, name) for name in ("prefill", "decode")}
        named = {
            name: pool.model_copy(
                update=placed(pool, pool.accelerator or spec.accelerator, naming, f"{at}/pools/{name}")
            )
            for name, pool in pools.items()
        }
        changed["pools"] = spec.pools.model_copy(update=named)
    return spec.model_copy(update=changed)


def placed(spec: ReplicaSpec, accelerator: str, naming: Naming, at: str) -> dict[str, Any]:
    """Accelerator, machine and offer in names of the catalogue."""
    found = naming.accelerator(accelerator, f"{at}/accelerator")
    changed: dict[str, Any] = {}
    if found is not None:
        changed["accelerator"] = found.accelerators[0]
        if spec.system is not None:
            changed["system"] = _system(spec.system, found.accelerators[0], naming, f"{at}/system")
        elif found.system is not None:
            changed["system"] = found.system
    if spec.offer is not None:
        offer: dict[str, Any] = {}
        if spec.offer.provider is not None:
            offer["provider"] = naming.provider(spec.offer.provider, f"{at}/offer/provider")
        if spec.offer.region is not None:
            offer["region"] = _one_region(spec.offer.region, naming, f"{at}/offer/region")
        if spec.offer.instance_type is not None:
            types = naming.market.instance_types
            known = {run_together(n): n for n in types} | {n: n for n in types}
            where = "GET /catalog/offers lists all."
            offer["instance_type"] = naming.one_of(
                "instance type", spec.offer.instance_type, known, f"{at}/offer/instance_type", where
            )
        changed["offer"] = spec.offer.model_copy(update=offer)
    return changed


def _one_region(name: str, naming: Naming, pointer: str) -> str:
    found = naming.regions(name, pointer)
    if len(found) > 1:
        naming.add(
            AmbiguousName,
            pointer,
            f"{quoted(name)} fits {len(found)} regions: {listed(found)}. A deployment stands in one.",
            choices=found[:MOST_CHOICES],
        )
    return found[0] if found else name


def _system(name: str, accelerator: str, naming: Naming, pointer: str) -> str:
    """The machine of a name, which must carry the accelerator."""
    systems = naming.market.systems
    slug = name.lower() if name.lower() in systems else naming.directory.systems.get(machine_key(name), "")
    if slug in systems and systems[slug].accelerator == accelerator:
        return slug
    carriers = [s.slug for s in systems.values() if s.accelerator == accelerator]
    close = close_to(name, carriers) or tuple(carriers[:5])
    why = f"carries {systems[slug].accelerator}, not {accelerator}" if slug in systems else "is not in the catalogue"
    naming.add(
        UnknownSystem,
        pointer,
        f"The system {quoted(name)} {why}. With {accelerator}: {listed(close)}. GET /catalog/systems lists all.",
        nearest=close,
    )
    return name


def economics_named(spec: EconomicsSpec, naming: Naming) -> EconomicsSpec:
    """Money with the accelerators that discounts are of in names of the catalogue; a name outdoes a pattern."""
    named: dict[str, float] = {}
    fitting: dict[str, float] = {}
    for name, share in spec.discounts.items():
        if WILD.search(name) and (fit := naming.directory.matching(name)):
            fitting |= dict.fromkeys(fit, share)
        elif (found := naming.accelerator(name, f"#/economics/discounts/{escaped(name)}")) is not None:
            named |= dict.fromkeys(found.accelerators, share)
    return spec.model_copy(update={"discounts": fitting | named})


def recommend_named(request: RecommendRequest, directory: Directory) -> tuple[RecommendRequest, tuple[str, ...]]:
    """The request in names of the catalogue, and the accelerators in it that only a pattern brought in."""
    naming = Naming(directory)
    constraints, by_pattern = constraints_named(request.constraints, naming, "#/constraints")
    economics = economics_named(request.economics, naming)
    naming.assumptions(request.assumptions)
    naming.raise_problems()
    return request.model_copy(update={"constraints": constraints, "economics": economics}), by_pattern


def estimate_named(request: EstimateRequest, directory: Directory) -> EstimateRequest:
    """The request in names of the catalogue."""
    naming = Naming(directory)
    deployment = deployment_named(request.deployment, naming, "#/deployment")
    economics = economics_named(request.economics, naming)
    naming.assumptions(request.assumptions)
    naming.raise_problems()
    return request.model_copy(update={"deployment": deployment, "economics": economics})
