"""Training in the API: new fields of the request, the answer, and refusals with their reasons."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

RUN = {
    "phase": "fine_tuning",
    "method": "full",
    "model": "llama-3.1-8b",
    "training_tokens": 1e9,
    "sequence_length": 4096,
    "global_batch_sequences": 64,
}
H100 = {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 16}


def post(
    client: TestClient,
    status: int = 200,
    workload: dict[str, Any] | None = None,
    deployment: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    body = {"workload": {**RUN, **(workload or {})}, "deployment": {**H100, **(deployment or {})}, **more}
    answer = client.post("/estimate", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_an_estimate_of_training_is_whole(client: TestClient) -> None:
    e = post(client)
    p = e["performance"]
    assert p["interval"]["quantity"] == "tokens_per_s"
    assert p["interval"]["low"] < p["tokens_per_s"] < p["interval"]["high"]
    memory = next(i for i in p["intervals"] if i["quantity"] == "memory_total_gib")
    assert memory["low"] < e["memory"]["per_accelerator_gib"]["total"] < memory["high"]
    assert p["basis"] in ("measured", "calibrated", "roofline")
    assert {
        "network_gbit_per_s_per_node",
        "checkpoint_capacity_tb",
        "host_memory_gib_per_node",
        "power_kw",
        "cooling_kw",
    } == set(p["cluster"])
    assert e["nearest_measurements"]
    assert all(
        n["quantity"].endswith("per_accelerator") or n["quantity"] == "peak_memory_gib"
        for n in e["nearest_measurements"]
    )
    assert e["scaling"]["knee_accelerators"] in [q["accelerators"] for q in e["scaling"]["points"]]
    assert sum(p["step_breakdown_s"].values()) == pytest.approx(p["step_time_s"], rel=1e-3)


def test_the_deployment_given_back_is_the_same_answer(client: TestClient) -> None:
    for workload in (
        {},
        {"model": "Qwen/Qwen3-30B-A3B"},
        {"sequence_length": 32768},
        {"method": "qlora"},
        {"precision": "fp8"},
    ):
        first = post(client, workload=workload)
        again = post(client, workload=workload, deployment=first["deployment"])
        for part in ("deployment", "memory", "performance", "cost"):
            assert again.get(part) == first.get(part), (workload, part)


@pytest.mark.parametrize("quantity", ["parameters", "sequence_length", "micro_batch"])
def test_what_can_be_maximized(client: TestClient, quantity: str) -> None:
    e = post(client, maximize=quantity)
    assert e["fits"] is True
    assert e["maximum"]["quantity"] == quantity
    assert e["maximum"]["value"] < e["maximum"]["too_large"]


def test_serving_is_not_maximized(client: TestClient) -> None:
    serving = {"phase": "inference", "model": "llama-3.1-8b", "traffic": {"concurrent_requests": 1}}
    answer = client.post(
        "/estimate",
        json={"workload": serving, "deployment": {"accelerator": H100["accelerator"]}, "maximize": "parameters"},
    )
    assert answer.status_code == 422
    assert "training or fine_tuning" in answer.text


@pytest.mark.parametrize(
    ("workload", "deployment", "words"),
    [
        ({}, {"expert_parallel": 8}, "no experts"),
        ({"model": "Qwen/Qwen3-30B-A3B"}, {"expert_parallel": 7}, "must divide"),
        ({}, {"context_parallel": 3}, "context_parallel 3 must divide"),
        ({}, {"tensor_parallel": 3}, "attention heads"),
        ({}, {"pipeline_parallel": 8, "virtual_pipeline": 8}, "each chunk needs at least one"),
        ({}, {"tensor_parallel": 4, "data_parallel": 3}, "layout is not possible"),
        ({"method": "lora", "precision": "fp16"}, {"accelerator": "nvidia-rtx-4090"}, "Change the number of"),
        ({"method": "lora"}, {"framework": "maxtext"}, ""),
    ],
)
def test_layouts_that_cannot_be_are_refused_with_what_could(
    client: TestClient, workload: dict[str, Any], deployment: dict[str, Any], words: str
) -> None:
    if not words:
        e = post(client, workload=workload, deployment=deployment)
        assert e["fits"] is False
        assert e["explanation"][0]["code"]
        return
    assert words in post(client, 422, workload=workload, deployment=deployment)["detail"]


def test_precisions_that_a_chip_has_not_are_no_answer(client: TestClient) -> None:
    e = post(client, workload={"precision": "nvfp4"})
    assert e["fits"] is False
    blackwell = post(client, workload={"precision": "nvfp4"}, deployment={"accelerator": "nvidia-b200-sxm-180gb"})
    assert blackwell["fits"] is True


def test_synchronous_checkpoints_stall_longer(client: TestClient) -> None:
    later, now = (
        post(client, workload={"checkpoint_mode": mode})["performance"] for mode in ("asynchronous", "synchronous")
    )
    assert now["checkpoint_stall_s"] > later["checkpoint_stall_s"]
    assert now["days"] >= later["days"]


def test_a_recommendation_draws_the_curve_of_its_first(client: TestClient) -> None:
    body = {
        "workload": {
            **RUN,
            "phase": "training",
            "training_tokens": 1e12,
            "global_batch_sequences": 512,
            "deadline_days": 60,
        }
    }
    del body["workload"]["method"]
    answer = client.post("/recommend", json=body).json()
    first = answer["recommendations"][0]
    days = {q["accelerators"]: q["days"] for q in answer["scaling"]["points"]}
    size = first["deployment"]["accelerators_per_replica"]
    if size in days:
        assert days[size] <= first["performance"]["days"] * 1.000001
    assert answer["scaling"]["binds"]


EVEN_RUN = {
    "phase": "training",
    "model": "Qwen/Qwen3-30B-A3B",
    "training_tokens": 1e12,
    "sequence_length": 4096,
    "deadline_days": 30,
}


def cost_of_batch(client: TestClient, sequences: int) -> float:
    """Cost of the first recommendation at 80 % confidence, USD."""
    request = {"workload": {**EVEN_RUN, "global_batch_sequences": sequences}, "constraints": {"vendors": ["amd"]}}
    answer = client.post("/recommend", json=request).json()
    levels = answer["recommendations"][0]["confidence"]["by_level"]
    (usd,) = [level["usd_total"] for level in levels if level["confidence"] == 0.8]
    return float(usd)


def test_a_batch_that_is_odd_by_one_sequence_costs_as_much_as_its_even_neighbor(client: TestClient) -> None:
    assert cost_of_batch(client, 1953) == pytest.approx(cost_of_batch(client, 1952), rel=0.02)


def test_a_fixed_micro_batch_takes_the_nearest_batch_and_is_not_called_unsupported(client: TestClient) -> None:
    deployment = {
        "accelerator": "mi300x",
        "total_accelerators": 64,
        "framework": "megatron",
        "micro_batch_sequences": 2,
    }
    workload = {**EVEN_RUN, "global_batch_sequences": 1953}
    answer = client.post("/estimate", json={"workload": workload, "deployment": deployment}).json()
    assert answer["fits"] and answer["deployment"]["micro_batch_sequences"] == 2
    assert any("instead of the requested 1,953" in reason["text"] for reason in answer["explanation"])
