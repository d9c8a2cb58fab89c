"""Databases that fail under a service: questions are answered, the rest is refused soon, and all comes back."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine, create_engine, text
from starlette.testclient import TestClient

from app.catalog import recommendations
from app.config import Settings
from app.main import create_app
from tests.conftest import copied
from tests.examples import body
from tests.outages import Outage

QUESTION = body("recommend-inference-chat-70b")
SETTINGS = Settings(
    database_url="sqlite://", database_statement_s=0.5, database_lock_s=0.3, database_pool_s=0.1, access_log="off"
)


@contextmanager
def served(url: str, **changes: object) -> Iterator[tuple[TestClient, Engine]]:
    """A service that has its catalogue."""
    app: FastAPI = create_app(SETTINGS.model_copy(update={"database_url": url, "snapshot_check_s": 0.2, **changes}))
    engine = app.state.sessions.kw["bind"]
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/readyz").status_code == 200
        yield client, engine
    engine.dispose()


def asked(cost: float) -> dict[str, object]:
    """A request that was not sent before."""
    return {**QUESTION, "economics": {"electricity_usd_per_kwh": cost}}


def refused(client: TestClient, path: str) -> float:
    """Seconds until a list is refused, with when to ask again."""
    began = time.monotonic()
    answer = client.get(path)
    assert answer.status_code == 503
    assert answer.json()["type"] == "/problems/database-unavailable"
    assert answer.headers["retry-after"]
    return time.monotonic() - began


@pytest.mark.slow
def test_questions_of_any_model_are_answered_without_the_database(sqlite_url: str, tmp_path: Path) -> None:
    with served(copied(sqlite_url, tmp_path / "own.sqlite3")) as (client, engine):
        outage = Outage(engine)
        with outage.refused():
            answer = client.post("/recommend", json=QUESTION)
            assert (answer.status_code, answer.headers["headroom-stored"]) == (200, "false")
            estimate = body("estimate-llama-70b-8xh100")
            estimate["workload"]["model"] = "Qwen/Qwen2.5-32B-Instruct"
            assert client.post("/estimate", json=estimate).status_code == 200
            refused(client, "/catalog/systems")
            until = time.monotonic() + 5
            while client.get("/readyz").status_code == 200 and time.monotonic() < until:
                time.sleep(0.05)
            ready = client.get("/readyz")
            assert (ready.status_code, "gone" in ready.json()["detail"]) == (503, True)
            assert client.get("/livez").status_code == 200
        again = client.post("/recommend", json=QUESTION)
        assert "headroom-stored" not in again.headers
        assert again.content == answer.content


def test_connections_closed_by_the_server_cost_no_answer(postgres_url: str) -> None:
    with served(postgres_url) as (client, _):
        assert client.get("/catalog/systems").status_code == 200
        ended = create_engine(postgres_url)
        for _ in range(3):
            with ended.begin() as connection:
                others = "datname = current_database() and pid <> pg_backend_pid()"
                connection.execute(text(f"select pg_terminate_backend(pid) from pg_stat_activity where {others}"))
            assert client.get("/catalog/systems").status_code == 200
            answer = client.post("/recommend", json=asked(0.11 + os.getpid() / 1e9))
            assert (answer.status_code, "headroom-stored" in answer.headers) == (200, False)
            assert client.get(f"/recommendations/{answer.json()['id']}").content == answer.content
        ended.dispose()


def test_exhausted_connections_are_reported_soon_with_a_time_to_retry(postgres_url: str) -> None:
    with served(postgres_url, database_connections=1, snapshot_check_s=3600.0) as (client, engine):
        with engine.connect():
            assert refused(client, "/catalog/systems") < 1
            assert client.post("/recommend", json=asked(0.12)).headers["headroom-stored"] == "false"
        assert client.get("/catalog/systems").status_code == 200


def test_a_file_that_another_process_has_locked_is_read(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommendations, "UNASKED_S", 0.2)
    url = copied(sqlite_url, tmp_path / "own.sqlite3")
    with served(url) as (client, _):
        first = client.post("/recommend", json=QUESTION).json()["id"]
        with closing(sqlite3.connect(tmp_path / "own.sqlite3", isolation_level=None)) as other:
            other.execute("begin exclusive")
            began = time.monotonic()
            answer = client.post("/recommend", json=asked(0.13))
            assert (answer.status_code, answer.headers["headroom-stored"]) == (200, "false")
            assert client.get("/catalog/systems").status_code == 200
            assert client.get(f"/recommendations/{first}").status_code == 200
            moved = {"status": "approved", "by": "somebody"}
            changed = client.patch(f"/recommendations/{first}", json=moved, headers={"If-Match": "*"})
            assert changed.status_code == 503
            assert time.monotonic() - began < 6
        assert "headroom-stored" not in client.post("/recommend", json=asked(0.14)).headers
