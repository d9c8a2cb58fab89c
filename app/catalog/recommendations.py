"""Stored answers: written once under their digest, read back byte for byte, deleted past their retention."""

from __future__ import annotations

import hashlib
import math
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import uniform
from typing import Any, TypeVar

import structlog
from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, bindparam, delete, func, insert, or_, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session, aliased

from app import telemetry
from app.catalog.filing import (
    UNFILED,
    Filing,
    FilingRow,
    Status,
    StatusChangeRow,
    filing_values,
    to_utc,
    unknown_recommendation,
)
from app.catalog.observations import delete_expired_leases, extend_lease
from app.catalog.outbox import STORED, DeliveryStore, Outbox, event_data
from app.catalog.purchasing import PunchoutSessionRow
from app.catalog.tables import RecommendationRow
from app.db import EVERY_TENANT, PUBLIC, DatabaseError, acting_for
from app.errors import FilingLimited, NotAllowed, Unanswerable, describe_error
from app.work import current_caller

EVERY_S = 60.0
AT_ONCE = 100  # answers in one transaction
PAUSE_S = 0.1  # between two transactions
MIN_AGE = timedelta(minutes=10)  # minimum age, so that clients can fetch every answer for a while
ID_LENGTH = len("rec_") + 28

Answer = Row[str, datetime, int]  # id, when it was stored, bytes

log = structlog.get_logger("headroom")


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Limits for unfiled answers, age in days and total bytes, and the total bytes of filed ones. 0 means no limit."""

    days: int
    bytes: int
    filed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AnswerTotals:
    """Number of answers and their total size in bytes."""

    answers: int = 0
    bytes: int = 0

    def __add__(self, more: AnswerTotals) -> AnswerTotals:
        return AnswerTotals(self.answers + more.answers, self.bytes + more.bytes)


class Pruner:
    """Deletes surplus answers and notices in small batches. Any number of processes may do so on one database."""

    def __init__(self, engine: Engine, keeping: RetentionPolicy) -> None:
        self._engine, self._policy = engine, keeping
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._prune_periodically, name="pruner", daemon=True)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Opens a transaction that sees the answers of every tenant."""
        with acting_for(EVERY_TENANT), self._engine.begin() as connection:
            yield connection

    def start(self) -> None:
        """Starts pruning in a background thread until `stop`; the first run follows after a pause."""
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _prune_periodically(self) -> None:
        while not self._stopped.wait(EVERY_S * uniform(0.5, 1.5)):  # spreads processes out
            try:
                deleted = self.prune_all(now=datetime.now(UTC))
                notices = DeliveryStore(self._engine).delete_surplus()
                self.report_sizes()
            except DatabaseError as error:
                telemetry.record_prune_failure()
                log.warning("answers_not_pruned", **describe_error(error))
            else:
                telemetry.record_pruned(deleted.answers)
                if deleted.answers:
                    log.info("answers_pruned", answers=deleted.answers, bytes=deleted.bytes)
                if notices:
                    log.warning("webhooks_deleted", notices=notices)

    def report_sizes(self) -> None:
        """Reports the size of the stored answers and its limits to the metrics. Raises DatabaseError."""
        with self._engine.connect() as connection:
            every = int(connection.execute(select(func.coalesce(func.sum(FilingRow.size_bytes), 0))).scalar_one())
        unfiled = self.count_unfiled().bytes
        telemetry.set_stored_bytes("unfiled", unfiled, limit=self._policy.bytes)
        telemetry.set_stored_bytes("filed", every - unfiled, limit=self._policy.filed_bytes)

    def prune_all(self, *, now: datetime, pause_s: float = PAUSE_S) -> AnswerTotals:
        """Deletes surplus answers until none is left, another process deletes them, or this pruner stops."""
        deleted, some = AnswerTotals(), self.prune_batch(now=now)
        while some.answers:
            deleted += some
            if self._stopped.wait(pause_s):
                break
            some = self.prune_batch(now=now)
        with self._transaction() as connection:
            delete_expired_leases(connection, now=now)
        return deleted

    def prune_batch(self, *, now: datetime) -> AnswerTotals:
        """Deletes the oldest surplus answers in one short transaction."""
        pointed = _is_referenced()
        with self._transaction() as connection:
            rows = connection.execute(_select_unfiled(now).where(~pointed).limit(AT_ONCE)).all()
        surplus = self._select_surplus(rows, self._excess_bytes(self.count_unfiled()), now)
        if not surplus:
            return AnswerTotals()
        sizes = {row.recommendation: row.size_bytes for row in surplus}
        still = (FilingRow.recommendation.in_(sizes), UNFILED, ~pointed)
        with self._transaction() as connection:
            deleted = (
                connection.execute(delete(FilingRow).where(*still).returning(FilingRow.recommendation)).scalars().all()
            )
            connection.execute(delete(RecommendationRow).where(RecommendationRow.id.in_(deleted)))
        return AnswerTotals(len(deleted), sum(sizes[identity] for identity in deleted))

    def delete_labelled(self, label: str, *, dry_run: bool = False) -> AnswerTotals:
        """Deletes the answers with exactly this label and returns what was, or would be, deleted. Approved and ordered
        answers stay, and those that an order or another answer refers to.
        """
        query = select(FilingRow.recommendation, FilingRow.size_bytes)
        deleted, last = AnswerTotals(), ""
        while True:
            after = query.where(FilingRow.label == label, FilingRow.recommendation > last, *_is_deletable())
            with self._transaction() as connection:
                rows = connection.execute(after.order_by(FilingRow.recommendation).limit(AT_ONCE)).all()
            if not rows:
                return deleted
            sizes, last = {row.recommendation: row.size_bytes for row in rows}, rows[-1].recommendation
            if dry_run:
                gone = list(sizes)
            else:
                with self._transaction() as connection:
                    gone = _delete_answers(connection, sizes)
            deleted += AnswerTotals(len(gone), sum(sizes[identity] for identity in gone))

    def count_surplus(self, *, now: datetime) -> AnswerTotals:
        """Returns how many answers and bytes would be deleted now."""
        with self._transaction() as connection:
            rows = connection.execute(_select_unfiled(now).where(~_is_referenced())).all()
        surplus = self._select_surplus(rows, self._excess_bytes(self.count_unfiled()), now)
        return AnswerTotals(len(surplus), sum(row.size_bytes for row in surplus))

    def count_unfiled(self) -> AnswerTotals:
        """Returns the number and size of unfiled answers, without reading their contents."""
        query = select(func.count(), func.coalesce(func.sum(FilingRow.size_bytes), 0)).where(UNFILED)
        with self._transaction() as connection:
            count, size = connection.execute(query).one()
        return AnswerTotals(int(count), int(size))

    def _excess_bytes(self, unfiled: AnswerTotals) -> int:
        """Returns the bytes above the size limit."""
        return unfiled.bytes - self._policy.bytes if self._policy.bytes else 0

    def _select_surplus(self, rows: Sequence[Answer], over: int, now: datetime) -> list[Answer]:
        """Returns the answers that exceed the age or size limit, given answers ordered from the oldest."""
        surplus, kept_from = [], now - timedelta(days=self._policy.days)
        for row in rows:
            if over <= 0 and not (self._policy.days and to_utc(row.stored_at) < kept_from):
                break
            surplus.append(row)
            over -= row.size_bytes
        return surplus


