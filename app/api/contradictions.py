"""Rejects requests whose fields contradict each other or the catalog."""

from __future__ import annotations

from app.api.naming import list_names
from app.api.schemas.requests import ConstraintsSpec, DeploymentSpec
from app.catalog.directory import CatalogIndex
from app.errors import Conflict
from app.sizing.hardware.parts import Environment, PricingModel

CLOUD, ON_PREM, OWNED = Environment.CLOUD.value, Environment.ON_PREM.value, PricingModel.OWNED.value


def conflict_at(pointer: str, detail: str) -> Conflict:
    """Returns a Conflict with its JSON pointer."""
    return Conflict(detail, errors=[{"pointer": pointer, "detail": detail}])


def check_constraints(
    c: ConstraintsSpec, written: ConstraintsSpec, by_pattern: tuple[str, ...], catalog_index: CatalogIndex
) -> None:
    """Raises Conflict if constraints contradict each other. `written` are the constraints as the caller wrote them."""
    _check_accelerators(c, written, by_pattern, catalog_index)
    _check_acquisition(c, catalog_index)
    if c.providers and c.regions and (c.environments == [CLOUD] or _sells_no_machines(c.providers, catalog_index)):
        served = {region for provider in c.providers for region in catalog_index.regions_by_provider.get(provider, ())}
        if served and served.isdisjoint(c.regions):
            raise conflict_at(
                "#/constraints/regions",
                f"{list_names(c.providers)} has no offers in {list_names(written.regions)}. "
                f"Available regions: {list_names(sorted(served))}.",
            )


def _check_accelerators(
    c: ConstraintsSpec, written: ConstraintsSpec, by_pattern: tuple[str, ...], catalog_index: CatalogIndex
) -> None:
    outright = [slug for slug in c.accelerators if slug not in by_pattern]
    both = [slug for slug in outright if slug in c.exclude_accelerators]
    if both and (len(both) == len(outright) or not {*written.exclude_accelerators}.isdisjoint(written.accelerators)):
        raise conflict_at(
            "#/constraints/exclude_accelerators",
            f"{list_names(both)} is in both accelerators and exclude_accelerators. Remove it from one of them.",
        )
    if c.accelerators and {*c.accelerators} <= {*c.exclude_accelerators}:
        raise conflict_at(
            "#/constraints/exclude_accelerators",
            "exclude_accelerators excludes every entry of accelerators. Remove at least one of them.",
        )
    segments_of = {a.slug: a.segments for a in catalog_index.catalog.accelerators}
    if c.accelerators and c.segments and all({*c.segments}.isdisjoint(segments_of[slug]) for slug in c.accelerators):
        sold = list_names(sorted({segment for slug in c.accelerators for segment in segments_of[slug]}))
        raise conflict_at(
            "#/constraints/segments",
            f"No accelerator in accelerators is sold in segment {list_names(c.segments)}. Their segments: {sold}.",
        )
    vendor_of = {a.slug: a.vendor.lower() for a in catalog_index.catalog.accelerators}
    others = [slug for slug in outright if c.vendors and vendor_of[slug] not in c.vendors]
    if others:
        raise conflict_at(
            "#/constraints/vendors",
            f"{list_names(others)} is not made by {list_names(c.vendors)}. Add its maker to vendors, or omit vendors.",
        )
    if c.accelerators and c.vendors and all(vendor_of[slug] not in c.vendors for slug in c.accelerators):
        raise conflict_at(
            "#/constraints/vendors",
            f"No accelerator in accelerators is made by {list_names(c.vendors)}. Omit one of the two.",
        )


def _sells_no_machines(providers: list[str], catalog_index: CatalogIndex) -> bool:
    """True if none of these providers sells machines."""
    return not any(s.provider in providers for s in catalog_index.catalog.systems.values() if s.environment == ON_PREM)


def _check_acquisition(c: ConstraintsSpec, catalog_index: CatalogIndex) -> None:
    """Checks that environments, pricing models and providers can be combined: cloud or owned, rented or sold."""
    if c.environments == [CLOUD] and c.pricing_models == [OWNED]:
        raise conflict_at(
            "#/constraints/pricing_models",
            "pricing_models owned requires a purchase, but environments cloud only rents. Change one of them.",
        )
    if c.environments == [ON_PREM] and c.pricing_models and OWNED not in c.pricing_models:
        raise conflict_at(
            "#/constraints/pricing_models",
            "environments on_prem requires a purchase. Add owned to pricing_models, or omit pricing_models.",
        )
    if not c.providers:
        return
    rents = any(provider in catalog_index.regions_by_provider for provider in c.providers)
    if c.environments == [CLOUD] and not rents:
        raise conflict_at(
            "#/constraints/providers",
            f"{list_names(c.providers)} does not rent out machines, but environments is cloud. Change one of them.",
        )
    if c.environments == [ON_PREM] and _sells_no_machines(c.providers, catalog_index):
        raise conflict_at(
            "#/constraints/providers",
            f"{list_names(c.providers)} does not sell machines, but environments is on_prem. Change one of them.",
        )


def check_deployment(d: DeploymentSpec, catalog_index: CatalogIndex) -> None:
    """Raises Conflict if a deployment's offer does not match its provider, region or accelerator."""
    offer = d.offer
    if offer is None:
        return
    at, provider = "#/deployment/offer", offer.provider
    owned = offer.pricing_model == OWNED
    if owned and provider is not None and _sells_no_machines([provider], catalog_index):
        raise conflict_at(
            f"{at}/pricing_model",
            f"{provider} does not sell machines. For pricing_model owned, name a seller or omit the provider.",
        )
    if (
        provider is not None
        and provider in catalog_index.regions_by_provider
        and not owned
        and offer.region is not None
    ):
        served = catalog_index.regions_by_provider[provider]
        if offer.region not in (ON_PREM, *served):
            raise conflict_at(
                f"{at}/region",
                f"{provider} has no offers in {offer.region}. Available regions: {list_names(sorted(served))}.",
            )
    if offer.instance_type is not None:
        carried = {o.accelerator for o in catalog_index.catalog.offers if o.instance_type == offer.instance_type}
        if carried and d.accelerator not in carried:
            raise conflict_at(
                f"{at}/instance_type",
                f"{offer.instance_type} contains {list_names(sorted(carried))}, not {d.accelerator}.",
            )
