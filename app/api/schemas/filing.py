"""Schemas of stored answers: labels, lists, approval status, and the supply record that exports read.

An answer of 30 KB has no room for the bills of all its ranks, nor for the names of their goods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from app.api.schemas.base import (
    Component,
    PrintableText,
    RequestModel,
    require_printable,
    rounded_fields,
    with_examples,
)
from app.api.schemas.catalog import ListPage, Page
from app.api.schemas.origins import ADDED, WHOLE, From, ResultModel
from app.catalog.filing import ALLOWED_TRANSITIONS, FilingRow, Status, StatusChangeRow, StatusUpdate, to_utc
from app.catalog.purchasing import Purchasing
from app.sizing.answer.verification import LaunchSpec, launch_specs
from app.sizing.assumptions import BY_NAME, Assumed
from app.sizing.columns import GB, GBIT, GIB
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.listings import GENERIC_PROVIDER, INVENTORY, purchase_terms
from app.sizing.hardware.parts import Accelerator, PriceKind, System, Terms
from app.sizing.question import Deployment, Question
from app.sizing.result import Answer, Estimate, Part
from app.sizing.snapshot import Catalog

DIGITS = 12  # keeps cents exact for the largest fleets
# Assumptions that give the price of a bill line if it has no quote.
DERIVED_WITH = {
    "chassis": ("desktop_chassis_usd", "tower_chassis_usd", "small_chassis_usd", "large_chassis_usd"),
    "processors": ("desktop_core_usd", "server_core_usd"),
    "memory": ("desktop_memory_usd_per_gib", "server_memory_usd_per_gib"),
    "more_memory_gib": ("server_memory_usd_per_gib",),
    "network_gbit_per_s": ("network_usd_per_gbit",),
    "rack_kw": ("rack_usd_per_kw",),
    "upkeep_usd": ("maintenance_fraction_per_year",),
    "floor_kw": ("facility_usd_per_kw_month",),
    "power_kw": ("electricity_usd_per_kwh",),
}
LAST_BILL_LINE = "horizon_hours"

Document = dict[str, Any]


def supply_json(question: Question, answer: Answer, catalog: Catalog, purchasing: Purchasing) -> Document:
    """The lots and launch configurations of every rank, the sources of assumed prices, and the codes of the goods."""
    return {
        "ranks": [lots_json(ranked.estimate, question, catalog, purchasing) for ranked in answer.recommendations],
        "starts": [starts_json(question, ranked.estimate, catalog) for ranked in answer.recommendations],
        **_shared_sources(answer.assumptions, purchasing),
    }


def starts_json(question: Question, estimate: Estimate, catalog: Catalog) -> list[Document]:
    """Launch configurations of a deployment."""
    return [start_json(start) for start in launch_specs(question, estimate, catalog.host_counts)]


def estimate_supply(estimate: Estimate, question: Question, catalog: Catalog, purchasing: Purchasing) -> Document:
    """The export data of one deployment in the format of an answer with one rank, without launch configurations."""
    return {
        "ranks": [lots_json(estimate, question, catalog, purchasing)],
        **_shared_sources(estimate.assumptions, purchasing),
    }


def _shared_sources(assumptions: Sequence[Assumed], purchasing: Purchasing) -> Document:
    """Sources of assumed prices and codes of goods, shared by the lines of every rank."""
    asked = frozenset(a.name for a in assumptions if a.asked)
    return {
        "derived": {what: _derived(names, asked) for what, names in DERIVED_WITH.items()},
        "codes": dict(purchasing.codes),
    }


def start_json(start: LaunchSpec) -> Document:
    """Launch configuration of identical replicas, with everything that their commands need."""
    return {
        "role": start.role,
        "software": start.software,
        **rounded_fields(version=start.version),
        "replicas": start.replicas,
        "machines": start.machines,
        **({} if start.hosts == 1 else {"hosts": start.hosts}),
        **({} if start.benchmark.server is None else {"server": asdict(start.benchmark.server)}),
        "load": start.benchmark.load,
        "places": {name: value for name, value in start.places.items() if value is not None},
    }


def lots_json(estimate: Estimate, question: Question, catalog: Catalog, purchasing: Purchasing) -> list[Document]:
    """The lots to buy: the whole deployment, or one lot per pool."""
    discounts = dict(question.economics.discounts)
    return [
        {
            **sold,
            **rounded_fields(discount=discounts.get(d.accelerator), licence=licence_to_buy(d, sold.get("price", {}))),
        }
        for d, sold in _lots_by_deployment(estimate, catalog, purchasing)
    ]


def licence_to_buy(d: Deployment, price: Document) -> str | None:
    """The license of the engine that the price of the machines does not include."""
    licence = engine_named(d.engine or "").licence
    return None if not licence or licence in price.get("licences", ()) else licence


def _lots_by_deployment(
    estimate: Estimate, catalog: Catalog, purchasing: Purchasing
) -> list[tuple[Deployment, Document]]:
    whole, cost = estimate.deployment, estimate.cost
    parts = split_bills(() if cost is None else cost.parts)
    if whole.pools is None:
        own = None if cost is None or cost.price is None else cost.price.terms
        return [(whole, lot_json(whole, parts[0] if parts else (), catalog, purchasing, own))]
    pools = {"prefill": whole.pools.prefill, "decode": whole.pools.decode}
    return [
        (
            replace(pool, engine=whole.engine),
            {"pool": name, **lot_json(pool, bill, catalog, purchasing, _price_terms(pool, catalog))},
        )
        for (name, pool), bill in zip(pools.items(), parts or [(), ()], strict=False)
    ]


def split_bills(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """The bill lines of each pool; a bill ends with the line of the hours it is paid over."""
    pool_bills: list[tuple[Part, ...]] = []
    first = 0
    for place, part in enumerate(parts):
        if part.what == LAST_BILL_LINE:
            pool_bills.append(parts[first : place + 1])
            first = place + 1
    return pool_bills


def lot_json(
    d: Deployment, parts: tuple[Part, ...], catalog: Catalog, purchasing: Purchasing, terms: Terms | None
) -> Document:
    """A number of identical machines, their components, and the amount of each bill line."""
    accelerator = catalog.accelerators[catalog.accelerator_index[d.accelerator]]
    system = catalog.systems.get(d.system or "")
    return {
        "accelerator": _accelerator_json(accelerator, purchasing),
        **rounded_fields(accelerators=d.total_accelerators, machines=d.nodes),
        **({} if system is None else {"machine": _machine_json(system, purchasing)}),
        **rounded_fields(
            seller=_seller_name(d, purchasing),
            region=d.region,
            pricing_model=d.pricing_model and d.pricing_model.value,
            instance_type=d.instance_type,
        ),
        **({} if terms is None else {"price": _price_json(terms)}),
        "parts": [_part_json(part) for part in parts],
    }


def _seller_name(d: Deployment, purchasing: Purchasing) -> str | None:
    """Name of the provider or maker; None for a generic host, whose supplier the buyer chooses."""
    if d.provider is None or d.provider == GENERIC_PROVIDER:
        return None
    return purchasing.names.get(d.provider, d.provider)


def _part_json(part: Part) -> Document:
    figures = {"quantity": part.quantity, "unit_usd": part.unit_usd, "usd_per_hour": part.usd_per_hour}
    return {"what": part.what} | {k: float(f"{v:.{DIGITS}g}") for k, v in figures.items() if v is not None}


def _accelerator_json(a: Accelerator, purchasing: Purchasing) -> Document:
    listed = a.estimated_terms
    return {
        "sku": a.slug,
        "name": a.name,
        "maker": a.vendor,
        **rounded_fields(part_number=purchasing.part_numbers.get(a.slug)),
        "price": {
            "kind": "list",
            "source": listed.source,
            "observed": listed.observed,
            "confidence": listed.confidence,
        },
    }


def _machine_json(s: System, purchasing: Purchasing) -> Document:
    network = s.network_bytes_per_s
    return {
        "sku": s.slug,
        "name": s.name,
        **rounded_fields(
            maker=None if s.provider in (GENERIC_PROVIDER, INVENTORY) else purchasing.names.get(s.provider, s.provider)
        ),
        **rounded_fields(part_number=purchasing.part_numbers.get(s.slug), processors=s.cpu_model),
        **rounded_fields(
            vcpus=s.vcpus, memory_gib=s.ram_bytes and s.ram_bytes / GIB, network_gbit_per_s=network and network / GBIT
        ),
        **rounded_fields(rack_units=s.rack_units, storage_gb=s.local_storage_bytes and s.local_storage_bytes / GB),
    }


def _price_json(t: Terms) -> Document:
    return {
        "kind": t.kind.value,
        "source": t.source,
        "observed": t.observed,
        "confidence": t.confidence,
        **rounded_fields(min_quantity=t.min_quantity, commitment=t.commitment.value, upfront_usd=t.upfront_usd),
        **({"licences": list(t.licences)} if t.licences else {}),
    }


def _price_terms(pool: Deployment, catalog: Catalog) -> Terms | None:
    """Price terms of a pool's machines, or None if the catalog has none."""
    system = catalog.systems.get(pool.system or "")
    if pool.instance_type is None:
        part = catalog.accelerators[catalog.accelerator_index[pool.accelerator]]
        return None if system is None else purchase_terms(system, part)
    key = (pool.provider, pool.region, pool.pricing_model, pool.instance_type, pool.accelerator)
    matches = (
        o.terms
        for o in catalog.offers
        if (o.provider, o.region, o.pricing_model, o.instance_type, o.accelerator) == key
    )
    return next(matches, None)


