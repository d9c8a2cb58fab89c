"""Stored answers: written once under their digest, read back byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from sqlalchemy import Engine, bindparam, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.catalog.tables import RecommendationRow
from app.errors import UnknownRecommendation

log = structlog.get_logger("headroom")

FIND = select(RecommendationRow.body, RecommendationRow.stored_at).where(RecommendationRow.id == bindparam("identity"))
KEEP = insert(RecommendationRow)


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer that stands under an id; `stored` is False where the database did not take it."""

    body: bytes
    stored: bool


class AnswerStore:
    """Answers by id. Statements without the mapper: an answer is read or written once per request."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def known(self, identity: str) -> bytes | None:
        """The bytes of an answer; None where it was never given, or where the database does not say."""
        try:
            with self._engine.connect() as connection:
                row = connection.execute(FIND, {"identity": identity}).first()
        except DBAPIError:
            return None
        return None if row is None else bytes(row.body)

    def get(self, identity: str) -> tuple[bytes, datetime]:
        """A stored answer and when it was first stored. Raises UnknownRecommendation."""
        with self._engine.connect() as connection:
            row = connection.execute(FIND, {"identity": identity}).first()
        if row is None:
            raise UnknownRecommendation("No recommendation is stored under this id.")
        stored: datetime = row.stored_at
        return row.body, stored if stored.tzinfo is not None else stored.replace(tzinfo=UTC)

    def keep(self, identity: str, *, snapshot: str, request: bytes, body: bytes) -> Kept:
        """Keep an answer; where another request stored it first, theirs is the answer.

        An answer is right whether or not it can be kept, so a database that does not take it is no error.
        """
        values = {"id": identity, "snapshot": snapshot, "request": request, "body": body}
        try:
            with self._engine.begin() as connection:
                connection.execute(KEEP, {**values, "stored_at": datetime.now(UTC)})
        except IntegrityError:
            return Kept(self.known(identity) or body, stored=True)
        except DBAPIError as error:
            log.warning("recommendation_not_stored", id=identity, error=type(error.orig).__name__)
            return Kept(body, stored=False)
        return Kept(body, stored=True)
