"""Queries that read table rows and return values of the sizing core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from sys import intern
from types import MappingProxyType
from typing import Any, TypeVar

import orjson
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.catalog.files import read_data_file
from app.catalog.hosted import HostedPriceRow
from app.catalog.lists import bytewise
from app.catalog.observations import OfferKey, latest_prices, list_availability, sync_days
from app.catalog.publishing import observed_values
from app.catalog.purchasing import list_slices
from app.catalog.tables import (
    AcceleratorRow,
    CatalogVersionRow,
    CoefficientRow,
    EngineSupportRow,
    FactorRow,
    MeasurementRow,
    OfferRow,
    PredictionRow,
    PriceRow,
    ProviderPlaceRow,
    ProviderRow,
    SpreadRow,
    SystemRow,
)
from app.db import Base
from app.sizing.evidence import Compared, Evidence, Familiarity, Setting
from app.sizing.hardware.achieved import Coefficient, Factor
from app.sizing.hardware.parts import (
    RATE_NAMES,
    Accelerator,
    Link,
    Offer,
    PlaceFact,
    Places,
    PriceKind,
    PricingModel,
    Segment,
    System,
    SystemKind,
)
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.result import HostedPrice
from app.sizing.snapshot import Catalog, was_observed_by
from app.sizing.uncertainty import LEVELS, Spread

T = TypeVar("T")


def newest_version(session: Session) -> tuple[int, str, str] | None:
    """Returns (id, digest, published_at) of the newest catalog version; None if the catalog must be loaded first."""
    row = session.execute(
        select(CatalogVersionRow.id, CatalogVersionRow.digest, CatalogVersionRow.published_at)
        .order_by(CatalogVersionRow.id.desc())
        .limit(1)
    ).first()
    return None if row is None or not row[1] else (row[0], row[1], row[2])


def _load_rows(session: Session, make: Callable[..., T], columns: Mapping[str, Any], *where: Any) -> list[T]:
    """Returns rows as values of the sizing core, each column in the field of its name; interns repeated texts."""
    rows = session.execute(select(*columns.values()).where(*where))
    return [
        make(**{name: intern(v) if type(v) is str else v for name, v in zip(columns, row, strict=True)}) for row in rows
    ]


def _matching_columns(table: type[Base], value: type[Any], *excluded: str) -> dict[str, Any]:
    """Returns the columns of a table that share a name with a field of `value`, except the excluded ones."""
    return {f.name: getattr(table, f.name) for f in fields(value) if f.name not in excluded}


def _make_accelerator(**row: Any) -> Accelerator:
    rates = {name: row.pop(f"{name}_flops_per_s") for name in RATE_NAMES}
    row |= {
        "segment": Segment(row["segment"]),
        "machine_link": Link(row["machine_link"]),
        "scaleup_bytes_per_s": row["scaleup_bytes_per_s"] or 0.0,
        "scaleup_domain_size": row["scaleup_domain_size"] or 1,
    }
    return Accelerator(**row, flops_per_s=MappingProxyType({k: v for k, v in rates.items() if v is not None}))


def list_accelerators(session: Session) -> list[Accelerator]:
    """Returns accelerator types, unordered."""
    rates = {f"{name}_flops_per_s": getattr(AcceleratorRow, f"{name}_flops_per_s") for name in RATE_NAMES}
    return _load_rows(session, _make_accelerator, _matching_columns(AcceleratorRow, Accelerator, "flops_per_s") | rates)


def _make_system(**row: Any) -> System:
    kind = row["price_kind"] and PriceKind(row["price_kind"])
    return System(**row | {"kind": SystemKind(row["kind"]), "link": Link(row["link"]), "price_kind": kind})


def list_systems(session: Session) -> list[System]:
    """Returns servers, workstations and instance types, unordered."""
    return _load_rows(session, _make_system, _matching_columns(SystemRow, System, "licences"))


def _make_offer(**row: Any) -> Offer:
    kinds = {"pricing_model": PricingModel(row["pricing_model"]), "price_kind": PriceKind(row["price_kind"])}
    return Offer(**row | kinds)


OFFER_KEY = ("provider", "region", "instance_type", "accelerator", "accelerator_count", "pricing_model")
UNUSABLE_TIERS = ("incomplete", "quarantined")  # prices that lack a host, and extreme outliers


def list_offers(session: Session) -> list[Offer]:
    """Returns usable offers, unordered: without prices that lack a host, and without extreme outliers."""
    usable = OfferRow.tier.not_in(UNUSABLE_TIERS)
    columns = _matching_columns(OfferRow, Offer, "trend_30d", "availability", "licences")
    return _load_rows(session, _make_offer, columns, usable)


def list_past_offers(session: Session, offers: Iterable[Offer]) -> list[Offer]:
    """Returns the past prices of the price history as offers, unordered."""
    columns = {name: getattr(PriceRow, name) for name in (*OFFER_KEY, "usd_per_hour", "source")}
    rows: list[dict[str, Any]] = _load_rows(session, dict, columns | {"as_of": PriceRow.observed_on})
    return _past_offers(session, offers, rows)


def list_observed_offers(session: Session, day: str, offers: Iterable[Offer]) -> list[Offer]:
    """Returns the newest observation of each offer until the end of a day as offers, unordered."""
    until = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)
    rows = [
        {**key._asdict(), **{name: observed_values(price)[name] for name in ("usd_per_hour", "source", "as_of")}}
        for key, (price, _) in latest_prices(session, until).items()
    ]
    return _past_offers(session, offers, rows)


def _past_offers(session: Session, offers: Iterable[Offer], rows: Iterable[dict[str, Any]]) -> list[Offer]:
    """Returns rows of past prices as offers.

    A price of an offer that is still listed takes its machine and price kind from it. A price of any other takes the
    kind of its provider; its machine is unknown. Prices of providers that the catalog does not describe are left out.
    """
    unusable = select(*(getattr(OfferRow, name) for name in OFFER_KEY)).where(OfferRow.tier.in_(UNUSABLE_TIERS))
    withheld = {(*key[:-1], PricingModel(key[-1])) for key in session.execute(unusable)}
    kinds = {slug: kind for slug, kind in session.execute(select(ProviderRow.slug, ProviderRow.kind))}  # noqa: C416
    listed, found = {offer.key: offer for offer in offers}, list[Offer]()
    for past in rows:
        past["pricing_model"] = PricingModel(past["pricing_model"])
        key = tuple(past[name] for name in OFFER_KEY)
        if key in withheld or past["provider"] not in kinds:
            continue
        if key in listed:
            found.append(replace(listed[key], **past, upfront_usd=None))
        else:
            found.append(Offer(**past, system=None, price_kind=PriceKind(kinds[past["provider"]]), confidence="low"))
    return found


TREND_DAYS = 30


def with_market(session: Session, offers: list[Offer], past: Sequence[Offer], days: Sequence[str]) -> list[Offer]:
    """Returns the offers with the trend of their observed prices and their availability as last seen."""
    if not days:
        return offers
    seen, trends = list_availability(session), _list_trends(session, offers, past)
    return [
        replace(offer, trend_30d=trends.get(offer.key), availability=seen.get(OfferKey(*offer.key)))
        if offer.key in trends or OfferKey(*offer.key) in seen
        else offer
        for offer in offers
    ]


def _list_trends(
    session: Session, offers: Sequence[Offer], past: Sequence[Offer]
) -> dict[tuple[str, str, str, str, float, str], float]:
    """Returns the change of each observed price since 30 days before the newest one, if a price of then is known."""
    observed = {key: observed_values(price) for key, (price, _) in latest_prices(session).items()}
    newest = max((values["as_of"] for values in observed.values()), default="")
    if not newest:
        return {}
    then = (date.fromisoformat(newest) - timedelta(days=TREND_DAYS)).isoformat()
    earlier = [*past, *list_observed_offers(session, then, offers)]
    known = {o.key: o.usd_per_hour for o in sorted(earlier, key=lambda o: o.as_of) if was_observed_by(o.as_of, then)}
    current = (o for o in offers if o.key in observed and observed[OfferKey(*o.key)]["as_of"] == o.as_of)
    return {o.key: o.usd_per_hour / known[o.key] - 1 for o in current if o.key in known}


ISO_CODE_LENGTH = 2  # price lists also state "global" and "unspecified"


def region_countries(session: Session) -> Mapping[str, str]:
    rows = session.execute(select(OfferRow.region, OfferRow.country).distinct())
    return {region: country for region, country in rows if country and len(country) == ISO_CODE_LENGTH}


def list_places(session: Session) -> dict[str, Places]:
    """Returns the countries of each provider's data centers and seat, by provider."""
    found: dict[str, Places] = {}
    for row in session.scalars(select(ProviderPlaceRow)):
        fact = PlaceFact(frozenset(row.countries.split()), row.source, row.as_of)
        found[row.provider] = replace(found.get(row.provider, Places()), **{row.fact: fact})
    return found


