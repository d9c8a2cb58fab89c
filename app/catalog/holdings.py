"""Private records of tenants: hardware that they own, prices quoted to them, and machines offered to them.

A record has a name within its tenant and kind. Each change of a tenant's records counts up one version, which is the
ETag of its lists. Also holds the responses to writes that carried an Idempotency-Key.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import orjson
import structlog
from sqlalchemy import JSON, Connection, DateTime, Engine, LargeBinary, String, delete, insert, select, update
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.keys import Caller
from app.catalog.tables import Slug
from app.catalog.tenants import TenantRow, record_audit
from app.db import PUBLIC, Base, acting_for
from app.errors import describe_error
from app.sizing.hardware.parts import Offer, OwnedHardware, PriceKind, PricingModel, System, Terms
from app.sizing.inventory import quoted_machine
from app.sizing.snapshot import Catalog

IDEMPOTENCY_KEPT = timedelta(hours=24)
MOST_RECORDS = {"inventory": 50, "offer": 500, "system": 500}  # of a tenant
MOST_CACHED = 1000  # tenants whose records stay in memory
PUBLIC_FRESH_S = 2.0
MOMENT_S = 0.3  # longest wait of a request without a key for the database

log = structlog.get_logger("headroom")

Body = Mapping[str, Any]


class RecordKind(StrEnum):
    """What a private record describes."""

    INVENTORY = "inventory"
    OFFER = "offer"
    SYSTEM = "system"


class PrivateRecordRow(Base):
    """One private record, as it was sent."""

    __tablename__ = "private_records"

    tenant: Mapped[str] = mapped_column(Slug, primary_key=True)
    kind: Mapped[str] = mapped_column(String(10), primary_key=True, doc="inventory, offer or system")
    name: Mapped[str] = mapped_column(Slug, primary_key=True)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    changed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    changed_by: Mapped[str] = mapped_column(Slug, doc="id of the key")


class IdempotencyRow(Base):
    """The response to a write, kept for a day, so that a repeated request has one effect."""

    __tablename__ = "idempotency_keys"

    tenant: Mapped[str] = mapped_column(Slug, primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request: Mapped[str] = mapped_column(String(64), doc="SHA-256 of the request that was sent with the key")
    status: Mapped[int]
    headers: Mapped[dict[str, str]] = mapped_column(JSON)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    stored_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response to an earlier write, and the digest of the request that it answered."""

    request: str
    status: int
    headers: Mapping[str, str]
    body: bytes


def records_version(connection: Connection, tenant: str) -> int:
    """Returns the number of changes of a tenant's records."""
    return connection.execute(select(TenantRow.version).where(TenantRow.name == tenant)).scalar() or 0


def list_records(connection: Connection, tenant: str, kind: RecordKind) -> dict[str, Body]:
    """The bodies of a tenant's records by name; a field that was stored as null is as if it was left out."""
    rows = PrivateRecordRow
    wanted = select(rows.name, rows.body).where(rows.tenant == tenant, rows.kind == kind.value)
    found = sorted((row.name, row.body) for row in connection.execute(wanted))
    return {name: {field: value for field, value in body.items() if value is not None} for name, body in found}


def put_records(
    connection: Connection, caller: Caller, kind: RecordKind, records: Mapping[str, Body], *, now: datetime
) -> dict[str, str]:
    """Adds or replaces records, and returns what happened to each name: added, changed or unchanged.

    Call it after `lock_tenant`, in the same transaction.
    """
    rows, known = PrivateRecordRow, list_records(connection, caller.tenant, kind)
    done = {
        name: "unchanged" if known.get(name) == body else "changed" if name in known else "added"
        for name, body in records.items()
    }
    by = {"changed_at": now, "changed_by": caller.key_id}
    for name, what in done.items():
        mine = (rows.tenant == caller.tenant, rows.kind == kind.value, rows.name == name)
        body = {**records[name]}
        if what == "added":
            values = {"tenant": caller.tenant, "kind": kind.value, "name": name}
            connection.execute(insert(rows).values(**values, body=body, **by))
        elif what == "changed":
            connection.execute(update(rows).where(*mine).values(body=body, **by))
    if any(what != "unchanged" for what in done.values()):
        _count_change(connection, caller, f"{kind.value}.stored", {"records": done}, now=now)
    return done


def delete_record(connection: Connection, caller: Caller, kind: RecordKind, name: str, *, now: datetime) -> bool:
    """Deletes a record. Returns False if there is none of this name. Call it after `lock_tenant`."""
    rows = PrivateRecordRow
    mine = (rows.tenant == caller.tenant, rows.kind == kind.value, rows.name == name)
    if not connection.execute(delete(rows).where(*mine)).rowcount:
        return False
    _count_change(connection, caller, f"{kind.value}.deleted", {"record": name}, now=now)
    return True


def _count_change(connection: Connection, caller: Caller, action: str, facts: Body, *, now: datetime) -> None:
    mine = TenantRow.name == caller.tenant
    connection.execute(update(TenantRow).where(mine).values(version=TenantRow.version + 1))
    record_audit(connection, caller.tenant, caller.key_id, action, facts, now=now)


def request_digest(method: str, path: str, body: bytes, *further: str) -> str:
    """Returns the digest by which a repeated request is recognized."""
    return hashlib.sha256(orjson.dumps([method, path, *further]) + body).hexdigest()


def find_response(connection: Connection, tenant: str, key: str, *, now: datetime) -> StoredResponse | None:
    """Returns the response to an earlier write with this Idempotency-Key. Call it after `lock_tenant`, so that the
    first request with a key has ended before its repetition is looked up.
    """
    rows = IdempotencyRow
    connection.execute(delete(rows).where(rows.tenant == tenant, rows.stored_at < now - IDEMPOTENCY_KEPT))
    columns = (rows.request, rows.status, rows.headers, rows.body)
    row = connection.execute(select(*columns).where(rows.tenant == tenant, rows.key == key)).first()
    return None if row is None else StoredResponse(*row)


