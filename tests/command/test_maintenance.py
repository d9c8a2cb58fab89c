"""headroom prune: what would go, and what went."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.catalog.recommendations import AnswerTotals
from app.cli import cli
from app.command.maintenance import format_amount


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
