"""Migrations go up, match the tables and come down, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Engine, inspect, text
from sqlalchemy.orm import Session, sessionmaker

from app.catalog.observations import decide
from app.catalog.partitions import PARTITIONED, is_partition
from app.catalog.queries import newest_version
from app.catalog.recommendations import pack_part, unpack_part
from app.catalog.seed import seed_catalog
from app.catalog.snapshot import CatalogStore, EmptyCatalog
from app.db import Base, make_engine
from tests.conftest import copied, migrations_for, new_postgres_database


def test_a_version_before_may_still_write_predictions(tmp_path: Path) -> None:
    """0005 adds columns that seeding fills; until then, and for rows of the version before, they are 0."""
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    config = migrations_for(url)
    engine = make_engine(url)
    command.upgrade(config, "0004")
    before = {c["name"]: c for c in inspect(engine).get_columns("predictions")}
    command.upgrade(config, "0005")
    after = {c["name"]: c for c in inspect(engine).get_columns("predictions")}
    assert set(after) - set(before) == {"sources_beside", "distance", "low", "high", "promised"}
    assert all(str(after[name]["default"]).strip("'") == "0" for name in set(after) - set(before))
    assert "spreads" in inspect(engine).get_table_names()
    command.downgrade(config, "0004")
    assert {c["name"] for c in inspect(engine).get_columns("predictions")} == set(before)
    assert "spreads" not in inspect(engine).get_table_names()
    engine.dispose()


@pytest.mark.parametrize("ranked", [True, False])
def test_answers_that_are_stored_already_are_filed_by_what_they_say(ranked: bool, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    config, engine = migrations_for(url), make_engine(url)
    command.upgrade(config, "0009")
    stored = {
        "request": {"workload": {"model": "a/b"}},
        "recommendations": [{"deployment": {"accelerator": "nvidia-h200"}}] if ranked else [],
    }
    lots = [{"accelerators": 8, "accelerator": {"name": "NVIDIA H200"}}]
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO recommendations VALUES ('rec_1', 's', '{}', :body, '2026-11-20 08:00:00', :supply)"),
            {"body": json.dumps(stored).encode(), "supply": json.dumps({"ranks": [lots]}).encode() if ranked else None},
        )
    command.upgrade(config, "0010")
    with engine.connect() as connection:
        (row,) = connection.execute(text("SELECT * FROM filings")).mappings().all()
    found = ("nvidia-h200", "8 x NVIDIA H200") if ranked else (None, None)
    assert (row["accelerators"], row["option"]) == found
    assert (row["model"], row["status"], row["version"], row["label"]) == ("a/b", "draft", 0, None)
    assert str(row["stored_at"]).startswith("2026-11-20 08:00:00")
    engine.dispose()


ANSWER = json.dumps({"request": {"workload": {"model": "a/b"}}, "recommendations": []}).encode()
KEPT = (
    "INSERT INTO recommendations (id, snapshot, request, body, supply, stored_at) "
    "VALUES (:id, 's', :body, :body, :supply, '2026-11-20 08:00:00+00:00')",
    "INSERT INTO filings (recommendation, stored_at, label, model, status, version, superseded_by, size_bytes) "
    "VALUES (:id, '2026-11-20 08:00:00+00:00', 'kept', 'a/b', 'superseded', 1, :id, :size)",
    "INSERT INTO status_changes (recommendation, version, status, changed_at, changed_by, superseded_by) "
    "VALUES (:id, 1, 'superseded', '2026-11-20 09:00:00+00:00', 'me', :id)",
    "INSERT INTO punchout_sessions (token_digest, buyer, payload, facts, expires_at) "
    "VALUES (:id, 'b', :id, '{}', '2026-11-20 09:00:00+00:00')",
    "INSERT INTO deliveries (event, endpoint, kind, body, due_at, tries, dead) "
    "VALUES (:id, 'e', 'k', :body, '2026-11-20 09:00:00+00:00', 0, false)",
)
ANSWERS = "SELECT id, snapshot, request, body, stored_at FROM recommendations ORDER BY id"
FILED = ("SELECT * FROM filings ORDER BY recommendation", "SELECT * FROM status_changes ORDER BY recommendation")
WAITING = ("SELECT * FROM punchout_sessions ORDER BY payload", "SELECT * FROM deliveries ORDER BY event")
FITTED = (
    "SELECT name, value, rows, source FROM factors ORDER BY name, value, rows, source",
    "SELECT measurement, metric, predicted FROM predictions ORDER BY measurement, metric",
)


def checksum(engine: Engine, *queries: str) -> str:
    with engine.connect() as connection:
        rows = [tuple(row) for query in queries for row in connection.execute(text(query))]
    assert rows
    return sha256(repr(rows).encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_was_stored_survives_going_down_and_up_and_the_catalogue_is_none_until_loaded(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "postgres":
        url = request.getfixturevalue("prepared_postgres")("headroom_down")
    else:
        url = copied(request.getfixturevalue("prepared_sqlite"), tmp_path / "m.sqlite3")
    config, engine = migrations_for(url), make_engine(url)
    with engine.begin() as connection:
        for i in range(3):
            values = {"id": f"rec_{i}", "body": ANSWER, "supply": ANSWER, "size": 3 * len(ANSWER)}
            for statement in KEPT:
                connection.execute(text(statement), values)
    fitted = checksum(engine, *FITTED)
    for revision, queries in (
        ("0012", (ANSWERS, *FILED, *WAITING)),
        ("0010", (ANSWERS, *FILED)),
        ("0001", (ANSWERS,)),
    ):
        before = checksum(engine, *queries)
        command.downgrade(config, revision)
        assert checksum(engine, ANSWERS)
        command.upgrade(config, "head")
        assert checksum(engine, *queries) == before
        with Session(engine) as session:
            assert newest_version(session) is None
    with pytest.raises(EmptyCatalog):
        CatalogStore(sessionmaker(engine), check_s=0.0).catalog()
    with Session(engine) as session:
        assert seed_catalog(session) is True
        assert newest_version(session) is not None
    assert checksum(engine, *FITTED) == fitted
    engine.dispose()


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    config, engine = migrations_for(url), make_engine(url)
    command.upgrade(config, "0009")
    with engine.begin() as connection:
        connection.execute(text(KEPT[0]), {"id": "rec_1", "body": b"no answer", "supply": None})
    before = inspect(engine).get_table_names()
    with pytest.raises(ValueError, match=r"unexpected|literal|invalid"):
        command.upgrade(config, "head")
    assert inspect(engine).get_table_names() == before
    engine.dispose()


def test_compressed_answers_are_text_again_below_the_release_that_compresses(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    config, engine = migrations_for(url), make_engine(url)
    command.upgrade(config, "head")
    body = pack_part(ANSWER[:-1] + b" " * 9000 + b"}")
    assert body[:2] == b"x\x01"
    with engine.begin() as connection:
        for statement in KEPT[:2]:
            values = {"id": "rec_1", "body": body, "supply": None, "size": 2 * len(body)}
            connection.execute(text(statement), values)
    command.downgrade(config, "0018")
    with engine.connect() as connection:
        (row,) = connection.execute(text("SELECT request, body, supply FROM recommendations"))
        assert row == (unpack_part(body), unpack_part(body), None)
        assert connection.execute(text("SELECT size_bytes FROM filings")).scalar_one() == 2 * len(unpack_part(body))
    engine.dispose()


OBSERVED = (
    "INSERT INTO offer_keys VALUES (1, 'gcp', 'us-central1', 'g2-standard-4', 'nvidia-l4', 1, 'on_demand', 4, 16e9, "
    "'standard')",
    "INSERT INTO price_observations (key, observed_at, native_amount, native_currency, usd_per_hour, basis, feed, "
    "feed_version, payload_sha256) VALUES (1, :moment, 0.8, 'USD', 0.8, 'instance_hour', 'gcp', 'v1', :digest)",
    "INSERT INTO availability_observations (key, seen_at, state, source) VALUES (1, :moment, 'none', 'gcp')",
    "INSERT INTO price_quarantine (key, since, native_amount, native_currency, usd_per_hour, basis, feed, "
    "feed_version, payload_sha256, rule, detail) "
    "VALUES (1, '2024-05-02 00:00:00.000000', 9, 'USD', 9, 'instance_hour', 'gcp', 'v1', :digest, 'day_change', '')",
)
OBSERVATIONS = tuple(f"SELECT * FROM {table} ORDER BY id" for table in PARTITIONED)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_observations_survive_becoming_monthly_and_one_table_again(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    if kind == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_monthly")
    config, engine = migrations_for(url), make_engine(url)
    command.upgrade(config, "0019")
    with engine.begin() as connection:
        connection.execute(text(OBSERVED[0]))
        for moment in ("2025-12-31 23:59:59.999999", "2026-01-01 00:00:00.000000", "2026-11-10 12:00:00.000000"):
            for statement in OBSERVED[1:3]:
                connection.execute(text(statement), {"moment": moment, "digest": "0" * 64})
        connection.execute(text(OBSERVED[3]), {"digest": "0" * 64})
    before, indexes = checksum(engine, *OBSERVATIONS), index_names(engine)
    command.upgrade(config, "0020")
    assert checksum(engine, *OBSERVATIONS) == before
    assert index_names(engine) == indexes | {"ix_availability_observations_capacity"}
    months = {name.rpartition("_")[2] for name in inspect(engine).get_table_names() if is_partition(name)}
    assert (months >= {"y2025m12", "y2026m01", "y2026m11"}) if kind == "postgres" else not months
    with Session(engine) as session:  # a price that waited, of a month without observations
        assert decide(session, [1], "accepted", by="me", at=datetime(2026, 11, 12, tzinfo=UTC)) == 1
        session.commit()
    before = checksum(engine, *OBSERVATIONS)
    command.downgrade(config, "0019")
    assert checksum(engine, *OBSERVATIONS) == before
    assert index_names(engine) == indexes
    assert not any(map(is_partition, inspect(engine).get_table_names()))
    with engine.begin() as connection:
        connection.execute(text(OBSERVED[1]), {"moment": "2026-11-13 12:00:00.000000", "digest": "0" * 64})
        assert connection.scalars(text("SELECT id FROM price_observations ORDER BY id")).all() == [1, 2, 3, 4, 5]
    engine.dispose()


def index_names(engine: Engine) -> set[str | None]:
    return {index["name"] for table in PARTITIONED for index in inspect(engine).get_indexes(table)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_up_check_down(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    if kind == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_migrations")
    config = migrations_for(url)
    engine = make_engine(url)
    command.upgrade(config, "head")
    tables = {table for table in inspect(engine).get_table_names() if not is_partition(table)}
    assert tables - {"alembic_version"} == set(Base.metadata.tables)
    command.check(config)
    command.downgrade(config, "base")
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    command.upgrade(config, "head")
    engine.dispose()


def test_the_command_of_the_guide_goes_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    (program,) = re.findall(r'^python -c "(.*downgrade.*)"$', guide, flags=re.MULTILINE)
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    command.upgrade(migrations_for(url), "head")
    monkeypatch.setenv("HEADROOM_DATABASE_URL", url)
    exec(program, {})
    engine = make_engine(url)
    assert "size_bytes" not in {c["name"] for c in inspect(engine).get_columns("filings")}
    engine.dispose()
