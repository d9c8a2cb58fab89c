"""Tables of the catalog, in base units: bytes, bytes per second, FLOPs per second, watts, USD."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.db import PUBLIC, Base

Slug = String(120)
Text = String(4000)


class Sourced:
    """Columns of a row of facts: its source, and the day on which that was read."""

    source: Mapped[str] = mapped_column(Text)
    as_of: Mapped[str] = mapped_column(String(10))


class Priced:
    """Columns of a row with a list price: the source of the price, its day, month or year, and how sure it is."""

    price_source: Mapped[str | None] = mapped_column(Text)
    price_observed: Mapped[str | None] = mapped_column(String(10))
    price_confidence: Mapped[str | None] = mapped_column(String(10))


class CatalogVersionRow(Base):
    """One published catalog version; requests read the newest."""

    __tablename__ = "catalog_versions"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    digest: Mapped[str] = mapped_column(String(64), doc="empty after a migration, until the catalog is loaded again")
    published_at: Mapped[str] = mapped_column(String(32), doc="date of the newest fact; RFC 3339 UTC")
    loaded_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class AcceleratorRow(Priced, Sourced, Base):
    __tablename__ = "accelerators"
    __table_args__ = (
        CheckConstraint("memory_bytes > 0", name="memory_positive"),
        CheckConstraint("memory_bytes_per_s > 0", name="bandwidth_positive"),
        CheckConstraint("list_price_usd_low <= list_price_usd_high", name="price_ordered"),
        CheckConstraint("typical_node_size >= 1", name="node_positive"),
    )

    slug: Mapped[str] = mapped_column(Slug, primary_key=True)
    name: Mapped[str] = mapped_column(Slug)
    vendor: Mapped[str] = mapped_column(Slug, index=True)
    kind: Mapped[str] = mapped_column(Slug)
    family: Mapped[str] = mapped_column(Slug, index=True)
    form_factor: Mapped[str] = mapped_column(Slug)
    architecture: Mapped[str] = mapped_column(Slug)
    segment: Mapped[str] = mapped_column(Slug)
    release_year: Mapped[int]
    memory_bytes: Mapped[float | None]
    memory_is_reported: Mapped[bool]
    memory_type: Mapped[str] = mapped_column(Slug)
    memory_bytes_per_s: Mapped[float | None]
    unified_memory: Mapped[bool]
    memory_is_shared: Mapped[bool] = mapped_column(
        server_default=false(),
        doc="the system uses part of the memory: laptops, desktops and single-chip boards",
    )
    fp32_flops_per_s: Mapped[float | None]
    tf32_flops_per_s: Mapped[float | None]
    fp16_flops_per_s: Mapped[float | None]
    bf16_flops_per_s: Mapped[float | None]
    fp8_flops_per_s: Mapped[float | None]
    int8_flops_per_s: Mapped[float | None]
    fp4_flops_per_s: Mapped[float | None]
    power_w: Mapped[float | None]
    scaleup_link: Mapped[str] = mapped_column(Slug)
    scaleup_bytes_per_s: Mapped[float | None]
    scaleup_domain_size: Mapped[int | None]
    machine_link: Mapped[str] = mapped_column(
        String(10), server_default="pcie", doc="link within a machine of unknown topology: scale_up or pcie"
    )
    link_spans_machines: Mapped[bool] = mapped_column(
        server_default=false(), doc="the scale-up domain spans machines, even machines with one accelerator"
    )
    slot_bytes_per_s: Mapped[float] = mapped_column(
        server_default="0", doc="one direction of the slot; for CPUs, of the link between sockets"
    )
    typical_node_size: Mapped[int]
    list_price_usd_low: Mapped[float | None]
    list_price_usd_high: Mapped[float | None]
    price_note: Mapped[str | None] = mapped_column(Text)
    training_class: Mapped[bool]
    confidence: Mapped[str] = mapped_column(String(10))
    notes: Mapped[str | None] = mapped_column(Text)


class SystemRow(Priced, Sourced, Base):
    __tablename__ = "systems"
    __table_args__ = (CheckConstraint("accelerator_count > 0", name="count_positive"),)

    slug: Mapped[str] = mapped_column(Slug, primary_key=True)
    name: Mapped[str] = mapped_column(Slug)
    kind: Mapped[str] = mapped_column(Slug)
    provider: Mapped[str] = mapped_column(Slug, index=True)
    accelerator: Mapped[str] = mapped_column(ForeignKey("accelerators.slug"), index=True)
    accelerator_count: Mapped[float]
    hosts: Mapped[int] = mapped_column(server_default="1", doc="hosts of the machine, each with its own system")
    cpu_model: Mapped[str | None] = mapped_column(Slug)
    vcpus: Mapped[int | None]
    ram_bytes: Mapped[float | None]
    local_storage_bytes: Mapped[float | None]
    topology: Mapped[str] = mapped_column(Slug)
    link: Mapped[str] = mapped_column(
        String(10), server_default="none", doc="link between the accelerators: scale_up, pcie or none"
    )
    scaleup_domain_size: Mapped[float | None] = mapped_column(doc="number of accelerators in one scale-up domain")
    network_bytes_per_s: Mapped[float | None]
    network_type: Mapped[str | None] = mapped_column(Slug)
    power_w: Mapped[float | None]
    rack_units: Mapped[float | None]
    list_price_usd: Mapped[float | None]
    price_kind: Mapped[str | None] = mapped_column(String(10))
    min_quantity: Mapped[int] = mapped_column(server_default="1")
    max_quantity: Mapped[int | None]
    confidence: Mapped[str] = mapped_column(String(10))
    notes: Mapped[str | None] = mapped_column(Text)


class ProviderRow(Sourced, Base):
    """A company that sells or rents out machines and publishes or quotes the price."""

    __tablename__ = "providers"

    slug: Mapped[str] = mapped_column(Slug, primary_key=True)
    name: Mapped[str] = mapped_column(Slug)
    kind: Mapped[str] = mapped_column(String(10), doc="provider, reseller, broker or maker")
    what: Mapped[str] = mapped_column(Text)


class ProviderPlaceRow(Sourced, Base):
    """Countries of a provider's data centers, or the country of its seat."""

    __tablename__ = "provider_places"
    __table_args__ = (CheckConstraint("fact IN ('data_centers', 'seat')", name="fact_known"),)

    provider: Mapped[str] = mapped_column(ForeignKey("providers.slug"), primary_key=True)
    fact: Mapped[str] = mapped_column(String(12), primary_key=True, doc="data_centers or seat")
    countries: Mapped[str] = mapped_column(Text, doc="ISO 3166 codes, separated by spaces; one for a seat")