def list_coefficients(session: Session) -> list[Coefficient]:
    """Returns the base rows of coefficients, unordered."""
    columns = _matching_columns(CoefficientRow, Coefficient, "family") | {"family": CoefficientRow.accelerator_family}
    return _load_rows(session, Coefficient, columns)


def list_factors(session: Session) -> list[Factor]:
    """Returns the fitted corrections of coefficients, unordered."""
    columns = _matching_columns(FactorRow, Factor, "family", "sources")
    return _load_rows(session, Factor, columns | {"family": FactorRow.accelerator_family, "sources": FactorRow.source})


def list_spreads(session: Session) -> list[Spread]:
    """Returns the prediction errors of each quantity, unordered."""
    numbers = ("quantity", "alone", "remote", "untabulated", "rows", "sources")
    return [
        Spread(
            **{name: getattr(row, name) for name in numbers},
            worse=tuple(getattr(row, f"worse_p{100 * level:g}") for level in LEVELS),
        )
        for row in session.scalars(select(SpreadRow))
    ]


def list_hosted_prices(session: Session) -> list[HostedPrice]:
    return _load_rows(session, HostedPrice, _matching_columns(HostedPriceRow, HostedPrice))


def list_support(session: Session) -> list[EngineSupport]:
    """Returns which engine supports which accelerator family in which formats, in order."""
    keys = map(bytewise, (EngineSupportRow.engine, EngineSupportRow.accelerator_family, EngineSupportRow.phase))
    return [make_support(row) for row in session.scalars(select(EngineSupportRow).order_by(*keys))]


