"""Migrations go up, match the tables and come down, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect

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
