"""Private records of tenants: hardware that they own, prices quoted to them, and machines offered to them.

A record has a name within its tenant and kind. Each change of a tenant's records counts up one version, which is the
ETag of its lists. Also holds the responses to writes that carried an Idempotency-Key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import orjson
from sqlalchemy import JSON, Connection, DateTime, LargeBinary, String, delete, insert, select, update
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.keys import Caller
from app.catalog.tables import Slug
from app.catalog.tenants import TenantRow, record_audit
from app.db import Base

IDEMPOTENCY_KEPT = timedelta(hours=24)
MOST_RECORDS = 1000  # of one kind in a tenant

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
    """Returns the records of a kind by name, in the order of their names."""
    rows = PrivateRecordRow
    wanted = select(rows.name, rows.body).where(rows.tenant == tenant, rows.kind == kind.value)
    return dict(sorted((row.name, row.body) for row in connection.execute(wanted)))


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