def _select_unfiled(now: datetime) -> Select[str, datetime, int]:
    """Returns the query for unfiled answers older than the minimum age, oldest first."""
    order = (FilingRow.stored_at, FilingRow.recommendation)
    wanted = select(FilingRow.recommendation, FilingRow.stored_at, FilingRow.size_bytes)
    return wanted.where(UNFILED, FilingRow.stored_at < now - MIN_AGE).order_by(*order)


def _is_referenced() -> ColumnElement[bool]:
    """Returns the condition that another answer, a status change or an order refers to the answer."""
    other, mine = aliased(FilingRow), FilingRow.recommendation
    ordered = select(func.substr(PunchoutSessionRow.chosen, 1, ID_LENGTH)).where(PunchoutSessionRow.chosen.is_not(None))
    return or_(
        select(other.recommendation).where(other.superseded_by == mine).exists(),
        select(StatusChangeRow.version).where(StatusChangeRow.superseded_by == mine).exists(),
        mine.in_(ordered),
    )


def _is_deletable() -> tuple[ColumnElement[bool], ...]:
    """Returns the conditions under which an answer may be deleted on request."""
    return FilingRow.status.in_((Status.DRAFT.value, Status.SUPERSEDED.value)), ~_is_referenced()


def _delete_answers(connection: Connection, identities: Collection[str]) -> list[str]:
    """Deletes those answers, with their history, that may be deleted, and returns their ids."""
    mine = FilingRow.recommendation.in_(identities)
    unused = delete(FilingRow).where(mine, *_is_deletable()).returning(FilingRow.recommendation)
    gone = list(connection.execute(unused.execution_options(synchronize_session=False)).scalars())
    connection.execute(delete(StatusChangeRow).where(StatusChangeRow.recommendation.in_(gone)))
    connection.execute(delete(RecommendationRow).where(RecommendationRow.id.in_(gone)))
    return gone


