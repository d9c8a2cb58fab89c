"""Reads: rows go in, values of sizing come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from sys import intern
from types import MappingProxyType
from typing import Any, TypeVar

import orjson
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.catalog.files import data_text
from app.catalog.hosted_tables import HostedPriceRow
from app.catalog.order import bytewise
from app.catalog.slices import list_slices
from app.catalog.tables import (
    AcceleratorRow,
    CatalogVersionRow,
    CoefficientRow,
    EngineSupportRow,
    FactorRow,
    MeasurementRow,
    OfferRow,
    PredictionRow,
    SpreadRow,
    SystemRow,
)
from app.db import Base
from app.sizing.evidence import Compared, Evidence, Near, Setting
from app.sizing.hardware.achieved import Coefficient, Factor
from app.sizing.hardware.parts import RATE_NAMES, Accelerator, Link, Offer, PricingModel, Segment, System, SystemKind
from app.sizing.hardware.prices import PriceKind
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.snapshot import Snapshot
from app.sizing.uncertainty import LEVELS, Spread
from app.sizing.values.hosted import HostedPrice

T = TypeVar("T")


def newest_version(session: Session) -> tuple[int, str, str] | None:
    """(id, digest, published_at) of the catalogue that requests read now; None where it is to be loaded first."""
    row = session.execute(
        select(CatalogVersionRow.id, CatalogVersionRow.digest, CatalogVersionRow.published_at)
        .order_by(CatalogVersionRow.id.desc())
        .limit(1)
    ).first()
    return None if row is None or not row[1] else (row[0], row[1], row[2])


def _listed(session: Session, made: Callable[..., T], columns: Mapping[str, Any], *where: Any) -> list[T]:
    """Rows as values of the core: each column is the field of its name; a text that repeats is kept once."""
    rows = session.execute(select(*columns.values()).where(*where))
    return [
        made(**{name: intern(v) if type(v) is str else v for name, v in zip(columns, row, strict=True)}) for row in rows
    ]


def _same(table: type[Base], value: type[Any], *but: str) -> dict[str, Any]:
    """The columns of a table that a value has fields of the same name for, but those that differ."""
    return {f.name: getattr(table, f.name) for f in fields(value) if f.name not in but}


def _accelerator(**row: Any) -> Accelerator:
    rates = {name: row.pop(f"{name}_flops_per_s") for name in RATE_NAMES}
    row |= {
        "segment": Segment(row["segment"]),
        "machine_link": Link(row["machine_link"]),
        "scaleup_bytes_per_s": row["scaleup_bytes_per_s"] or 0.0,
        "scaleup_domain_size": row["scaleup_domain_size"] or 1,
    }
    return Accelerator(**row, flops_per_s=MappingProxyType({k: v for k, v in rates.items() if v is not None}))


def list_accelerators(session: Session) -> list[Accelerator]:
    """Accelerator types, in no order."""
    rates = {f"{name}_flops_per_s": getattr(AcceleratorRow, f"{name}_flops_per_s") for name in RATE_NAMES}
    return _listed(session, _accelerator, _same(AcceleratorRow, Accelerator, "flops_per_s") | rates)


def _system(**row: Any) -> System:
    kind = row["price_kind"] and PriceKind(row["price_kind"])
    return System(**row | {"kind": SystemKind(row["kind"]), "link": Link(row["link"]), "price_kind": kind})


def list_systems(session: Session) -> list[System]:
    """Servers, workstations and instance types, in no order."""
    return _listed(session, _system, _same(SystemRow, System))


def _offer(**row: Any) -> Offer:
    kinds = {"pricing_model": PricingModel(row["pricing_model"]), "price_kind": PriceKind(row["price_kind"])}
    return Offer(**row | kinds)


def list_offers(session: Session) -> list[Offer]:
    """What may be offered, in no order: no price without its host, none that is far off all others."""
    return _listed(session, _offer, _same(OfferRow, Offer), OfferRow.tier.not_in(("incomplete", "quarantined")))


def region_countries(session: Session) -> Mapping[str, str]:
    """The country of every region that has one."""
    rows = session.execute(select(OfferRow.region, OfferRow.country).distinct())
    return {region: country for region, country in rows if country}


def list_coefficients(session: Session) -> list[Coefficient]:
    """Base rows of coefficients, in no order."""
    columns = _same(CoefficientRow, Coefficient, "family") | {"family": CoefficientRow.accelerator_family}
    return _listed(session, Coefficient, columns)


def list_factors(session: Session) -> list[Factor]:
    """Fitted corrections of coefficients, in no order."""
    columns = _same(FactorRow, Factor, "family", "sources")
    return _listed(session, Factor, columns | {"family": FactorRow.accelerator_family, "sources": FactorRow.source})


def list_spreads(session: Session) -> list[Spread]:
    """How far predictions of each quantity may be off, in no order."""
    numbers = ("quantity", "alone", "remote", "untabulated", "rows", "sources")
    return [
        Spread(
            **{name: getattr(row, name) for name in numbers},
            worse=tuple(getattr(row, f"worse_p{100 * level:g}") for level in LEVELS),
        )
        for row in session.scalars(select(SpreadRow))
    ]


def list_hosted(session: Session) -> list[HostedPrice]:
    """What hosts ask for models that they run."""
    return _listed(session, HostedPrice, _same(HostedPriceRow, HostedPrice))


def list_support(session: Session) -> list[EngineSupport]:
    """Which engine runs on which family in which formats, in order."""
    keys = map(bytewise, (EngineSupportRow.engine, EngineSupportRow.accelerator_family, EngineSupportRow.phase))
    return [support_of(row) for row in session.scalars(select(EngineSupportRow).order_by(*keys))]


def support_of(row: EngineSupportRow) -> EngineSupport:
    """A row of evidence as a value."""
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
    )


@cache
def calibration_notes() -> Mapping[str, Any]:
    """What the calibration left out and why, and how large engines' caches came out."""
    notes: dict[str, Any] = orjson.loads(data_text("accuracy.json"))
    return notes


SETTING = tuple(f.name for f in fields(Setting))


def _compared(**row: Any) -> Compared:
    setting = Setting(**{name: row.pop(name) for name in SETTING})
    return Compared(**row | {"near": Near(row["near"])}, setting=setting)


def list_compared(session: Session) -> list[Compared]:
    """Every published figure that the engine was compared with, in no order."""
    columns = (
        _same(PredictionRow, Compared, "setting", "source", "reference")
        | {"source": PredictionRow.source_key, "reference": MeasurementRow.source}
        | _same(PredictionRow, Setting, "family")
        | {"family": PredictionRow.accelerator_family}
    )
    return _listed(session, _compared, columns, MeasurementRow.id == PredictionRow.measurement)


def load_snapshot(session: Session, digest: str, published_at: str) -> Snapshot:
    """The whole catalogue as one immutable value."""
    offers = list_offers(session)
    return Snapshot(
        accelerators=list_accelerators(session),
        systems=list_systems(session),
        offers=offers,
        support=list_support(session),
        coefficients=list_coefficients(session),
        factors=list_factors(session),
        spreads=list_spreads(session),
        evidence=Evidence(list_compared(session)),
        hosted=list_hosted(session),
        slices=list_slices(session),
        version=digest[:16],
        prices_as_of=max((o.as_of for o in offers), default=""),
        created_at=published_at,
    )


def count(session: Session, table: type[Base]) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0
