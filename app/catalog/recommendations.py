"""Stored answers: written once under their digest, read back byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from sqlalchemy import Engine, bindparam, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.catalog.filing import Filing, FilingRow, Status, filed, in_utc
from app.catalog.outbox import STORED, Outbox, filed_data
from app.catalog.tables import RecommendationRow
from app.causes import cause
from app.errors import Unanswerable, UnknownRecommendation

log = structlog.get_logger("headroom")

FIND = select(RecommendationRow.body, RecommendationRow.stored_at).where(RecommendationRow.id == bindparam("identity"))
FIND_WHOLE = select(RecommendationRow.body, RecommendationRow.supply).where(
    RecommendationRow.id == bindparam("identity")
)
KEEP, FILE = insert(RecommendationRow), insert(FilingRow)


class NoSupply(Unanswerable):
    """An answer from before bills were kept beside answers."""

    code = "no-bill-kept"


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer that stands under an id; `stored` is False where the database did not take it."""

    body: bytes
    stored: bool


class AnswerStore:
    """Answers by id. Statements without the mapper: an answer is read or written once per request."""

    def __init__(self, engine: Engine, outbox: Outbox | None = None) -> None:
        self._engine, self._outbox = engine, outbox or Outbox()

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
        return row.body, in_utc(row.stored_at)

    def whole(self, identity: str) -> tuple[bytes, bytes]:
        """A stored answer and what was kept beside it for exports. Raises UnknownRecommendation and NoSupply."""
        with self._engine.connect() as connection:
            row = connection.execute(FIND_WHOLE, {"identity": identity}).first()
        if row is None:
            raise UnknownRecommendation("No recommendation is stored under this id.")
        if row.supply is None:
            raise NoSupply("This answer was stored before bills were kept beside answers; post its request again.")
        return row.body, row.supply

    def keep(self, identity: str, *, snapshot: str, request: bytes, body: bytes, supply: bytes, filing: Filing) -> Kept:
        """Keep and file an answer; where another request stored it first, theirs is the answer.

        An answer is right whether or not it can be kept, so a database that does not take it is no error.
        """
        values = {"id": identity, "snapshot": snapshot, "request": request, "body": body, "supply": supply}
        now = datetime.now(UTC)
        try:
            with self._engine.begin() as connection:
                connection.execute(KEEP, {**values, "stored_at": now})
                connection.execute(FILE, filed(identity, now, filing))
                self._outbox.note(connection, STORED, filed_data(identity, filing, Status.DRAFT), now=now)
        except IntegrityError:
            return Kept(self.known(identity) or body, stored=True)
        except DBAPIError as error:
            log.warning("recommendation_not_stored", id=identity, **cause(error))
            return Kept(body, stored=False)
        return Kept(body, stored=True)
