"""Tenants: the audit log of each, as a chain of hashes, and the version of its private data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import JSON, Connection, DateTime, String, insert, select, text, update
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.filing import to_utc
from app.catalog.tables import Slug
from app.db import Base

GENESIS = "0" * 64  # hash before the first entry of a tenant
ENSURE = text("INSERT INTO tenants (name) VALUES (:name) ON CONFLICT DO NOTHING")


class TenantRow(Base):
    """One tenant: the end of its audit log, and the version of its private data."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(Slug, primary_key=True)
    entries: Mapped[int] = mapped_column(server_default="0", doc="entries of the audit log")
    head: Mapped[str] = mapped_column(String(64), server_default=GENESIS, doc="hash of the last entry")
    version: Mapped[int] = mapped_column(server_default="0", doc="number of changes of the private data")


class AuditRow(Base):
    """One entry of a tenant's audit log. Entries are added, never changed."""

    __tablename__ = "audit_log"

    tenant: Mapped[str] = mapped_column(Slug, primary_key=True)
    entry: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    actor: Mapped[str] = mapped_column(Slug, doc="id of the key, or command")
    action: Mapped[str] = mapped_column(Slug)
    facts: Mapped[dict[str, Any]] = mapped_column(JSON)
    hash: Mapped[str] = mapped_column(String(64), doc="SHA-256 of the hash before and of this entry")


def lock_tenant(connection: Connection, tenant: str) -> None:
    """Makes other transactions that change this tenant wait for the end of this one. Creates a missing row."""
    connection.execute(ENSURE, {"name": tenant})
    connection.execute(update(TenantRow).where(TenantRow.name == tenant).values(name=tenant))


def record_audit(
    connection: Connection, tenant: str, actor: str, action: str, facts: Mapping[str, Any], *, now: datetime
) -> None:
    """Adds an entry to the audit log of a tenant, in the transaction of the change.

    Other writers of this tenant wait, so that the chain has no fork.
    """
    lock_tenant(connection, tenant)
    mine = TenantRow.name == tenant
    last, head = connection.execute(select(TenantRow.entries, TenantRow.head).where(mine)).one()
    entry = {"tenant": tenant, "entry": last + 1, "at": now, "actor": actor, "action": action, "facts": {**facts}}
    hashed = entry_hash(head, entry)
    connection.execute(insert(AuditRow).values(**entry, hash=hashed))
    connection.execute(update(TenantRow).where(mine).values(entries=last + 1, head=hashed))


def entry_hash(before: str, entry: Mapping[str, Any]) -> str:
    """Returns the hash of an entry after the hash `before`: SHA-256 of both, the entry as JSON with sorted keys."""
    return hashlib.sha256(before.encode() + orjson.dumps(_exported(entry), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _exported(entry: Mapping[str, Any]) -> dict[str, Any]:
    at = entry["at"]
    return {**entry, "at": at if isinstance(at, str) else to_utc(at).astimezone(UTC).isoformat(timespec="microseconds")}


def export_audit(connection: Connection, tenant: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields the entries of the audit log, by tenant and number, as they were hashed, each with its hash."""
    names = ("tenant", "entry", "at", "actor", "action", "facts", "hash")
    query = select(*(getattr(AuditRow, name) for name in names)).order_by(AuditRow.tenant, AuditRow.entry)
    for row in connection.execute(query if tenant is None else query.where(AuditRow.tenant == tenant)):
        yield _exported(dict(zip(names, row, strict=True)))


def find_break(entries: Iterable[Mapping[str, Any]], heads: Mapping[str, tuple[int, str]]) -> str | None:
    """Returns where an exported audit log was changed; None if every chain is whole. `heads` are the number of entries
    and the last hash of each tenant.
    """
    last: dict[str, tuple[int, str]] = {}
    for each in entries:
        number, before = last.get(each["tenant"], (0, GENESIS))
        entry = {name: value for name, value in each.items() if name != "hash"}
        if each["entry"] != number + 1 or entry_hash(before, entry) != each["hash"]:
            return f"tenant {each['tenant']}, entry {number + 1}"
        last[each["tenant"]] = each["entry"], each["hash"]
    for tenant, (number, head) in heads.items():
        if last.get(tenant, (0, GENESIS)) != (number, head):
            return f"tenant {tenant}, after entry {last.get(tenant, (0, GENESIS))[0]}"
    return None


def audit_heads(connection: Connection, tenant: str | None = None) -> dict[str, tuple[int, str]]:
    """Returns the number of entries and the last hash of each tenant's audit log."""
    query = select(TenantRow.name, TenantRow.entries, TenantRow.head)
    rows = connection.execute(query if tenant is None else query.where(TenantRow.name == tenant))
    return {name: (entries, head) for name, entries, head in rows}
