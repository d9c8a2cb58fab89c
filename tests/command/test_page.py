"""Every command that the page shows is one, with flags that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SHOWN = [shlex.split(line.strip())[1:] for line in re.findall(r"^    headroom .*$", PAGE, flags=re.MULTILINE)]


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_what_the_page_shows_runs(words: list[str], sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("You ")
