"""What others are to be told of: written in the transaction in which it happened, kept until it is delivered.

A delivery is claimed for a while by who tries it, by one guarded UPDATE: two processes never try it at once, and what a
process held when it died is free again afterwards. So everything is told at least once.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
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

from app.catalog.filing import Change, Filing, FilingRow
from app.catalog.tables import Slug, Text
from app.db import Base

STORED, STATUS = "recommendation.stored", "recommendation.status"
EVENTS = (STORED, STATUS)
# Between one try and the next; after the last of them a delivery is dead.
WAITS = tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 1800, 7200, 21600, 43200))
CLAIM = timedelta(seconds=60)  # longer than any try takes


class DeliveryRow(Base):
    """One event on its way to one endpoint; gone once it is delivered."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("event", "endpoint", name="uq_deliveries_event"),
        Index("ix_deliveries_due_at", "dead", "due_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    event: Mapped[str] = mapped_column(String(40))
    endpoint: Mapped[str] = mapped_column(Slug, doc="the name that settings give it; its address and secret stay there")
    kind: Mapped[str] = mapped_column(String(40))
    body: Mapped[bytes] = mapped_column(LargeBinary)
    due_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    claimed_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    tries: Mapped[int]
    dead: Mapped[bool]
    failure: Mapped[str | None] = mapped_column(Text)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one try is about."""

    id: int
    event: str
    endpoint: str
    kind: str
    body: bytes
    tries: int


@dataclass(frozen=True, slots=True)
class Outbox:
    """Writes events down for the endpoints that asked for them: their names, with the kinds that each takes."""

    endpoints: Mapping[str, Collection[str]] = field(default_factory=dict)

    def note(self, connection: Connection, kind: str, data: Mapping[str, Any], *, now: datetime) -> None:
        """One event, in the caller's transaction."""
        wanted = [name for name, kinds in self.endpoints.items() if kind in kinds]
        if not wanted:
            return
        body = orjson.dumps({"type": kind, "timestamp": now.isoformat(), "data": data})
        event = {"event": f"evt_{secrets.token_hex(14)}", "kind": kind, "body": body, "due_at": now}
        rows = [{**event, "endpoint": name, "tries": 0, "dead": False} for name in wanted]
        connection.execute(insert(DeliveryRow), rows)

    def note_status(self, session: Session, row: FilingRow, change: Change) -> None:
        """That a stored answer was moved on, in the transaction that did."""
        further = {"changed_by": change.changed_by, "note": change.note, "superseded_by": change.superseded_by}
        data = filed_data(row.recommendation, row, row.status, **further)
        self.note(session.connection(), STATUS, data, now=datetime.now(UTC))


def filed_data(identity: str, filing: Filing | FilingRow, status: str, **further: str | None) -> dict[str, Any]:
    """What an event says of a stored answer; the answer itself is fetched by its id."""
    names = ("label", "reference", "cost_centre", "model", "option")
    told = {"id": identity, "status": status, **{name: getattr(filing, name) for name in names}, **further}
    present = {name: value for name, value in told.items() if value is not None}
    return {**present, "accelerators": (filing.accelerators or "").split()}


class DeliveryStore:
    """Deliveries that are due, shared by every process that delivers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def claim(self, endpoints: Iterable[str], *, now: datetime) -> Delivery | None:
        """The delivery that has been due longest, for this process alone for a while; None where none is due."""
        rows = DeliveryRow
        free = or_(rows.claimed_until.is_(None), rows.claimed_until < now)
        due = (rows.dead.is_(False), rows.due_at <= now, rows.endpoint.in_(list(endpoints)), free)
        columns = (rows.id, rows.event, rows.endpoint, rows.kind, rows.body, rows.tries)
        first = select(*columns).where(*due).order_by(rows.due_at, rows.id).limit(1)
        while True:
            with self._engine.connect() as connection:
                row = connection.execute(first).first()
            if row is None:
                return None
            mine = update(rows).where(rows.id == row.id, rows.tries == row.tries, *due)
            with self._engine.begin() as connection:
                taken = connection.execute(mine.values(claimed_until=now + CLAIM)).rowcount
            if taken:
                return Delivery(*row)

    def delivered(self, delivery: Delivery) -> None:
        """It has arrived."""
        with self._engine.begin() as connection:
            connection.execute(delete(DeliveryRow).where(*_same(delivery)))

    def failed(self, delivery: Delivery, failure: str, *, now: datetime, for_good: bool = False) -> bool:
        """It has not, and is tried again later; after the last wait, or for good, it is dead. Whether it is dead."""
        rows, dead = DeliveryRow, for_good or delivery.tries >= len(WAITS)
        due = now if dead else now + WAITS[delivery.tries]
        told = {
            "tries": delivery.tries + 1,
            "due_at": due,
            "claimed_until": None,
            "dead": dead,
            "failure": failure[:300],
        }
        with self._engine.begin() as connection:
            connection.execute(update(rows).where(*_same(delivery)).values(**told))
        return dead

    def revive(self, *, now: datetime) -> int:
        """Dead deliveries are due again, from the first try on; how many they are."""
        rows = DeliveryRow
        with self._engine.begin() as connection:
            again = update(rows).where(rows.dead.is_(True)).values(dead=False, tries=0, due_at=now)
            return int(connection.execute(again).rowcount)

    def waiting(self) -> tuple[int, int]:
        """How many are still to be delivered, and how many are dead."""
        with self._engine.connect() as connection:
            asked = select(DeliveryRow.dead, func.count()).group_by(DeliveryRow.dead)
            counted = {bool(dead): int(count) for dead, count in connection.execute(asked)}
        return counted.get(False, 0), counted.get(True, 0)


def _same(delivery: Delivery) -> tuple[ColumnElement[bool], ...]:
    """The row that was claimed, and none that has got its number since."""
    rows = DeliveryRow
    return rows.id == delivery.id, rows.event == delivery.event, rows.tries == delivery.tries
