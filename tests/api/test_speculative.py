"""Speculative decoding over the wire: every candidate of a recommendation, and the same figures as an estimate."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of, body

EAGLE = {"method": "eagle", "draft_tokens": 3, "acceptance_rate": 0.6}


def recommended(client: TestClient, speculative: dict[str, Any] | None, **constraints: Any) -> dict[str, Any]:
    request = body("recommend-inference-chat-70b")
    request["constraints"] = {"accelerators": ["nvidia-h200-sxm-141gb"], "speculative": speculative} | constraints
    return answer_of(client.post("/recommend", json=request))


def test_every_recommendation_drafts_and_an_estimate_agrees(client: TestClient) -> None:
    plain, found = (recommended(client, each)["recommendations"][0] for each in (None, EAGLE))
    assert "speculative" not in plain["deployment"]
    assert found["deployment"]["speculative"] == EAGLE
    assert found["performance"]["tpot_ms"]["p50"] < plain["performance"]["tpot_ms"]["p50"]
    assert found["deployment"]["total_accelerators"] <= plain["deployment"]["total_accelerators"]
    request = {"workload": body("recommend-inference-chat-70b")["workload"], "deployment": found["deployment"]}
    estimate = client.post("/estimate", json=request).json()
    for name in ("memory", "cost", "confidence", "deployment"):
        assert estimate[name] == found[name]
    for name in ("tpot_ms", "ttft_ms", "e2e_ms", "requests_per_s_capacity", "output_tokens_per_s"):
        assert estimate["performance"][name] == found["performance"][name]


def test_engines_that_do_not_draft_so_are_rejected_with_that_reason(client: TestClient) -> None:
    lookup = {"method": "draft_model", "draft_tokens": 3, "acceptance_rate": 0.6, "draft_parameters_billion": 1}
    found = recommended(client, lookup, engines=["tgi"])
    assert not found.get("recommendations")
    assert any("draft tokens with a draft model" in r["text"] for r in found["rejected"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "mtp", "draft_tokens": 1, "acceptance_rate": 0.8}, "multi-token prediction"),
        ({"method": "draft_model", "draft_tokens": 1, "acceptance_rate": 0.8}, "draft_parameters_billion"),
    ],
)
def test_drafting_that_the_model_cannot_do_is_refused(client: TestClient, change: dict[str, Any], said: str) -> None:
    request = body("recommend-inference-chat-70b")
    request["constraints"] = {"speculative": change}
    refused = client.post("/recommend", json=request)
    assert refused.status_code == 422
    assert said in refused.text


def test_a_training_run_does_not_draft(client: TestClient) -> None:
    request = body("recommend-training-7b-1t-tokens")
    request.setdefault("constraints", {})["speculative"] = EAGLE
    refused = client.post("/recommend", json=request)
    assert refused.status_code == 422
    assert "constraints.speculative does not apply" in refused.text


def qwen(client: TestClient, **extra: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "workload": {
            "phase": "inference",
            "model": "Qwen/Qwen3-32B",
            "traffic": {"peak_requests_per_s": 50, "input_tokens": 4000, "output_tokens": 1000},
            "slo": {"ttft_ms": 1000, "tpot_ms": 30},
        },
        "constraints": {"accelerators": ["nvidia-h200-sxm-141gb"]},
    }
    request["constraints"] |= extra.pop("constraints", {})
    return answer_of(client.post("/recommend", json=request | extra))


def test_a_published_draft_is_offered_and_saves_about_what_a_recommendation_with_it_does(client: TestClient) -> None:
    found = qwen(client)
    (offer,) = [c for c in found["cheaper_if"] if c["if"].startswith("speculative decoding")]
    assert "EAGLE-3 head" in offer["if"] and "is an assumption" in offer["risk"]
    first = found["recommendations"][0]
    assert offer["total_accelerators"] < first["deployment"]["total_accelerators"]
    asked = {"method": "eagle", "draft_tokens": 2, "acceptance_rate": 0.554}
    drafting = qwen(client, constraints={"speculative": asked}, include=["cheaper_if"])
    needed = drafting["recommendations"][0]["deployment"]["total_accelerators"]
    assert offer["total_accelerators"] == pytest.approx(needed, rel=0.25)
    assert not [c for c in drafting.get("cheaper_if", []) if c["if"].startswith("speculative decoding")]


def test_no_draft_is_sought_where_the_request_leaves_the_offers_out(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.sizing.finalists.cheaper_with_draft", None)
    assert "cheaper_if" not in qwen(client, include=[])


def test_the_verification_of_a_draft_starts_the_engine_with_it(client: TestClient) -> None:
    asked = {"method": "eagle", "draft_tokens": 2, "acceptance_rate": 0.554}
    found = qwen(client, constraints={"speculative": asked}, include=[])
    verification = found["verification"]
    assert "AngelSlim/Qwen3-32B_eagle3" in verification["command"]
    assert "$PROMPTS_FILE" in verification["command"]
    assert "Random prompts show no acceptance" in verification["decides"]
