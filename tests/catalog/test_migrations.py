"""Migrations go up, match the tables and come down, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect, text

from app.db import Base, make_engine
from tests.conftest import migrations_for, new_postgres_database


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
    told = {
        "request": {"workload": {"model": "a/b"}},
        "recommendations": [{"deployment": {"accelerator": "nvidia-h200"}}] if ranked else [],
    }
    lots = [{"accelerators": 8, "accelerator": {"name": "NVIDIA H200"}}]
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO recommendations VALUES ('rec_1', 's', '{}', :body, '2026-11-20 08:00:00', :supply)"),
            {"body": json.dumps(told).encode(), "supply": json.dumps({"ranks": [lots]}).encode() if ranked else None},
        )
    command.upgrade(config, "0010")
    with engine.connect() as connection:
        (row,) = connection.execute(text("SELECT * FROM filings")).mappings().all()
    found = ("nvidia-h200", "8 x NVIDIA H200") if ranked else (None, None)
    assert (row["accelerators"], row["option"]) == found
    assert (row["model"], row["status"], row["version"], row["label"]) == ("a/b", "draft", 0, None)
    assert str(row["stored_at"]).startswith("2026-11-20 08:00:00")
    engine.dispose()


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
