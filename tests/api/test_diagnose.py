"""Diagnoses in the API: answers and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.schemas.diagnose import EXAMPLE, ObservedSpec


def test_a_finding_has_its_cost_its_evidence_and_its_change(client: TestClient) -> None:
    found = client.post("/diagnose", json=EXAMPLE).json()
    assert not found["healthy"] and found["findings"][0]["code"] == "preemptions"
    assert found["findings"][0]["costs"]["usd_per_month"] > 0
    assert found["not_to_buy"] == [found["findings"][0]["do_not_buy"]]


def test_nothing_observed_is_nothing_found(client: TestClient) -> None:
    found = client.post("/diagnose", json={**EXAMPLE, "observed": {}}).json()
    assert found["healthy"] and found["findings"] == []


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"observed": {"training": {"step_time_s": 3}}}, "#/observed/training"),
        ({"observed": {"service": {"cache_usage": 3}}}, "#/observed/service/cache_usage"),
        ({"observed": {"service": {"ttft_p50_ms": 0}}}, "#/observed/service/ttft_p50_ms"),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_stands(
    client: TestClient, fields: dict[str, Any], pointer: str
) -> None:
    answer = client.post("/diagnose", json={**EXAMPLE, **fields})
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == pointer


def test_figures_are_read_in_base_units() -> None:
    said = {
        "service": {"ttft_p99_ms": 250, "by_load": [{"requests_per_s": 5, "tpot_p95_ms": 40}]},
        "devices": {"memory_used_gib": 2},
    }
    seen = ObservedSpec.model_validate(said).to_observed()
    assert seen.service.ttft_p99_s == 0.25 and seen.service.by_load[0].tpot_p95_s == 0.04
    assert seen.devices.memory_used_bytes == 2 * 2**30


@pytest.mark.parametrize(
    ("code", "deployment", "seen"),
    [
        ("overloaded", {}, {"requests_per_s": 60}),
        ("batch_limit", {"max_batch": 8}, {"requests_per_s": 12, "running": 8, "waiting": 40, "cache_usage": 0.1}),
        ("wrong_layout", {"tensor_parallel": 8}, {"requests_per_s": 3, "tpot_p50_ms": 30}),
    ],
)
def test_settings_posted_to_estimate_are_faster_by_the_gain(
    client: TestClient, code: str, deployment: dict[str, Any], seen: dict[str, Any]
) -> None:
    planned = {**EXAMPLE, "deployment": {**EXAMPLE["deployment"], **deployment}, "observed": {"service": seen}}
    found = client.post("/diagnose", json=planned).json()
    change = next(f["change"] for f in found["findings"] if f["code"] == code)
    planned.pop("observed")
    laid_out = client.post("/estimate", json=planned).json()["deployment"]
    laid_out |= {"max_batch": deployment.get("max_batch"), "max_batched_tokens": None, "scheduler": None}
    rate = seen["requests_per_s"]
    traffic = {**EXAMPLE["workload"]["traffic"], "peak_requests_per_s": rate}
    body = {"workload": {**EXAMPLE["workload"], "traffic": traffic}, "deployment": {**laid_out, **change["settings"]}}
    after = client.post("/estimate", json=body).json()["performance"]["requests_per_s_capacity"]
    before = found["expected"]["requests_per_s_capacity"]
    if code == "overloaded":
        assert after >= rate and 1 - before / rate == pytest.approx(change["gain_share"], rel=1e-3)
    else:
        assert 1 - before / after == pytest.approx(change["gain_share"], abs=2e-3)


def test_figures_without_an_expectation_are_listed_as_not_judged(client: TestClient) -> None:
    traffic = {"peak_requests_per_s": 50, "input_tokens": 300}
    body = {
        "workload": {"phase": "inference", "model": "BAAI/bge-m3", "traffic": traffic},
        "deployment": {"accelerator": "nvidia-l4", "total_accelerators": 1},
        "observed": {"service": {"requests_per_s": 50, "ttft_p50_ms": 900}},
    }
    assert client.post("/diagnose", json=body).json()["not_judged"] == ["ttft_p50_ms"]
