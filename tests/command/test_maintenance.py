"""headroom prune: what would go, and what went; headroom doctor on a damaged database."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.catalog.recommendations import AnswerTotals
from app.cli import cli
from app.command.maintenance import format_amount
from app.command.service import find_damage_within
from app.config import Settings
from app.db import storage_remedy
from app.main import create_app
from tests.conftest import copied
from tests.examples import body


def test_it_says_what_would_go_and_what_went(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    would = CliRunner().invoke(cli, ["prune", "--dry-run"])
    assert (would.exit_code, would.output.startswith("Would delete 0 answers (0.0 MB); ")) == (0, True)
    went = CliRunner().invoke(cli, ["prune"])
    assert (went.exit_code, went.output.startswith("Deleted 0 answers (0.0 MB); ")) == (0, True)


def test_a_database_that_is_not_prepared_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", f"sqlite:///{tmp_path}/none.sqlite3")
    result = CliRunner().invoke(cli, ["prune"])
    assert result.exit_code == 1
    assert result.output == "Pruning stopped: no such table: filings.\n"


def test_amounts_are_written_as_people_say_them() -> None:
    assert format_amount(AnswerTotals(1, 60_000)) == "1 answer (0.1 MB)"
    assert format_amount(AnswerTotals(1200, 72_000_000)) == "1,200 answers (72.0 MB)"


def test_a_label_is_pruned_by_its_exact_name(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    went = CliRunner().invoke(cli, ["prune", "--label", "a label that no answer has"])
    assert (went.exit_code, went.output) == (0, "Deleted 0 answers (0.0 MB) with this label.\n")


@pytest.fixture
def damaged(sqlite_url: str, tmp_path: Path) -> str:
    """A copy of the database with its header and schema intact and the pages after them overwritten."""
    url = copied(sqlite_url, tmp_path / "damaged.sqlite3")
    with (tmp_path / "damaged.sqlite3").open("r+b") as file:
        file.seek(0, 2)
        size = file.tell()
        file.seek(size // 4)
        file.write(b"\xa5" * (size // 2))
    return url


def test_doctor_finds_a_damaged_file(damaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", damaged)
    result = CliRunner().invoke(cli, ["doctor", "--port", "1"])
    assert result.exit_code == 1
    assert "FIX database: damaged: " in result.output and "restore the newest backup" in result.output


def test_problems_of_a_damaged_file_have_a_type_of_their_own_and_no_retry_after(damaged: str) -> None:
    with TestClient(create_app(Settings(database_url=damaged))) as client:
        refused = client.post("/recommend", json=body("recommend-inference-chat-70b"))
        ready = client.get("/readyz")
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/database-damaged")
    assert "damaged" in refused.json()["detail"] and "retry-after" not in refused.headers
    assert (ready.status_code, "its database is damaged" in ready.json()["detail"]) == (503, True)


@pytest.mark.parametrize(
    ("target", "statement", "remedy"),
    [
        ("none/x.sqlite3", "SELECT 1", "its file and its folder exist"),
        ("x.sqlite3?mode=ro", "CREATE TABLE a (b)", "its file and its folder writable"),
        ("x.sqlite3", "INSERT INTO t VALUES (zeroblob(100000))", "free space"),
        ("x.sqlite3", "nonsense", ""),
    ],
)
def test_what_the_disk_of_a_database_lacks_is_named(tmp_path: Path, target: str, statement: str, remedy: str) -> None:
    with sqlite3.connect(tmp_path / "x.sqlite3") as made:
        made.execute("CREATE TABLE t (a)")
    with pytest.raises(sqlite3.Error) as caught:
        connection = sqlite3.connect(f"file:{tmp_path}/{target}", uri=True)
        connection.execute("PRAGMA max_page_count = 4")
        connection.execute(statement)
    assert remedy in (storage_remedy(caught.value) or "") and bool(remedy) == bool(storage_remedy(caught.value))


def test_doctor_finds_a_full_disk(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    monkeypatch.setattr("app.command.maintenance.LEAST_FREE_BYTES", 1e18)
    result = CliRunner().invoke(cli, ["doctor", "--port", "1"])
    assert result.exit_code == 1
    assert "FIX database: sqlite, revision " in result.output and "free space" in result.output


def test_prepare_changes_nothing_in_a_damaged_file(damaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", damaged)
    file = Path(damaged.removeprefix("sqlite:///"))
    before = file.read_bytes()
    result = CliRunner().invoke(cli, ["prepare"])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith("The database is damaged: ") and "restore the newest backup" in result.output
    assert file.read_bytes() == before


def test_a_service_checks_a_file_that_was_not_closed_and_does_not_start_on_a_damaged_one(
    damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr("app.server.serve", lambda configured, *_: started.append(configured.database_url))
    monkeypatch.setenv("HEADROOM_DATABASE_URL", damaged)
    assert CliRunner().invoke(cli, ["serve"]).exit_code == 0
    assert started == [damaged]  # closed properly: not read as a whole at each start
    Path(f"{damaged.removeprefix('sqlite:///')}-wal").write_bytes(b"left by a process that was killed")
    refused = CliRunner().invoke(cli, ["serve"])
    assert (refused.exit_code, len(started)) == (1, 1)
    assert "The database is damaged: " in refused.output


def test_the_check_of_a_large_file_before_a_start_ends_in_time(damaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_damage_within(10.0, damaged) is not None
    monkeypatch.setattr("app.command.prepare.find_damage", lambda _: time.sleep(60))
    began = time.monotonic()
    assert find_damage_within(0.1, damaged) is None
    assert time.monotonic() - began < 5


def test_an_empty_cache_folder_is_the_default() -> None:
    assert Settings(cache_dir="").cache_dir is None
