"""Waiting for a database ends, be it frozen, locked, busy or away; sessions are UTC whatever the server's zone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.db import DatabaseError, DatabaseLimits, make_engine
from app.errors import describe_error
from app.main import create_app
from tests.examples import body
from tests.test_telemetry import value as counted

SHORT = DatabaseLimits(statement_s=0.3, lock_s=0.2, connect_s=2, pool_s=0.1, connections=2)


@pytest.fixture
def engine(postgres_url: str) -> Iterator[Engine]:
    made = make_engine(postgres_url, SHORT)
    yield made
    made.dispose()


def failures(kind: str) -> float:
    return counted("headroom_database_failures_total", kind=kind)


def value(engine: Engine, asked: str) -> object:
    with engine.connect() as connection:
        return connection.execute(text(asked)).scalar()


def waited(engine: Engine, asked: str) -> tuple[float, str]:
    """Seconds until the database was given up, and why."""
    began = time.monotonic()
    with pytest.raises(DatabaseError) as given_up:
        value(engine, asked)
    return time.monotonic() - began, describe_error(given_up.value)["message"]


def test_the_server_ends_a_long_statement(engine: Engine) -> None:
    before = failures("timeout")
    seconds, cause = waited(engine, "select pg_sleep(20)")
    assert seconds < 2
    assert failures("timeout") == before + 1
    assert "statement timeout" in cause
    assert value(engine, "select 1") == 1


@pytest.mark.slow
def test_a_frozen_server_is_given_up_and_then_not_asked_for_a_moment(engine: Engine) -> None:
    before, refused = failures("unreachable"), failures("breaker")
    backend = value(engine, "select pg_backend_pid()")
    assert isinstance(backend, int)
    os.kill(backend, signal.SIGSTOP)
    try:
        with engine.connect() as spare:  # the frozen one is found out, and another opened
            assert spare.execute(text("select 1")).scalar() == 1
        with engine.connect() as connection:
            own = connection.execute(text("select pg_backend_pid()")).scalar()
            os.kill(int(own), signal.SIGSTOP)  # type: ignore[arg-type]
            try:
                began = time.monotonic()
                with pytest.raises(DatabaseError):
                    connection.execute(text("select 2"))
                assert time.monotonic() - began < 3
            finally:
                os.kill(int(own), signal.SIGCONT)  # type: ignore[arg-type]
        seconds, cause = waited(engine, "select 3")
        assert seconds < 0.05
        assert "a moment ago" in cause
        assert failures("unreachable") > before and failures("breaker") == refused + 1
        assert counted("headroom_database_breaker_open") == 1
    finally:
        os.kill(backend, signal.SIGCONT)
    time.sleep(1.1)
    assert value(engine, "select 4") == 4
    assert counted("headroom_database_breaker_open") == 0


def test_a_lock_and_a_connection_are_waited_for_and_given_up(engine: Engine) -> None:
    with engine.begin() as holding:
        holding.execute(text("lock table catalog_versions"))
        seconds, cause = waited(engine, "select * from catalog_versions")
        assert seconds < 2
        assert "lock timeout" in cause
        before = failures("pool")
        with engine.connect():
            seconds, cause = waited(engine, "select 1")
    assert seconds < 2
    assert cause == "every connection is in use"
    assert failures("pool") == before + 1
    assert value(engine, "select 1") == 1  # which is no reason to stay away


def test_a_locked_file_is_waited_for_and_given_up(tmp_path: Path) -> None:
    engine = make_engine(f"sqlite:///{tmp_path}/x.sqlite3", SHORT)
    with engine.begin() as made:
        made.execute(text("create table t (x integer)"))
    with engine.connect() as holding:
        holding.exec_driver_sql("begin immediate")
        began, before = time.monotonic(), failures("timeout")
        with pytest.raises(DatabaseError, match="locked"), engine.begin() as other:
            other.execute(text("insert into t values (1)"))
        assert time.monotonic() - began < 2
        assert failures("timeout") == before + 1
        assert value(engine, "select count(*) from t") == 0  # readers go on
    engine.dispose()


@pytest.mark.slow
def test_stored_answers_are_read_in_any_zone_of_the_server(
    prepared_postgres: Callable[[str], str], loaded: LoadedCatalog
) -> None:
    url = prepared_postgres("zone")
    plain = make_engine(url)
    with plain.begin() as connection:
        name = connection.execute(text("select current_database()")).scalar()
        connection.execute(text(f"alter database \"{name}\" set timezone to 'Etc/UTC'"))
    plain.dispose()
    app = create_app(Settings(database_url=url), loaded)
    with TestClient(app, raise_server_exceptions=False) as client:
        stored = client.post("/recommend", json=body("recommend-inference-chat-70b")).json()["id"]
        answer = client.get(f"/recommendations/{stored}")
        assert answer.status_code == 200
        assert answer.headers["last-modified"].endswith("GMT")
    app.state.sessions.kw["bind"].dispose()
