"""Limits that a request leaves open rank and warn; only limits that it sets reject."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import as_shown, levels_of_deployment

PERSONAL: dict[str, Any] = {"concurrent_requests": 1, "input_tokens": 2000, "output_tokens": 500}
DESKS: dict[str, tuple[str, dict[str, Any]]] = {
    "a Mac up to 2,500 USD": (
        "openai/gpt-oss-20b",
        {"vendors": ["Apple"], "max_purchase_usd": 2500, "pricing_models": ["owned"]},
    ),
    "a 120B model on an M3 Ultra": (
        "openai/gpt-oss-120b",
        {"accelerators": ["apple-m3-ultra*"], "pricing_models": ["owned"]},
    ),
    "a 70B model at a desk": (
        "meta-llama/Llama-3.3-70B-Instruct",
        {"max_purchase_usd": 6000, "pricing_models": ["owned"], "accelerators": ["apple-*", "nvidia-gb10*"]},
    ),
}


def asked(model: str, constraints: dict[str, Any], **workload: Any) -> dict[str, Any]:
    return {
        "workload": {"phase": "inference", "model": model, "traffic": PERSONAL, **workload},
        "constraints": constraints,
    }


@pytest.mark.parametrize("desk", DESKS)
def test_a_desk_that_misses_only_assumed_limits_is_answered_and_warned(client: TestClient, desk: str) -> None:
    answer = client.post("/recommend", json=asked(*DESKS[desk])).json()
    assert answer["recommendations"], answer["summary"]
    limits = {a["name"]: a["value"] for a in answer["assumptions"] if a["name"].startswith("slo.")}
    relaxed = [w["text"] for w in answer["warnings"] if w["code"] == "assumed_limits_missed"]
    usual = limits["slo.tpot_ms"] == pytest.approx(200)
    assert bool(relaxed) != usual
    first = answer["recommendations"][0]
    assert first["performance"]["tpot_ms"]["p95"] <= limits["slo.tpot_ms"]
    workload = asked(*DESKS[desk])["workload"]
    again = client.post("/estimate", json={"workload": workload, "deployment": first["deployment"]}).json()
    assert as_shown(again["performance"], first["performance"]) == first["performance"]
    assert levels_of_deployment(again, first) == levels_of_deployment(first, first)
    assert ("assumed_limits_missed" in {w["code"] for w in again["warnings"]}) == bool(relaxed)


@pytest.mark.parametrize("desk", DESKS)
def test_limits_that_the_request_sets_still_reject(client: TestClient, desk: str) -> None:
    answer = client.post("/recommend", json=asked(*DESKS[desk], slo={"ttft_ms": 20, "tpot_ms": 2})).json()
    assert answer["recommendations"] == []
    assert "assumed_limits_missed" not in {w["code"] for w in answer["warnings"]}
