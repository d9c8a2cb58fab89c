"""The page about the client is a program that runs."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def test_what_the_page_shows_runs(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    asked = []

    def here(**said: str) -> httpx2.Client:
        asked.append(said["base_url"])
        return client

    monkeypatch.setattr(httpx2, "Client", here)
    monkeypatch.setattr(client, "close", lambda: None)
    exec(compile(shown, str(PAGE), "exec"), {})
    told = capsys.readouterr().out
    assert asked == ["http://localhost:8000"]
    assert "404 No model called 'nonsuch'" in told and "\n1 " in told and "rec_" in told
