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
    assert found["healthy"] is None and found["findings"] == []


def test_a_deployment_that_runs_though_it_was_not_expected_to_fit_is_judged(client: TestClient) -> None:
    asked = {
        "workload": {
            "phase": "inference",
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "traffic": {"concurrent_requests": 1, "input_tokens": 500, "output_tokens": 100},
        },
        "deployment": {"accelerator": "nvidia-t4", "total_accelerators": 1, "engine": "vllm", "weight_format": "fp16"},
    }
    short = client.post("/estimate", json=asked).json()
    assert not short["fits"]
    found = client.post("/diagnose", json={**asked, "observed": {"service": {"tpot_p50_ms": 60, "running": 1}}}).json()
    assert found["healthy"] is True and "not expected to fit" in found["notes"][0]
    slow = {**asked, "observed": {"service": {"tpot_p50_ms": 600, "running": 1}}}
    assert client.post("/diagnose", json=slow).json()["findings"][0]["code"] == "slow_decode"
    killed = client.post(
        "/diagnose", json={**asked, "observed": {"log": "container engine exited with code 137"}}
    ).json()
    assert killed["findings"][0]["code"] == "out_of_host_memory" and not killed.get("notes")


def test_an_out_of_memory_error_is_found_with_a_change_that_fits(client: TestClient) -> None:
    asked = {
        "workload": {
            "phase": "fine_tuning",
            "method": "full",
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "training_tokens": 3e6,
            "sequence_length": 1024,
            "global_batch_sequences": 16,
        },
        "deployment": {"accelerator": "nvidia-a100-sxm4-40gb", "total_accelerators": 2, "framework": "deepspeed"},
    }
    error = {"failed_allocation_gib": 14.9, "free_gib": 2.1, "process_gib": 37.28, "capacity_gib": 39.39}
    found = client.post("/diagnose", json={**asked, "observed": {"memory": error}}).json()
    (first,) = found["findings"]
    assert found["healthy"] is False and first["code"] == "out_of_memory" and first["costs"]["share"] == 1
    changed = {**asked, "deployment": {**asked["deployment"], **first["change"]["settings"]}}
    assert client.post("/estimate", json=changed).json()["fits"]


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ({"failed_allocation_gib": 1, "free_gib": 0.5, "unused_gib": 9}, "expandable_segments"),
        ({"failed_allocation_gib": 1, "free_gib": 0.5, "process_gib": 10, "capacity_gib": 22}, "another accelerator"),
        ({"needed_cache_gib": 16, "cache_gib": 9.6}, ""),
        ({"cache_gib": 0}, ""),
    ],
)
def test_the_change_depends_on_what_the_error_says(client: TestClient, memory: dict[str, float], words: str) -> None:
    found = client.post("/diagnose", json={**EXAMPLE, "observed": {"memory": memory}}).json()
    assert found["findings"][0]["code"] == "out_of_memory" and words in found["findings"][0]["change"]["text"]


@pytest.mark.parametrize("kv_format", ["bf16", "fp8"])
def test_formats_that_were_left_open_are_those_of_the_reported_memory(client: TestClient, kv_format: str) -> None:
    asked = {
        "workload": EXAMPLE["workload"],
        "deployment": {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 1, "engine": "vllm"},
    }
    stated = {"weight_format": "bf16", "kv_format": kv_format}
    runs = client.post("/estimate", json={**asked, "deployment": {**asked["deployment"], **stated}}).json()["memory"]
    each = runs["per_accelerator_gib"]
    observed = {
        "memory": {"weights_gib": each["weights"], "cache_gib": each["kv_cache"]},
        "service": {"cache_tokens": runs["kv_cache_tokens"]},
    }
    found = client.post("/diagnose", json={**asked, "observed": observed}).json()
    assert found["healthy"] is True
    assert [row["difference"] for row in found["memory"]] == pytest.approx([0, 0, 0], abs=0.01 * each["kv_cache"])
    other = {"weight_format": "bf16", "kv_format": "bf16" if kv_format == "fp8" else "fp8"}
    wrong = {**asked, "deployment": {**asked["deployment"], **other}, "observed": observed}
    codes = [f["code"] for f in client.post("/diagnose", json=wrong).json()["findings"]]
    assert codes == (["smaller_cache"] if kv_format == "bf16" else [])


def test_an_engine_whose_context_the_user_sets_may_hold_a_small_cache(client: TestClient) -> None:
    asked = {
        "workload": EXAMPLE["workload"],
        "deployment": {"accelerator": "rtx 4090", "total_accelerators": 1, "engine": "llama.cpp"},
        "observed": {"service": {"cache_tokens": 8192}},
    }
    found = client.post("/diagnose", json=asked).json()
    assert found["findings"] == [] and found["not_judged"] == ["cache_tokens"] and found["healthy"] is None


def test_memory_terms_are_shown_with_their_differences(client: TestClient) -> None:
    fits = client.post("/estimate", json={k: v for k, v in EXAMPLE.items() if k != "observed"}).json()
    each, tokens = fits["memory"]["per_accelerator_gib"], fits["memory"]["kv_cache_tokens"]
    observed = {"memory": {"weights_gib": each["weights"] + 1}, "service": {"cache_tokens": tokens}}
    shown = client.post("/diagnose", json={**EXAMPLE, "observed": observed}).json()["memory"]
    assert [row["term"] for row in shown] == ["weights", "kv_cache_tokens"]
    assert [row["difference"] for row in shown] == pytest.approx([1, 0], abs=0.01 * tokens)
    half = {"service": {"cache_tokens": tokens / 2}}
    found = client.post("/diagnose", json={**EXAMPLE, "observed": half}).json()
    assert [f["code"] for f in found["findings"]] == ["smaller_cache"]


def test_tokens_of_several_kinds_of_layers_are_judged_by_the_bytes_of_the_cache(client: TestClient) -> None:
    # vLLM 0.20 printed 26,800 tokens for 24.54 GiB of Gemma 4 31B, as if all layers cached all tokens (hf-mem #61)
    asked = {
        "workload": {**EXAMPLE["workload"], "model": "google/gemma-4-31B-it"},
        "deployment": {"accelerator": "h100 sxm", "total_accelerators": 2, "tensor_parallel": 2, "engine": "vllm"},
    }
    fits = client.post("/estimate", json=asked).json()
    observed = {"memory": {"cache_gib": fits["memory"]["per_accelerator_gib"]["kv_cache"]}}
    observed["service"] = {"cache_tokens": fits["memory"]["kv_cache_tokens"] / 12}
    assert client.post("/diagnose", json={**asked, "observed": observed}).json()["findings"] == []


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
