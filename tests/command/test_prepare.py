"""headroom prepare: one of many processes prepares, the others wait; an obstacle is reported in one sentence."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import text
from typer.testing import CliRunner

from app.cli import cli
from app.command import prepare as preparing
from app.db import UNHURRIED, make_engine
from app.migrating import lock_database
from tests.conftest import migrations_for, new_postgres_database


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/p.sqlite3"
    return new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_prepare")


@pytest.mark.slow
def test_one_prepares_and_another_waits_and_finds_all_current(url: str) -> None:
    engine, found = make_engine(url, UNHURRIED), list[bool]()
    other = threading.Thread(target=lambda: found.append(preparing.prepare_database(url)))
    with engine.begin() as connection:
        lock_database(connection)
        other.start()
        other.join(0.5)
        assert other.is_alive()
    other.join()
    assert found == [True]
    assert preparing.prepare_database(url) is False
    engine.dispose()


def said(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", url)
    result = CliRunner().invoke(cli, ["prepare"])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "Traceback" not in result.output
    return str(result.output)


def test_a_wait_that_takes_too_long_is_reported(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurried, engine = replace(UNHURRIED, lock_s=0.1), make_engine(url)
    monkeypatch.setattr("app.db.UNHURRIED", hurried)
    monkeypatch.setattr(preparing, "UNHURRIED", hurried)
    with engine.begin() as connection:
        lock_database(connection)
        assert "another process is changing it" in said(url, monkeypatch)
    engine.dispose()


def test_a_server_that_is_not_there_a_folder_that_is_not_and_a_newer_release_are_one_sentence_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not prepared: " in said("postgresql+psycopg://me:secret@127.0.0.1:1/none", monkeypatch)
    assert "secret" not in said("postgresql+psycopg://me:secret@127.0.0.1:1/none", monkeypatch)
    assert "unable to open database file" in said(f"sqlite:///{tmp_path}/none/h.sqlite3", monkeypatch)
    assert "HEADROOM_DATABASE_URL" in said("nonsense", monkeypatch)
    url = f"sqlite:///{tmp_path}/h.sqlite3"
    command.upgrade(migrations_for(url), "0001")
    engine = make_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert "a newer release" in said(url, monkeypatch)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    engine.dispose()
    read_only = f"sqlite:///file:{tmp_path}/h.sqlite3?mode=ro&uri=true"
    assert "readonly database" in said(read_only, monkeypatch)


def test_a_user_without_rights_is_reported(postgres_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_postgres_database(postgres_server, "headroom_rights")
    engine = make_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP ROLE IF EXISTS headroom_nobody"))
        connection.execute(text("CREATE ROLE headroom_nobody LOGIN"))
    unprivileged = engine.url.set(username="headroom_nobody").render_as_string(hide_password=False)
    assert "permission denied" in said(unprivileged, monkeypatch)
    engine.dispose()