class OfferRow(Sourced, Base):
    """The newest price of an instance type in a region under a pricing model."""

    __tablename__ = "offers"
    __table_args__ = (
        UniqueConstraint("provider", "region", "instance_type", "accelerator", "accelerator_count", "pricing_model"),
        CheckConstraint("usd_per_hour > 0", name="price_positive"),
        CheckConstraint("accelerator_count >= 0", name="count_not_negative"),
        CheckConstraint(
            "tier IN ('standard', 'serverless', 'marketplace', 'incomplete', 'quarantined')", name="tier_known"
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    provider: Mapped[str] = mapped_column(Slug, index=True)
    region: Mapped[str] = mapped_column(Slug, index=True)
    country: Mapped[str | None] = mapped_column(Slug)
    instance_type: Mapped[str] = mapped_column(Slug)
    system: Mapped[str | None] = mapped_column(ForeignKey("systems.slug"))
    accelerator: Mapped[str] = mapped_column(ForeignKey("accelerators.slug"), index=True)
    accelerator_count: Mapped[float]
    vcpus: Mapped[int | None]
    ram_bytes: Mapped[float | None]
    pricing_model: Mapped[str] = mapped_column(String(20), index=True)
    usd_per_hour: Mapped[float]
    price_kind: Mapped[str] = mapped_column(String(10), server_default="provider")
    confidence: Mapped[str] = mapped_column(String(10), server_default="medium")
    min_quantity: Mapped[int] = mapped_column(server_default="1")
    max_quantity: Mapped[int | None]
    upfront_usd: Mapped[float | None] = mapped_column(doc="upfront payment per machine")
    date_estimated: Mapped[bool]
    tier: Mapped[str] = mapped_column(
        String(12), doc="incomplete: price without a host; quarantined: extreme outlier; neither is offered"
    )
    notes: Mapped[str | None] = mapped_column(Text)


class PriceRow(Base):
    """A past price observation. Observations are added, never changed."""

    __tablename__ = "prices"
    __table_args__ = (
        CheckConstraint("usd_per_hour > 0", name="price_positive"),
        Index("ix_prices_key", "provider", "region", "instance_type", "pricing_model", "observed_on"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    provider: Mapped[str] = mapped_column(Slug)
    region: Mapped[str] = mapped_column(Slug)
    instance_type: Mapped[str] = mapped_column(Slug)
    accelerator: Mapped[str] = mapped_column(ForeignKey("accelerators.slug"))
    accelerator_count: Mapped[float]
    pricing_model: Mapped[str] = mapped_column(String(20))
    usd_per_hour: Mapped[float]
    observed_on: Mapped[str] = mapped_column(String(10))
    source: Mapped[str] = mapped_column(Text)


class EngineSupportRow(Sourced, Base):
    """Formats in which an engine or framework has been run on an accelerator family."""

    __tablename__ = "engine_support"
    __table_args__ = (UniqueConstraint("engine", "accelerator_family", "phase"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    engine: Mapped[str] = mapped_column(Slug, index=True)
    accelerator_family: Mapped[str] = mapped_column(Slug, index=True)
    phase: Mapped[str] = mapped_column(String(20))
    weight_formats: Mapped[str] = mapped_column(
        Text, doc="joined by |; ':weight_only' if products are computed in 16 bits"
    )
    kv_formats: Mapped[str] = mapped_column(Text)
    as_published: Mapped[str | None] = mapped_column(
        Text, doc="statements of the source by format: formats=statement, joined by ' ; '"
    )
    notes: Mapped[str | None] = mapped_column(Text)
    confidence: Mapped[str] = mapped_column(String(10))


class ModelRow(Sourced, Base):
    """A model: its configuration, registered counts and their sources."""

    __tablename__ = "models"
    __table_args__ = (CheckConstraint("total_params > 0", name="params_positive"),)

    id: Mapped[str] = mapped_column(Slug, primary_key=True)
    family: Mapped[str] = mapped_column(Slug)
    developer: Mapped[str] = mapped_column(Slug)
    modality: Mapped[str] = mapped_column(String(20), index=True)
    licence: Mapped[str | None] = mapped_column(Slug)
    release_date: Mapped[str | None] = mapped_column(String(10))
    total_params: Mapped[float]
    active_params: Mapped[float]
    facts: Mapped[dict[str, Any]] = mapped_column(
        JSON, doc="the registry entry: config, derived counts, work per sample"
    )
    confidence: Mapped[str] = mapped_column(String(10))
    origin: Mapped[str] = mapped_column(String(10), server_default="curated", doc="curated, or hub: fetched on request")


class ModelAliasRow(Base):
    """A name that people type for a model, folded to lower case without punctuation."""

    __tablename__ = "model_aliases"

    alias: Mapped[str] = mapped_column(Slug, primary_key=True)
    model: Mapped[str] = mapped_column(ForeignKey("models.id"), primary_key=True)


class CoefficientRow(Sourced, Base):
    """An achieved fraction or an overhead, with its range and source."""

    __tablename__ = "coefficients"
    __table_args__ = (
        UniqueConstraint("name", "accelerator_family", "format_class", "engine"),
        CheckConstraint("low <= value AND value <= high", name="within_range"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(Slug)
    accelerator_family: Mapped[str] = mapped_column(Slug)
    format_class: Mapped[str] = mapped_column(Slug)
    engine: Mapped[str] = mapped_column(Slug)
    value: Mapped[float]
    low: Mapped[float]
    high: Mapped[float]
    unit: Mapped[str] = mapped_column(Slug)


class FactorRow(Sourced, Base):
    """A fitted correction of a coefficient, for all combinations that its keys match."""

    __tablename__ = "factors"
    __table_args__ = (
        UniqueConstraint(
            "name",
            "runtime",
            "engine",
            "generation",
            "kernels",
            "vendor",
            "accelerator_family",
            "format_class",
            name="uq_factors_keys",
        ),
        CheckConstraint("value > 0", name="positive"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(Slug)
    runtime: Mapped[str] = mapped_column(Slug)
    engine: Mapped[str] = mapped_column(Slug)
    generation: Mapped[str] = mapped_column(Slug)
    kernels: Mapped[str] = mapped_column(Slug)
    vendor: Mapped[str] = mapped_column(Slug)
    accelerator_family: Mapped[str] = mapped_column(Slug)
    format_class: Mapped[str] = mapped_column(Slug)
    value: Mapped[float]
    rows: Mapped[int]


class SpreadRow(Base):
    """Prediction errors of one quantity for sources left out of the fit; see `uncertainty.Spread`."""

    __tablename__ = "spreads"

    quantity: Mapped[str] = mapped_column(Slug, primary_key=True)
    alone: Mapped[float]
    remote: Mapped[float]
    untabulated: Mapped[float]
    worse_p5: Mapped[float]
    worse_p10: Mapped[float]
    worse_p20: Mapped[float]
    worse_p50: Mapped[float]
    worse_p80: Mapped[float]
    worse_p90: Mapped[float]
    worse_p95: Mapped[float]
    rows: Mapped[int]
    sources: Mapped[int]
    as_of: Mapped[str] = mapped_column(String(10))


class MeasurementRow(Base):
    """A published or own benchmark result; the payload keeps the columns of its kind."""

    __tablename__ = "measurements"
    __table_args__ = (CheckConstraint("num_accelerators > 0", name="count_positive"),)

    id: Mapped[str] = mapped_column(Slug, primary_key=True)
    kind: Mapped[str] = mapped_column(String(20), index=True)
    accelerator: Mapped[str | None] = mapped_column(ForeignKey("accelerators.slug"), index=True)
    num_accelerators: Mapped[float | None]
    model: Mapped[str | None] = mapped_column(Slug)
    engine: Mapped[str | None] = mapped_column(Slug)
    payload: Mapped[dict[str, Any]] = mapped_column(JSON)
    source: Mapped[str] = mapped_column(Text)
    as_of: Mapped[str | None] = mapped_column(String(10))


class PredictionRow(Base):
    """The engine's prediction of one measured figure, with and without the figure's source in the fit."""

    __tablename__ = "predictions"

    measurement: Mapped[str] = mapped_column(ForeignKey("measurements.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(Slug, primary_key=True)
    source_key: Mapped[str] = mapped_column(Slug)
    measured: Mapped[float]
    predicted: Mapped[float]
    held_out: Mapped[float]
    near: Mapped[int]
    neighbor_sources: Mapped[float] = mapped_column("sources_beside", server_default="0")
    distance: Mapped[float] = mapped_column(server_default="0")
    low: Mapped[float] = mapped_column(server_default="0")
    high: Mapped[float] = mapped_column(server_default="0")
    promised: Mapped[float] = mapped_column(server_default="0")
    excluded: Mapped[bool] = mapped_column("set_aside")
    model: Mapped[str] = mapped_column(Slug)
    engine: Mapped[str] = mapped_column(Slug)
    accelerator_family: Mapped[str] = mapped_column(Slug)
    format_class: Mapped[str] = mapped_column(Slug)
    accelerator: Mapped[str] = mapped_column(ForeignKey("accelerators.slug"))
    load: Mapped[str] = mapped_column(String(10))
    params: Mapped[float]
    devices: Mapped[float]
    in_flight: Mapped[float]
    input_tokens: Mapped[float]
    output_tokens: Mapped[float]


class RecommendationRow(Base):
    """A stored answer, byte for byte, under the digest of its request and catalog version."""

    __tablename__ = "recommendations"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    snapshot: Mapped[str] = mapped_column(String(64))
    request: Mapped[bytes] = mapped_column(LargeBinary)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    supply: Mapped[bytes | None] = mapped_column(
        LargeBinary, doc="every rank's bill with sellers, for exports; none before migration 0009"
    )
    stored_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    tenant: Mapped[str] = mapped_column(Slug, server_default=PUBLIC, doc="whose answer it is")
