"""Migrations go up, match the tables and come down, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect

from app.db import Base, make_engine
from tests.conftest import migrations_for, new_postgres_database


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
