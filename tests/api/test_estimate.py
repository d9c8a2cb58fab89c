"""Estimates over the wire: certainty, speculation, versions of engines."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of, body


def estimated(client: TestClient, **deployment: Any) -> dict[str, Any]:
    request = body("estimate-llama-70b-8xh100")
    request["deployment"] |= deployment
    return answer_of(client.post("/estimate", json=request))


def test_an_answer_says_how_sure_it_is_and_what_was_measured_nearby(client: TestClient) -> None:
    answer = estimated(client)
    p = answer["performance"]
    assert p["basis"] in ("measured", "calibrated")
    assert p["interval"]["low"] < p["output_tokens_per_s"] < p["interval"]["high"]
    assert [i["quantity"] for i in p["intervals"]] == [*2 * ["tpot_ms", "ttft_ms", "e2e_ms"], "usd_per_million_tokens"]
    *latencies, cost = p["intervals"]
    assert all(i["low"] < p[i["quantity"]][i.get("statistic", "mean")] < i["high"] for i in latencies)
    assert cost["low"] < answer["cost"]["usd_per_million_tokens"] < cost["high"]
    assert answer["confidence"]["asked"] == 0.8
    assert len(answer["nearest_measurements"]) == 3
    assert {"ttft_ms", "tpot_ms", "output_tokens_per_s"} <= set(answer["metrics"])
    assert estimated(client, expert_parallel=8)["deployment"]["expert_parallel"] == 8
    distances = [n["distance"] for n in answer["nearest_measurements"]]
    assert distances == sorted(distances)


def test_speculation_is_asked_for_by_name_and_echoed(client: TestClient) -> None:
    plain = estimated(client)
    drafted = estimated(client, speculative={"method": "eagle", "draft_tokens": 3, "acceptance_rate": 0.7})
    assert drafted["performance"]["tpot_ms"]["p50"] < plain["performance"]["tpot_ms"]["p50"]
    assert drafted["deployment"]["speculative"] == {"method": "eagle", "draft_tokens": 3, "acceptance_rate": 0.7}
    wasted = estimated(
        client,
        speculative={
            "method": "draft_model",
            "draft_tokens": 8,
            "acceptance_rate": 0.05,
            "draft_parameters_billion": 8,
        },
    )
    assert wasted["performance"]["tpot_ms"]["p50"] > plain["performance"]["tpot_ms"]["p50"]
    request = body("estimate-llama-70b-8xh100")
    request["deployment"]["speculative"] = {"method": "mtp", "draft_tokens": 1, "acceptance_rate": 0.8}
    assert "multi-token prediction" in answer_of(client.post("/estimate", json=request), 422)["detail"]
    request["deployment"]["speculative"] = {
        "method": "eagle",
        "draft_tokens": 1,
        "acceptance_rate": 0.8,
        "draft_parameters_billion": 1,
    }
    assert client.post("/estimate", json=request).status_code == 422


def test_an_engines_version_changes_memory_and_host_time_and_is_echoed(client: TestClient) -> None:
    today, before = estimated(client, engine="vllm"), estimated(client, engine="vLLM", engine_version="0.6.3")
    assert before["deployment"]["engine_version"] == "0.6.3"
    assert before["deployment"]["memory_fraction"] == 0.9
    assert before["performance"]["tpot_ms"]["p50"] > today["performance"]["tpot_ms"]["p50"]
    assert estimated(client, engine="TensorRT-LLM", weight_format="fp8")["deployment"]["engine"] == "tensorrt-llm"


def test_a_server_that_skips_its_largest_images_reserves_no_memory_for_them(client: TestClient) -> None:
    request = body("estimate-llama-70b-8xh100")
    request["workload"]["model"] = "Qwen/Qwen2.5-VL-72B-Instruct"

    def answered(**deployment: Any) -> Any:
        engine = {"engine": "vllm", "weight_format": "bf16"}
        return answer_of(client.post("/estimate", json={**request, "deployment": {**engine, **deployment}}))

    usual = answered(accelerator="h100 sxm", total_accelerators=8)
    skipping = answered(accelerator="h100 sxm", total_accelerators=8, skip_mm_profiling=True)
    used, less = (answer["memory"]["per_accelerator_gib"]["activations"] for answer in (usual, skipping))
    assert less < used
    shown = [" --skip-mm-profiling" in answer["verification"]["command"] for answer in (usual, skipping)]
    assert shown == [False, True]
    assert answered(**skipping["deployment"])["memory"] == skipping["memory"]


@pytest.mark.parametrize("replicas", [1, 8])
@pytest.mark.parametrize("model", ["llama-3.1-8b-instruct", "llama-3.1-405b-instruct"])
def test_an_estimate_always_says_what_it_is_and_what_it_rests_on(client: TestClient, model: str, replicas: int) -> None:
    workload = {"phase": "inference", "model": model, "traffic": {"peak_requests_per_s": 200}}
    deployment = {"accelerator": "nvidia-h100-sxm5-80gb", "accelerators_per_replica": 1, "replicas": replicas}
    answer = client.post("/estimate", json={"workload": workload, "deployment": deployment}).json()
    assert answer["assumptions"]
    assert isinstance(answer["warnings"], list)
    assert ("does not fit" in answer["summary"] or "No layout" in answer["summary"]) == (not answer["fits"])
    if answer["fits"]:
        assert ("of the requested 200 requests/s" in answer["summary"]) == (replicas == 1)


def test_replicas_alone_are_as_large_as_their_load_needs(client: TestClient) -> None:
    """Two replicas of an 8B model at one request a second are two accelerators; a load beyond their capacity is
    overload, and the price is per carried request.
    """
    asked = {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"peak_requests_per_s": 1, "average_requests_per_s": 1},
    }
    two = {"accelerator": "nvidia-h100-sxm5-80gb", "replicas": 2}
    small = client.post("/estimate", json={"workload": asked, "deployment": two}).json()
    assert small["deployment"]["total_accelerators"] == 2
    traffic = {"peak_requests_per_s": 9e5, "average_requests_per_s": 9e5}
    large = client.post("/estimate", json={"workload": {**asked, "traffic": traffic}, "deployment": two}).json()
    assert large["performance"]["overloaded"]
    carried, tokens = large["performance"]["requests_per_s_capacity"], 512 + 256
    priced = large["cost"]["usd_per_hour"] / 3600 / (carried * tokens) * 1e6
    assert large["cost"]["usd_per_million_tokens"] == pytest.approx(priced, rel=1e-4)


def in_flight(client: TestClient, kind: str, count: int, **deployment: Any) -> dict[str, Any]:
    """The estimate of one replica of an 8B model with `count` requests in flight."""
    traffic = {kind: count, "input_tokens": 512, "output_tokens": 128}
    workload = {"phase": "inference", "model": "llama-3.1-8b-instruct", "traffic": traffic}
    asked = {"accelerator": "nvidia-rtx-4090-24gb", "engine": "llama.cpp", "replicas": 1} | deployment
    return dict(client.post("/estimate", json={"workload": workload, "deployment": asked}).json())


@pytest.mark.parametrize("kind", ["batch", "concurrent_requests"])
def test_an_engine_is_started_with_the_sequences_in_flight(client: TestClient, kind: str) -> None:
    answers = [in_flight(client, kind, count) for count in (16, 24, 32)]
    assert [a["deployment"]["max_batch"] for a in answers] == [16, 24, 32]
    rates = [a["performance"]["output_tokens_per_s"] for a in answers]
    assert rates[0] < rates[1] < rates[2]
    assert all("requests_wait_for_the_batch" not in [w["code"] for w in a["warnings"]] for a in answers)


def test_requests_beyond_the_batch_are_named(client: TestClient) -> None:
    limited, full = in_flight(client, "batch", 64, max_batch=16), in_flight(client, "batch", 4096)
    for answer, runs, sent in ((limited, 16, "64"), (full, full["deployment"]["max_batch"], "4,096")):
        (text,) = [w["text"] for w in answer["warnings"] if w["code"] == "requests_wait_for_the_batch"]
        assert text.startswith(f"A replica runs {runs} of its {sent} requests at once")


@pytest.mark.parametrize(("sent", "named"), [(64, False), (65, True)])
def test_each_data_parallel_rank_of_a_replica_runs_a_batch(client: TestClient, sent: int, named: bool) -> None:
    traffic = {"concurrent_requests": sent, "input_tokens": 512, "output_tokens": 128}
    workload = {"phase": "inference", "model": "qwen3-30b-a3b", "traffic": traffic}
    deployment = {"accelerator": "nvidia-h100-sxm5-80gb", "engine": "vllm", "data_parallel": 4, "tensor_parallel": 1}
    asked = {"workload": workload, "deployment": deployment | {"max_batch": 16, "replicas": 1}}
    texts = [w["text"] for w in client.post("/estimate", json=asked).json()["warnings"]]
    assert any(text.startswith("A replica runs 64 of its 65 requests") for text in texts) == named


@pytest.mark.parametrize(
    ("accelerator", "model", "seconds", "tolerance"),
    [
        # faster-whisper's README and discussion 1030 of its repository: FP16, 5 beams, one recording at a time
        ("nvidia-a100-sxm4-80gb", "openai/whisper-large-v2", 563 / 9000 * 30, 0.2),
        ("nvidia-rtx-2080-ti-11gb", "openai/whisper-large-v3", 52 / 780 * 30, 0.3),
        ("nvidia-rtx-2080-ti-11gb", "openai/whisper-large-v3-turbo", 19 / 780 * 30, 0.5),
    ],
)
def test_speech_takes_the_time_that_users_measured(
    client: TestClient, accelerator: str, model: str, seconds: float, tolerance: float
) -> None:
    workload = {"phase": "inference", "model": model, "traffic": {"concurrent_requests": 1}}
    asked = {"accelerator": accelerator, "engine": "ctranslate2", "weight_format": "fp16", "replicas": 1}
    answer = client.post("/estimate", json={"workload": workload, "deployment": asked}).json()
    assert 1 / answer["performance"]["samples_per_s"] == pytest.approx(seconds, rel=tolerance)
    assert answer["bottleneck"] == "host"
