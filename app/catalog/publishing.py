"""Builds the price list of a catalog version: the shipped offers, with newer observations in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.catalog.files import read_rows
from app.catalog.filing import to_utc
from app.catalog.names import NAME_TABLES
from app.catalog.observations import OfferKey, OfferKeyRow, PriceObservationRow, latest_prices
from app.catalog.tables import AcceleratorRow, ProviderRow
from app.sizing.snapshot import last_day_of

AGGREGATES = ("gpuhunt", "skypilot")  # feeds that collect the prices of other companies
COUNTRY_AS_REGION = ("vast",)  # providers whose regions are ISO codes of countries
OfferValues = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PriceList:
    """Rows of a catalog version: its offers, and the shipped prices that newer observations replaced."""

    offers: list[OfferValues]
    replaced: list[OfferValues]


def observed_source(row: PriceObservationRow) -> str:
    return f"{row.feed} feed@{row.feed_version}" if row.feed_version else f"{row.feed} feed"


def observed_values(row: PriceObservationRow) -> OfferValues:
    return {
        "usd_per_hour": row.usd_per_hour,
        "upfront_usd": None,
        "confidence": "medium" if row.feed in AGGREGATES else "high",
        "source": observed_source(row),
        "as_of": to_utc(row.observed_at).date().isoformat(),
        "date_estimated": False,
        "notes": None,
    }


def build_price_list(session: Session, shipped: Sequence[OfferValues]) -> PriceList:
    """Returns the shipped offers with the observations in force that are newer, and offers that only feeds have."""
    by_key = {_key_of_values(row): row for row in shipped}
    slugs = set(session.scalars(select(AcceleratorRow.slug)))
    kinds = {slug: kind for slug, kind in session.execute(select(ProviderRow.slug, ProviderRow.kind))}  # noqa: C416
    offers, replaced, machines = dict(by_key), list[OfferValues](), MachineIndex(shipped)
    for key, (price, about) in sorted(latest_prices(session).items()):
        if key.accelerator not in slugs or key.provider not in kinds:
            continue
        values, listed = observed_values(price), by_key.get(key)
        if listed is None:
            offers[key] = {**machines.describe(about, kinds[key.provider]), **values}
        elif values["as_of"] > last_day_of(listed["as_of"]):
            tier = "standard" if listed["tier"] == "quarantined" else listed["tier"]
            offers[key] = {**listed, **values, "tier": tier}
            replaced.append(listed)
    return PriceList(list(offers.values()), [_history_values(row) for row in replaced])


def _key_of_values(row: Mapping[str, Any]) -> OfferKey:
    return OfferKey(*(row[name] for name in OfferKey._fields))


def _history_values(row: OfferValues) -> OfferValues:
    return {**_key_of_values(row)._asdict(), "usd_per_hour": row["usd_per_hour"], "source": row["source"]} | {
        "observed_on": row["as_of"]
    }


class MachineIndex:
    """What the shipped price list says about machines and regions, for offers that only a feed has."""

    def __init__(self, shipped: Sequence[OfferValues]) -> None:
        self._machines = {_machine_of(row): row for row in shipped}
        self._countries = {row["region"]: row["country"] for row in shipped if row["country"]}
        self._places = {(row["provider"], row["region"]): row["country"] for row in read_rows("region_countries.csv")}

    def describe(self, about: OfferKeyRow, provider_kind: str) -> OfferValues:
        """Returns the columns of an offer that do not depend on its price."""
        names = (*OfferKey._fields, "vcpus", "ram_bytes", "tier")
        values = {name: getattr(about, name) for name in names}
        known = self._machines.get(_machine_of(values))
        if known is not None:
            values |= {name: known[name] or values[name] for name in ("vcpus", "ram_bytes")}
        kind = "broker" if about.tier == "marketplace" else provider_kind
        return {
            **values,
            "system": None if known is None else known["system"],
            "country": self._find_country(about.provider, about.region),
            "price_kind": kind,
            "min_quantity": 1,
            "max_quantity": None,
        }

    def _find_country(self, provider: str, region: str) -> str | None:
        """Returns the ISO code of the country in which a provider's region is; None if unknown."""
        if provider in COUNTRY_AS_REGION and region in NAME_TABLES.countries:
            return region
        return self._places.get((provider, region)) or self._countries.get(region)


def _machine_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("provider", "instance_type", "accelerator", "accelerator_count"))
