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
from app.catalog.filing import UNFILED, FilingRow, StatusChangeRow, in_utc
from app.catalog.punchouts import PunchoutSessionRow
from app.catalog.tables import RecommendationRow
from app.causes import cause
from app.db import DatabaseError

EVERY_S = 60.0
AT_ONCE = 100  # answers in one transaction
PAUSE_S = 0.1  # between two transactions
LEAST = timedelta(minutes=10)  # minimum age, so that clients can fetch every answer for a while
ID_LENGTH = len("rec_") + 28

Answer = Row[str, datetime, int]  # id, when it was stored, bytes

log = structlog.get_logger("headroom")


@dataclass(frozen=True, slots=True)
class Keeping:
    """Limits for unfiled answers: age in days and total bytes. 0 means no limit."""

    days: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Some:
    """Number of answers and their total size in bytes."""

    answers: int = 0
    bytes: int = 0

    def __add__(self, more: Some) -> Some:
        return Some(self.answers + more.answers, self.bytes + more.bytes)


class Pruner:
    """Deletes surplus answers in small batches. Any number of processes may do so on one database."""

    def __init__(self, engine: Engine, keeping: Keeping) -> None:
        self._engine, self._keeping = engine, keeping
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pruner", daemon=True)

    def start(self) -> None:
        """Starts pruning in a background thread until `stop`; the first run follows after a pause."""
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S * uniform(0.5, 1.5)):  # spreads processes out
            try:
                deleted = self.prune(now=datetime.now(UTC))
            except DatabaseError as error:
                telemetry.prune_failed()
                log.warning("answers_not_pruned", **cause(error))
            else:
                telemetry.pruned(deleted.answers)
                if deleted.answers:
                    log.info("answers_pruned", answers=deleted.answers, bytes=deleted.bytes)

    def prune(self, *, now: datetime, pause_s: float = PAUSE_S) -> Some:
        """Deletes surplus answers until none is left, another process deletes them, or this pruner stops."""
        deleted, some = Some(), self.prune_some(now=now)
        while some.answers:
            deleted += some
            if self._stopped.wait(pause_s):
                break
            some = self.prune_some(now=now)
        return deleted

    def prune_some(self, *, now: datetime) -> Some:
        """Deletes the oldest surplus answers in one short transaction."""
        pointed = _pointed_to()
        with self._engine.connect() as connection:
            rows = connection.execute(_oldest(now).where(~pointed).limit(AT_ONCE)).all()
        surplus = self._going(rows, self._over(self.unfiled()), now)
        if not surplus:
            return Some()
        sizes = {row.recommendation: row.size_bytes for row in surplus}
        still = (FilingRow.recommendation.in_(sizes), UNFILED, ~pointed)
        with self._engine.begin() as connection:
            deleted = (
                connection.execute(delete(FilingRow).where(*still).returning(FilingRow.recommendation)).scalars().all()
            )
            connection.execute(delete(RecommendationRow).where(RecommendationRow.id.in_(deleted)))
        return Some(len(deleted), sum(sizes[identity] for identity in deleted))

    def surplus(self, *, now: datetime) -> Some:
        """Returns how many answers and bytes would be deleted now."""
        with self._engine.connect() as connection:
            rows = connection.execute(_oldest(now).where(~_pointed_to())).all()
        surplus = self._going(rows, self._over(self.unfiled()), now)
        return Some(len(surplus), sum(row.size_bytes for row in surplus))

    def unfiled(self) -> Some:
        """Returns the number and size of unfiled answers, without reading their contents."""
        query = select(func.count(), func.coalesce(func.sum(FilingRow.size_bytes), 0)).where(UNFILED)
        with self._engine.connect() as connection:
            count, size = connection.execute(query).one()
        return Some(int(count), int(size))

    def _over(self, unfiled: Some) -> int:
        """Returns the bytes above the size limit."""
        return unfiled.bytes - self._keeping.bytes if self._keeping.bytes else 0

    def _going(self, rows: Sequence[Answer], over: int, now: datetime) -> list[Answer]:
        """Returns the answers that exceed the age or size limit, given answers ordered from the oldest."""
        surplus, kept_from = [], now - timedelta(days=self._keeping.days)
        for row in rows:
            if over <= 0 and not (self._keeping.days and in_utc(row.stored_at) < kept_from):
                break
            surplus.append(row)
            over -= row.size_bytes
        return surplus


def _oldest(now: datetime) -> Select[str, datetime, int]:
    """Returns the query for unfiled answers older than the minimum age, oldest first."""
    order = (FilingRow.stored_at, FilingRow.recommendation)
    wanted = select(FilingRow.recommendation, FilingRow.stored_at, FilingRow.size_bytes)
    return wanted.where(UNFILED, FilingRow.stored_at < now - LEAST).order_by(*order)


def _pointed_to() -> ColumnElement[bool]:
    """Returns the condition that another answer, a status change or an order refers to the answer."""
    other, mine = aliased(FilingRow), FilingRow.recommendation
    ordered = select(func.substr(PunchoutSessionRow.chosen, 1, ID_LENGTH)).where(PunchoutSessionRow.chosen.is_not(None))
    return or_(
        select(other.recommendation).where(other.superseded_by == mine).exists(),
        select(StatusChangeRow.version).where(StatusChangeRow.superseded_by == mine).exists(),
        mine.in_(ordered),
    )
