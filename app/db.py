"""The declarative base, its naming convention, and engines for SQLite and PostgreSQL that never wait without end."""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import Engine, MetaData, QueuePool, create_engine, event, make_url
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.pool import PoolProxiedConnection

from app import telemetry

# What is raised where a database does not answer.
DatabaseError = DBAPIError

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
_most_s: ContextVar[float] = ContextVar("most_s", default=math.inf)  # that an answer on a connection is waited for
AWAY_S = 1.0  # that nobody asks a database which did not answer


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for a database: for a statement, a lock, a connection to it, and one of so many that is free."""

    statement_s: float = 5.0
    lock_s: float = 3.0
    connect_s: int = 3
    pool_s: float = 2.0
    connections: int = 10


UNHURRIED = Patience(statement_s=3600.0, lock_s=300.0)  # of commands that migrate and load


def away(said: str) -> DatabaseError:
    """The error of a database that does not answer."""
    return OperationalError(None, None, psycopg.OperationalError(said))


class NoAnswer(psycopg.OperationalError):
    """A connection on which nothing came back."""


class Line:
    """Whether the database answers: after it did not, one at a time asks every second; others are told at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._again_at = 0.0
        self._asking = threading.Lock()  # held by the one that finds out whether it is back
        self.down = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises DatabaseError at once while it is away, but for the one that finds out whether it still is."""
        if not self.down:
            yield
            return
        if time.monotonic() < self._again_at or not self._asking.acquire(blocking=False):
            telemetry.database_failed("breaker")
            raise away("it did not answer a moment ago")
        try:
            yield
        finally:
            self._asking.release()

    def failed(self) -> None:
        """It did not answer."""
        with self._lock:
            self.down, self._again_at = True, time.monotonic() + AWAY_S
        telemetry.breaker(is_open=True)

    def answered(self) -> None:
        """It did."""
        if self.down:
            self.down = False
            telemetry.breaker(is_open=False)


class Pool(QueuePool):
    """Connections, of a database that is there."""

    line: Line
    hurry_s: float  # for one that was opened before to say that it still is, in which nothing is computed

    def connect(self) -> PoolProxiedConnection:
        """A connection that answers. Raises DatabaseError at once where the database is known to be away."""
        with self.line.held():
            usual = _most_s.set(self.hurry_s)
            try:
                found = super().connect()
            except PoolTimeout:
                telemetry.database_failed("pool")
                raise away("every connection is in use") from None
            finally:
                _most_s.reset(usual)
            self.line.answered()
        return found

    def recreate(self) -> Pool:
        """The same, empty."""
        again = super().recreate()
        assert isinstance(again, Pool)
        again.line, again.hurry_s = self.line, self.hurry_s
        return again


def make_engine(url: str, patience: Patience | None = None) -> Engine:
    """An engine with what each database needs: foreign keys and WAL on SQLite, UTC and an end of waiting on both."""
    limits = patience or Patience()
    engine = sqlite(url, limits) if url.startswith("sqlite") else postgres(url, limits)

    @event.listens_for(engine, "handle_error")
    def counted(context: ExceptionContext) -> None:
        if (kind := kind_of(context.original_exception)) is not None:
            telemetry.database_failed(kind)

    return engine


def kind_of(error: BaseException) -> telemetry.DatabaseFailure | None:
    """What a database did not do; None where what was asked of it was wrong."""
    if isinstance(error, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):
        return "timeout"
    if isinstance(error, psycopg.OperationalError):
        return "unreachable"
    if isinstance(error, sqlite3.OperationalError):
        return "timeout" if "locked" in str(error) else "other"
    return None


def sqlite(url: str, limits: Patience) -> Engine:
    """An engine of a file."""
    engine = create_engine(url, connect_args={"timeout": limits.lock_s, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")  # a crash of the machine may lose the newest; none is torn
        cursor.close()

    return engine


def postgres(url: str, limits: Patience) -> Engine:
    """An engine of a server. It ends a statement itself; one that is frozen, or whose network is cut, we give up."""

    most_s = limits.statement_s + 1  # a server that is well ends it before

    class Timed(psycopg.Connection[Any]):
        def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
            try:
                return super().wait(gen, interval, timeout=min(most_s, _most_s.get()) if timeout is None else timeout)
            except psycopg.OperationalError as error:
                if self.pgconn.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
                    raise
                self.close()  # nobody reads what it may still say
                raise NoAnswer("it did not answer in time") from error

    told = make_url(url)
    own = {"timezone": "UTC", "statement_timeout": ms(limits.statement_s), "lock_timeout": ms(limits.lock_s)}
    engine = create_engine(
        told,
        poolclass=Pool,
        pool_pre_ping=True,
        pool_size=limits.connections,
        max_overflow=0,
        pool_timeout=limits.pool_s,
        connect_args={"connect_timeout": limits.connect_s, "options": options(told.query, own)},
    )
    assert isinstance(engine.pool, Pool)
    engine.pool.hurry_s = limits.connect_s
    line = engine.pool.line = Line()

    @event.listens_for(engine, "do_connect")
    def connected(_dialect: object, _record: object, words: list[Any], named: dict[str, Any]) -> Timed:
        return Timed.connect(*words, **named)

    @event.listens_for(engine, "handle_error")
    def heard(context: ExceptionContext) -> None:
        lost = context.connection is None and not context.is_pre_ping  # of one that was closed another is opened
        if lost or isinstance(context.original_exception, NoAnswer):
            line.failed()

    return engine


def at_one_moment(session: Session) -> None:
    """Has all that a session reads, from its first statement on, be of one moment, whoever changes it meanwhile."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    else:
        session.connection().exec_driver_sql("BEGIN")


def ms(seconds: float) -> str:
    return f"{round(seconds * 1e3)}ms"


def options(query: Mapping[str, Any], own: Mapping[str, str]) -> str:
    """What a session starts with; what the URL says goes before."""
    return " ".join([*(f"-c {name}={value}" for name, value in own.items()), str(query.get("options", ""))]).strip()
