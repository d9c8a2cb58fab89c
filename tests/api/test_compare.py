"""Comparisons in the API: shared and changed fields, stored answers, and refusals with their places."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api import cost
from app.api.routes.recommendations import BRIEF_OPTIONS
from app.sizing.serving.choice import best_single_service
from app.sizing.whatif import limits
from tests.examples import answer_of

FEW = {"simulated_requests": 3000}
CHAT: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "traffic": {"peak_requests_per_s": 20, "input_tokens": 800, "output_tokens": 200},
    "slo": {"ttft_ms": 1000, "tpot_ms": 50},
}
OPTIONS: list[dict[str, Any]] = [
    {"name": "rented", "constraints": {"pricing_models": ["on_demand"]}},
    {"name": "ours", "deployment": {"accelerator": "nvidia-l4", "total_accelerators": 4}},
    {"name": "half", "workload": {"traffic": {"peak_requests_per_s": 10}}},
]
BODY = {"workload": CHAT, "options": OPTIONS, "assumptions": FEW}


@pytest.fixture(scope="module")
def answer(client: TestClient) -> dict[str, Any]:
    return answer_of(client.post("/compare", json=BODY))


def test_an_expensive_comparison_stores_brief_answers_and_says_so(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "WHOLE_COMPARE_S", 0.0)
    found = client.post("/compare", json={**BODY, "options": OPTIONS[:2]}).json()
    assert found["summary"].endswith(BRIEF_OPTIONS)
    stored = client.get(f"/recommendations/{found['options'][0]['id']}").json()
    assert stored["request"]["include"] == [] and not stored["sensitivity"]


def test_every_option_stands_in_its_order_with_its_figures(answer: dict[str, Any]) -> None:
    assert [o["name"] for o in answer["options"]] == ["rented", "ours", "half"]
    assert all(len(line["values"]) == 3 for line in answer["table"])
    assert answer["summary"].count(" costs the least: ") == 1
    for d in answer["differences"]:
        assert math.prod(c["ratio"] for c in d["causes"]) == pytest.approx(d["ratio"], rel=0.03)


def test_an_option_is_what_recommend_and_estimate_answer(client: TestClient, answer: dict[str, Any]) -> None:
    body = {"workload": CHAT, "constraints": OPTIONS[0]["constraints"], "assumptions": FEW}
    alone = client.post("/recommend", json=body)
    first = alone.json()["recommendations"][0]
    usd = next(line["values"] for line in answer["table"] if line["quantity"] == "usd_per_hour")
    assert usd[0] == first["cost"]["usd_per_hour"]
    judged = client.post(
        "/estimate", json={"workload": CHAT, "deployment": OPTIONS[1]["deployment"], "assumptions": FEW}
    )
    assert usd[1] == judged.json()["cost"]["usd_per_hour"]
    stored = client.get(f"/recommendations/{answer['options'][0]['id']}")
    assert stored.content == alone.content, "kept as /recommend keeps it"
    assert "id" not in answer["options"][1]


def test_an_option_changes_what_it_says_of_the_workload(client: TestClient, answer: dict[str, Any]) -> None:
    stored = client.get(f"/recommendations/{answer['options'][2]['id']}").json()
    assert stored["request"]["workload"] == {**CHAT, "traffic": {**CHAT["traffic"], "peak_requests_per_s": 10}}


def test_money_over_months_has_a_point_every_quarter(answer: dict[str, Any]) -> None:
    for option in answer["spending"]:
        for way in option["ways"]:
            assert [m["month"] for m in way["months"]] == [*range(0, 37, 3)]
            assert way["net_usd"] == pytest.approx(
                way["months"][-1]["usd"] + way["committed_usd"] - way["left_usd"], rel=1e-4, abs=1e-2
            )
    assert {a["name"] for a in answer["assumptions"]} <= {"rent_decline_per_year", "resale_decline_per_year"}


def test_the_same_comparison_is_the_same_bytes(client: TestClient, answer: dict[str, Any]) -> None:
    assert client.post("/compare", json=BODY).json() == answer


def test_one_model_in_two_phases(client: TestClient) -> None:
    tuned = {"method": "lora", "training_tokens": 5e7, "deadline_hours": 24}
    body = {"model": CHAT["model"], "phases": {"fine_tuning": tuned, "inference": {"traffic": CHAT["traffic"]}}}
    found = client.post("/compare", json={**body, "assumptions": FEW, "label": "two phases"}).json()
    filed = client.get("/recommendations", params={"label": "two phases"}).json()["items"]
    assert {item["id"] for item in filed} == {option["id"] for option in found["options"]}
    assert [p["phase"] for p in found["priorities"]] == ["fine_tuning", "inference"]
    assert all(line["best"] is None for line in found["table"]) and found["differences"] == []
    for e in found["elsewhere"]:
        assert (e["usd"] is None) == (e["times"] is None) and e["text"]


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(BODY), **fields}


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"workload": CHAT}, "#", "set workload and options"),
        ({"workload": CHAT, "options": OPTIONS, "model": "x", "phases": {}}, "#", "not both"),
        (changed(options=OPTIONS[:1]), "#/options", "at least 2"),
        (changed(options=[OPTIONS[0], OPTIONS[0]]), "#", "a unique name"),
        ({"model": CHAT["model"], "phases": {"inference": {}}}, "#", "two of training, fine_tuning and inference"),
        (
            changed(options=[OPTIONS[0], {"name": "b", "workload": {"traffic": {"peak_requests_per_s": -1}}}]),
            "#/options/1/workload/traffic/peak_requests_per_s",
            "greater than 0",
        ),
        (
            changed(options=[OPTIONS[0], {"name": "b", "constraints": {"providers": ["no-such-seller"]}}]),
            "#/options/1/constraints/providers",
            "no-such-seller",
        ),
        (
            changed(
                options=[
                    OPTIONS[0],
                    {"name": "b", "deployment": {"accelerator": "nvidia-l4"}, "constraints": {"vendors": ["amd"]}},
                ]
            ),
            "#/options/1/constraints/vendors",
            "",
        ),
        (
            {"model": CHAT["model"], "phases": {"inference": {"traffic": {}}, "training": {"training_tokens": 1e9}}},
            "#/phases/inference/traffic",
            "",
        ),
        (
            changed(
                options=[
                    OPTIONS[0],
                    {
                        "name": "b",
                        "deployment": {"accelerator": "nvidia-l4", "tensor_parallel": 4, "total_accelerators": 2},
                    },
                ]
            ),
            "#/options/1",
            "total_accelerators is 2",
        ),
        (changed(constraints={"providers": ["no-such-seller"]}), "#/constraints/providers", "no-such-seller"),
    ],
)
def test_errors_point_at_the_place_where_they_were_written(
    client: TestClient, body: dict[str, Any], pointer: str, says: str
) -> None:
    errors = answer_of(client.post("/compare", json=body), 422)["errors"]
    assert any(e["pointer"].startswith(pointer) and says in e["detail"] for e in errors), errors


def test_an_unknown_model_is_not_found_in_its_option(client: TestClient) -> None:
    body = changed(options=[OPTIONS[0], {"name": "b", "workload": {"model": "no-such-model-anywhere"}}])
    problem = answer_of(client.post("/compare", json=body), 404)
    assert problem["errors"][0]["pointer"] == "#/options/1/workload/model"
    assert problem["detail"].startswith("'b': ")


def test_options_share_the_changes_that_would_help_them(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raising the limit of two options to the value that is enough is one question; their answers stay the same."""
    found: list[Any] = []

    def counted(search: Any) -> Any:
        found.append(search)
        return best_single_service(search)

    monkeypatch.setattr(limits, "best_single_service", counted)
    large = {**CHAT, "model": "meta-llama/Llama-3.1-405B-Instruct"}
    options = [{"name": f"up to {n}", "constraints": {"max_accelerators": n}} for n in (7, 8)]
    compared = client.post("/compare", json={"workload": large, "options": options, "assumptions": FEW}).json()
    together = len(found)
    found.clear()
    for option, shown in zip(options, compared["options"], strict=True):
        stored = client.get(f"/recommendations/{shown['id']}")
        assert client.delete(f"/recommendations/{shown['id']}", headers={"if-match": "*"}).status_code == 204
        request = {"workload": large, "constraints": option["constraints"], "assumptions": FEW, "objective": "cost"}
        assert client.post("/recommend", json=request).content == stored.content
    assert 0 < together <= 0.7 * len(found)
