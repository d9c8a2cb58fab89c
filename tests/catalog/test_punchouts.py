"""Punch-out sessions on both databases: found by their token while they last, worth one order, the first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app.catalog.punchouts import RETENTION, PunchoutStore
from app.db import Base, make_engine
from tests.conftest import new_postgres_database

NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PunchoutStore]:
    url = f"sqlite:///{tmp_path}/p.sqlite3"
    if request.param == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_punchouts")
    engine = make_engine(url)
    Base.metadata.tables["punchout_sessions"].create(engine)
    made = PunchoutStore(engine)
    yield made
    engine.dispose()


def opened(store: PunchoutStore, payload: str = "1", now: datetime = NOW) -> str:
    token = store.open("acme", payload, {"protocol": "oci"}, now=now, lifetime=HOUR)
    assert token is not None
    return token


def test_a_session_lasts_its_time(store: PunchoutStore) -> None:
    token = opened(store)
    found = store.find(token, now=NOW + timedelta(minutes=59))
    assert found is not None
    assert (found.buyer, found.facts, found.chosen) == ("acme", {"protocol": "oci"}, None)
    assert token not in (found.key, "")
    assert store.find(token, now=NOW + HOUR) is None
    assert store.record_choice(token, "rec-1", now=NOW + HOUR) is None
    assert store.find(token[:-1], now=NOW) is None


def test_one_of_many_orders_stands(store: PunchoutStore) -> None:
    token, seen = opened(store), list[str | None]()

    def choose(chosen: str) -> None:
        after = store.record_choice(token, chosen, now=NOW)
        seen.append(None if after is None else after.chosen)

    threads = [threading.Thread(target=choose, args=(f"rec-{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert len(set(seen)) == 1
    after = store.find(token, now=NOW)
    assert after is not None
    assert (after.chosen, after.chosen_at) == (seen[0], NOW)


def test_sessions_are_forgotten_some_time_after_their_end(store: PunchoutStore) -> None:
    token = opened(store)
    store.record_choice(token, "rec-1", now=NOW)
    assert store.open("acme", "1", {}, now=NOW, lifetime=HOUR) is None
    opened(store, "2", now=NOW + HOUR + RETENTION + timedelta(seconds=1))
    with store._engine.connect() as connection:
        assert connection.execute(text("SELECT payload FROM punchout_sessions")).scalars().all() == ["2"]