class FiledQuota:
    """Limits of filed answers in bytes: their total size, and what one caller files per day; 0 means no limit.

    The total is read at most once a minute, so processes together may exceed the limit by what they store in a minute.
    What a caller has filed counts less with time, evenly, at `daily` bytes a day. The database keeps the time at which
    nothing counts any more, so processes count together. Each learns it when it files an answer of the caller; the last
    answer in each may exceed the limit.
    """

    def __init__(self, engine: Engine, limit: int = 0, daily: int = 0) -> None:
        self._engine, self._limit, self._daily, self._lock = engine, limit, daily, threading.Lock()
        self._bytes, self._until = 0, float("-inf")
        self._callers: OrderedDict[str, float] = OrderedDict()  # when nothing that they filed counts, as a Unix time

    def check_caller(self) -> None:
        """Raises FilingLimited if the caller of the current work may file nothing more at present."""
        excess_s = self._callers.get(current_caller(), 0.0) - time.time() - DAY_S
        if self._daily and excess_s >= 0:
            raise FilingLimited(
                f"You may file {self._daily / 1e6:,g} MB of answers per day. Wait, or omit label, reference and "
                "cost_centre.",
                retry_after_s=math.ceil(excess_s + TYPICAL_BYTES / self._daily * DAY_S),
            )

    def charge_caller(self, connection: Connection, size: int) -> None:
        """Counts a filed answer of the caller of the current work, in the transaction that files it."""
        caller = current_caller()
        if not self._daily or not caller:
            return
        name = f"filed by {hashlib.sha256(caller.encode()).hexdigest()}"
        lasts, now = timedelta(days=min(366.0, size / self._daily)), datetime.fromtimestamp(time.time(), UTC)
        ends = extend_lease(connection, name, lasts=lasts, now=now)
        with self._lock:
            self._callers[caller] = ends.timestamp()
            self._callers.move_to_end(caller)
            if len(self._callers) > MOST_CALLERS:
                self._callers.popitem(last=False)

    def take(self, size: int) -> bool:
        """Counts a further filed answer; False if it does not fit into the total. Raises DatabaseError."""
        if not self._limit:
            return True
        with self._lock:
            if time.monotonic() >= self._until:
                total = select(func.coalesce(func.sum(FilingRow.size_bytes), 0))
                with acting_for(EVERY_TENANT), self._engine.connect() as connection:
                    every = connection.execute(total).scalar_one()
                    unfiled = connection.execute(total.where(UNFILED)).scalar_one()
                self._bytes, self._until = int(every) - int(unfiled), time.monotonic() + QUOTA_READ_S
            fits = self._bytes + size <= self._limit
            self._bytes += size if fits else 0
            return fits


OWN_ANSWER = (RecommendationRow.id == bindparam("identity"), RecommendationRow.tenant == bindparam("tenant"))
SELECT_ANSWER = select(RecommendationRow.body, RecommendationRow.stored_at).where(*OWN_ANSWER)
SELECT_ANSWER_AND_SUPPLY = select(RecommendationRow.body, RecommendationRow.supply).where(*OWN_ANSWER)
T = TypeVar("T")
MOMENT_S = 0.3  # longest wait of a request for the database
UNASKED_S = 2.0  # time in which requests skip the database after a timeout
THREADS = 2
MOST_WRITES = 64  # writes that may be queued or in progress
CACHE_BYTES = 16 * 2**20
CACHE_S = 60.0
QUOTA_READ_S = 60.0
DAY_S = 86400.0
TYPICAL_BYTES = 15_000  # of an answer as it is stored
MOST_CALLERS = 10_000  # whose filed bytes a process knows
KEEP, INSERT_FILING = insert(RecommendationRow), insert(FilingRow)


QUOTA_REACHED = (
    "The filed answers have reached HEADROOM_KEEP_FILED_BYTES. Delete some: DELETE /recommendations/{id} or "
    "headroom prune --label."
)


class NoSupply(Unanswerable):
    """The answer was stored before bills were stored with answers."""

    code = "no-bill-kept"


COMPRESS_FROM = 4096  # bytes; smaller parts are stored as they are
COMPRESSED = b"x\x01"  # first bytes of compressed text; JSON begins with a bracket


def pack_part(part: bytes) -> bytes:
    """Returns a part of an answer as it is stored: an answer with its trace has 5 MB, compressed a tenth of that."""
    return zlib.compress(part, level=1) if len(part) >= COMPRESS_FROM else part


