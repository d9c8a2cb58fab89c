"""Stored answers: written once under their digest, read back byte for byte."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import structlog
from sqlalchemy import Engine, bindparam, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from app import telemetry
from app.catalog.filing import Filing, FilingRow, Status, filed, in_utc, unknown
from app.catalog.outbox import STORED, Outbox, filed_data
from app.catalog.tables import RecommendationRow
from app.causes import cause
from app.errors import Unanswerable

log = structlog.get_logger("headroom")

FIND = select(RecommendationRow.body, RecommendationRow.stored_at).where(RecommendationRow.id == bindparam("identity"))
FIND_WHOLE = select(RecommendationRow.body, RecommendationRow.supply).where(
    RecommendationRow.id == bindparam("identity")
)
T = TypeVar("T")
MOMENT_S = 0.3  # that a question waits for the database
UNASKED_S = 2.0  # that nobody waits after somebody did in vain
HANDS = 2
MOST_WRITES = 64  # that may wait to be done
REMEMBERED_BYTES = 16 * 2**20
REMEMBERED_S = 60.0
KEEP, FILE = insert(RecommendationRow), insert(FilingRow)


class NoSupply(Unanswerable):
    """An answer from before bills were kept beside answers."""

    code = "no-bill-kept"


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer that stands under an id; `stored` is False where the database did not take it."""

    body: bytes
    stored: bool


class Given:
    """The latest answers that are stored, up to so many bytes; each for a minute, after which it may be pruned."""

    def __init__(self, most_bytes: int) -> None:
        self._left, self._lock = most_bytes, threading.Lock()
        self._bodies: OrderedDict[str, tuple[bytes, float]] = OrderedDict()

    def get(self, identity: str) -> bytes | None:
        with self._lock:
            body, until = self._bodies.get(identity, (None, 0.0))
            return body if time.monotonic() < until else None

    def put(self, identity: str, body: bytes) -> None:
        with self._lock:
            self._left += len(self._bodies.pop(identity, (b"", 0.0))[0]) - len(body)
            self._bodies[identity] = body, time.monotonic() + REMEMBERED_S
            while self._left < 0 and len(self._bodies) > 1:
                self._left += len(self._bodies.popitem(last=False)[1][0])


class AnswerStore:
    """Answers by id. Statements without the mapper: an answer is read or written once per request.

    What a question needs of the database is done by hands of its own, which it waits for only so long: an answer is
    right whether or not it can be kept, and never late for that. Answers that are kept are remembered for a while.
    """

    def __init__(self, engine: Engine, outbox: Outbox | None = None) -> None:
        self._engine, self._outbox = engine, outbox or Outbox()
        self._hands = ThreadPoolExecutor(HANDS, thread_name_prefix="shelf")
        self._busy = threading.BoundedSemaphore(MOST_WRITES)
        self._unasked_until = float("-inf")
        self._given = Given(REMEMBERED_BYTES)

    def known(self, identity: str) -> bytes | None:
        """The bytes of an answer; None where it was never given, or where the database does not say in time."""
        body = self._given.get(identity)
        if body is None and time.monotonic() >= self._unasked_until:
            looking = self._hands.submit(self._known, identity)
            body = self._waited_for(looking)
            looking.cancel()  # where it has not begun, nobody wants it any more
            if body is not None:
                self._given.put(identity, body)
        if body is not None:
            telemetry.kept("known")
        return body

    def keep(self, identity: str, *, snapshot: str, request: bytes, body: bytes, supply: bytes, filing: Filing) -> Kept:
        """Keep and file an answer; where another request stored it first, theirs is the answer.

        `stored` is False where the database did not take it in time; it is kept then as soon as that can be.
        """
        values = {"id": identity, "snapshot": snapshot, "request": request, "body": body, "supply": supply}
        if not self._busy.acquire(blocking=False):
            telemetry.kept("dropped")
            return Kept(body, stored=False)
        writing = self._hands.submit(copy_context().run, self._keep, values, filing)  # whose lines name the request
        writing.add_done_callback(lambda _: self._busy.release())
        kept = self._waited_for(writing) if time.monotonic() >= self._unasked_until else None
        if kept is None or not kept.stored:
            telemetry.kept("not-stored")
            return Kept(body, stored=False)
        self._given.put(identity, kept.body)
        telemetry.kept("stored")
        return kept

    def _waited_for(self, done: Future[T]) -> T | None:
        """What a hand brings within a moment; after it did not, nobody waits for a while."""
        try:
            return done.result(timeout=MOMENT_S)
        except TimeoutError:
            self._unasked_until = time.monotonic() + UNASKED_S
            return None

    def _known(self, identity: str) -> bytes | None:
        try:
            with self._engine.connect() as connection:
                row = connection.execute(FIND, {"identity": identity}).first()
        except DBAPIError:
            return None
        return None if row is None else bytes(row.body)

    def _keep(self, values: Mapping[str, Any], filing: Filing) -> Kept:
        identity, body, now = values["id"], values["body"], datetime.now(UTC)
        size = sum(len(values[part]) for part in ("request", "body", "supply"))
        try:
            with self._engine.begin() as connection:
                connection.execute(KEEP, {**values, "stored_at": now})
                connection.execute(FILE, filed(identity, now, filing, size_bytes=size))
                self._outbox.note(connection, STORED, filed_data(identity, filing, Status.DRAFT), now=now)
        except IntegrityError:
            return Kept(self._known(identity) or body, stored=True)
        except DBAPIError as error:
            log.warning("recommendation_not_stored", id=identity, **cause(error))
            return Kept(body, stored=False)
        return Kept(body, stored=True)

    def get(self, identity: str) -> tuple[bytes, datetime]:
        """A stored answer and when it was first stored. Raises UnknownRecommendation."""
        with self._engine.connect() as connection:
            row = connection.execute(FIND, {"identity": identity}).first()
        if row is None:
            raise unknown()
        return row.body, in_utc(row.stored_at)

    def whole(self, identity: str) -> tuple[bytes, bytes]:
        """A stored answer and what was kept beside it for exports. Raises UnknownRecommendation and NoSupply."""
        with self._engine.connect() as connection:
            row = connection.execute(FIND_WHOLE, {"identity": identity}).first()
        if row is None:
            raise unknown()
        if row.supply is None:
            raise NoSupply("This answer was stored before bills were kept beside answers; post its request again.")
        return row.body, row.supply
