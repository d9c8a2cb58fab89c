"""Schemas of the catalog: query filters, and rows in user-facing units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.base import (
    CommitmentName,
    PhaseName,
    PriceKindName,
    PricingName,
    PrintableText,
    ResponseModel,
    SoldForName,
    SystemKindName,
    TrustName,
    round_value,
)
from app.sizing.columns import GB, GIB, TERA
from app.sizing.hardware.parts import RATE_NAMES, PricingModel


class Page(BaseModel):
    """A page of a list; unknown query parameters are rejected."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class AcceleratorFilter(Page):
    q: PrintableText | None = Field(None, description="A name or part of a name: h100, RTX 4090, mi300.")
    vendor: PrintableText | None = None
    kind: PrintableText | None = None
    family: PrintableText | None = None
    segment: PrintableText | None = None


class SystemFilter(Page):
    accelerator: PrintableText | None = None
    provider: PrintableText | None = None
    kind: PrintableText | None = None


class OfferFilter(Page):
    accelerator: PrintableText | None = None
    provider: PrintableText | None = None
    region: PrintableText | None = None
    pricing_model: PrintableText | None = None
    instance_type: PrintableText | None = None
    sort: Literal["usd_per_accelerator_hour", "usd_per_hour"] | None = Field(
        None, description="Price to sort by, lowest first. Default: the order of the catalog."
    )


class ModelFilter(Page):
    q: PrintableText | None = Field(None, description="Words of a model id or alias, in any order.")
    modality: PrintableText | None = None
    family: PrintableText | None = None


class EngineFilter(Page):
    engine: PrintableText | None = None
    accelerator_family: PrintableText | None = None
    phase: PrintableText | None = None


class PriceFilter(Page):
    accelerator: PrintableText | None = None
    provider: PrintableText | None = None
    region: PrintableText | None = None
    instance_type: PrintableText | None = None
    pricing_model: PrintableText | None = None


Item = TypeVar("Item")


