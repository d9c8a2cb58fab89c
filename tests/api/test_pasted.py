"""Pasted text over the wire."""

from __future__ import annotations

import json
import math
from statistics import NormalDist
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.schemas.diagnose import EXAMPLE
from tests.observed.logged import TORCHTITAN
from tests.observed.written import FIRST_TOKEN_BUCKETS, STARTED_S, TOKEN_BUCKETS, vllm, written

FOUR_REPLICAS = {**EXAMPLE["deployment"], "accelerators_per_replica": 2}


def asked(client: TestClient, **observed: Any) -> Any:
    return client.post("/diagnose", json={**EXAMPLE, "deployment": FOUR_REPLICAS, "observed": observed})


def test_pasted_metrics_are_diagnosed_as_the_figures_they_say(client: TestClient) -> None:
    pasted = asked(client, exposition=vllm(1000), at_s=STARTED_S + 200).json()
    read = {r["quantity"].removeprefix("service."): r["value"] for r in pasted["read"]}
    stated = asked(client, service=read).json()
    assert [f["code"] for f in pasted["findings"]] == [f["code"] for f in stated["findings"]]
    assert read["requests_per_s"] == 20 and "preemptions" in [f["code"] for f in pasted["findings"]]
    assert stated.get("read") is None and pasted["not_read"] == {"metrics": 0, "lines": 0, "first": []}


def test_stated_figures_take_precedence_over_read_ones_and_a_contradiction_is_reported(client: TestClient) -> None:
    found = asked(client, exposition=vllm(1000), at_s=STARTED_S + 200, service={"preemptions_per_request": 0.0}).json()
    assert "preemptions" not in [f["code"] for f in found["findings"]]
    assert any("preemptions_per_request: you sent 0, but the text contains 0.1" in note for note in found["notes"])


def test_two_scrapes_tell_what_came_between_them(client: TestClient) -> None:
    scrapes = [{"text": vllm(100), "at_s": 0}, {"text": vllm(400), "at_s": 60}]
    found = asked(client, expositions=scrapes).json()
    assert next(r["value"] for r in found["read"] if r["quantity"] == "service.requests_per_s") == 20


def test_scrapes_of_several_loads_are_judged_each_at_its_load(client: TestClient) -> None:
    scrapes = [{"text": vllm(count), "at_s": 60 * i} for i, count in enumerate((0, 300, 900))]
    pasted = asked(client, expositions=scrapes, of_replicas=4).json()
    waits = {r["quantity"]: r["value"] for r in pasted["read"] if r["quantity"].startswith("service.by_load.")}
    assert waits["service.by_load.0.requests_per_s"] == 5 and waits["service.by_load.1.requests_per_s"] == 10
    assert waits["service.by_load.1.ttft_p50_ms"] == pytest.approx(180, rel=0.1)


