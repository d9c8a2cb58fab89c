"""Accuracy as the service and the command line show it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.calibration.report import KINDS
from app.cli import cli


def test_accuracy_is_answered_with_both_figures_and_reasons(client: TestClient) -> None:
    response = client.get("/accuracy")
    assert response.status_code == 200
    answer = response.json()
    assert {s["metric"] for s in answer["overall"]} == set(KINDS)
    assert set(answer["by"]) == {"engine", "accelerator_family", "format", "model_size", "load", "source", "nearness"}
    assert all(
        s["unseen_source"]["median"] > 0 and 0 <= s["coverage"] <= 1 for slices in answer["by"].values() for s in slices
    )
    assert answer["worst"][0]["source"]
    assert client.get("/accuracy", headers={"If-None-Match": response.headers["etag"]}).status_code == 304


def test_the_command_line_shows_the_accuracy(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    shown = CliRunner().invoke(cli, ["accuracy", "--by", "accelerator_family"])
    assert shown.exit_code == 0
    assert "throughput, all" in shown.output and "tpot, nvidia_hopper" in shown.output
    refused = CliRunner().invoke(cli, ["accuracy", "--by", "colour"])
    assert refused.exit_code != 0
