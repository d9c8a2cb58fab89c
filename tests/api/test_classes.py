"""Classes of traffic in the API: accepted and refused requests, and how answers show both ways."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of

CHATS = {
    "name": "chats",
    "peak_requests_per_s": 8,
    "input_tokens": 800,
    "output_tokens": 200,
    "slo": {"ttft_ms": 500, "tpot_ms": 40},
}
PAPERS = {
    "name": "papers",
    "users": {"count": 400, "requests_per_hour_each": 8},
    "input_tokens": {"min": 3000, "max": 6000},
    "output_tokens": 400,
    "slo": {"e2e_ms": 60_000, "percentile": 90},
}
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ON = {"accelerator": "nvidia-h100-sxm5-80gb", "engine": "vllm", "weight_format": "fp8"}
FEW = {"simulated_requests": 3000}


def asked(*classes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    workload = {"phase": "inference", "model": MODEL, "traffic": {"classes": [*classes], **fields}}
    return {"workload": workload, "assumptions": FEW}


def refused(client: TestClient, body: dict[str, Any]) -> str:
    problem = answer_of(client.post("/recommend", json=body), 422)
    return " ".join(error["detail"] for error in problem.get("errors") or [{"detail": problem["detail"]}])


def test_two_classes_are_shown_together_and_apart_and_an_estimate_returns_them(client: TestClient) -> None:
    body = asked(CHATS, PAPERS)
    response = client.post("/recommend", json=body)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert len(response.content) < 30_000
    first, *others = answer["recommendations"]
    shown = first["classes"]
    assert all("classes" not in ranked for ranked in others)
    assert [each["name"] for each in shown["together"]["by_class"]] == ["chats", "papers"]
    assert [each["name"] for each in shown["apart"]] == ["chats", "papers"]
    chats, papers = shown["together"]["by_class"]
    assert chats["limits_met"]
    assert papers["limits_met"]
    assert chats["ttft_ms"]["p95"] < papers["ttft_ms"]["p95"]
    assert shown["together"]["usd_per_hour"] == first["cost"]["usd_per_hour"]
    apart = sum(each["usd_per_hour"] for each in shown["apart"])
    assert shown["cheaper"] == ("together" if shown["together"]["usd_per_hour"] <= apart else "apart")
    assert shown["saving_usd_per_hour"] == pytest.approx(abs(apart - shown["together"]["usd_per_hour"]), abs=1e-3)
    reasons = [reason["text"] for reason in first["explanation"]]
    assert any(text.startswith("chats: p95 TTFT") for text in reasons)
    again = client.post("/estimate", json={**body, "deployment": first["deployment"]}).json()
    assert again["classes"] == shown
    for figure in ("ttft_ms", "tpot_ms", "requests_per_s_capacity", "simulation"):
        assert again["performance"][figure] == first["performance"][figure]


def test_four_classes_fit_in_thirty_thousand_bytes(client: TestClient) -> None:
    four = [{**CHATS, "name": f"class {i}", "input_tokens": 100 * (i + 1)} for i in range(4)]
    assert len(client.post("/recommend", json=asked(*four)).content) < 30_000


def test_one_deployment_serves_all_classes_and_shows_the_choice_for_each(client: TestClient) -> None:
    short = {name: value for name, value in CHATS.items() if name not in ("input_tokens", "slo")}
    answer = answer_of(client.post("/estimate", json={**asked(short, PAPERS), "deployment": ON}))
    named = [a["name"] for a in answer["assumptions"] if a["name"].startswith(("chats", "papers"))]
    assert named == [
        "chats: average_requests_per_s",
        "chats: input_tokens",
        "chats: slo.ttft_ms",
        "chats: slo.tpot_ms",
        "chats: slo.percentile",
        "papers: peak_requests_per_s",
        "papers: average_requests_per_s",
    ]
    assert "chats and papers together" in answer["summary"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (asked(CHATS), "at least 2"),
        (asked(CHATS, CHATS), "a unique name"),
        (asked(CHATS, {**PAPERS, "peak_requests_per_s": 2}), "exactly one of peak_requests_per_s and users"),
        (asked(CHATS, PAPERS, peak_requests_per_s=3), "exactly one of"),
        (asked(CHATS, PAPERS, burstiness=2), "omit burstiness"),
        (asked({**CHATS, "peak_requests_per_s": 5000}, PAPERS), "less than 1 %"),
        (asked({**CHATS, "average_requests_per_s": 9}, PAPERS), "must not exceed the peak"),
        (asked(CHATS, {**PAPERS, "trace": []}), "trace"),
    ],
)
def test_what_contradicts_is_refused_in_words(client: TestClient, body: dict[str, Any], said: str) -> None:
    assert said in refused(client, body)


def test_pools_of_their_own_serve_one_kind_of_traffic(client: TestClient) -> None:
    pool = {"accelerators_per_replica": 1}
    body = {**asked(CHATS, PAPERS), "deployment": {**ON, "pools": {"prefill": pool, "decode": pool}}}
    body["deployment"].pop("weight_format")
    response = client.post("/estimate", json=body)
    assert response.status_code in (409, 422), response.text
    assert "Omit traffic.classes or deployment.pools" in response.json()["detail"], response.text


def test_limits_are_said_by_class(client: TestClient) -> None:
    body = copy.deepcopy(asked(CHATS, PAPERS))
    body["workload"]["slo"] = {"ttft_ms": 300}
    assert "omit workload.slo" in refused(client, body)


def test_models_that_answer_in_one_piece_have_no_classes(client: TestClient) -> None:
    body = copy.deepcopy(asked({"name": "a", "peak_requests_per_s": 5}, {"name": "b", "peak_requests_per_s": 3}))
    body["workload"]["model"] = "BAAI/bge-m3"
    assert "generate tokens" in refused(client, body)


def test_a_limit_that_nothing_meets_names_the_class_that_would_have_to_give(client: TestClient) -> None:
    hurried = {**CHATS, "slo": {"ttft_ms": 12, "tpot_ms": 40}}
    answer = client.post("/recommend", json=asked(hurried, PAPERS)).json()
    assert answer["recommendations"] == []
    changes = [change["change"] for change in answer["sensitivity"]]
    assert any(change.startswith("raise chats ttft_ms") for change in changes), changes
