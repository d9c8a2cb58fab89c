"""docs/deployed.md: sources of the published deployments, the figures of the page, and the goal for the own cost."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from artefacts.deployed import (
    GOAL,
    LEVELS,
    RENTED,
    accelerators_at,
    cause_of_ratio,
    compared_services,
    deployment_notes,
    deployment_row,
    own_and_hosted,
    published_deployments,
    service_row,
)
from artefacts.service import DAY

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "deployed.md").read_text()
DATA = ROOT / "app" / "catalog" / "data"
DEPLOYMENTS = published_deployments()
SERVICES = compared_services()
STATED = {"key", "operator", "model", "stated", "hardware", "accelerators", "date", "sources"}
COMPARED = {"call", "request", "assumed", "why"}


def key_of(entry: Mapping[str, Any]) -> str:
    return str(entry["key"])


def test_ten_deployments_and_twelve_services_are_compared() -> None:
    phases = [entry["request"]["workload"]["phase"] for entry in DEPLOYMENTS]
    assert (phases.count("inference"), phases.count("training")) == (4, 6)
    assert len(SERVICES) == 12
    assert len({entry["key"] for entry in (*DEPLOYMENTS, *SERVICES)}) == 22


@pytest.mark.parametrize("entry", DEPLOYMENTS, ids=key_of)
def test_a_deployment_has_sources_a_date_and_what_was_assumed(entry: Mapping[str, Any]) -> None:
    assert set(entry) == STATED | COMPARED
    assert all(entry.values())
    assert all(re.fullmatch(r"https://[\w.-]+/\S+", source) for source in entry["sources"])
    assert date(2022, 1, 1) <= date.fromisoformat(entry["date"]) <= DAY
    assert entry["call"] in ("/recommend", "/estimate")
    assert re.search(r"\d", entry["stated"]) and re.search(r"\d", entry["hardware"])
    limited = entry["request"].get("constraints", {}).get("accelerators") or [
        entry["request"]["deployment"]["accelerator"]
    ]
    assert len(limited) == 1


def test_no_factor_is_fitted_to_a_deployment() -> None:
    with (DATA / "predictions.csv").open() as predictions:
        fitted = {row["measurement"] for row in csv.DictReader(predictions)}
    pages = {source.split("://")[1].removeprefix("github.com/") for entry in DEPLOYMENTS for source in entry["sources"]}
    for name, column in (("measurements_inference.csv", "id"), ("measurements_training.csv", "id")):
        with (DATA / name).open() as rows:
            used = {row["source_ref"] for row in csv.DictReader(rows) if row[column] in fitted}
        published = {ref.split("@")[0].replace(":", "/blob/main/").split("://")[-1] for ref in used}
        assert published & pages == set(), name


@pytest.mark.parametrize("entry", DEPLOYMENTS, ids=key_of)
def test_the_page_shows_the_accelerators_that_the_service_answers(client: TestClient, entry: Mapping[str, Any]) -> None:
    counts = [accelerators_at(client, entry, level) for level in LEVELS]
    assert deployment_row(entry, counts) in PAGE
    assert deployment_notes(entry) in PAGE


def test_the_page_says_that_nothing_is_fitted_to_it() -> None:
    assert "no factor, margin or default of Headroom is fitted to it" in " ".join(PAGE.split())


@pytest.mark.parametrize("service", SERVICES, ids=key_of)
def test_own_cost_is_that_of_the_service_and_meets_the_goal_where_no_cause_is_given(
    client: TestClient, service: Mapping[str, Any]
) -> None:
    traffic = service["request"]["workload"]["traffic"]
    assert traffic["average_requests_per_s"] == traffic["peak_requests_per_s"]
    rented, any_price = own_and_hosted(client, service, RENTED), own_and_hosted(client, service, {})
    assert service_row(service, rented, any_price) in PAGE
    assert "cause" in service or rented["ratio"] <= GOAL
    assert (cause_of_ratio(service, rented) in PAGE) == (rented["ratio"] > GOAL)


@pytest.mark.parametrize("service", SERVICES, ids=key_of)
def test_the_bill_of_a_service_multiplies_to_its_own_cost(client: TestClient, service: Mapping[str, Any]) -> None:
    rented = own_and_hosted(client, service, RENTED)
    bill = rented["option"]["confidence"]["bill"]
    product = bill[0]["usd_per_hour"]
    for line in bill[1:]:
        product *= line["multiplier"]
    assert product == pytest.approx(rented["own"], rel=0.01)
