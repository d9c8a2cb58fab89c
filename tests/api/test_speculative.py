"""Speculative decoding over the wire: every candidate of a recommendation, and the same figures as an estimate."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import body

EAGLE = {"method": "eagle", "draft_tokens": 3, "acceptance_rate": 0.6}


def recommended(client: TestClient, speculative: dict[str, Any] | None, **constraints: Any) -> dict[str, Any]:
    request = body("recommend-inference-chat-70b")
    request["constraints"] = {"accelerators": ["nvidia-h200-sxm-141gb"], "speculative": speculative} | constraints
    response = client.post("/recommend", json=request)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


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
