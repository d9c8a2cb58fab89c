"""Migrations go up, match the tables and come down, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Engine, inspect, text
from sqlalchemy.orm import Session, sessionmaker

from app.catalog.queries import newest_version
from app.catalog.recommendations import pack_part, unpack_part
from app.catalog.seed import seed_catalog
from app.catalog.snapshot import CatalogStore, EmptyCatalog
from app.db import Base, make_engine
from tests.conftest import migrations_for, new_postgres_database, prepare


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
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    if kind == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_down")
    config, engine = migrations_for(prepare(url)), make_engine(url)
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_up_check_down(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    if kind == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_migrations")
    config = migrations_for(url)
    engine = make_engine(url)
    command.upgrade(config, "head")
    assert set(inspect(engine).get_table_names()) - {"alembic_version"} == set(Base.metadata.tables)
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
