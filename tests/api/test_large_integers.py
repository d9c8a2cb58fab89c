"""Integers beyond 64 bits: refused with the field's name, and taken where another tool's document contains them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import body

CHAT = body("recommend-inference-chat-70b")
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
LARGE = (2**64, -(2**63) - 1, 10**58)


def phases(value: Any) -> dict[str, Any]:
    inference = {"traffic": {"peak_requests_per_s": value}}
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "phases": {"inference": inference, "training": {"training_tokens": 1e12}},
    }


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize(
    ("path", "pointer", "sent"),
    [
        ("/compare", "#/phases/inference/traffic/peak_requests_per_s", phases),
        ("/compare", "#/phases/inference/a~1b~0", lambda n: {"phases": {"inference": {"a/b~": n}}}),
        ("/compare", "#/options/1/constraints/x", lambda n: {"options": [{}, {"constraints": {"x": n}}]}),
        ("/recommend", "#/limit", lambda n: {**CHAT, "limit": n}),
        ("/estimate", "#/deployment/replicas", lambda n: {"workload": {}, "deployment": {"replicas": n}}),
        ("/diagnose", "#/observed/log", lambda n: {"observed": {"log": n}}),
        ("/catalog/models/inspect", "#/batch", lambda n: {"config": CONFIG, "batch": n}),
    ],
)
def test_a_larger_integer_than_64_bits_is_refused_with_its_place(
    client: TestClient, path: str, pointer: str, sent: Any, value: int
) -> None:
    response = client.post(path, json=sent(value))
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    assert error["pointer"] == pointer and "64 bits" in error["detail"]
    assert str(value) not in response.text


def test_a_field_of_a_comparison_may_hold_the_largest_integer_of_64_bits(client: TestClient) -> None:
    response = client.post("/compare", json=phases(2**64 - 1))
    assert response.status_code == 422 and "64 bits" not in response.text


def test_a_configuration_of_another_tool_may_contain_larger_integers(client: TestClient) -> None:
    # tokenizers write int(1e30) where a length has no limit
    model = {"huggingface_config": {**CONFIG, "model_max_length": int(1e30), "limits": [2**64, -(2**70)]}}
    workload = {**CHAT["workload"], "model": model}
    for path, sent in (
        ("/recommend", {**CHAT, "workload": workload}),
        ("/catalog/models/inspect", {"model": model}),
    ):
        response = client.post(path, json=sent)
        assert response.status_code == 200, response.text
    sized = client.post(
        "/compare", json={"workload": workload, "options": [{"name": "a"}, {"name": "b", "objective": "latency"}]}
    )
    assert sized.status_code == 200, sized.text
