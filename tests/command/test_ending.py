"""Message and exit status of a command whose database, file or reader fails."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from app.__main__ import INTERRUPTED, main
from app.command.ending import BROKEN_PIPE, run_command
from app.command.reach import Exit

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
