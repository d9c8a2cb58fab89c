"""How long stored answers stay: those that somebody named, moved on or points to for ever, the others up to an age and
a size, the oldest going first.
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
PAUSE_S = 0.1  # between two of them
LEAST = timedelta(minutes=10)  # that every answer is kept: whoever asked can fetch it
ID_LENGTH = len("rec_") + 28

Answer = Row[str, datetime, int]  # id, when it was stored, bytes

log = structlog.get_logger("headroom")


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long answers that nobody filed are kept, and how many bytes of them; 0 is without end."""

    days: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Some:
    """So many answers, so large."""

    answers: int = 0
    bytes: int = 0

    def __add__(self, more: Some) -> Some:
        return Some(self.answers + more.answers, self.bytes + more.bytes)


class Pruner:
    """Deletes what need not be kept, a few at a time; any number of processes may do so on one database."""

    def __init__(self, engine: Engine, keeping: Keeping) -> None:
        self._engine, self._keeping = engine, keeping
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pruner", daemon=True)

    def start(self) -> None:
        """Prune beside everything else, until stopped; first after a while."""
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S * uniform(0.5, 1.5)):  # processes that start together do not meet
            try:
                gone = self.prune(now=datetime.now(UTC))
            except DatabaseError as error:
                telemetry.prune_failed()
                log.warning("answers_not_pruned", **cause(error))
            else:
                telemetry.pruned(gone.answers)
                if gone.answers:
                    log.info("answers_pruned", answers=gone.answers, bytes=gone.bytes)

    def prune(self, *, now: datetime, pause_s: float = PAUSE_S) -> Some:
        """Delete what is too old or too much, until nothing is, another process does it, or this one stops."""
        gone, some = Some(), self.prune_some(now=now)
        while some.answers:
            gone += some
            if self._stopped.wait(pause_s):
                break
            some = self.prune_some(now=now)
        return gone

    def prune_some(self, *, now: datetime) -> Some:
        """Delete the oldest of what may go, in one short transaction."""
        pointed = _pointed_to()
        with self._engine.connect() as connection:
            rows = connection.execute(_oldest(now).where(~pointed).limit(AT_ONCE)).all()
        going = self._going(rows, self._over(self.unfiled()), now)
        if not going:
            return Some()
        sizes = {row.recommendation: row.size_bytes for row in going}
        still = (FilingRow.recommendation.in_(sizes), UNFILED, ~pointed)
        with self._engine.begin() as connection:
            gone = (
                connection.execute(delete(FilingRow).where(*still).returning(FilingRow.recommendation)).scalars().all()
            )
            connection.execute(delete(RecommendationRow).where(RecommendationRow.id.in_(gone)))
        return Some(len(gone), sum(sizes[identity] for identity in gone))

    def surplus(self, *, now: datetime) -> Some:
        """What would be deleted now."""
        with self._engine.connect() as connection:
            rows = connection.execute(_oldest(now).where(~_pointed_to())).all()
        going = self._going(rows, self._over(self.unfiled()), now)
        return Some(len(going), sum(row.size_bytes for row in going))

    def unfiled(self) -> Some:
        """Every answer that nobody filed; the answers themselves are not read."""
        asked = select(func.count(), func.coalesce(func.sum(FilingRow.size_bytes), 0)).where(UNFILED)
        with self._engine.connect() as connection:
            count, size = connection.execute(asked).one()
        return Some(int(count), int(size))

    def _over(self, unfiled: Some) -> int:
        """Bytes too many."""
        return unfiled.bytes - self._keeping.bytes if self._keeping.bytes else 0

    def _going(self, rows: Sequence[Answer], over: int, now: datetime) -> list[Answer]:
        """Of answers, the oldest first, those that are too old or too much."""
        going, kept_from = [], now - timedelta(days=self._keeping.days)
        for row in rows:
            if over <= 0 and not (self._keeping.days and in_utc(row.stored_at) < kept_from):
                break
            going.append(row)
            over -= row.size_bytes
        return going


def _oldest(now: datetime) -> Select[str, datetime, int]:
    """Answers that nobody filed, but for the newest."""
    order = (FilingRow.stored_at, FilingRow.recommendation)
    wanted = select(FilingRow.recommendation, FilingRow.stored_at, FilingRow.size_bytes)
    return wanted.where(UNFILED, FilingRow.stored_at < now - LEAST).order_by(*order)


def _pointed_to() -> ColumnElement[bool]:
    """Whether another answer, a change of status or an order names an answer."""
    other, mine = aliased(FilingRow), FilingRow.recommendation
    ordered = select(func.substr(PunchoutSessionRow.chosen, 1, ID_LENGTH)).where(PunchoutSessionRow.chosen.is_not(None))
    return or_(
        select(other.recommendation).where(other.superseded_by == mine).exists(),
        select(StatusChangeRow.version).where(StatusChangeRow.superseded_by == mine).exists(),
        mine.in_(ordered),
    )
