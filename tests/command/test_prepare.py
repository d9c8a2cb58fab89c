"""Message and exit status of a command whose database, file or reader fails. headroom prepare: one of many
processes prepares, the others wait; an obstacle is reported in one sentence.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import typer
from alembic import command
from sqlalchemy import text
from typer.testing import CliRunner

from app.__main__ import INTERRUPTED, main
from app.cli import cli
from app.command import prepare as preparing
from app.command.ending import BROKEN_PIPE, Exit, run_command
from app.db import UNHURRIED, make_engine
from app.migrating import lock_database
from tests.conftest import migrations_for, new_postgres_database

HEADROOM = (sys.executable, "-m", "app")


@pytest.mark.slow
def test_an_unprepared_database_is_reported_in_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "HEADROOM_DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"}
    result = subprocess.run((*HEADROOM, "deliver"), env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == Exit.FAILED
    assert len(result.stderr.splitlines()) == 1
    assert "no such table" in result.stderr
    assert "headroom doctor" in result.stderr


@pytest.mark.slow
def test_a_full_disk_is_reported_in_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run((*HEADROOM, "--help"), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == Exit.FAILED
    assert result.stderr == "The output cannot be used: No space left on device.\n"


@pytest.mark.slow
def test_a_reader_that_had_enough_ends_a_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run((*HEADROOM, "--help"), stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (BROKEN_PIPE, "")


def test_a_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "bill.csv")

    assert run_command(refused) == Exit.FAILED
    assert capsys.readouterr().err == "bill.csv cannot be used: Permission denied.\n"


def test_what_a_command_ends_with_is_kept() -> None:
    def infeasible() -> None:
        raise SystemExit(Exit.INFEASIBLE)

    assert run_command(infeasible) == Exit.INFEASIBLE
    assert run_command(lambda: typer.echo("done")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken_is_named(workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        serve = (*HEADROOM, "serve", "--port", port, "--workers", workers)
        result = subprocess.run(serve, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == Exit.FAILED
    assert result.stderr == f"Port {port} of 127.0.0.1 cannot be used: Address already in use.\n"


def test_an_interruption_while_all_is_imported_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "app.cli", Interrupted("app.cli"))
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == INTERRUPTED
    assert capsys.readouterr().err == ""


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