def unpack_part(stored: bytes) -> bytes:
    """Returns the text of a stored part.

    Check:
        >>> unpack_part(pack_part(b"{" + b" " * 5000 + b"}")) == b"{" + b" " * 5000 + b"}"
        True
        >>> unpack_part(b"{}")
        b'{}'
    """
    return zlib.decompress(stored) if stored[:2] == COMPRESSED else bytes(stored)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer for an id. `stored` is False if the database did not accept it."""

    body: bytes
    stored: bool


class AnswerCache:
    """Cache of the latest stored answers up to `most_bytes`. Entries expire after a minute: answers may be pruned."""

    def __init__(self, most_bytes: int) -> None:
        self._free_bytes, self._lock = most_bytes, threading.Lock()
        self._bodies: OrderedDict[str, tuple[bytes, float]] = OrderedDict()

    def get(self, identity: str) -> bytes | None:
        with self._lock:
            body, until = self._bodies.get(identity, (None, 0.0))
            return body if time.monotonic() < until else None

    def drop(self, identity: str) -> None:
        with self._lock:
            self._free_bytes += len(self._bodies.pop(identity, (b"", 0.0))[0])

    def put(self, identity: str, body: bytes) -> None:
        with self._lock:
            self._free_bytes += len(self._bodies.pop(identity, (b"", 0.0))[0]) - len(body)
            self._bodies[identity] = body, time.monotonic() + CACHE_S
            while self._free_bytes < 0 and len(self._bodies) > 1:
                self._free_bytes += len(self._bodies.popitem(last=False)[1][0])


class AnswerStore:
    """Answers by id. Uses SQLAlchemy Core, because a request reads or writes at most one answer.

    Database work of a request runs in separate threads and is waited for only briefly: an answer is correct whether
    or not it can be stored, so storage must not delay it. Stored answers are cached for a while.
    """

    def __init__(self, engine: Engine, outbox: Outbox | None = None, quota: FiledQuota | None = None) -> None:
        self._engine, self._outbox, self.quota = engine, outbox or Outbox(), quota or FiledQuota(engine)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="shelf")
        self._write_slots = threading.BoundedSemaphore(MOST_WRITES)
        self._skip_until = float("-inf")
        self._cache = AnswerCache(CACHE_BYTES)

    def for_tenant(self, tenant: str) -> TenantAnswers:
        return TenantAnswers(self, tenant)

    def find_answer(self, identity: str, tenant: str = PUBLIC) -> bytes | None:
        """Returns the bytes of an answer; None if it was never stored or the database does not respond in time."""
        body = self._cache.get(identity)
        if body is None and time.monotonic() >= self._skip_until:
            reading = self._threads.submit(copy_context().run, self._read_body, identity, tenant)
            body = self._result_in_time(reading)
            reading.cancel()  # has an effect only if it has not started
            if body is not None:
                self._cache.put(identity, body)
        if body is not None:
            telemetry.record_answer_storage("known")
        return body

    def store_answer(
        self,
        identity: str,
        *,
        snapshot: str,
        request: bytes,
        body: bytes,
        supply: bytes,
        filing: Filing,
        tenant: str = PUBLIC,
    ) -> StoredAnswer:
        """Stores and files an answer of a tenant. If another request stored it first, returns that one.

        `stored` is False if the database did not accept it in time; the write is then completed as soon as possible.
        """
        values = {"id": identity, "snapshot": snapshot, "request": request, "body": body, "supply": supply}
        values |= {"tenant": tenant}
        if not self._write_slots.acquire(blocking=False):
            telemetry.record_answer_storage("dropped")
            return StoredAnswer(body, stored=False)
        writing = self._threads.submit(
            copy_context().run, self._write_answer, values, filing
        )  # keeps the request's log context
        writing.add_done_callback(lambda _: self._write_slots.release())
        stored = self._result_in_time(writing) if time.monotonic() >= self._skip_until else None
        if stored is None or not stored.stored:
            telemetry.record_answer_storage("not-stored")
            return StoredAnswer(body, stored=False)
        self._cache.put(identity, stored.body)
        telemetry.record_answer_storage("stored")
        return stored

    def _result_in_time(self, done: Future[T]) -> T | None:
        """Returns the result of a database thread, or None after a timeout; requests then skip the database briefly."""
        try:
            return done.result(timeout=MOMENT_S)
        except TimeoutError:
            self._skip_until = time.monotonic() + UNASKED_S
            return None

    def _read_body(self, identity: str, tenant: str) -> bytes | None:
        try:
            with self._engine.connect() as connection:
                row = connection.execute(SELECT_ANSWER, {"identity": identity, "tenant": tenant}).first()
        except DBAPIError:
            return None
        return None if row is None else unpack_part(row.body)

    def _write_answer(self, values: Mapping[str, Any], filing: Filing) -> StoredAnswer:
        identity, body, tenant, now = values["id"], values["body"], values["tenant"], datetime.now(UTC)
        packed = {part: pack_part(values[part]) for part in ("request", "body", "supply")}
        size = sum(map(len, packed.values()))
        try:
            if filing.is_filed and not self.quota.take(size):
                log.warning("recommendation_not_stored", id=identity, error="FiledQuota", message=QUOTA_REACHED)
                return StoredAnswer(body, stored=False)
            with self._engine.begin() as connection:
                connection.execute(KEEP, {**values, **packed, "stored_at": now})
                connection.execute(INSERT_FILING, filing_values(identity, now, filing, size_bytes=size, tenant=tenant))
                if filing.is_filed:
                    self.quota.charge_caller(connection, size)
                data = event_data(identity, filing, Status.DRAFT)
                self._outbox.record_event(connection, STORED, data, now=now, tenant=tenant)
        except IntegrityError:
            return StoredAnswer(self._read_body(identity, tenant) or body, stored=True)
        except DBAPIError as error:
            log.warning("recommendation_not_stored", id=identity, **describe_error(error))
            return StoredAnswer(body, stored=False)
        return StoredAnswer(body, stored=True)

    def keep_for_good(self, session: Session, row: FilingRow) -> None:
        """Counts an answer that a status change files. Raises FilingLimited, and NotAllowed if the total is reached."""
        if row.version or any(each is not None for each in (row.label, row.reference, row.cost_centre)):
            return
        self.quota.check_caller()
        if not self.quota.take(row.size_bytes):
            raise NotAllowed(QUOTA_REACHED)
        self.quota.charge_caller(session.connection(), row.size_bytes)

    def delete_answer(self, session: Session, row: FilingRow) -> None:
        """Deletes an answer with its history. Raises NotAllowed while it is in use."""
        if not _delete_answers(session.connection(), [row.recommendation]):
            raise NotAllowed(
                "An answer that is approved or ordered, that replaced another one or that a punch-out session ordered "
                "cannot be deleted. Withdraw an approval first."
            )
        self._cache.drop(row.recommendation)

    def get_answer(self, identity: str, tenant: str = PUBLIC) -> tuple[bytes, datetime]:
        """Returns a stored answer and the time when it was first stored. Raises UnknownRecommendation."""
        with self._engine.connect() as connection:
            row = connection.execute(SELECT_ANSWER, {"identity": identity, "tenant": tenant}).first()
        if row is None:
            raise unknown_recommendation()
        return unpack_part(row.body), to_utc(row.stored_at)

    def get_answer_and_supply(self, identity: str, tenant: str = PUBLIC) -> tuple[bytes, bytes]:
        """Returns a stored answer and its supply data for exports. Raises UnknownRecommendation and NoSupply."""
        with self._engine.connect() as connection:
            row = connection.execute(SELECT_ANSWER_AND_SUPPLY, {"identity": identity, "tenant": tenant}).first()
        if row is None:
            raise unknown_recommendation()
        if row.supply is None:
            raise NoSupply(
                "This answer was stored before bills were stored with answers. Post its request again to get a bill."
            )
        return unpack_part(row.body), unpack_part(row.supply)


@dataclass(frozen=True, slots=True)
class TenantAnswers:
    """The answers of one tenant: others neither find nor change them."""

    store: AnswerStore
    tenant: str

    def find_answer(self, identity: str) -> bytes | None:
        """Returns the bytes of an answer; None if it was never stored or the database does not respond in time."""
        return self.store.find_answer(identity, self.tenant)

    def store_answer(
        self, identity: str, *, snapshot: str, request: bytes, body: bytes, supply: bytes, filing: Filing
    ) -> StoredAnswer:
        return self.store.store_answer(
            identity,
            snapshot=snapshot,
            request=request,
            body=body,
            supply=supply,
            filing=filing,
            tenant=self.tenant,
        )

    def get_answer(self, identity: str) -> tuple[bytes, datetime]:
        """Returns a stored answer and the time when it was first stored. Raises UnknownRecommendation."""
        return self.store.get_answer(identity, self.tenant)

    def get_answer_and_supply(self, identity: str) -> tuple[bytes, bytes]:
        """Returns a stored answer and its supply data for exports. Raises UnknownRecommendation and NoSupply."""
        return self.store.get_answer_and_supply(identity, self.tenant)