def _derived(names: tuple[str, ...], asked: frozenset[str]) -> Document:
    """The source of an assumed price: the request, or the sources of the assumptions in `names`."""
    if asked.intersection(names):
        return {"kind": "asked", "source": "request", "confidence": "high"}
    facts = [BY_NAME[name].metadata for name in names]
    return {
        "kind": PriceKind.ESTIMATE.value,
        "source": "; ".join(dict.fromkeys(fact["source"] for fact in facts)),
        "observed": max(fact["as_of"] for fact in facts),
        "confidence": "low",
    }


StatusName = Annotated[Literal["draft", "approved", "ordered", "superseded"], Component("Status")]
Note = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(require_printable)]
Identity = Annotated[str, Field(pattern=r"^rec_[0-9a-f]{28}$")]
FILED_EXAMPLE: dict[str, Any] = {
    "id": "rec_0123456789abcdef0123456789ab",
    "stored_at": "2026-11-20T08:00:00Z",
    "status": "approved",
    "etag": '"status-1"',
    "label": "chat, second site",
    "reference": "PR-2026-0417",
    "cost_centre": "4711",
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "accelerators": ["nvidia-h200-sxm-141gb"],
    "option": "8 x NVIDIA H200 SXM 141GB",
}
CHANGE_EXAMPLE = {"status": "approved", "at": "2026-11-21T09:30:00Z", "by": "J. Doe", "note": "Board of 20 November."}


