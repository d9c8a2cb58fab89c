"""Hardware that the caller owns: what it can do, what it costs, and what happens if it is not enough."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

FOUR_A6000 = [{"accelerator": "a6000", "count": 4}]
QLORA = {
    "phase": "fine_tuning",
    "method": "qlora",
    "model": "llama-3.1-70b",
    "training_tokens": 2e7,
    "deadline_days": 14,
}


def chat(model: str = "llama-3.1-8b", in_flight: int = 20) -> dict[str, Any]:
    lengths = {"input_tokens": {"mean": 1000}, "output_tokens": {"mean": 300}}
    return {"phase": "inference", "model": model, "traffic": {"concurrent_requests": in_flight, **lengths}}


def answered(client: TestClient, workload: dict[str, Any], owned: list[dict[str, Any]], **constraints: Any) -> Any:
    body = {"workload": workload, "inventory": owned, "constraints": constraints}
    response = client.post("/recommend", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def refused(client: TestClient, inventory: list[dict[str, Any]]) -> tuple[str, str]:
    """Pointer and detail of the first error."""
    response = client.post("/recommend", json={"workload": chat(), "inventory": inventory})
    assert response.status_code in (404, 422), response.text
    error = response.json()["errors"][0]
    return error["pointer"], error["detail"]


def test_owned_cards_cost_their_operation_and_no_more_than_owned_are_used(client: TestClient) -> None:
    answer = answered(client, chat(), FOUR_A6000)
    (best,) = answer["recommendations"]
    assert (best["deployment"]["accelerator"], best["deployment"]["total_accelerators"]) == ("nvidia-rtx-a6000", 4)
    assert best["cost"]["purchase_usd"] == 0
    power = best["cost"]["power_kw"] * 0.12 * 1.3  # the default price of electricity and the default PUE
    assert best["cost"]["usd_per_hour"] == pytest.approx(power, rel=1e-3)
    assert answer["rejected"] == []


@pytest.mark.parametrize(
    ("workload", "inventory"),
    [
        (chat("llama-3.3-70b", 100), [{"accelerator": "h100 sxm", "count": 8}]),
        (chat("gpt-oss-120b", 1), [{"system": "dgx spark", "count": 2}]),
        (chat("deepseek-v3", 64), [{"accelerator": "mi300x", "count": 16}]),
        (chat("gpt-oss-120b", 2), [{"accelerator": "m3 ultra 80c", "count": 3}]),
        (QLORA, FOUR_A6000),
    ],
)
def test_owned_hardware_of_every_kind_is_sized(client: TestClient, workload: Any, inventory: Any) -> None:
    answer = answered(client, workload, inventory, inventory="only")
    (best,) = answer["recommendations"]
    assert best["deployment"]["offer"]["provider"] == "inventory"
    identity = answer["id"]
    bill = client.get(f"/recommendations/{identity}/bill-of-materials").json()
    assert bill["lines"][0]["line_total"] == 0
    assert bill["lines"][0]["description"].endswith("(already yours)")
    assert {line["kind"] for line in bill["lines"]} <= {"compute", "hosting", "power", "storage"}


def test_an_inventory_that_is_too_small_gives_the_reason_and_hardware_for_sale(client: TestClient) -> None:
    two = [{"accelerator": "rtx 4090", "count": 2}]
    answer = answered(client, chat("deepseek-v3"), two)
    assert "NVIDIA GeForce RTX 4090 24GB needs" in answer["warnings"][0]["text"]
    assert answer["warnings"][0]["code"] == "inventory"
    assert all(r["deployment"]["offer"]["provider"] != "inventory" for r in answer["recommendations"])
    alone = answered(client, chat("deepseek-v3"), two, inventory="only")
    assert alone["recommendations"] == []
    assert [r["accelerator"] for r in alone["rejected"]] == ["nvidia-rtx-4090"]


def test_more_than_the_inventory_holds_is_never_used(client: TestClient) -> None:
    sixteen, enough = [{"accelerator": "h100 sxm", "count": 16}], []
    for rate in (1, 10, 20, 40, 80, 160):
        workload = chat("llama-3.3-70b")
        workload["traffic"] = {**workload["traffic"], "peak_requests_per_s": rate}
        del workload["traffic"]["concurrent_requests"]
        answer = answered(client, workload, sixteen, inventory="only")
        enough.append(bool(answer["recommendations"]))
        if enough[-1]:
            assert answer["recommendations"][0]["deployment"]["total_accelerators"] <= 16
        else:
            (rejected,) = answer["rejected"]
            assert rejected["text"].endswith("accelerators; your inventory has 16.")
    assert enough == sorted(enough, reverse=True)
    assert set(enough) == {True, False}


def test_ignored_inventory_changes_nothing(client: TestClient) -> None:
    body: dict[str, Any] = {"workload": chat(), "constraints": {"accelerators": ["nvidia-l40s"]}}
    plain = client.post("/recommend", json=body).json()
    ignored = {**body, "inventory": FOUR_A6000, "constraints": {**body["constraints"], "inventory": "ignore"}}
    other = client.post("/recommend", json=ignored).json()
    assert plain["recommendations"] == other["recommendations"]


def test_a_price_that_counts_is_spread_over_the_horizon(client: TestClient) -> None:
    sunk, booked = (
        answered(client, chat(), [{"accelerator": "l40s", "count": 4, **price}], inventory="only")
        for price in ({}, {"usd_per_machine": 40_000})
    )
    more = booked["recommendations"][0]["cost"]["usd_per_hour"] - sunk["recommendations"][0]["cost"]["usd_per_hour"]
    assert more > 40_000 / (36 * 730) * 0.99


def test_the_same_question_with_another_inventory_is_another_answer(client: TestClient) -> None:
    ids = {answered(client, chat(), [{"accelerator": "a6000", "count": n}])["id"] for n in (2, 4)}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("entry", "pointer", "text"),
    [
        ({"count": 4}, "#/inventory/0", "name either accelerator or system"),
        ({"accelerator": "a6000", "system": "dgx-h100", "count": 1}, "#/inventory/0", "name either"),
        ({"accelerator": "a7000", "count": 4}, "#/inventory/0/accelerator", "Unknown accelerator"),
        ({"accelerator": "8x h100 sxm", "count": 8}, "#/inventory/0/accelerator", "set the count in count"),
        (
            {"accelerator": "h100 sxm", "count": 12},
            "#/inventory/0/accelerators_per_machine",
            "do not fill machines of 8",
        ),
        ({"accelerator": "a6000", "count": 4, "sunk": False}, "#/inventory/0", "add usd_per_machine"),
        ({"accelerator": "a6000", "count": 4, "sunk": True, "usd_per_machine": 9}, "#/inventory/0", "not sunk"),
        ({"accelerator": "a6000", "count": 0}, "#/inventory/0/count", "greater than or equal to 1"),
    ],
)
def test_wrong_entries_are_refused_in_words(client: TestClient, entry: dict[str, Any], pointer: str, text: str) -> None:
    where, detail = refused(client, [entry])
    assert where == pointer
    assert text in detail


def test_two_kinds_of_machine_of_one_type_are_refused(client: TestClient) -> None:
    two = [{"accelerator": "a6000", "count": 4}, {"accelerator": "a6000", "count": 2, "accelerators_per_machine": 1}]
    assert refused(client, two)[1].startswith("Entries with nvidia-rtx-a6000 describe different machines.")