def make_support(row: EngineSupportRow) -> EngineSupport:
    """Returns a support row as a value of the sizing core."""
    formats: dict[str, bool] = {}
    for token in filter(None, row.weight_formats.split("|")):
        name, _, mode = token.partition(":")
        formats[name] = mode != "weight_only"
    return EngineSupport(
        engine=row.engine,
        family=row.accelerator_family,
        phase=row.phase,
        weight_formats=MappingProxyType(formats),
        kv_formats=tuple(filter(None, row.kv_formats.split("|"))),
        source=row.source,
        tentative=row.confidence == "low",
        statements=MappingProxyType(parse_statements(row.as_published or "")),
    )


def parse_statements(cell: str) -> dict[str, str]:
    """Returns what a source states, by weight format.

    `;` separates statements, `=` the formats from the statement, `|` the formats; `*` stands for all formats.

    Check:
        >>> parse_statements("bf16|fp16=supports T4 ; int8=INT8 x Turing: yes")
        {'bf16': 'supports T4', 'fp16': 'supports T4', 'int8': 'INT8 x Turing: yes'}
    """
    parted = (statement.partition("=") for statement in cell.split(" ; ") if statement)
    return {name: text for formats, _, text in parted for name in formats.split("|")}


@cache
def calibration_notes() -> Mapping[str, Any]:
    """Returns the calibration's notes: excluded measurements with reasons, and errors of the KV cache estimate."""
    notes: dict[str, Any] = orjson.loads(read_data_file("accuracy.json"))
    return notes


SETTING_FIELDS = tuple(f.name for f in fields(Setting))


def _make_compared(**row: Any) -> Compared:
    setting = Setting(**{name: row.pop(name) for name in SETTING_FIELDS})
    return Compared(**row | {"near": Familiarity(row["near"])}, setting=setting)


def list_compared(session: Session) -> list[Compared]:
    """Returns every published figure that predictions were compared with, unordered."""
    columns = (
        _matching_columns(PredictionRow, Compared, "setting", "source", "reference")
        | {"source": PredictionRow.source_key, "reference": MeasurementRow.source}
        | _matching_columns(PredictionRow, Setting, "family")
        | {"family": PredictionRow.accelerator_family}
    )
    return _load_rows(session, _make_compared, columns, MeasurementRow.id == PredictionRow.measurement)


def load_snapshot(session: Session, digest: str, published_at: str) -> Catalog:
    """Returns the whole catalog as one immutable value."""
    offers, days = list_offers(session), sync_days(session)
    past = list_past_offers(session, offers)
    offers = with_market(session, offers, past, days)
    return Catalog(
        accelerators=list_accelerators(session),
        systems=list_systems(session),
        offers=offers,
        support=list_support(session),
        coefficients=list_coefficients(session),
        factors=list_factors(session),
        spreads=list_spreads(session),
        evidence=Evidence(list_compared(session)),
        hosted=list_hosted_prices(session),
        slices=list_slices(session),
        past_offers=past,
        observed_days=days,
        places=list_places(session),
        region_countries=region_countries(session),
        version=digest[:16],
        prices_as_of=max((o.as_of for o in offers), default=""),
        created_at=published_at,
    )


def count_rows(session: Session, table: type[Base]) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0
