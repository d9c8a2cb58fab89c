"""Networks that generate no tokens, end to end: sizes that count, errors that say why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of

# Ultralytics' own table (docs, TensorRT FP16, one image at a time on a T4): milliseconds a picture.
DETECTION = {"yolo11s": 2.5, "yolo11m": 4.7, "yolo11l": 6.2, "yolo11x": 11.3}


# Tables of networks leave out what a host does with a picture.
READY_MADE: Mapping[str, float] = {"host_work_share": 0.0}


@pytest.mark.parametrize("model", DETECTION)
def test_detection_latency_is_met_within_a_factor_of_two(client: TestClient, model: str) -> None:
    answer = answer_of(
        client.post(
            "/estimate",
            json={
                "workload": {"phase": "inference", "model": model, "traffic": {"concurrent_requests": 1}},
                "deployment": {"accelerator": "nvidia-t4", "weight_format": "fp16", "engine": "tensorrt"},
                "assumptions": dict(READY_MADE),
            },
        )
    )
    assert 0.5 <= answer["performance"]["e2e_ms"]["p50"] / DETECTION[model] <= 2


WORKED: dict[str, dict[str, Any]] = {
    "bge-m3": {"traffic": {"peak_requests_per_s": 50, "input_tokens": 256, "output_tokens": 0}},
    "bge-reranker-v2-m3": {"traffic": {"peak_requests_per_s": 50, "input_tokens": 400, "output_tokens": 0}},
    "whisper-large-v3": {"traffic": {"samples_per_s": 2}},
    "wav2vec2-base": {"traffic": {"samples_per_s": 5}},
    "resnet50": {"traffic": {"samples_per_s": 1000}},
    "yolo11m": {"traffic": {"samples_per_s": 100}},
    "vit-base": {"traffic": {"samples_per_s": 200}},
    "sdxl": {"traffic": {"samples_per_s": 0.2}},
    "flux": {"traffic": {"samples_per_s": 0.1}},
}


@pytest.mark.parametrize("model", WORKED)
def test_every_family_is_recommended_and_estimated_alike(client: TestClient, model: str) -> None:
    workload = {"phase": "inference", "model": model, "slo": {"e2e_ms": 30_000}, **WORKED[model]}
    answer = client.post("/recommend", json={"workload": workload, "limit": 1}).json()
    best = answer["recommendations"][0]
    again = answer_of(client.post("/estimate", json={"workload": workload, "deployment": best["deployment"]}))
    assert again["performance"] == best["performance"]
    assert best["performance"]["e2e_ms"]["p95"] <= 30_000


@pytest.mark.parametrize("model", ["resnet50", "vit-base", "whisper-small", "sdxl", "wav2vec2-base", "bert-large"])
def test_every_family_trains(client: TestClient, model: str) -> None:
    samples = {"training_samples": 1e6, "global_batch_samples": 256}
    tokens = {"training_tokens": 1e8, "sequence_length": 512, "global_batch_sequences": 256}
    size = tokens if model == "bert-large" else samples
    answer = client.post(
        "/recommend",
        json={
            "workload": {"phase": "training", "model": model, **size, "precision": "fp16", "deadline_hours": 200},
            "limit": 1,
        },
    ).json()
    performance = answer["recommendations"][0]["performance"]
    assert performance["days"] * 24 <= 200
    assert ("samples_per_s" in performance) == (model != "bert-large")


def speed(
    client: TestClient, model: str, sample: dict[str, Any] | None, assumptions: Mapping[str, float] | None = None
) -> float:
    workload = {
        "phase": "inference",
        "model": model,
        "traffic": {"offline": True},
        **({"sample": sample} if sample else {}),
    }
    answer = answer_of(
        client.post(
            "/estimate",
            json={
                "workload": workload,
                "deployment": {"accelerator": "nvidia-h100-sxm5-80gb"},
                "assumptions": dict(assumptions or {}),
            },
        )
    )
    return float(answer["performance"]["samples_per_s"])


@pytest.mark.parametrize(
    ("model", "smaller", "larger"),
    [
        ("sdxl", {"steps": 20}, {"steps": 40}),
        ("flux", {"width": 512, "height": 512}, {"width": 2048, "height": 2048}),
        ("whisper-large-v3", {"audio_s": 30.0}, {"audio_s": 300.0}),
        ("resnet50", {"width": 160, "height": 160}, {"width": 448, "height": 448}),
        ("wan2.1-1.3b", {"frames": 17}, {"frames": 81}),
    ],
)
def test_speed_follows_the_size_of_a_sample(
    client: TestClient, model: str, smaller: dict[str, Any], larger: dict[str, Any]
) -> None:
    assert speed(client, model, smaller, READY_MADE) > 1.5 * speed(client, model, larger, READY_MADE)


def test_a_host_that_is_waited_for_is_what_limits(client: TestClient) -> None:
    """An H100 classifies 28,000 pictures/s; the CPUs of its host decode fewer."""
    whole, ready_made = (speed(client, "resnet50", None, a) for a in ({}, READY_MADE))
    assert whole < ready_made
    slow = speed(client, "resnet50", None, {"image_megapixels_per_s": 20})
    assert slow < whole


def test_a_size_that_does_not_apply_says_what_does(client: TestClient) -> None:
    for model, sample, says in (
        ("resnet50", {"steps": 4}, "width, height"),
        ("llama-3.1-8b", {"width": 640}, "does not depend on the size of a sample"),
        ({"parameters_billion": 1, "gflops_per_sample": 10}, {"steps": 4}, "does not depend"),
    ):
        answer = answer_of(client.post("/catalog/models/inspect", json={"model": model, "sample": sample}), 422)
        assert says in answer["detail"]


def vision_workload(images: dict[str, Any] | None) -> dict[str, Any]:
    traffic = {
        "peak_requests_per_s": 2,
        "input_tokens": 200,
        "output_tokens": 100,
        **({"images": images} if images else {}),
    }
    return {
        "phase": "inference",
        "model": "qwen2.5-vl-7b",
        "traffic": traffic,
        "slo": {"ttft_ms": 5000, "tpot_ms": 100},
    }


def test_images_join_the_prompt(client: TestClient) -> None:
    deployment = {"accelerator": "nvidia-l40s", "weight_format": "bf16", "engine": "vllm"}
    without, with_one = (
        client.post("/estimate", json={"workload": vision_workload(images), "deployment": deployment}).json()
        for images in (None, {"width": 1008, "height": 1008})
    )
    assert with_one["performance"]["ttft_ms"]["p50"] > 1.5 * without["performance"]["ttft_ms"]["p50"]
    assert with_one["performance"]["requests_per_s_capacity"] < without["performance"]["requests_per_s_capacity"]
    answer = client.post(
        "/recommend", json={"workload": vision_workload({"width": 1008, "height": 1008, "per_request": 2}), "limit": 1}
    ).json()
    assert any("2,592 tokens" in str(a["value"]) + a["reason"] for a in answer["assumptions"]), answer["assumptions"]


def test_images_on_a_model_that_reads_none_are_refused(client: TestClient) -> None:
    workload = vision_workload({"width": 100, "height": 100}) | {"model": "llama-3.1-8b"}
    (error,) = answer_of(client.post("/recommend", json={"workload": workload}), 422)["errors"]
    assert error["pointer"] == "#/workload/traffic/images"
    assert "name a vision-language model" in error["detail"]


LONG: dict[str, Any] = {"peak_requests_per_s": 1, "input_tokens": 200_000, "output_tokens": 100}
SHORT: dict[str, Any] = {"name": "a", **LONG, "input_tokens": 500}


@pytest.mark.parametrize(
    ("workload", "pointer"),
    [
        ({"traffic": LONG}, "#/workload/traffic/input_tokens"),
        ({"traffic": {**LONG, "input_tokens": 10}, "max_context_tokens": 500_000}, "#/workload/max_context_tokens"),
        ({"traffic": {**LONG, "input_tokens": 900}, "max_context_tokens": 500}, "#/workload/max_context_tokens"),
        ({"traffic": {"classes": [SHORT, {"name": "b", **LONG}]}}, "#/workload/traffic/classes/1/input_tokens"),
    ],
)
def test_what_is_too_long_for_a_model_is_refused_where_it_is_written(
    client: TestClient, workload: dict[str, Any], pointer: str
) -> None:
    asked = {"phase": "inference", "model": "llama-3.1-8b-instruct", **workload}
    errors = answer_of(client.post("/recommend", json={"workload": asked}), 422)["errors"]
    assert [error["pointer"] for error in errors] == [pointer]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_benchmark_of_a_vision_model_sends_images(client: TestClient, engine: str) -> None:
    """Images, the shared prefix of the text, and the spread of lengths."""
    workload = vision_workload({"width": 1008, "height": 756, "per_request": 2})
    asked = {"workload": workload, "constraints": {"engines": [engine]}, "include": [], "limit": 1}
    images = "--dataset-name random-mm --random-mm-base-items-per-request 2 --random-mm-bucket-config"
    command = client.post("/recommend", json=asked).json()["verification"]["command"]
    assert f"{images} '{{(756, 1008, 1): 1.0}}' --random-input-len 200 --random-output-len" in command
    assert ("http://localhost:30000" in command) == (engine == "sglang")
    lengths = {
        "output_tokens": {"mean": 100, "p95": 250},
        "cached_prefix_fraction": 0.05,
        "shared_prefix_fraction": 0.05,
    }
    asked["workload"] = {**workload, "traffic": {**workload["traffic"], **lengths}}
    command = client.post("/recommend", json=asked).json()["verification"]["command"]
    assert re.search(r"--random-prefix-len \d+ --random-output-len 100 --random-range-ratio 0\.\d+ ", command)
    asked["workload"] = vision_workload(None)
    assert "--dataset-name random " in client.post("/recommend", json=asked).json()["verification"]["command"]


def test_an_encoder_decoder_is_served(client: TestClient) -> None:
    workload = {
        "phase": "inference",
        "model": "flan-t5-xl",
        "traffic": {"peak_requests_per_s": 2, "input_tokens": 400, "output_tokens": 60},
        "slo": {"ttft_ms": 2000, "tpot_ms": 100},
    }
    assert client.post("/recommend", json={"workload": workload, "limit": 1}).json()["recommendations"]


def test_a_checkpoint_published_in_4_bits_is_not_widened_to_8(client: TestClient) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128},
    }
    workload = {
        "phase": "inference",
        "model": {"huggingface_config": config, "name": "own-awq"},
        "traffic": {"peak_requests_per_s": 2, "input_tokens": 500, "output_tokens": 100},
    }
    answer = client.post("/recommend", json={"workload": workload, "limit": 20}).json()
    formats = {r["deployment"]["weight_format"] for r in answer["recommendations"]}
    assert "int4-awq" in formats
    assert formats <= {"int4-awq", "bf16", "fp16"}


@pytest.mark.parametrize("targets", [["no_such_matrix"], ["q_proj", "mystery"]])
def test_adapters_on_matrices_a_model_lacks_are_refused(client: TestClient, targets: list[str]) -> None:
    workload = {
        "phase": "fine_tuning",
        "model": "llama-3.1-8b",
        "method": "lora",
        "training_tokens": 1e6,
        "lora": {"rank": 8, "target_modules": targets},
    }
    assert "down_proj" in answer_of(client.post("/recommend", json={"workload": workload}), 422)["detail"]