def _parse_time(text: Any) -> Any:
    """Parses a date or time in ISO 8601. A date means midnight; a time without a zone is UTC."""
    try:
        return to_utc(datetime.fromisoformat(text))
    except (TypeError, ValueError, OverflowError):
        raise ValueError("must be a date or time, such as 2026-11-20 or 2026-11-20T08:00:00Z") from None


Moment = Annotated[datetime, BeforeValidator(_parse_time)]


class RecommendationFilter(Page):
    """Filters of the list of stored answers."""

    label: PrintableText | None = Field(None, description="Words of the label, in any order.")
    reference: PrintableText | None = Field(None, description="Exact value from the request.")
    cost_centre: PrintableText | None = Field(None, description="Exact value from the request.")
    status: StatusName | None = None
    model: PrintableText | None = Field(None, description="Model name, alias or the name in the request.")
    accelerator: PrintableText | None = Field(
        None, description="Accelerator of the first rank, by slug or common name."
    )
    created_after: Moment | None = Field(None, description="First stored at this time or later; a date or time in UTC.")
    created_before: Moment | None = Field(None, description="First stored before this date or time in UTC.")


def status_etag(row: FilingRow) -> str:
    return f'"status-{row.version}"'


def _format_time(moment: datetime) -> str:
    return to_utc(moment).isoformat(timespec="seconds").replace("+00:00", "Z")


