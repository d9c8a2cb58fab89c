"""A global batch in tokens rarely is an even number of sequences; that costs a run no layout."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

RUN = {
    "phase": "training",
    "model": "Qwen/Qwen3-30B-A3B",
    "training_tokens": 1e12,
    "sequence_length": 4096,
    "deadline_days": 30,
}


def cost_of_batch(client: TestClient, sequences: int) -> float:
    """Cost of the first recommendation at 80 % confidence, USD."""
    request = {"workload": {**RUN, "global_batch_sequences": sequences}, "constraints": {"vendors": ["amd"]}}
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
    workload = {**RUN, "global_batch_sequences": 1953}
    answer = client.post("/estimate", json={"workload": workload, "deployment": deployment}).json()
    assert answer["fits"] and answer["deployment"]["micro_batch_sequences"] == 2
    assert any("instead of the requested 1,953" in reason["text"] for reason in answer["explanation"])
