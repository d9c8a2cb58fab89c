"""Accuracy as the service and the command line show it."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.api.schemas.lists import ORDERED_BY
from app.cli import cli
from app.sizing.accuracy import QUANTITIES


def test_accuracy_is_answered_with_both_figures_and_reasons(client: TestClient) -> None:
    response = client.get("/accuracy")
    assert response.status_code == 200
    answer = response.json()
    assert {s["metric"] for s in answer["overall"]} == set(QUANTITIES)
    assert set(answer["by"]) == {"engine", "accelerator_family", "format", "model_size", "load", "source", "nearness"}
    assert all(
        s["unseen_source"]["median"] > 0 and 0 <= s["coverage"] <= 1 for slices in answer["by"].values() for s in slices
    )
    assert answer["worst"][0]["source"]
    assert client.get("/accuracy", headers={"If-None-Match": response.headers["etag"]}).status_code == 304


def test_coverage_width_score_and_kept_promises_are_reported_by_family(client: TestClient) -> None:
    answer = client.get("/accuracy").json()
    families = {(s["metric"], s["value"]): s for s in answer["by"]["accelerator_family"]}
    assert {("throughput", "nvidia_hopper"), ("training", "nvidia_ampere"), ("tpot", "nvidia_blackwell")} <= set(
        families
    )
    for s in [*answer["overall"], *families.values()]:
        assert 0 <= s["coverage"] <= 1 and 0 <= s["kept"] <= 1
        assert s["width"] > 1
        assert s["interval_score"] > 0


def test_peaks_and_runs_answered_as_not_fitting_are_reported(client: TestClient) -> None:
    answer = client.get("/accuracy").json()
    (every,) = (p for p in answer["peaks"] if p["part"] == "all")
    assert every["rows"] >= 250
    assert every["too_low_with_reserve"] <= every["too_low"] <= 1
    for part in ("method", "recomputation", "source", "recipe", "figure"):
        assert sum(p["rows"] for p in answer["peaks"] if p["part"] == part) == every["rows"]
    runs = answer["runs"]
    assert runs["asked"] >= 1500
    assert runs["misfits"] == sum(count for count, _ in runs["by_source"].values())


def test_the_order_of_pairs_is_reported_for_every_comparison(client: TestClient) -> None:
    order = client.get("/accuracy").json()["order"]
    assert {s["compared"] for s in order if s["metric"] == "all"} == set(ORDERED_BY)
    assert all(0.5 < s["unseen_source"] <= 1 for s in order if s["metric"] == "all")
    assert set(re.findall(r"\bo\.(\w+)", page())) == set(order[0])


def test_the_page_shows_what_the_answer_has(client: TestClient) -> None:
    answer = client.get("/accuracy").json()
    shown = set(re.findall(r"\bs\.(\w+)", page()))
    assert {"coverage", "width", "kept", "rows", "sources"} <= shown <= set(answer["overall"][0])


def page() -> str:
    return resources.files("app.api").joinpath("static", "page", "pages", "accuracy.js").read_text()


def test_the_command_line_shows_the_accuracy(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    shown = CliRunner().invoke(cli, ["accuracy", "--by", "accelerator_family"])
    assert shown.exit_code == 0
    assert "throughput, all" in shown.output and "tpot, nvidia_hopper" in shown.output
    assert {"covered", "width", "kept"} <= set(shown.output.splitlines()[0].split())
    assert re.search(r"^engine, all +\d+", shown.output, re.MULTILINE)
    refused = CliRunner().invoke(cli, ["accuracy", "--by", "colour"])
    assert refused.exit_code != 0
