"""Schemas of providers, regions and training frameworks in the catalog."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel
from app.api.schemas.names import PriceKindName, PricingName
from app.api.schemas.recipe import RecipeListed, listed_json
from app.catalog.directory import CatalogIndex
from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.parts import Environment
from app.sizing.hardware.recipes import recipes_of_framework
from app.sizing.hardware.support.builds import BUILDS


class ProviderShown(ResponseModel):
    """A company that rents out or sells machines."""

    provider: str
    also_called: list[str]
    rents: bool
    sells: bool
    regions: list[str]
    pricing_models: list[PricingName]
    price_kinds: list[PriceKindName]
    accelerators: int
    offers: int


class RegionShown(ResponseModel):
    """A region in which machines are for rent, named as its providers name it."""

    region: str
    country: str | None
    providers: list[str]
    accelerators: int
    offers: int


class FrameworkShown(ResponseModel):
    """A training framework with its methods and runtimes; `judged_as` names the underlying framework."""

    framework: str
    also_called: list[str]
    methods: list[str]
    runtimes: list[str]
    kinds: list[str]
    judged_as: str | None
    recipes: list[RecipeListed] = Field(description="Rules for calculating memory by version, oldest first.")
    source: str
    as_of: str


class ProviderList(ResponseModel):
    """Providers, by name."""

    items: list[ProviderShown]
    next_cursor: str | None


class RegionList(ResponseModel):
    """Regions, by name."""

    items: list[RegionShown]
    next_cursor: str | None


class FrameworkList(ResponseModel):
    """Training frameworks, by name."""

    items: list[FrameworkShown]
    next_cursor: str | None


Items = list[dict[str, Any]]


def providers_json(catalog_index: CatalogIndex) -> Items:
    """Every provider as JSON, by name."""
    catalog = catalog_index.catalog
    offers = defaultdict(list)
    for offer in catalog.offers:
        offers[offer.provider].append(offer)
    sells = {s.provider for s in catalog.systems.values() if s.environment is Environment.ON_PREM}
    aliases = _other_names(catalog_index.providers)
    return [
        {
            "provider": name,
            "also_called": aliases.get(name, []),
            "rents": name in offers,
            "sells": name in sells,
            "regions": sorted({o.region for o in offers[name]}),
            "pricing_models": sorted({o.pricing_model.value for o in offers[name]}),
            "price_kinds": sorted({o.price_kind.value for o in offers[name]}),
            "accelerators": len({o.accelerator for o in offers[name]}),
            "offers": len(offers[name]),
        }
        for name in catalog.providers
    ]


def regions_json(catalog_index: CatalogIndex) -> Items:
    """Every region as JSON, by name."""
    offers = defaultdict(list)
    for offer in catalog_index.catalog.offers:
        offers[offer.region].append(offer)
    return [
        {
            "region": name,
            "country": catalog_index.country_of(name),
            "providers": sorted({o.provider for o in offers[name]}),
            "accelerators": len({o.accelerator for o in offers[name]}),
            "offers": len(offers[name]),
        }
        for name in sorted(offers)
    ]


def frameworks_json(_: CatalogIndex) -> Items:
    """Every training framework as JSON, by name."""
    items = []
    for name in sorted(BUILDS):
        trains = [build for build in BUILDS[name] if build.methods]
        if not trains:
            continue
        record = ENGINES.get(name)
        items.append(
            {
                "framework": name,
                "also_called": [] if record is None else list(record.aliases),
                "methods": sorted({m for build in trains for m in build.methods}),
                "runtimes": sorted({r for build in trains for r in build.runtimes}),
                "kinds": sorted({task.value for build in trains for task in build.trains}),
                "judged_as": None if record is None else record.judged_as,
                "recipes": [listed_json(recipe) for recipe in recipes_of_framework(name)],
                "source": trains[0].source,
                "as_of": trains[0].as_of,
            }
        )
    return items


def _other_names(names: Mapping[str, str]) -> dict[str, list[str]]:
    """The other accepted spellings of each name."""
    aliases: dict[str, list[str]] = defaultdict(list)
    for key, name in names.items():
        if key != name and key != "".join(c for c in name if c.isalnum()):
            aliases[name].append(key)
    return aliases