class ListPage(ResponseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next_cursor: str | None


class Sourced(ResponseModel):
    source: str
    as_of: str


class AcceleratorShown(Sourced):
    """An accelerator type: memory, matrix rates, links, power and price."""

    slug: str
    name: str
    vendor: str
    kind: str
    family: str
    form_factor: str
    architecture: str
    segment: SoldForName
    release_year: int
    memory_gib: float | None
    memory_is_reported: bool
    memory_type: str
    memory_gb_per_s: float | None
    unified_memory: bool
    tflops: dict[str, float] = Field(
        description="Dense matrix rates by number format; a missing format is not supported."
    )
    power_w: float | None
    scaleup_link: str
    scaleup_gb_per_s: float | None = Field(description="Bandwidth per direction and accelerator.")
    scaleup_domain_size: int | None
    typical_node_size: int
    list_price_usd: list[float] | None = Field(description="Low and high end of the price range.")
    price_source: str | None = Field(description="Source of the price.")
    price_observed: str | None = Field(description="Observation date of the price: a day, month or year.")
    price_confidence: TrustName | None
    training_class: bool
    confidence: TrustName
    notes: str | None


class SystemShown(Sourced):
    """A machine with accelerators: server, workstation, instance or pod slice."""

    slug: str
    name: str
    kind: SystemKindName
    provider: str
    accelerator: str
    accelerator_count: float
    hosts: int
    cpu_model: str | None
    vcpus: int | None
    ram_gib: float | None
    topology: str
    network_gbit_per_s: float | None
    network_type: str | None
    power_kw: float | None
    list_price_usd: float | None
    price_kind: PriceKindName | None = Field(description="Kind of price, such as survey, list or launch.")
    price_source: str | None = Field(description="Source of the price.")
    price_observed: str | None = Field(description="Observation date of the price: a day, month or year.")
    price_confidence: TrustName | None
    min_quantity: int
    max_quantity: int | None
    confidence: TrustName
    notes: str | None


class OfferRowShown(Sourced):
    """A current hourly price of a machine."""

    provider: str
    region: str
    country: str | None
    instance_type: str
    system: str | None
    accelerator: str
    accelerator_count: float
    pricing_model: PricingName
    commitment: CommitmentName = Field(description="Length of the commitment: none, 1y or 3y.")
    usd_per_hour: float
    usd_per_accelerator_hour: float = Field(description="Hourly price of the machine divided by its accelerators.")
    price_kind: PriceKindName = Field(description="Kind of price: provider, reseller or broker.")
    confidence: TrustName
    min_quantity: int = Field(description="Minimum number of machines per order.")
    max_quantity: int | None = Field(description="Maximum number of machines; null if unknown.")
    upfront_usd: float | None = Field(description="Upfront payment for one machine; included in usd_per_hour.")
    date_estimated: bool
    tier: str
    notes: str | None


class ModelShown(Sourced):
    """A model in the catalog."""

    id: str
    family: str
    developer: str
    modality: str
    licence: str | None
    release_date: str | None
    parameters: int
    active_parameters: int
    aliases: list[str]
    origin: str = Field(description="curated, or hub if it was fetched from the model hub on request.")
    confidence: TrustName


class EngineShown(Sourced):
    """An engine or framework on one accelerator family, with the supported formats."""

    engine: str
    accelerator_family: str
    phase: PhaseName
    weight_formats: list[str]
    kv_formats: list[str]
    notes: str | None
    confidence: TrustName


class PriceRowShown(ResponseModel):
    """A price observed on a given day."""

    provider: str
    region: str
    instance_type: str
    accelerator: str
    accelerator_count: float
    pricing_model: PricingName
    usd_per_hour: float
    observed_on: str
    source: str


class AcceleratorList(ListPage[AcceleratorShown]):
    """Accelerator types, by slug."""


class SystemList(ListPage[SystemShown]):
    """Machines, by slug."""


class OfferList(ListPage[OfferRowShown]):
    """Current hourly prices."""


class ModelList(ListPage[ModelShown]):
    """Models, by name."""


class EngineList(ListPage[EngineShown]):
    """Engines and frameworks by accelerator family."""


class PriceList(ListPage[PriceRowShown]):
    """Price history: earlier observed prices."""


def _unchanged_fields(row: Any, shown: type[ResponseModel]) -> dict[str, Any]:
    """The fields of a catalog row that the response shows with the same name and unit."""
    return {n: round_value(getattr(row, n)) for n in shown.model_fields if hasattr(row, n)}


def _in_unit(value: float | None, unit: float) -> Any:
    return None if value is None else round_value(value / unit)


def accelerator_json(r: Any) -> dict[str, Any]:
    rates = {n: getattr(r, f"{n}_flops_per_s") for n in RATE_NAMES}
    prices = [r.list_price_usd_low, r.list_price_usd_high]
    return {
        **_unchanged_fields(r, AcceleratorShown),
        "memory_gib": _in_unit(r.memory_bytes, GIB),
        "memory_gb_per_s": _in_unit(r.memory_bytes_per_s, GB),
        "tflops": {k: round_value(v / TERA) for k, v in rates.items() if v is not None},
        "scaleup_gb_per_s": _in_unit(r.scaleup_bytes_per_s, GB),
        "list_price_usd": None if None in prices else prices,
    }


def system_json(r: Any) -> dict[str, Any]:
    return {
        **_unchanged_fields(r, SystemShown),
        "ram_gib": _in_unit(r.ram_bytes, GIB),
        "network_gbit_per_s": None if r.network_bytes_per_s is None else round_value(r.network_bytes_per_s * 8 / GB),
        "power_kw": _in_unit(r.power_w, 1e3),
    }


def offer_json(r: Any) -> dict[str, Any]:
    return {
        **_unchanged_fields(r, OfferRowShown),
        "commitment": PricingModel(r.pricing_model).commitment.value,
        "usd_per_accelerator_hour": round_value(r.usd_per_hour / (r.accelerator_count or 1.0)),
    }


def model_json(r: Any) -> dict[str, Any]:
    return {
        **_unchanged_fields(r, ModelShown),
        "parameters": int(r.total_params),
        "active_parameters": int(r.active_params),
        "aliases": list(r.facts.get("aliases", [])),
    }


def engine_json(r: Any) -> dict[str, Any]:
    return {
        **_unchanged_fields(r, EngineShown),
        "weight_formats": [f for f in r.weight_formats.split("|") if f],
        "kv_formats": [f for f in r.kv_formats.split("|") if f],
    }


def price_json(r: Any) -> dict[str, Any]:
    return _unchanged_fields(r, PriceRowShown)


RowJson = Callable[[Any], dict[str, Any]]


class AssumptionShown(ResponseModel):
    """A numeric assumption of the engine: its default value and the range that a request may set."""

    name: str
    value: float
    unit: str
    low: float
    high: float
    reason: str
    source: str
    as_of: str = Field(description="Year and month of the source or decision.")


class AssumptionList(ListPage[AssumptionShown]):
    """Assumptions, by name."""
