"""Punch-out sessions: opened by a buyer's system, found by a token, worth one order, gone after their time."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import JSON, DateTime, Engine, String, UniqueConstraint, delete, insert, select, update
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.filing import in_utc
from app.catalog.tables import Slug
from app.db import Base

KEPT = timedelta(days=30)  # after its time, for who asks what was ordered


class PunchoutSessionRow(Base):
    """A buyer's visit. The token itself is never stored."""

    __tablename__ = "punchout_sessions"
    __table_args__ = (UniqueConstraint("buyer", "payload", name="uq_punchout_sessions_payload"),)

    token_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    buyer: Mapped[str] = mapped_column(Slug)
    payload: Mapped[str] = mapped_column(String(255), doc="id of the document that opened it; the same for a retry")
    facts: Mapped[dict[str, Any]] = mapped_column(JSON, doc="protocol, operation, cookie, parties, where baskets go")
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True)
    chosen: Mapped[str | None] = mapped_column(String(60), doc="recommendation and rank that were handed over")
    chosen_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


@dataclass(frozen=True, slots=True)
class Visit:
    """A session as it stands."""

    key: str  # digest of its token
    buyer: str
    facts: dict[str, Any]
    chosen: str | None
    chosen_at: datetime | None


class PunchoutStore:
    """Sessions in the database, shared by every process that serves."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, buyer: str, payload: str, facts: dict[str, Any], *, now: datetime, lasts: timedelta) -> str | None:
        """A new session's token. A document sent again opens its session anew; None where it has ordered already."""
        token, rows = secrets.token_urlsafe(32), PunchoutSessionRow
        with self._engine.begin() as connection:
            connection.execute(delete(rows).where(rows.expires_at < now - KEPT))
            same = (rows.buyer == buyer, rows.payload == payload)
            connection.execute(delete(rows).where(*same, rows.chosen.is_(None)))
            if connection.execute(select(rows.token_digest).where(*same)).first() is not None:
                return None
            connection.execute(
                insert(rows).values(
                    token_digest=_digest(token), buyer=buyer, payload=payload, facts=facts, expires_at=now + lasts
                )
            )
        return token

    def find(self, token: str, *, now: datetime) -> Visit | None:
        """The session of a token; None where there is none, or its time is over."""
        rows = PunchoutSessionRow
        asked = select(rows.token_digest, rows.buyer, rows.facts, rows.chosen, rows.chosen_at)
        with self._engine.connect() as connection:
            row = connection.execute(asked.where(rows.token_digest == _digest(token), rows.expires_at > now)).first()
        if row is None:
            return None
        chosen_at = None if row.chosen_at is None else in_utc(row.chosen_at)
        return Visit(row.token_digest, row.buyer, row.facts, row.chosen, chosen_at)

    def choose(self, token: str, chosen: str, *, now: datetime) -> Visit | None:
        """The session with its one order: this one, or the one that was first. None where its time is over."""
        rows = PunchoutSessionRow
        own = (rows.token_digest == _digest(token), rows.expires_at > now, rows.chosen.is_(None))
        with self._engine.begin() as connection:
            connection.execute(update(rows).where(*own).values(chosen=chosen, chosen_at=now))
        return self.find(token, now=now)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