def store_response(connection: Connection, tenant: str, key: str, response: StoredResponse, *, now: datetime) -> None:
    """Stores the response to a write in the transaction of the write."""
    values = {
        "request": response.request,
        "status": response.status,
        "headers": {**response.headers},
        "body": response.body,
    }
    connection.execute(insert(IdempotencyRow).values(tenant=tenant, key=key, stored_at=now, **values))


@dataclass(frozen=True, slots=True)
class Holdings:
    """The private records of a tenant that its answers use. Two are equal if their digests are."""

    tenant: str = PUBLIC
    digest: str = ""  # of the prices and machines; empty without any
    inventory: Mapping[str, Body] = field(default_factory=dict, compare=False)
    offers: Mapping[str, Body] = field(default_factory=dict, compare=False)
    systems: Mapping[str, Body] = field(default_factory=dict, compare=False)
    inventory_digest: str = ""


NOTHING_HELD = Holdings()


def make_holdings(tenant: str, records: Mapping[RecordKind, Mapping[str, Body]]) -> Holdings:
    inventory = records.get(RecordKind.INVENTORY, {})
    prices = {kind.value: records[kind] for kind in (RecordKind.OFFER, RecordKind.SYSTEM) if records.get(kind)}
    return Holdings(
        tenant,
        _digest(prices) if prices else "",
        inventory,
        records.get(RecordKind.OFFER, {}),
        records.get(RecordKind.SYSTEM, {}),
        _digest(inventory) if inventory else "",
    )


def _digest(records: Any) -> str:
    return hashlib.sha256(orjson.dumps(records, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


class HoldingsStore:
    """Private records as requests see them: read again if the tenant's version has changed."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lock = engine, threading.Lock()
        self._read: OrderedDict[str, tuple[int, Holdings]] = OrderedDict()
        self._checked_at = float("-inf")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdings")

    def read(self, tenant: str) -> Holdings:
        """Returns the current records of a tenant. Raises DatabaseError."""
        with acting_for(tenant), self._engine.connect() as connection:
            version = records_version(connection, tenant)
            known = self._read.get(tenant)
            if known is not None and known[0] == version:
                return known[1]
            records = {kind: list_records(connection, tenant, kind) for kind in RecordKind} if version else {}
        holdings = make_holdings(tenant, records)
        with self._lock:
            self._read[tenant] = version, holdings
            while len(self._read) > MOST_CACHED:
                self._read.popitem(last=False)
        return holdings

    def forget_check(self) -> None:
        """Makes the next request without a key read the public records again: this process has just changed them."""
        self._checked_at = float("-inf")

    async def read_public(self) -> Holdings:
        """Returns the records of the public tenant, read at most every two seconds and waited for only briefly:
        callers without a key get answers while the database does not answer.
        """
        if time.monotonic() - self._checked_at >= PUBLIC_FRESH_S:
            self._checked_at = time.monotonic()
            reading = asyncio.wrap_future(self._thread.submit(self.read, PUBLIC))
            await asyncio.wait({reading}, timeout=MOMENT_S)
            if reading.done() and (error := reading.exception()) is not None:
                log.warning("holdings_not_read", **describe_error(error))
            reading.cancel()
        known = self._read.get(PUBLIC)
        return NOTHING_HELD if known is None else known[1]


def in_force(records: Mapping[str, Body], day: str, catalog: Catalog) -> dict[str, Body]:
    """Returns the quotes that are valid on a day and whose hardware the catalog still has."""
    return {
        name: body
        for name, body in records.items()
        if body["accelerator"] in catalog.accelerator_index
        and (body.get("system") is None or body["system"] in catalog.systems)
        and body["valid_from"] <= day <= body.get("valid_until", day)
    }


def quoted_offers(records: Mapping[str, Body]) -> list[Offer]:
    return [
        Offer(
            provider=body["provider"],
            region=body.get("region", "unspecified"),
            instance_type=name,
            system=body.get("system"),
            accelerator=body["accelerator"],
            accelerator_count=float(body["accelerators"]),
            pricing_model=PricingModel(body["pricing_model"]),
            usd_per_hour=body["usd_per_hour"],
            source=f"your record {name}",
            as_of=body["valid_from"],
            price_kind=PriceKind.QUOTE,
            confidence="high",
            min_quantity=body["min_quantity"],
            max_quantity=body.get("max_quantity"),
            upfront_usd=body.get("upfront_usd"),
            licences=tuple(body.get("licences", ())),
        )
        for name, body in records.items()
    ]


def quoted_systems(records: Mapping[str, Body], catalog: Catalog) -> list[System]:
    """Returns quoted machines as systems for sale."""
    found = []
    for name, body in records.items():
        quote = OwnedHardware(
            accelerator=body["accelerator"],
            count=int(body["accelerators"]),
            per_machine=int(body["accelerators"]),
            system=body.get("system"),
            usd_per_machine=body["usd"] + body.get("licence_usd", 0.0),
            ram_gib=body.get("host_memory_gib"),
            network_gbit_s=body.get("network_gbit_s"),
            power_kw=body.get("power_kw"),
        )
        terms = Terms(
            PriceKind.QUOTE,
            f"your record {name}",
            body["valid_from"],
            "high",
            body["min_quantity"],
            body.get("max_quantity"),
            licences=tuple(body.get("licences", ())),
        )
        found.append(
            quoted_machine(quote, catalog, f"quoted-{name}", f"{name} of {body['seller']}", terms, body["provider"])
        )
    return found
