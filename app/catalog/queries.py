"""Reads: rows go in, values of sizing come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import orjson
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from app.catalog.architectures import architecture_of
from app.catalog.names import containing, folded, nearest, squashed, without_file
from app.catalog.seed import data_text
from app.catalog.tables import (
    AcceleratorRow,
    CatalogVersionRow,
    CoefficientRow,
    EngineSupportRow,
    FactorRow,
    MeasurementRow,
    ModelAliasRow,
    ModelRow,
    OfferRow,
    PredictionRow,
    SystemRow,
)
from app.db import Base
from app.errors import AmbiguousModel, UnknownModel
from app.sizing.evidence import Compared, Evidence, Near, Setting
from app.sizing.hardware.achieved import Coefficient, Factor
from app.sizing.hardware.parts import Accelerator, Offer, PricingModel, System
from app.sizing.hardware.support import EngineSupport
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.snapshot import Market

RATE_NAMES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")


def newest_version(session: Session) -> tuple[int, str, str] | None:
    """(id, digest, published_at) of the catalogue that requests read now."""
    row = session.execute(
        select(CatalogVersionRow.id, CatalogVersionRow.digest, CatalogVersionRow.published_at)
        .order_by(CatalogVersionRow.id.desc())
        .limit(1)
    ).first()
    return None if row is None else (row[0], row[1], row[2])


def _accelerator(row: AcceleratorRow) -> Accelerator:
    rates = {name: getattr(row, f"{name}_flops_per_s") for name in RATE_NAMES}
    return Accelerator(
        slug=row.slug,
        name=row.name,
        vendor=row.vendor,
        kind=row.kind,
        family=row.family,
        form_factor=row.form_factor,
        segment=row.segment,
        memory_bytes=row.memory_bytes,
        memory_is_reported=row.memory_is_reported,
        memory_bytes_per_s=row.memory_bytes_per_s,
        unified_memory=row.unified_memory,
        flops_per_s=MappingProxyType({k: v for k, v in rates.items() if v is not None}),
        power_w=row.power_w,
        scaleup_link=row.scaleup_link,
        scaleup_bytes_per_s=row.scaleup_bytes_per_s or 0.0,
        scaleup_domain_size=row.scaleup_domain_size or 1,
        typical_node_size=row.typical_node_size,
        list_price_usd_low=row.list_price_usd_low,
        list_price_usd_high=row.list_price_usd_high,
        training_class=row.training_class,
        source=row.source,
        as_of=row.as_of,
    )


def _support(row: EngineSupportRow) -> EngineSupport:
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


def list_compared(session: Session) -> list[Compared]:
    """Every published figure that the engine was compared with."""
    joined = select(PredictionRow, MeasurementRow.source).join(
        MeasurementRow, MeasurementRow.id == PredictionRow.measurement
    )
    return [
        Compared(
            measurement=p.measurement,
            source=p.source_key,
            reference=reference,
            metric=p.metric,
            measured=p.measured,
            predicted=p.predicted,
            held_out=p.held_out,
            near=Near(p.near),
            set_aside=p.set_aside,
            model=p.model,
            setting=Setting(
                engine=p.engine,
                family=p.accelerator_family,
                format_class=p.format_class,
                accelerator=p.accelerator,
                load=p.load,
                params=p.params,
                devices=p.devices,
                in_flight=p.in_flight,
                input_tokens=p.input_tokens,
                output_tokens=p.output_tokens,
            ),
        )
        for p, reference in session.execute(joined)
    ]


def load_market(session: Session, digest: str, published_at: str) -> Market:
    """The whole catalogue as one immutable value."""
    offers = [
        Offer(
            provider=o.provider,
            region=o.region,
            instance_type=o.instance_type,
            system=o.system,
            accelerator=o.accelerator,
            accelerator_count=o.accelerator_count,
            pricing_model=PricingModel(o.pricing_model),
            usd_per_hour=o.usd_per_hour,
            source=o.source,
            as_of=o.as_of,
            marketplace=o.tier == "marketplace",
        )
        for o in session.scalars(select(OfferRow).where(OfferRow.tier.not_in(("incomplete", "quarantined"))))
    ]
    systems = [
        System(
            slug=s.slug,
            name=s.name,
            kind=s.kind,
            provider=s.provider,
            accelerator=s.accelerator,
            accelerator_count=s.accelerator_count,
            ram_bytes=s.ram_bytes,
            topology=s.topology,
            network_bytes_per_s=s.network_bytes_per_s,
            power_w=s.power_w,
            list_price_usd=s.list_price_usd,
            source=s.source,
            as_of=s.as_of,
        )
        for s in session.scalars(select(SystemRow))
    ]
    coefficients = [
        Coefficient(c.name, c.accelerator_family, c.format_class, c.engine, c.value, c.low, c.high, c.unit, c.source)
        for c in session.scalars(select(CoefficientRow))
    ]
    factors = [
        Factor(
            f.name,
            f.runtime,
            f.engine,
            f.generation,
            f.kernels,
            f.vendor,
            f.accelerator_family,
            f.format_class,
            f.value,
            f.rows,
            f.source,
        )
        for f in session.scalars(select(FactorRow))
    ]
    return Market(
        accelerators=[_accelerator(a) for a in session.scalars(select(AcceleratorRow))],
        systems=systems,
        offers=offers,
        support=[
            _support(s)
            for s in session.scalars(
                select(EngineSupportRow).order_by(
                    EngineSupportRow.engine, EngineSupportRow.accelerator_family, EngineSupportRow.phase
                )
            )
        ],
        coefficients=coefficients,
        factors=factors,
        evidence=Evidence(list_compared(session)),
        version=digest[:16],
        prices_as_of=max((o.as_of for o in offers), default=""),
        created_at=published_at,
    )


def get_model(session: Session, name: str, *, loosely: bool = True) -> ModelArchitecture:
    """The counts of a named model; where the name was not the model's own, the answer says how it was read.

    Raises UnknownModel with the nearest names, AmbiguousModel with the choices.
    """
    facts, note = get_model_facts(session, name, loosely=loosely)
    model = architecture_of(facts)
    return replace(model, assumed=(*model.assumed, note)) if note else model


def get_model_facts(session: Session, name: str, *, loosely: bool = True) -> tuple[Mapping[str, Any], str]:
    """The registry entry of a name, and how the name was read where it was neither an id nor an alias.

    Tried in turn: the exact id, a folded alias, and if `loosely` the name without what names a file (":latest",
    "-q4_K_M", "-AWQ"), the same words run together, the words of a name in any order.
    """
    exact = session.get(ModelRow, name)
    if exact is not None:
        return exact.facts, ""
    rows = _by_alias(session, folded(name))
    if len(rows) == 1:
        return rows[0].facts, ""
    if not rows and loosely:
        rows = _loosely(session, name)
    chosen = _one_of(rows)
    if chosen is not None:
        return chosen.facts, f"the name {name!r} was read as {chosen.id}"
    if rows:
        choices = [row.id for row in rows]
        raise AmbiguousModel(
            f"The name fits {len(choices)} models that differ; name one of: {', '.join(choices[:8])}{', ...' if len(choices) > 8 else ''}.",
            choices=choices[:8],
        )
    aliases = session.scalars(select(ModelAliasRow.alias)).all()
    close = nearest(name, aliases)
    suggestion = f" Nearest: {', '.join(close)}." if close else ""
    raise UnknownModel(
        f"No model of that name is in the catalogue.{suggestion} GET /catalog/models lists all; a configuration may be given in its place.",
        nearest=close,
    )


def _by_alias(session: Session, key: str) -> Sequence[ModelRow]:
    of_alias = (
        select(ModelRow).join(ModelAliasRow, ModelAliasRow.model == ModelRow.id).where(ModelAliasRow.alias == key)
    )
    return session.scalars(of_alias.order_by(ModelRow.id)).all()


def _loosely(session: Session, name: str) -> Sequence[ModelRow]:
    """Models that a name may mean, by the strictest reading that finds any."""
    bare = without_file(name)
    rows = _by_alias(session, bare)
    if rows:
        return rows
    known = [(alias, model) for alias, model in session.execute(select(ModelAliasRow.alias, ModelAliasRow.model))]
    tail = without_file(name.rsplit("/", 1)[-1])  # whoever repackaged it
    ids: list[str] = []
    for typed in (bare, tail):
        ids = ids or sorted({model for alias, model in known if squashed(alias) == squashed(typed)})
    ids = ids or containing(bare, known) or containing(tail, known)
    found = {row.id: row for row in session.scalars(select(ModelRow).where(ModelRow.id.in_(ids)))}
    return [found[i] for i in ids]


_NOT_SHAPE = ("architectures", "max_position_embeddings", "_name_or_path")


def _one_of(rows: Sequence[ModelRow]) -> ModelRow | None:
    """The only model, or the first of several that do not differ in any count: base and instruct of one shape."""
    shapes = {
        orjson.dumps({k: v for k, v in row.facts["config"].items() if k not in _NOT_SHAPE}, option=orjson.OPT_SORT_KEYS)
        for row in rows
    }
    return rows[0] if len(shapes) == 1 else None


def page(
    session: Session, statement: Select[Any], key: Any, *, after: str | None, limit: int
) -> tuple[Sequence[Any], str | None]:
    """One page of rows in key order and the cursor of the next, None at the end."""
    ordered = statement.order_by(key)
    if after is not None:
        ordered = ordered.where(key > after)
    rows = session.scalars(ordered.limit(limit + 1)).all()
    more = len(rows) > limit
    shown = rows[:limit]
    return shown, str(getattr(shown[-1], key.key)) if more else None


def count(session: Session, table: type[Base]) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0
