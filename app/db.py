"""Declarative base, naming convention, and engines for SQLite and PostgreSQL with a time limit on every wait."""

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

# Base class of the errors raised when a database does not answer.
DatabaseError = DBAPIError

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
_max_wait_s: ContextVar[float] = ContextVar("most_s", default=math.inf)  # limit on waiting for one response
RETRY_AFTER_S = 1.0  # pause before the next attempt after a database did not answer


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


@dataclass(frozen=True, slots=True)
class DatabaseLimits:
    """Time limits for database access, in seconds, and the size of the connection pool."""

    statement_s: float = 5.0
    lock_s: float = 3.0
    connect_s: int = 3
    pool_s: float = 2.0
    connections: int = 10


UNHURRIED = DatabaseLimits(statement_s=3600.0, lock_s=300.0)  # for commands that migrate and load


def unavailable_error(reason: str) -> DatabaseError:
    """Returns the error for a database that does not answer."""
    return OperationalError(None, None, psycopg.OperationalError(reason))


class NoResponse(psycopg.OperationalError):
    """The server did not answer on an open connection in time."""


class CircuitBreaker:
    """Circuit breaker of one database. After a failure, one attempt per second may probe it; all others fail at
    once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retry_at = 0.0
        self._probing = threading.Lock()  # held by the attempt that probes whether the database is back
        self.is_open = False

    @contextmanager
    def guard_attempt(self) -> Iterator[None]:
        """Guards one attempt to connect. Raises DatabaseError at once while the breaker is open, except for the attempt
        that probes whether the database is back.
        """
        if not self.is_open:
            yield
            return
        if time.monotonic() < self._retry_at or not self._probing.acquire(blocking=False):
            telemetry.record_database_failure("breaker")
            raise unavailable_error("it did not answer a moment ago")
        try:
            yield
        finally:
            self._probing.release()

    def record_failure(self) -> None:
        """Opens the breaker: the database did not answer."""
        with self._lock:
            self.is_open, self._retry_at = True, time.monotonic() + RETRY_AFTER_S
        telemetry.set_breaker_state(is_open=True)

    def record_success(self) -> None:
        """Closes the breaker: the database answered."""
        if self.is_open:
            self.is_open = False
            telemetry.set_breaker_state(is_open=False)


class Pool(QueuePool):
    """Connection pool guarded by a circuit breaker."""

    breaker: CircuitBreaker
    ping_timeout_s: float  # limit on the ping that checks an open connection before use

    def connect(self) -> PoolProxiedConnection:
        """Returns a connection that answers. Raises DatabaseError at once while the circuit breaker is open."""
        with self.breaker.guard_attempt():
            previous = _max_wait_s.set(self.ping_timeout_s)
            try:
                connection = super().connect()
            except PoolTimeout:
                telemetry.record_database_failure("pool")
                raise unavailable_error("every connection is in use") from None
            finally:
                _max_wait_s.reset(previous)
            self.breaker.record_success()
        return connection

    def recreate(self) -> Pool:
        """Returns an empty pool with the same breaker and limits."""
        pool = super().recreate()
        assert isinstance(pool, Pool)
        pool.breaker, pool.ping_timeout_s = self.breaker, self.ping_timeout_s
        return pool


def make_engine(url: str, requested_limits: DatabaseLimits | None = None) -> Engine:
    """Returns an engine for a database URL: foreign keys and WAL on SQLite, UTC on PostgreSQL, time limits on both."""
    limits = requested_limits or DatabaseLimits()
    engine = make_sqlite_engine(url, limits) if url.startswith("sqlite") else make_postgres_engine(url, limits)

    @event.listens_for(engine, "handle_error")
    def count_failure(context: ExceptionContext) -> None:
        if (kind := failure_kind(context.original_exception)) is not None:
            telemetry.record_database_failure(kind)

    return engine


def failure_kind(error: BaseException) -> telemetry.DatabaseFailure | None:
    """Classifies a database failure for the metrics; None if the statement itself was wrong."""
    if isinstance(error, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):
        return "timeout"
    if isinstance(error, psycopg.OperationalError):
        return "unreachable"
    if isinstance(error, sqlite3.OperationalError):
        return "timeout" if "locked" in str(error) else "other"
    return None


def make_sqlite_engine(url: str, limits: DatabaseLimits) -> Engine:
    """Returns an engine for a SQLite file."""
    engine = create_engine(url, connect_args={"timeout": limits.lock_s, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")  # a machine crash may lose the newest commits but corrupts none
        cursor.close()

    return engine


def make_postgres_engine(url: str, limits: DatabaseLimits) -> Engine:
    """Returns an engine for a PostgreSQL server. The server cancels slow statements itself; if it hangs or the network
    fails, the client closes the connection.
    """

    most_s = limits.statement_s + 1  # a healthy server cancels the statement earlier

    class Timed(psycopg.Connection[Any]):
        def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
            try:
                return super().wait(
                    gen, interval, timeout=min(most_s, _max_wait_s.get()) if timeout is None else timeout
                )
            except psycopg.OperationalError as error:
                if self.pgconn.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
                    raise
                self.close()  # a late response must not be read as that of the next statement
                raise NoResponse("it did not answer in time") from error

    parsed = make_url(url)
    own = {
        "timezone": "UTC",
        "statement_timeout": to_milliseconds(limits.statement_s),
        "lock_timeout": to_milliseconds(limits.lock_s),
    }
    engine = create_engine(
        parsed,
        poolclass=Pool,
        pool_pre_ping=True,
        pool_size=limits.connections,
        max_overflow=0,
        pool_timeout=limits.pool_s,
        connect_args={"connect_timeout": limits.connect_s, "options": session_options(parsed.query, own)},
    )
    assert isinstance(engine.pool, Pool)
    engine.pool.ping_timeout_s = limits.connect_s
    breaker = engine.pool.breaker = CircuitBreaker()

    @event.listens_for(engine, "do_connect")
    def open_connection(_dialect: object, _record: object, args: list[Any], kwargs: dict[str, Any]) -> Timed:
        return Timed.connect(*args, **kwargs)

    @event.listens_for(engine, "handle_error")
    def record_connection_failure(context: ExceptionContext) -> None:
        lost = context.connection is None and not context.is_pre_ping  # a failed ping only closes that connection
        if lost or isinstance(context.original_exception, NoResponse):
            breaker.record_failure()

    return engine


def read_consistently(session: Session) -> None:
    """Makes all reads of a session see one consistent state, from its first statement on, despite concurrent
    changes.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    else:
        session.connection().exec_driver_sql("BEGIN")


def to_milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1e3)}ms"


def session_options(query: Mapping[str, Any], defaults: Mapping[str, str]) -> str:
    """Returns the options that a PostgreSQL session starts with. Options in the URL take precedence."""
    return " ".join(
        [*(f"-c {name}={value}" for name, value in defaults.items()), str(query.get("options", ""))]
    ).strip()
