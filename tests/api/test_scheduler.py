"""Settings of an engine's scheduler on the wire: taken, echoed, refused where they contradict."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of, as_shown

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
LENGTHS = {"input_tokens": 4000, "output_tokens": 300}
TRAFFIC = {"concurrent_requests": 16, **LENGTHS, "cached_prefix_fraction": 0.8, "turn_gap_s": 1}
SERVICE = {"phase": "inference", "model": LLAMA, "traffic": TRAFFIC}
DEPLOYMENT = {"accelerator": "nvidia-h100-sxm5-80gb", "engine": "vllm", "weight_format": "fp8", "replicas": 1}
EVERY = {
    "max_batched_tokens": 4096,
    "max_sequences": 48,
    "policy": "prefill_first",
    "prefix_cache": True,
    "receive_interval_steps": 30,
    "batch_wait_steps": 20,
    "batch_wait_share": 0.9,
    "planning_lag_steps": 1,
}


def estimate(client: TestClient, workload: Any = SERVICE, **deployment: Any) -> dict[str, Any]:
    return answer_of(client.post("/estimate", json={"workload": workload, "deployment": {**DEPLOYMENT, **deployment}}))


def refused(client: TestClient, workload: Any = SERVICE, **deployment: Any) -> dict[str, str]:
    response = client.post("/estimate", json={"workload": workload, "deployment": {**DEPLOYMENT, **deployment}})
    assert response.status_code == 422, response.text
    return {error["pointer"]: error["detail"] for error in response.json()["errors"]}


def test_what_was_set_is_echoed_and_taken_again(client: TestClient) -> None:
    first = estimate(client, scheduler=EVERY)
    assert first["deployment"]["scheduler"] == EVERY
    assert (first["deployment"]["max_batch"], first["deployment"]["max_batched_tokens"]) == (48, 4096)
    again = estimate(client, **first["deployment"])
    assert again["deployment"] == first["deployment"]
    assert again["performance"] == first["performance"]


@pytest.mark.parametrize(
    ("setting", "same"), [({"max_sequences": 48}, {"max_batch": 48}), ({"max_batched_tokens": 2048},) * 2]
)
def test_a_setting_is_one_setting_wherever_it_is_said(
    client: TestClient, setting: dict[str, int], same: dict[str, int]
) -> None:
    one, two, both = (
        estimate(client, **said) for said in ({"scheduler": setting}, same, {"scheduler": setting, **same})
    )
    assert one["performance"] == two["performance"] == both["performance"]
    assert one["memory"] == two["memory"]


@pytest.mark.parametrize(("name", "other"), [("max_sequences", "max_batch"), ("max_batched_tokens",) * 2])
def test_one_setting_said_in_two_ways_is_refused(client: TestClient, name: str, other: str) -> None:
    problems = refused(client, scheduler={name: 64}, **{other: 128})
    assert problems == {
        f"#/deployment/scheduler/{name}": f"scheduler.{name} (64) contradicts deployment.{other} (128), the same "
        "setting. Omit one of them."
    }


def test_without_a_prefix_cache_nothing_is_found_in_it(client: TestClient) -> None:
    off = estimate(client, scheduler={"prefix_cache": False})
    cold = estimate(client, {**SERVICE, "traffic": {"concurrent_requests": 16, **LENGTHS}})
    assert off["performance"] == cold["performance"]
    assert off["memory"] == cold["memory"]
    assert "prefix_cache_off" in {w["code"] for w in off["warnings"]}
    hot = estimate(client, scheduler={"prefix_cache": True})
    assert "prefix_cache_off" not in {w["code"] for w in hot["warnings"]}
    assert hot["performance"]["ttft_ms"]["p50"] < off["performance"]["ttft_ms"]["p50"]


@pytest.mark.parametrize(
    ("setting", "detail"),
    [
        ({"max_sequences": 0}, "greater than or equal to 1"),
        ({"max_sequences": 1.5}, "valid integer"),
        ({"max_batched_tokens": 8}, "greater than or equal to 16"),
        ({"policy": "fifo"}, "Accepted values: mixed, prefill_first, static"),
        ({"prefix_cache": 1}, "valid boolean"),
        ({"receive_interval_steps": 0}, "greater than or equal to 1"),
        ({"batch_wait_steps": -1}, "greater than or equal to 0"),
        ({"batch_wait_share": 1.1}, "less than or equal to 1"),
        ({"planning_lag_steps": 100}, "less than or equal to 16"),
        ({"max_seqs": 5}, "Unknown field"),
    ],
)
def test_settings_out_of_range_are_refused(client: TestClient, setting: dict[str, Any], detail: str) -> None:
    (name,) = setting
    assert detail in refused(client, scheduler=setting)[f"#/deployment/scheduler/{name}"]


def test_a_scheduler_is_of_what_generates_tokens(client: TestClient) -> None:
    encoder = {"phase": "inference", "model": "BAAI/bge-large-en-v1.5", "traffic": {"peak_requests_per_s": 5}}
    run = {"phase": "training", "model": LLAMA, "training_tokens": 1e9}
    said = {"max_sequences": 8}
    assert "answers in one pass" in refused(client, encoder, scheduler=said)["#/deployment/scheduler"]
    assert "does not apply to training" in refused(client, run, scheduler=said)["#/deployment/scheduler"]


def test_the_catalogue_lists_how_engines_schedule_and_where_that_was_read(client: TestClient) -> None:
    listed = {e["engine"]: e for e in client.get("/catalog/schedulers?limit=1000").json()["items"]}
    assert {"vllm", "sglang", "tensorrt-llm", "tgi", "lmdeploy", "llama.cpp", "ollama"} <= listed.keys()
    assert listed["llm-d"]["judged_as"] == "vllm"
    vllm = listed["vllm"]["versions"]
    assert [v["since"] for v in vllm] == [None, "0.8", "0.14", "0.28"]
    assert [v["policy"] for v in vllm] == ["prefill_first", "mixed", "mixed", "mixed"]
    assert vllm[-1]["steps"][-1]["max_batched_tokens"] == 16384
    assert vllm[-1]["steps"][-2] == {
        "from_gib": 70,
        "max_batched_tokens": 8192,
        "offline_max_batched_tokens": 16384,
        "max_sequences": 1024,
    }
    assert all(
        v["sources"]["steps"] and v["read"] for e in listed.values() for v in e["versions"] if e["engine"] == "vllm"
    )


def test_an_echo_without_settings_has_the_values_of_the_catalog(client: TestClient) -> None:
    listed = {e["engine"]: e for e in client.get("/catalog/schedulers?limit=1000").json()["items"]}
    *_, today, largest = listed["vllm"]["versions"][-1]["steps"]
    shown = estimate(client)["deployment"]
    assert shown["max_batched_tokens"] == today["max_batched_tokens"]
    for engine in ("vllm", "sglang"):
        shown = estimate(client, engine=engine, accelerator="nvidia-b200-sxm-180gb")["deployment"]
        assert shown["max_batched_tokens"] == largest["max_batched_tokens"]


OPEN = {"phase": "inference", "model": LLAMA, "traffic": {"peak_requests_per_s": 4, **LENGTHS}}


def test_a_recommended_scheduler_is_the_engines_own_complete_and_taken_again(client: TestClient) -> None:
    answer = client.post("/recommend", json={"workload": OPEN, "constraints": {"engines": ["vllm"]}}).json()
    best = answer["recommendations"][0]
    shown = best["deployment"]["scheduler"]
    assert shown.keys() == EVERY.keys() - {"max_sequences", "max_batched_tokens"}
    assert best["deployment"].keys() > {"max_batch", "max_batched_tokens"}
    assert (shown["policy"], shown["prefix_cache"], shown["receive_interval_steps"]) == ("mixed", True, 1)
    again = estimate(client, OPEN, **best["deployment"])
    assert again["deployment"] == best["deployment"]
    assert as_shown(again["performance"], best["performance"]) == best["performance"]


def test_settings_are_shown_among_the_defaults_of_the_engine(client: TestClient) -> None:
    shown = estimate(client, engine="sglang", scheduler={"receive_interval_steps": 30})["deployment"]["scheduler"]
    own = estimate(client, engine="sglang")["deployment"]["scheduler"]
    assert shown == {**own, "receive_interval_steps": 30}


def test_hits_that_are_counted_need_the_prefix_cache_on(client: TestClient) -> None:
    hot, cold = SERVICE, {**SERVICE, "traffic": {"concurrent_requests": 16, **LENGTHS}}
    for version, workload, kept in (("0.6.3", hot, True), ("0.6.3", cold, False), (None, cold, True)):
        shown = estimate(client, workload, engine_version=version)
        assert shown["deployment"]["scheduler"]["prefix_cache"] is kept
        assert estimate(client, workload, **shown["deployment"])["performance"] == shown["performance"]
