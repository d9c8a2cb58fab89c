"""Prefill and decode in pools of their own, over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.schemas.answers import EstimateShown

WORKLOAD: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "traffic": {"peak_requests_per_s": 10, "input_tokens": 4000, "output_tokens": 300},
    "slo": {"ttft_ms": 3000, "tpot_ms": 40},
}
POOLS: dict[str, Any] = {
    "prefill": {"tensor_parallel": 4, "pipeline_parallel": 1},
    "decode": {"accelerator": "h200 sxm"},
}
DEPLOYMENT: dict[str, Any] = {"accelerator": "nvidia-h100-sxm5-80gb", "pools": POOLS}


def test_two_pools_are_sized_and_posted_back_they_are_the_same(client: TestClient) -> None:
    first = client.post("/estimate", json={"workload": WORKLOAD, "deployment": DEPLOYMENT})
    assert first.status_code == 200, first.text
    answer = first.json()
    EstimateShown.model_validate(answer)
    pools = answer["deployment"]["pools"]
    assert pools["prefill"]["tensor_parallel"] == 4
    assert pools["decode"]["accelerator"] == "nvidia-h200-sxm-141gb"
    assert sum(pool["total_accelerators"] for pool in pools.values()) == answer["deployment"]["total_accelerators"]
    both = answer["performance"]["pools"]
    assert answer["performance"]["requests_per_s_capacity"] == min(p["requests_per_s_capacity"] for p in both.values())
    assert 0 < both["transfer"]["utilization"] < both["prefill"]["utilization"] < 1
    assert len(first.content) < 33_000
    again = client.post("/estimate", json={"workload": WORKLOAD, "deployment": answer["deployment"]}).json()
    for name in ("deployment", "performance", "memory", "cost", "confidence"):
        assert again[name] == answer[name], name


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"replicas": 2}, 422, "set replicas in prefill and in decode"),
        ({"engine": "ollama"}, 422, "no known support for separate pools"),
        ({"pools": {"prefill": {}}}, 422, "decode"),
        ({"pools": {"prefill": {"accelerator": "h999"}, "decode": {}}}, 404, "h999"),
        ({"pools": {"prefill": {"zero_stage": 1}, "decode": {}}}, 422, "zero_stage"),
    ],
)
def test_what_pools_cannot_be_asked_for_is_refused(
    client: TestClient, changes: dict[str, Any], status: int, words: str
) -> None:
    found = client.post("/estimate", json={"workload": WORKLOAD, "deployment": {**DEPLOYMENT, **changes}})
    assert found.status_code == status, found.text
    assert words in found.text


def test_a_layout_that_a_pool_cannot_have_is_no_error(client: TestClient) -> None:
    odd = {"prefill": {"tensor_parallel": 3}, "decode": {}}
    found = client.post("/estimate", json={"workload": WORKLOAD, "deployment": {**DEPLOYMENT, "pools": odd}}).json()
    assert not found["fits"]
    assert found["explanation"][0]["text"].startswith("The prefill pool: ")


def test_training_has_no_pools(client: TestClient) -> None:
    run = {
        "phase": "training",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "training_tokens": 1e9,
        "deadline_days": 30,
    }
    found = client.post("/estimate", json={"workload": run, "deployment": DEPLOYMENT})
    assert found.status_code == 422
    assert "pools" in found.text


@pytest.mark.parametrize(
    ("setting", "same"), [({"max_sequences": 16}, {"max_batch": 16}), ({"max_batched_tokens": 1024},) * 2]
)
def test_a_setting_of_a_pool_is_one_setting_wherever_it_is_said(
    client: TestClient, setting: dict[str, int], same: dict[str, int]
) -> None:
    def asked(**said: Any) -> dict[str, Any]:
        deployment = {**DEPLOYMENT, "pools": {"prefill": said, "decode": said}}
        found: dict[str, Any] = client.post("/estimate", json={"workload": WORKLOAD, "deployment": deployment}).json()
        return found

    one, two, none = asked(scheduler=setting), asked(**same), asked()
    assert one["performance"] == two["performance"]
    assert one["performance"] != none["performance"]
    name, value = next(iter(same.items()))
    assert all(pool[name] == value for pool in one["deployment"]["pools"].values())
    twice = asked(scheduler=setting, **{name: 2 * value})
    assert [e["pointer"] for e in twice["errors"]] == [
        f"#/deployment/pools/{pool}/scheduler/{next(iter(setting))}" for pool in ("prefill", "decode")
    ]


@pytest.mark.parametrize(
    ("traffic", "figure"),
    [
        ({"concurrent_requests": 32, "requests": 160}, "days"),
        ({"offline": True, "volume_requests": 100_000}, "days"),
        ({"batch": 16}, "e2e_ms"),
    ],
)
def test_work_that_ends_is_answered(client: TestClient, traffic: dict[str, Any], figure: str) -> None:
    pools = {name: {"accelerators_per_replica": 4, "replicas": 1} for name in ("prefill", "decode")}
    body = {
        "workload": {**WORKLOAD, "traffic": {"input_tokens": 4000, "output_tokens": 300, **traffic}},
        "deployment": {**DEPLOYMENT, "pools": pools},
    }
    del body["workload"]["slo"]
    found = client.post("/estimate", json=body)
    assert found.status_code == 200, found.text
    EstimateShown.model_validate(found.json())
    assert found.json()["performance"][figure]
