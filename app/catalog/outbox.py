"""Transactional outbox of webhook events. An event is written in the transaction that causes it and kept until
delivered.

A process claims a delivery for a limited time with one guarded UPDATE. So no two processes try it at once, and
claims of a process that died expire. Each event is therefore delivered at least once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.catalog.filing import Filing, FilingRow, StatusUpdate
from app.catalog.tables import Slug, Text
from app.db import EVERY_TENANT, PUBLIC, Base, acting_for

# Events that other systems can be notified of.
STORED, STATUS, STANDING = "recommendation.stored", "recommendation.status", "recommendation.standing"
EVENTS = (STORED, STATUS, STANDING)
# Waits between attempts; after the last one a delivery is dead.
RETRY_WAITS = tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 1800, 7200, 21600, 43200))
# Longer than any attempt takes: an attempt has a total deadline of 10 s, after which the resolver of the system may
# hold the thread for another half a minute.
CLAIM_DURATION = timedelta(seconds=120)


# Deliveries that one endpoint keeps; beyond them, the oldest are deleted, dead ones first.
MOST_KEPT = 20_000


class DeliveryRow(Base):
    """One event for one endpoint; deleted after delivery."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("event", "endpoint", name="uq_deliveries_event"),
        Index("ix_deliveries_due_at", "dead", "due_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    event: Mapped[str] = mapped_column(String(40))
    endpoint: Mapped[str] = mapped_column(
        Slug, doc="name of the webhook in the settings, which hold its URL and secret"
    )
    kind: Mapped[str] = mapped_column(String(40))
    body: Mapped[bytes] = mapped_column(LargeBinary)
    due_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    claimed_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    tries: Mapped[int]
    dead: Mapped[bool]
    failure: Mapped[str | None] = mapped_column(Text)
    tenant: Mapped[str] = mapped_column(Slug, server_default=PUBLIC)


@dataclass(frozen=True, slots=True)
class Delivery:
    id: int
    event: str
    endpoint: str
    kind: str
    body: bytes
    tries: int


@dataclass(frozen=True, slots=True)
class Outbox:
    """Records events for the endpoints that subscribe to them. `endpoints` maps endpoint names to event types;
    `tenants` maps those of other tenants than the public one to theirs.
    """

    endpoints: Mapping[str, Collection[str]] = field(default_factory=dict)
    tenants: Mapping[str, str] = field(default_factory=dict)

    def record_event(
        self,
        connection: Connection,
        kind: str,
        data: Mapping[str, Any],
        *,
        now: datetime,
        same: str | None = None,
        tenant: str = PUBLIC,
    ) -> None:
        """Records one event about an answer of a tenant in the caller's transaction.

        Parameters:
            same: text that is equal for repetitions of an event, which then have one id. A repetition whose delivery
                is pending is not recorded.
        """
        digest = secrets.token_hex(14) if same is None else hashlib.sha256(same.encode()).hexdigest()[:28]
        identity = f"evt_{digest}"
        pending: Collection[str] = ()
        if same is not None:
            pending = set(connection.scalars(select(DeliveryRow.endpoint).where(DeliveryRow.event == identity)))
        own = {name: kinds for name, kinds in self.endpoints.items() if self.tenants.get(name, PUBLIC) == tenant}
        wanted = [name for name, kinds in own.items() if kind in kinds and name not in pending]
        if not wanted:
            return
        body = orjson.dumps({"type": kind, "timestamp": now.isoformat(), "data": data})
        event = {"event": identity, "kind": kind, "body": body, "due_at": now}
        rows = [{**event, "endpoint": name, "tries": 0, "dead": False, "tenant": tenant} for name in wanted]
        connection.execute(insert(DeliveryRow), rows)

    def record_status_change(self, session: Session, row: FilingRow, change: StatusUpdate) -> None:
        """Records a status change of a stored answer in the transaction that made it."""
        further = {"changed_by": change.changed_by, "note": change.note, "superseded_by": change.superseded_by}
        data = event_data(row.recommendation, row, row.status, **further)
        self.record_event(session.connection(), STATUS, data, now=datetime.now(UTC), tenant=row.tenant)

    def record_standing(self, session: Session, row: FilingRow, changes: Sequence[str], note: str) -> None:
        """Records what has changed about a stored plan. The same change found again is the same event."""
        data = event_data(row.recommendation, row, row.status, changes=changes, note=note)
        same = "|".join((row.recommendation, *changes, note))
        self.record_event(session.connection(), STANDING, data, now=datetime.now(UTC), same=same, tenant=row.tenant)


def event_data(
    identity: str, filing: Filing | FilingRow, status: str, **further: str | Sequence[str] | None
) -> dict[str, Any]:
    """Returns the data of an event about a stored answer. The answer itself is fetched by its id."""
    names = ("label", "reference", "cost_centre", "model", "option")
    values = {"id": identity, "status": status, **{name: getattr(filing, name) for name in names}, **further}
    present = {name: value for name, value in values.items() if value is not None}
    return {**present, "accelerators": (filing.accelerators or "").split()}


class DeliveryStore:
    """Pending deliveries, shared by all processes that deliver."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Opens a transaction that sees the deliveries of every tenant."""
        with acting_for(EVERY_TENANT), self._engine.begin() as connection:
            yield connection

    def claim_due(self, endpoints: Iterable[str], *, now: datetime) -> Delivery | None:
        """Claims the delivery that has been due longest, for a limited time. Returns None if none is due."""
        rows = DeliveryRow
        free = or_(rows.claimed_until.is_(None), rows.claimed_until < now)
        due = (rows.dead.is_(False), rows.due_at <= now, rows.endpoint.in_(list(endpoints)), free)
        columns = (rows.id, rows.event, rows.endpoint, rows.kind, rows.body, rows.tries)
        first = select(*columns).where(*due).order_by(rows.due_at, rows.id).limit(1)
        while True:
            with self._transaction() as connection:
                row = connection.execute(first).first()
            if row is None:
                return None
            claim = update(rows).where(rows.id == row.id, rows.tries == row.tries, *due)
            with self._transaction() as connection:
                taken = connection.execute(claim.values(claimed_until=now + CLAIM_DURATION)).rowcount
            if taken:
                return Delivery(*row)

    def mark_delivered(self, delivery: Delivery) -> None:
        """Deletes a delivery after it succeeded."""
        with self._transaction() as connection:
            connection.execute(delete(DeliveryRow).where(*_claimed_row(delivery)))

    def mark_failed(self, delivery: Delivery, failure: str, *, now: datetime, permanently: bool = False) -> bool:
        """Records a failed attempt and schedules the next one. Returns whether the delivery is dead.

        It is dead after the last wait, or at once if `permanently`.
        """
        rows, dead = DeliveryRow, permanently or delivery.tries >= len(RETRY_WAITS)
        due = now if dead else now + RETRY_WAITS[delivery.tries]
        values = {
            "tries": delivery.tries + 1,
            "due_at": due,
            "claimed_until": None,
            "dead": dead,
            "failure": failure[:300],
        }
        with self._transaction() as connection:
            connection.execute(update(rows).where(*_claimed_row(delivery)).values(**values))
        return dead

    def revive_dead(self, *, now: datetime) -> int:
        """Makes dead deliveries due again from the first attempt on, and returns their number."""
        rows = DeliveryRow
        with self._transaction() as connection:
            again = update(rows).where(rows.dead.is_(True)).values(dead=False, tries=0, due_at=now)
            return int(connection.execute(again).rowcount)

    def delete_surplus(self, most: int = MOST_KEPT) -> int:
        """Deletes the oldest deliveries of endpoints with more than `most`, dead ones first. Returns their number."""
        rows, deleted = DeliveryRow, 0
        counted = select(rows.endpoint, func.count()).group_by(rows.endpoint).having(func.count() > most)
        with self._transaction() as connection:
            for endpoint, count in connection.execute(counted).all():
                of_it = select(rows.id).where(rows.endpoint == endpoint)
                oldest = of_it.order_by(rows.dead.desc(), rows.id).limit(count - most)
                deleted += int(connection.execute(delete(rows).where(rows.id.in_(oldest))).rowcount)
        return deleted

    def count_pending(self) -> tuple[int, int]:
        """Returns the number of pending and of dead deliveries."""
        with self._transaction() as connection:
            query = select(DeliveryRow.dead, func.count()).group_by(DeliveryRow.dead)
            counted = {bool(dead): int(count) for dead, count in connection.execute(query)}
        return counted.get(False, 0), counted.get(True, 0)


def _claimed_row(delivery: Delivery) -> tuple[ColumnElement[bool], ...]:
    """Returns the conditions for the claimed row; a later row with the same id does not match."""
    rows = DeliveryRow
    return rows.id == delivery.id, rows.event == delivery.event, rows.tries == delivery.tries
