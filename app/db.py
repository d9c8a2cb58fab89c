"""Declarative base, naming convention, and engines for SQLite and PostgreSQL with a time limit on every wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, make_url
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Session

from app import telemetry
from app.extras import import_extra

# Base class of the errors raised when a database does not answer.
DatabaseError = DBAPIError

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


PUBLIC = "public"  # tenant of callers without a key
EVERY_TENANT = "*"  # for background work and commands, which belong to no tenant
_acting_tenant: ContextVar[str] = ContextVar("acting_tenant", default=PUBLIC)
SET_TENANT = "SELECT set_config('headroom.tenant', %s, true)"  # until the end of the transaction


@contextmanager
def acting_for(tenant: str) -> Iterator[None]:
    """Limits the transactions that begin in the block to the rows of a tenant, by PostgreSQL's row-level security.

    SQLite has none: there, the conditions of the queries are the only limit.
    """
    token = _acting_tenant.set(tenant)
    try:
        yield
    finally:
        _acting_tenant.reset(token)


def act_for(tenant: str) -> None:
    """Does the same for the rest of the current context: that of a request, or of a background thread."""
    _acting_tenant.set(tenant)


@dataclass(frozen=True, slots=True)
class DatabaseLimits:
    """Time limits for database access, in seconds, and the size of the connection pool."""

    statement_s: float = 5.0
    lock_s: float = 3.0
    connect_s: int = 3
    pool_s: float = 2.0
    connections: int = 10


UNHURRIED = DatabaseLimits(statement_s=3600.0, lock_s=300.0)  # for commands that migrate and load


def make_engine(url: str, requested_limits: DatabaseLimits | None = None) -> Engine:
    """Returns an engine for a database URL: foreign keys and WAL on SQLite, UTC on PostgreSQL, time limits on both.
    Raises MissingExtra for PostgreSQL without its driver.
    """
    limits = requested_limits or DatabaseLimits()
    driver = postgres_driver(url)
    engine: Engine = make_sqlite_engine(url, limits) if driver is None else driver.make_engine(url, **asdict(limits))
    kind_of = sqlite_failure_kind if driver is None else driver.failure_kind
    if driver is not None:
        event.listen(engine, "begin", _set_tenant)

    @event.listens_for(engine, "handle_error")
    def count_failure(context: ExceptionContext) -> None:
        if (kind := kind_of(context.original_exception)) is not None:
            telemetry.record_database_failure(kind)

    return engine


def _set_tenant(connection: Connection) -> None:
    """Tells PostgreSQL's row-level security whose rows a transaction may use. Default: the public tenant's."""
    if (tenant := _acting_tenant.get()) != PUBLIC:
        connection.exec_driver_sql(SET_TENANT, (tenant,))


def postgres_driver(url: str) -> Any:
    """Returns the module `app.postgres` for the URL of a PostgreSQL database, and None for SQLite. Raises MissingExtra
    if the extra is not installed.
    """
    if url.startswith("sqlite"):
        return None
    return import_extra("app.postgres", "postgres", "A PostgreSQL database in HEADROOM_DATABASE_URL")


def sqlite_failure_kind(error: BaseException) -> telemetry.DatabaseFailure | None:
    """Classifies a failure of SQLite for the metrics; None if the statement itself was wrong."""
    if isinstance(error, sqlite3.OperationalError):
        return "timeout" if "locked" in str(error) else "other"
    return None


def is_damaged(error: BaseException) -> bool:
    """Returns whether SQLite reports that its file is damaged or no database: retrying cannot help."""
    original = getattr(error, "orig", error)
    code = getattr(original, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


STORAGE_REMEDIES = {
    sqlite3.SQLITE_FULL: "The disk of the database is full: free space on it.",
    sqlite3.SQLITE_READONLY: "The database cannot be written: make its file and its folder writable.",
    sqlite3.SQLITE_CANTOPEN: "The database cannot be opened: make its file and its folder exist and be writable.",
}


def storage_remedy(error: BaseException) -> str | None:
    """Returns what the operator must do about the disk of a SQLite file; None if it is not the cause."""
    return STORAGE_REMEDIES.get(getattr(getattr(error, "orig", error), "sqlite_errorcode", 0) & 0xFF)


def sqlite_damage(engine: Engine) -> str | None:
    """Returns the first fault that SQLite finds in its file; None if it finds none, and for other databases."""
    if engine.dialect.name != "sqlite":
        return None
    try:
        with engine.connect() as connection:
            found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
    except DatabaseError as error:
        if is_damaged(error):
            return str(error.orig)
        raise
    return None if found == "ok" else " ".join(found.split())


def ended_uncleanly(url: str) -> bool:
    """Returns whether a process left the write-ahead log of a SQLite file behind: it was killed, or still runs."""
    file = make_url(url).database if url.startswith("sqlite") else None
    try:
        return file is not None and Path(f"{file}-wal").stat().st_size > 0
    except OSError:
        return False


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


def read_consistently(session: Session) -> None:
    """Makes all reads of a session see the state at its first statement, despite concurrent changes."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    else:
        session.connection().exec_driver_sql("BEGIN")