class FiledShown(ResultModel, of=FilingRow):
    """A stored answer in a list."""

    model_config = with_examples(FILED_EXAMPLE)

    id: Annotated[str, From("recommendation")]
    stored_at: Annotated[str, From(convert=_format_time)] = Field(description="Time when the answer was first stored.")
    status: StatusName
    etag: Annotated[str, From(WHOLE, convert=status_etag)] = Field(
        description="ETag of the status; send it as If-Match to change the status."
    )
    superseded_by: str | None = Field(None, description="ID of the recommendation that replaced this one.")
    label: str | None = None
    reference: str | None = None
    cost_centre: str | None = None
    model: str | None = None
    accelerators: Annotated[list[str], From(WHOLE, convert=lambda row: (row.accelerators or "").split())] = Field(
        description="Accelerators of the first rank; empty if nothing was feasible."
    )
    option: str | None = Field(None, description="The first rank in words.")


class RecommendationList(ListPage[FiledShown]):
    """Stored answers, newest first."""

    model_config = with_examples({"items": [FILED_EXAMPLE], "next_cursor": "MjAyNi0xMS0yMFQwODowMDowMCswMDowMA"})


class StatusChangeShown(ResultModel, of=StatusChangeRow):
    """A change of status: who made it and when."""

    model_config = with_examples(CHANGE_EXAMPLE)

    status: StatusName
    at: Annotated[str, From("changed_at", convert=_format_time)]
    by: Annotated[str, From("changed_by")]
    note: str | None = None
    superseded_by: str | None = None


class StatusShown(FiledShown):
    """Approval status of a stored answer, the allowed next statuses and the history."""

    model_config = with_examples(
        {**FILED_EXAMPLE, "next": ["draft", "ordered", "superseded"], "history": [CHANGE_EXAMPLE]}
    )

    next: Annotated[list[StatusName], ADDED] = Field(description="Allowed next statuses.")
    history: Annotated[list[StatusChangeShown], ADDED] = Field(description="Every change, oldest first.")


class StatusChange(RequestModel):
    """A change of status. The answer itself does not change."""

    model_config = with_examples({"status": "approved", "by": "J. Doe", "note": "Board of 20 November."})

    status: StatusName
    by: PrintableText = Field(description="Who makes the change; it is stored, not verified.")
    note: Note | None = None
    superseded_by: Identity | None = Field(
        None, description="ID of the stored recommendation that replaces this one; requires status superseded."
    )

    @model_validator(mode="after")
    def _check_successor(self) -> StatusChange:
        if self.superseded_by is not None and self.status != "superseded":
            raise ValueError("superseded_by requires status superseded")
        return self

    def to_change(self) -> StatusUpdate:
        return StatusUpdate(Status(self.status), self.by, self.note, self.superseded_by)


def status_json(row: FilingRow, changes: Sequence[StatusChangeRow]) -> dict[str, Any]:
    """A stored answer as JSON with the history of its status."""
    following = list(ALLOWED_TRANSITIONS[Status(row.status)])
    history = [StatusChangeShown.as_json(change) for change in changes]
    return StatusShown.as_json(row, given={"next": following, "history": history})
