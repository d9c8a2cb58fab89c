"""Engine for PostgreSQL: a time limit on every wait, and a circuit breaker. The only module that imports psycopg."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection

from app import telemetry

_max_wait_s: ContextVar[float] = ContextVar("most_s", default=math.inf)  # limit on waiting for one response
RETRY_AFTER_S = 1.0  # pause before the next attempt after a database did not answer


def unavailable_error(reason: str) -> DBAPIError:
    """Returns the error for a database that does not answer."""
    return OperationalError(None, None, psycopg.OperationalError(reason))


class NoResponse(psycopg.OperationalError):
    """The server did not answer on an open connection in time."""


class CircuitBreaker:
    """Circuit breaker of one database. After a failure, one attempt per second may probe it; others fail at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retry_at = 0.0
        self._probing = threading.Lock()  # held by the attempt that probes whether the database is back
        self.is_open = False

    @contextmanager
    def guard_attempt(self) -> Iterator[None]:
        """Guards one attempt to connect. Raises DBAPIError at once while the breaker is open, except for the attempt
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
        """Returns a connection that answers. Raises DBAPIError at once while the circuit breaker is open."""
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


def failure_kind(error: BaseException) -> telemetry.DatabaseFailure | None:
    """Classifies a failure of PostgreSQL for the metrics; None if the statement itself was wrong."""
    if isinstance(error, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):
        return "timeout"
    return "unreachable" if isinstance(error, psycopg.OperationalError) else None


def make_engine(
    url: str, *, statement_s: float, lock_s: float, connect_s: int, pool_s: float, connections: int
) -> Engine:
    """Returns an engine for a PostgreSQL server. The server cancels slow statements itself; if it hangs or the network
    fails, the client closes the connection.
    """

    most_s = statement_s + 1  # a healthy server cancels the statement earlier

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
        "statement_timeout": to_milliseconds(statement_s),
        "lock_timeout": to_milliseconds(lock_s),
    }
    engine = create_engine(
        parsed,
        poolclass=Pool,
        pool_pre_ping=True,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=pool_s,
        connect_args={"connect_timeout": connect_s, "options": session_options(parsed.query, own)},
    )
    assert isinstance(engine.pool, Pool)
    engine.pool.ping_timeout_s = connect_s
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


def to_milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1e3)}ms"


def session_options(query: Mapping[str, Any], defaults: Mapping[str, str]) -> str:
    """Returns the options that a PostgreSQL session starts with. Options in the URL take precedence."""
    return " ".join(
        [*(f"-c {name}={value}" for name, value in defaults.items()), str(query.get("options", ""))]
    ).strip()
