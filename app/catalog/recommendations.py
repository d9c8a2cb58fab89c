"""Stored answers: written once under their digest, read back byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.catalog.tables import RecommendationRow
from app.errors import UnknownRecommendation


def stored_body(session: Session, identity: str) -> bytes | None:
    """The bytes of an answer, None where it was never given."""
    row = session.get(RecommendationRow, identity)
    return None if row is None else row.body


def get_recommendation(session: Session, identity: str) -> tuple[bytes, datetime]:
    """A stored answer and when it was first stored. Raises UnknownRecommendation."""
    row = session.get(RecommendationRow, identity)
    if row is None:
        raise UnknownRecommendation("No recommendation is stored under this id.")
    stored = row.stored_at
    return row.body, stored if stored.tzinfo is not None else stored.replace(tzinfo=UTC)


def store(session: Session, *, identity: str, snapshot: str, request: bytes, body: bytes) -> bytes:
    """Keep an answer; where another request stored it first, theirs is the answer."""
    session.add(
        RecommendationRow(id=identity, snapshot=snapshot, request=request, body=body, stored_at=datetime.now(UTC))
    )
    try:
        session.commit()
    except IntegrityError:
        session.rollback()
        return stored_body(session, identity) or body
    return body
