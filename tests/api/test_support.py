"""GET /catalog/support, and what answers say of support."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.examples import answer_of


def asked(client: TestClient, **query: str) -> dict[str, Any]:
    return answer_of(client.get("/catalog/support", params=query))


def test_the_pair_question_is_answered_with_its_rule(client: TestClient) -> None:
    found = asked(client, accelerator="T4", engine="vLLM", format="fp8", phase="inference", kind="decoder")
    assert (found["accelerator"], found["engine"]) == ("nvidia-t4", "vllm")
    (item,) = found["items"]
    assert (item["verdict"], item["native"], item["kv_formats"]) == ("refused", False, [])
    assert "FP8 requires 8.9" in item["rule"]
    assert item["source"]


def test_everything_left_open_is_answered_for(client: TestClient) -> None:
    items = asked(client, accelerator="nvidia-h100-sxm5-80gb", engine="vllm")["items"]
    assert {i["phase"] for i in items} == {"inference", "sample_inference", "training", "fine_tuning"}
    assert {i["verdict"] for i in items} == {"documented", "expected", "refused"}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"accelerator": "nvidia-t4"}, 422),
        ({"accelerator": "nvidia-t4", "engine": "vllm", "format": "fp7"}, 422),
        ({"accelerator": "nvidia-t4", "engine": "vllm", "colour": "red"}, 422),
        ({"accelerator": "nothing at all", "engine": "vllm"}, 404),
        ({"accelerator": "nvidia-t4", "engine": "nothing at all"}, 422),
    ],
)
def test_what_cannot_be_asked_is_refused(client: TestClient, query: dict[str, str], status: int) -> None:
    response = client.get("/catalog/support", params=query)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


def test_answers_say_how_surely_software_runs(client: TestClient) -> None:
    workload = {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"concurrent_requests": 1, "input_tokens": 256, "output_tokens": 64},
    }
    deployment = {"accelerator": "nvidia-rtx-4090", "engine": "mistral.rs"}
    found = client.post("/estimate", json={"workload": workload, "deployment": deployment}).json()
    assert (found["fits"], found["support"]) == (True, "expected")
    assert "support_expected" in {e["code"] for e in found["explanation"]}
    refused = client.post(
        "/estimate",
        json={"workload": workload, "deployment": deployment | {"engine": "llama.cpp", "weight_format": "fp8"}},
    ).json()
    assert not refused["fits"]
    assert refused["rule"] in refused["explanation"][0]["text"]
