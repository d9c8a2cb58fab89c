"""Offline work with a volume and a deadline, through the service."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

OFFLINE = {"offline": True, "input_tokens": 2000, "output_tokens": 200}
RATE = {"peak_requests_per_s": 5, "input_tokens": 2000, "output_tokens": 200}


def request(traffic: dict[str, Any]) -> dict[str, Any]:
    return {"workload": {"phase": "inference", "model": "meta-llama/Llama-3.1-8B-Instruct", "traffic": traffic}}


@pytest.mark.parametrize(
    ("traffic", "said"),
    [
        ({**RATE, "volume_requests": 2e6}, "offline"),
        ({**RATE, "deadline_hours": 60}, "offline"),
        ({**OFFLINE, "deadline_hours": 60}, "volume_requests"),
    ],
)
def test_a_volume_goes_with_offline_work_and_a_deadline_with_a_volume(
    client: TestClient, traffic: dict[str, Any], said: str
) -> None:
    response = client.post("/recommend", json=request(traffic))
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "#/workload/traffic"
    assert said in error["detail"]


def test_two_million_documents_by_monday(client: TestClient) -> None:
    asked = request({**OFFLINE, "volume_requests": 2e6, "deadline_hours": 60})
    response = client.post("/recommend", json=asked)
    assert response.status_code == 200
    assert len(response.content) < 30_000
    answer = response.json()
    assert "2,000,000 offline requests within 2.5 days" in answer["summary"]
    first = answer["recommendations"][0]
    assert 0 < first["performance"]["days"] * 24 <= 60
    assert first["deployment"]["offer"]["pricing_model"] == "on_demand"
    assert first["cost"]["usd_total"] == pytest.approx(
        first["cost"]["usd_per_hour"] * first["performance"]["days"] * 24, rel=1e-4
    )
    assert first["confidence"]["meets_deadline"] >= 0.8
    levels = [level for r in answer["recommendations"] for level in r["confidence"]["by_level"]]
    totals = [level["usd_total"] for level in levels if level["confidence"] == 0.8]  # last ranks tell this one only
    assert len(totals) == len(answer["recommendations"])
    assert totals == sorted(totals)
    again = client.post("/estimate", json={**asked, "deployment": first["deployment"]}).json()
    assert all(again[part] == first[part] for part in ("performance", "cost", "confidence", "memory"))


def test_own_machines_are_judged_where_they_are_asked_for(client: TestClient) -> None:
    asked = request({**OFFLINE, "volume_requests": 2e6, "deadline_hours": 60})
    answer = client.post("/recommend", json={**asked, "constraints": {"environments": ["on_prem"]}}).json()
    first = answer["recommendations"][0]
    assert first["deployment"]["offer"]["pricing_model"] == "owned"
    assert "purchase_outlasts_run" in {warning["code"] for warning in answer["warnings"]}
    spot = client.post("/recommend", json={**asked, "constraints": {"pricing_models": ["spot"]}}).json()
    assert spot["recommendations"][0]["deployment"]["offer"]["pricing_model"] == "spot"
