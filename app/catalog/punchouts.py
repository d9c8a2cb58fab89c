"""Punch-out sessions: a buyer's procurement system opens one, a token identifies it, it yields one order and then
expires.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import JSON, DateTime, Engine, String, UniqueConstraint, delete, insert, select, update
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.filing import to_utc
from app.catalog.tables import Slug
from app.db import Base

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

    def record_choice(self, token: str, chosen: str, *, now: datetime) -> PunchoutVisit | None:
        """Records the session's only order and returns the session. An earlier order stays. None if the session has
        expired.
        """
        rows = PunchoutSessionRow
        own = (rows.token_digest == _token_digest(token), rows.expires_at > now, rows.chosen.is_(None))
        with self._engine.begin() as connection:
            connection.execute(update(rows).where(*own).values(chosen=chosen, chosen_at=now))
        return self.find(token, now=now)


def _token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
