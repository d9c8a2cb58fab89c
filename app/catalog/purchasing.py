"""Purchasing data: commodity codes, part numbers, provider names, partitions of accelerators, punch-out sessions."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    DateTime,
    Engine,
    ForeignKey,
    String,
    UniqueConstraint,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.catalog.filing import to_utc
from app.catalog.tables import ProviderRow, Slug, Sourced
from app.db import Base
from app.sizing.hardware.parts import Profile, Slice

MAX_MADE = 50  # newest answers of a session that its buyer sees
MAX_SESSIONS_READ = 500  # newest sessions of a buyer whose answers it sees
RETENTION = timedelta(days=30)  # after expiry, so that orders can still be looked up


class PunchoutSessionRow(Base):
    """A buyer's session. The token itself is never stored."""

    __tablename__ = "punchout_sessions"
    __table_args__ = (UniqueConstraint("buyer", "payload", name="uq_punchout_sessions_payload"),)

    token_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    buyer: Mapped[str] = mapped_column(Slug)
    payload: Mapped[str] = mapped_column(
        String(255), doc="id of the document that opened the session; a retry has the same id"
    )
    facts: Mapped[dict[str, Any]] = mapped_column(
        JSON, doc="protocol, operation, cookie, parties and the URL that receives baskets"
    )
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True)
    chosen: Mapped[str | None] = mapped_column(String(60), doc="recommendation and rank that were ordered")
    chosen_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


@dataclass(frozen=True, slots=True)
class PunchoutVisit:
    """Current state of a session."""

    key: str  # digest of the token
    buyer: str
    facts: dict[str, Any]
    chosen: str | None
    chosen_at: datetime | None


class PunchoutStore:
    """Sessions in the database, shared by all processes that serve."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(
        self, buyer: str, payload: str, facts: dict[str, Any], *, now: datetime, lifetime: timedelta
    ) -> str | None:
        """Opens a session and returns its token; None if the document's session has already ordered.

        A repeated document replaces its earlier session.
        """
        token, rows = secrets.token_urlsafe(32), PunchoutSessionRow
        with self._engine.begin() as connection:
            connection.execute(delete(rows).where(rows.expires_at < now - RETENTION))
            same = (rows.buyer == buyer, rows.payload == payload)
            connection.execute(delete(rows).where(*same, rows.chosen.is_(None)))
            if connection.execute(select(rows.token_digest).where(*same)).first() is not None:
                return None
            connection.execute(
                insert(rows).values(
                    token_digest=_token_digest(token),
                    buyer=buyer,
                    payload=payload,
                    facts=facts,
                    expires_at=now + lifetime,
                )
            )
        return token

    def find(self, token: str, *, now: datetime) -> PunchoutVisit | None:
        """Returns the session of a token; None if it does not exist or has expired."""
        rows = PunchoutSessionRow
        query = select(rows.token_digest, rows.buyer, rows.facts, rows.chosen, rows.chosen_at)
        with self._engine.connect() as connection:
            row = connection.execute(
                query.where(rows.token_digest == _token_digest(token), rows.expires_at > now)
            ).first()
        if row is None:
            return None
        chosen_at = None if row.chosen_at is None else to_utc(row.chosen_at)
        return PunchoutVisit(row.token_digest, row.buyer, row.facts, row.chosen, chosen_at)

    def record_made(self, visit: PunchoutVisit, recommendation: str) -> None:
        """Records an answer that a session's form made."""
        rows = PunchoutSessionRow
        with self._engine.begin() as connection:
            facts = connection.execute(select(rows.facts).where(rows.token_digest == visit.key)).scalar_one()
            made = [*dict.fromkeys([*facts.get("made", ()), recommendation])][-MAX_MADE:]
            connection.execute(update(rows).where(rows.token_digest == visit.key).values(facts={**facts, "made": made}))

    def list_own_answers(self, buyer: str) -> set[str]:
        """Returns the ids of the answers that a buyer's sessions have made or ordered."""
        rows = PunchoutSessionRow
        own = select(rows.facts, rows.chosen).where(rows.buyer == buyer)
        with self._engine.connect() as connection:
            found = connection.execute(own.order_by(rows.expires_at.desc()).limit(MAX_SESSIONS_READ)).all()
        made = {identity for row in found for identity in row.facts.get("made", ())}
        return made | {row.chosen.partition("-")[0] for row in found if row.chosen is not None}

    def record_choice(self, token: str, chosen: str, *, now: datetime) -> PunchoutVisit | None:
        """Records the session's only order; an earlier one stays. Returns the session, None if it has expired."""
        rows = PunchoutSessionRow
        own = (rows.token_digest == _token_digest(token), rows.expires_at > now, rows.chosen.is_(None))
        with self._engine.begin() as connection:
            connection.execute(update(rows).where(*own).values(chosen=chosen, chosen_at=now))
        return self.find(token, now=now)


def _token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


CODES = ("unspsc", "unspsc_version", "cpv", "hs_code")


class CommodityCodeRow(Sourced, Base):
    """Classification codes of one kind of bill line. Buyers can use their own codes: they are data, not code."""

    __tablename__ = "commodity_codes"

    goods: Mapped[str] = mapped_column(
        Slug, primary_key=True, doc="kind of bill line: accelerator, machine, cloud, ..."
    )
    unspsc: Mapped[str | None] = mapped_column(String(8))
    unspsc_version: Mapped[str | None] = mapped_column(String(10))
    cpv: Mapped[str | None] = mapped_column(String(10))
    hs_code: Mapped[str | None] = mapped_column(String(10))


class PartNumberRow(Sourced, Base):
    """The manufacturer's part number of an accelerator or a system, if known."""

    __tablename__ = "part_numbers"

    item: Mapped[str] = mapped_column(Slug, primary_key=True, doc="slug of an accelerator or a system")
    part_number: Mapped[str] = mapped_column(Slug)


@dataclass(frozen=True, slots=True)
class Purchasing:
    """Purchasing data: codes by kind of bill line, part numbers by slug, provider names by slug."""

    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    part_numbers: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def load_purchasing(session: Session) -> Purchasing:
    codes = {
        row.goods: {name: value for name in CODES if (value := getattr(row, name)) is not None}
        for row in session.scalars(select(CommodityCodeRow))
    }
    numbers = {row.item: row.part_number for row in session.scalars(select(PartNumberRow))}
    names = {row.slug: row.name for row in session.scalars(select(ProviderRow))}
    return Purchasing(codes, numbers, names)


class SliceRow(Sourced, Base):
    """A slice that an accelerator's driver offers: its share of compute and memory."""

    __tablename__ = "slices"
    __table_args__ = (CheckConstraint("compute_parts > 0 AND memory_parts > 0", name="positive"),)

    accelerator: Mapped[str] = mapped_column(ForeignKey("accelerators.slug"), primary_key=True)
    name: Mapped[str] = mapped_column(String(20), primary_key=True, doc="as the driver calls it: 1g.10gb")
    compute_parts: Mapped[int]
    memory_parts: Mapped[int]
    starts: Mapped[str] = mapped_column(String(40), doc="parts of memory that it may begin at, joined by |")


def list_slices(session: Session) -> list[Profile]:
    """Returns every slice of every accelerator, unordered."""
    return [
        Profile(
            row.accelerator,
            row.name,
            Slice(row.compute_parts, row.memory_parts, tuple(int(part) for part in row.starts.split("|"))),
        )
        for row in session.scalars(select(SliceRow))
    ]
