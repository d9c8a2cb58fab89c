"""headroom prune: what would go, and what went; headroom doctor on a damaged database."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.catalog.recommendations import AnswerTotals
from app.cli import cli
from app.command.maintenance import format_amount
from app.config import Settings
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


def test_problems_of_a_damaged_file_have_no_retry_after(damaged: str) -> None:
    with TestClient(create_app(Settings(database_url=damaged))) as client:
        refused = client.post("/recommend", json=body("recommend-inference-chat-70b"))
    assert refused.status_code == 503, refused.text
    assert "damaged" in refused.json()["detail"] and "retry-after" not in refused.headers


def test_an_empty_cache_folder_is_the_default() -> None:
    assert Settings(cache_dir="").cache_dir is None