@pytest.mark.parametrize(
    ("observed", "pointer"),
    [
        ({"exposition": "hello\nworld"}, "#/observed/exposition"),
        ({"expositions": [{"text": "up 1", "at_s": 0}]}, "#/observed/expositions"),
        ({"exposition": vllm(3), "expositions": [{"text": vllm(3), "at_s": 9}]}, "#/observed/at_s"),
        ({"expositions": [{"text": vllm(3)}]}, "#/observed/expositions/0/at_s"),
        ({"exposition": ""}, "#/observed/exposition"),
        ({"exposition": "x" * 2_000_001}, "#/observed/exposition"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stands(
    client: TestClient, observed: dict[str, Any], pointer: str
) -> None:
    answer = asked(client, **observed)
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == pointer
    assert len(answer.content) < 5000


def test_metrics_of_a_service_do_not_go_with_a_run(client: TestClient) -> None:
    workload = {"phase": "fine_tuning", "method": "lora", "model": "llama-3.1-8b", "training_tokens": 1e8}
    deployment = {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 8}
    body = {"workload": workload, "deployment": deployment, "observed": {"exposition": vllm(3)}}
    answer = client.post("/diagnose", json=body)
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == "#/observed/exposition"


RUN = {
    "workload": {
        "phase": "training",
        "model": "llama-3.1-8b",
        "training_tokens": 1e11,
        "sequence_length": 8192,
        "global_batch_tokens": 1048576,
    },
    "deployment": {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 8},
}


def test_a_pasted_log_is_diagnosed_as_the_figures_it_says(client: TestClient) -> None:
    pasted = client.post("/diagnose", json={**RUN, "observed": {"log": TORCHTITAN}}).json()
    read = {r["quantity"].removeprefix("training."): r["value"] for r in pasted["read"]}
    assert read["step_time_s"] == pytest.approx(2.0, rel=0.01) and "checkpoint_s" in read
    stated = client.post("/diagnose", json={**RUN, "observed": {"training": read}}).json()
    assert [f["code"] for f in pasted["findings"]] == [f["code"] for f in stated["findings"]]
    assert "slow_checkpoints" in [f["code"] for f in pasted["findings"]]


def test_impossible_figures_are_left_out_and_reported(client: TestClient) -> None:
    text = vllm(1000).replace('vllm:request_prompt_tokens_sum{engine="0",model_name="llama"} 800000.0', "")
    text += 'vllm:request_prompt_tokens_sum{engine="0",model_name="llama"} 5.0\n'
    found = asked(client, exposition=text).json()
    assert any("service.input_tokens_mean: ignored the impossible value 0.005" in note for note in found["notes"])


def test_a_log_and_metrics_of_accelerators_go_together(client: TestClient) -> None:
    devices = 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 91'
    found = client.post("/diagnose", json={**RUN, "observed": {"log": TORCHTITAN, "exposition": devices}}).json()
    assert {"devices.temperature_c", "training.step_time_s"} <= {r["quantity"] for r in found["read"]}


@pytest.mark.parametrize("observed", [{"log": "hello"}, {"log": "hello", "format": "megatron"}])
def test_a_log_without_steps_is_refused(client: TestClient, observed: dict[str, Any]) -> None:
    answer = client.post("/diagnose", json={**RUN, "observed": observed})
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == "#/observed/log"


def test_a_log_of_a_run_does_not_go_with_a_service(client: TestClient) -> None:
    answer = asked(client, log=TORCHTITAN)
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == "#/observed/log"


def of_waits(p50_ms: float, p95_ms: float, times: float) -> list[float]:
    """Seconds that spread so."""
    ranks = [(i + 0.5) / 1500 for i in range(1500)]
    spread = math.log(p95_ms / p50_ms) / NormalDist().inv_cdf(0.95)
    return [times * p50_ms / 1e3 * math.exp(spread * NormalDist().inv_cdf(rank)) for rank in ranks]


@pytest.mark.parametrize(("times", "first"), [(1.0, None), (2.5, "slow_decode")])
def test_an_engine_that_does_as_expected_is_healthy_in_its_wide_buckets(
    client: TestClient, times: float, first: str | None
) -> None:
    usual = {"workload": EXAMPLE["workload"], "deployment": FOUR_REPLICAS}
    expected = client.post("/estimate", json=usual).json()["performance"]
    seen = {
        name: of_waits(expected[what]["p50"], expected[what]["p95"], times)
        for name, what in (("time_to_first_token", "ttft_ms"), ("request_time_per_output_token", "tpot_ms"))
    }
    text = written(
        {"vllm:request_success": 1500},
        histograms={
            "vllm:time_to_first_token_seconds": (FIRST_TOKEN_BUCKETS, seen["time_to_first_token"]),
            "vllm:request_time_per_output_token_seconds": (TOKEN_BUCKETS, seen["request_time_per_output_token"]),
        },
    )
    found = asked(client, exposition=text, at_s=STARTED_S + 1500 / 20, of_replicas=4).json()
    assert next((f["code"] for f in found["findings"]), None) == first


def test_only_pasted_fields_may_have_lines(client: TestClient) -> None:
    body = json.dumps({**EXAMPLE, "deployment": {"accelerator": "nvidia\nl4"}, "observed": {"exposition": "a\tb\n"}})
    answer = client.post("/diagnose", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "control character" in answer.json()["detail"]
