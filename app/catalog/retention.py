"""Retention of stored answers. Filed or referenced answers are kept without limit; others up to a maximum age and total
size. The oldest are deleted first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import uniform

import structlog
from sqlalchemy import ColumnElement, Engine, Row, Select, delete, func, or_, select
from sqlalchemy.orm import aliased

from app import telemetry
from app.catalog.filing import UNFILED, FilingRow, StatusChangeRow, to_utc
from app.catalog.punchouts import PunchoutSessionRow
from app.catalog.tables import RecommendationRow
from app.causes import describe_error
from app.db import DatabaseError

EVERY_S = 60.0
AT_ONCE = 100  # answers in one transaction
PAUSE_S = 0.1  # between two transactions
MIN_AGE = timedelta(minutes=10)  # minimum age, so that clients can fetch every answer for a while
ID_LENGTH = len("rec_") + 28

Answer = Row[str, datetime, int]  # id, when it was stored, bytes

log = structlog.get_logger("headroom")


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Limits for unfiled answers: age in days and total bytes. 0 means no limit."""

    days: int
    bytes: int


@dataclass(frozen=True, slots=True)
class AnswerTotals:
    """Number of answers and their total size in bytes."""

    answers: int = 0
    bytes: int = 0

    def __add__(self, more: AnswerTotals) -> AnswerTotals:
        return AnswerTotals(self.answers + more.answers, self.bytes + more.bytes)


class Pruner:
    """Deletes surplus answers in small batches. Any number of processes may do so on one database."""

    def __init__(self, engine: Engine, keeping: RetentionPolicy) -> None:
        self._engine, self._policy = engine, keeping
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._prune_periodically, name="pruner", daemon=True)

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
            except DatabaseError as error:
                telemetry.record_prune_failure()
                log.warning("answers_not_pruned", **describe_error(error))
            else:
                telemetry.record_pruned(deleted.answers)
                if deleted.answers:
                    log.info("answers_pruned", answers=deleted.answers, bytes=deleted.bytes)

    def prune_all(self, *, now: datetime, pause_s: float = PAUSE_S) -> AnswerTotals:
        """Deletes surplus answers until none is left, another process deletes them, or this pruner stops."""
        deleted, some = AnswerTotals(), self.prune_batch(now=now)
        while some.answers:
            deleted += some
            if self._stopped.wait(pause_s):
                break
            some = self.prune_batch(now=now)
        return deleted

    def prune_batch(self, *, now: datetime) -> AnswerTotals:
        """Deletes the oldest surplus answers in one short transaction."""
        pointed = _is_referenced()
        with self._engine.connect() as connection:
            rows = connection.execute(_select_unfiled(now).where(~pointed).limit(AT_ONCE)).all()
        surplus = self._select_surplus(rows, self._excess_bytes(self.count_unfiled()), now)
        if not surplus:
            return AnswerTotals()
        sizes = {row.recommendation: row.size_bytes for row in surplus}
        still = (FilingRow.recommendation.in_(sizes), UNFILED, ~pointed)
        with self._engine.begin() as connection:
            deleted = (
                connection.execute(delete(FilingRow).where(*still).returning(FilingRow.recommendation)).scalars().all()
            )
            connection.execute(delete(RecommendationRow).where(RecommendationRow.id.in_(deleted)))
        return AnswerTotals(len(deleted), sum(sizes[identity] for identity in deleted))

    def count_surplus(self, *, now: datetime) -> AnswerTotals:
        """Returns how many answers and bytes would be deleted now."""
        with self._engine.connect() as connection:
            rows = connection.execute(_select_unfiled(now).where(~_is_referenced())).all()
        surplus = self._select_surplus(rows, self._excess_bytes(self.count_unfiled()), now)
        return AnswerTotals(len(surplus), sum(row.size_bytes for row in surplus))

    def count_unfiled(self) -> AnswerTotals:
        """Returns the number and size of unfiled answers, without reading their contents."""
        query = select(func.count(), func.coalesce(func.sum(FilingRow.size_bytes), 0)).where(UNFILED)
        with self._engine.connect() as connection:
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
