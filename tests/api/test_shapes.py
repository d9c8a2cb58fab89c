"""Processors in the sizes that clouds sell: a part of a socket does its part, for its part of the money."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

SIZES = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge", "24xlarge")
FAMILIES = {"m7i": "intel-xeon-8480plus", "m8g": "aws-graviton4", "r8g": "aws-graviton4", "m7a": "amd-epyc-9654"}


def judged(client: TestClient, instance: str, accelerator: str, workload: dict[str, Any]) -> dict[str, Any]:
    deployment: dict[str, Any] = {
        "accelerator": accelerator,
        "offer": {"instance_type": instance, "region": "us-east-1"},
    }
    deployment |= {"engine": "llama.cpp", "weight_format": "gguf-q4_k_m", "replicas": 1}
    answer = client.post("/estimate", json={"workload": workload, "deployment": deployment})
    assert answer.status_code == 200, answer.json()
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.slow
@settings(max_examples=4)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 16), st.integers(16, 2000), st.integers(16, 500))
def test_a_larger_instance_is_never_slower_nor_cheaper(
    client: TestClient, family: str, at_once: int, tokens: int, answered: int
) -> None:
    traffic = {"concurrent_requests": at_once, "input_tokens": tokens, "output_tokens": answered}
    workload = {"phase": "inference", "model": "meta-llama/Llama-3.1-8B-Instruct", "traffic": traffic}
    found = [judged(client, f"{family}.{size}", FAMILIES[family], workload) for size in SIZES]
    fitting = [f for f in found if f["fits"]]
    assert found[-1]["fits"]
    for one, larger in pairwise(fitting):
        assert larger["performance"]["output_tokens_per_s"] >= one["performance"]["output_tokens_per_s"]
        assert larger["performance"]["ttft_ms"]["p50"] <= one["performance"]["ttft_ms"]["p50"]
        assert larger["cost"]["usd_per_hour"] > one["cost"]["usd_per_hour"]
        assert larger["cost"]["power_kw"] > one["cost"]["power_kw"]
    assert all(f["deployment"]["total_accelerators"] == f["deployment"]["nodes"] == 1 for f in found)


@pytest.mark.parametrize("accelerator", sorted({*FAMILIES.values(), "intel-xeon-6980p"}))
def test_who_names_a_processor_means_a_whole_one(client: TestClient, accelerator: str) -> None:
    traffic = {"concurrent_requests": 1, "input_tokens": 500, "output_tokens": 100}
    workload = {"phase": "inference", "model": "meta-llama/Llama-3.1-8B-Instruct", "traffic": traffic}
    found = client.post("/estimate", json={"workload": workload, "deployment": {"accelerator": accelerator}}).json()
    shapes = client.get("/catalog/systems", params={"accelerator": accelerator, "limit": 200}).json()["items"]
    (system,) = (s for s in shapes if s["slug"] == found["deployment"]["system"])
    assert system["accelerator_count"] >= 1


def test_small_models_take_small_instances_and_the_summary_names_them(client: TestClient) -> None:
    traffic = {"concurrent_requests": 1, "input_tokens": 200, "output_tokens": 100}
    workload = {"phase": "inference", "model": "meta-llama/Llama-3.2-1B-Instruct", "traffic": traffic}
    limits = {"accelerators": ["intel-xeon-8480plus"], "environments": ["cloud"]}
    answer = client.post("/recommend", json={"workload": workload, "constraints": limits}).json()
    first = answer["recommendations"][0]
    instance = first["deployment"]["offer"]["instance_type"]
    assert first["cost"]["usd_per_hour"] < 1  # a socket of it costs 4.28
    assert f"{first['deployment']['nodes']} × {instance} (Intel Xeon" in answer["summary"]
    back = client.post("/estimate", json={"workload": workload, "deployment": first["deployment"]}).json()
    assert (back["deployment"], back["performance"]) == (first["deployment"], first["performance"])
