"""Machines run the models that fit them, the largest first, at the speed that a recommendation predicts."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from starlette.testclient import TestClient

from app.api.largest_model import UNRELEASED
from app.api.runnable import compute_runnable_models
from app.catalog.holdings import Holdings
from app.catalog.snapshot import CatalogStore
from artefacts.service import DAY

WORKSTATION = [{"accelerator": "rtx a6000", "count": 4}]
GAMING_CARD = [{"accelerator": "rtx 3060", "count": 1}]


def runnable(client: TestClient, inventory: list[dict[str, Any]], **further: Any) -> Any:
    """The response to a list of machines."""
    return client.post("/catalog/models/runnable", json={"inventory": inventory, **further}).json()


def test_a_workstation_serves_and_tunes_models_the_largest_first(client: TestClient) -> None:
    items = [item for q in ("qwen3-235b", "qwen3-32b") for item in runnable(client, WORKSTATION, q=q, limit=2)["items"]]
    sizes = [item["parameters"] for item in items]
    assert sizes == sorted(sizes, reverse=True)
    uses = [use for item in items for use in item["uses"]]
    assert all(use["low"] < use["tokens_per_s"] < use["high"] and 1 <= use["accelerators"] <= 4 for use in uses)
    by_model = {item["model"]: {use["use"]: use["tokens_per_s"] for use in item["uses"]} for item in items}
    assert {*by_model["Qwen/Qwen3-32B"]} == {"one_stream", "throughput", "full", "lora", "qlora"}
    assert "full" not in by_model["Qwen/Qwen3-235B-A22B"]  # its optimizer states take more than 2 TB
    assert all(found["throughput"] > found["one_stream"] >= 5 for found in by_model.values())


def test_batches_and_tuning_use_all_machines(client: TestClient) -> None:
    """Desks side by side add up for batches; a run is spread over the cards of a machine."""
    one, five = (
        {
            use["use"]: use
            for use in runnable(client, [{"accelerator": "m3 ultra 80c", "count": n}], q="qwen3-8b", limit=1)["items"][
                0
            ]["uses"]
        }["throughput"]
        for n in (1, 5)
    )
    assert five["replicas"] == five["accelerators"] == 5 * one["accelerators"]
    assert five["tokens_per_s"] == pytest.approx(5 * one["tokens_per_s"], rel=1e-4)
    tuned = runnable(client, WORKSTATION, q="qwen3-8b", limit=1)["items"][0]["uses"]
    assert {use["use"]: use["accelerators"] for use in tuned if "lora" in use["use"]} == {"lora": 4, "qlora": 4}


def test_the_speed_is_that_of_a_recommendation(client: TestClient) -> None:
    stream = runnable(client, WORKSTATION, q="qwen3-32b", limit=1)["items"][0]["uses"][0]
    traffic = {"batch": 1, "input_tokens": 1024, "output_tokens": 256}
    workload = {"phase": "inference", "model": "qwen3-32b", "traffic": traffic, "slo": {"tpot_ms": 200}}
    asked = {"workload": workload, "objective": "latency", "inventory": WORKSTATION, "limit": 1, "include": []}
    best = client.post("/recommend", json=asked).json()["recommendations"][0]
    assert best["performance"]["output_tokens_per_s"] == stream["tokens_per_s"]
    assert best["deployment"]["weight_format"] == stream["weight_format"]


@pytest.mark.parametrize(
    ("limits", "unit"),
    [
        ({"max_usd_per_hour": 0.5}, "usd_per_hour"),
        ({"max_purchase_usd": 9000, "environments": ["on_prem"]}, "purchase_usd"),
        ({"max_power_kw": 0.5}, "power_kw"),
    ],
)
def test_limits_stand_in_for_machines(client: TestClient, limits: dict[str, Any], unit: str) -> None:
    (item,) = runnable(client, [], constraints=limits, q="qwen3", limit=1)["items"]
    stream = item["uses"][0]
    traffic = {"batch": 1, "input_tokens": 1024, "output_tokens": 256}
    workload = {"phase": "inference", "model": item["model"], "traffic": traffic, "slo": {"tpot_ms": 200}}
    asked = {"workload": workload, "objective": "latency", "constraints": limits, "limit": 1, "include": []}
    best = client.post("/recommend", json=asked).json()["recommendations"][0]
    assert best["performance"]["output_tokens_per_s"] == stream["tokens_per_s"]
    assert best["cost"][unit] <= limits[f"max_{unit}"]


def test_pages_join_to_the_whole_list(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = runnable(client, GAMING_CARD, q="llama-3.2", limit=3)
    first = runnable(client, GAMING_CARD, q="llama-3.2", limit=1)
    rest = runnable(client, GAMING_CARD, q="llama-3.2", limit=2, cursor=first["next_cursor"])
    assert first["items"] + rest["items"] == whole["items"]
    assert rest["next_cursor"] == whole["next_cursor"]
    monkeypatch.setattr("app.api.runnable.MOST_PAGE_WORK", 0.0)  # a page ends after one model
    page = runnable(client, GAMING_CARD, q="llama-3.2", limit=3)
    items, sizes = page["items"], [len(page["items"])]
    while page["next_cursor"]:
        page = runnable(client, GAMING_CARD, q="llama-3.2", limit=3, cursor=page["next_cursor"])
        items, sizes = items + page["items"], [*sizes, len(page["items"])]
    assert items[:3] == whole["items"]
    assert max(sizes) == 1


def test_a_page_spends_no_work_on_models_that_cannot_fit(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    card = [{"accelerator": "rtx 4090", "count": 1}]
    assert runnable(client, card)["items"] != []  # a hundred larger models come before
    asked = {"q": "qwen3-3", "limit": 3, "constraints": {"weight_formats": ["bf16", "gguf-q4_k_m"]}}
    bounded = [runnable(client, owned, **asked)["items"] for owned in (card, WORKSTATION)]
    monkeypatch.setattr("app.api.runnable.least_weights_bytes", lambda *_: 0.0)
    monkeypatch.setattr("app.api.runnable.MOST_PAGE_WORK", math.inf)
    assert bounded == [runnable(client, owned, **asked)["items"] for owned in (card, WORKSTATION)]


def test_slow_and_unreleased_models_are_left_out(client: TestClient, catalog_store: CatalogStore) -> None:
    def models(**further: Any) -> list[str]:
        return [item["model"] for item in runnable(client, GAMING_CARD, q="mistral small", limit=1, **further)["items"]]

    assert models(min_tokens_per_s=5) != []
    assert models(min_tokens_per_s=500) == []
    unreleased = [f["hf_id"] for f in catalog_store.model_entries() if f.get("licence") in UNRELEASED]
    assert unreleased
    assert runnable(client, [{"accelerator": "mi300x", "count": 8}], q=unreleased[0])["items"] == []


def test_the_stored_inventory_is_the_default(catalog_store: CatalogStore) -> None:
    def items(body: dict[str, Any], held: Holdings) -> Any:
        return orjson.loads(compute_runnable_models(orjson.dumps(body), catalog_store, DAY, held).body)["items"]

    stored = Holdings("acme", "1", inventory={"card": {"name": "card", **GAMING_CARD[0]}})
    asked = {"q": "llama-3.1-8b", "limit": 1}
    assert items(asked, stored) == items({**asked, "inventory": GAMING_CARD}, Holdings("acme", ""))


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({}, 422, "#/inventory"),
        ({"inventory": [{"accelerator": "nonsuch 9000", "count": 1}]}, 404, "#/inventory/0/accelerator"),
        ({"inventory": WORKSTATION, "constraints": {"vendors": ["amd"]}}, 422, "#/constraints"),
        ({"inventory": WORKSTATION, "constraints": {"engines": ["nonsuch"]}}, 422, "#/constraints/engines/0"),
        ({"inventory": WORKSTATION, "constraints": {"inventory": "only"}, "limit": 51}, 422, "#/limit"),
    ],
)
def test_requests_that_cannot_be_answered_name_the_field(
    client: TestClient, body: dict[str, Any], status: int, pointer: str
) -> None:
    response = client.post("/catalog/models/runnable", json=body)
    assert response.status_code == status, response.text
    assert response.json()["errors"][0]["pointer"] == pointer


def test_models_that_do_not_take_the_length_are_left_out(client: TestClient) -> None:
    assert runnable(client, GAMING_CARD, q="llama", input_tokens=10_000_000) == {"items": [], "next_cursor": None}


@pytest.mark.parametrize("value", [1, 10_000_000])
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "sequence_length"])
def test_every_allowed_length_is_answered(client: TestClient, name: str, value: int) -> None:
    body = {"inventory": GAMING_CARD, "q": "llama-3.2-1b", "limit": 1, "min_tokens_per_s": 1e-3, name: value}
    assert client.post("/catalog/models/runnable", json=body).status_code == 200


def test_an_unknown_cursor_is_refused(client: TestClient) -> None:
    assert runnable(client, GAMING_CARD, cursor="nonsuch")["status"] == 400
