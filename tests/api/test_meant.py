"""What a refusal says where the caller meant something that the request says in another way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

TRAFFIC = {"peak_requests_per_s": 5, "input_tokens": 1000, "output_tokens": 300}
CHAT = {"phase": "inference", "model": "llama-3.1-8b", "traffic": TRAFFIC}
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "vocab_size": 128256}
SMALLEST = (
    '{"workload":{"phase":"inference","model":"llama-3.1-8b","traffic":{"peak_requests_per_s":5,"input_tokens":1000,'
    '"output_tokens":300}}}'
)


def first_error(client: TestClient, body: Any, path: str = "/recommend") -> tuple[str, str]:
    """Pointer and detail of the first error."""
    response = client.post(path, json=body)
    assert response.status_code in (404, 422), response.text
    error = response.json()["errors"][0]
    return error["pointer"], error["detail"]


@pytest.mark.parametrize(
    ("body", "pointer", "text"),
    [
        (
            {"workload": {"model": "llama-3.1-8b", "traffic": TRAFFIC}},
            "#/workload/phase",
            "phase is missing: send inference, training or fine_tuning",
        ),
        (
            {"workload": {**CHAT, "model": CONFIG}},
            "#/workload/model",
            "This is a config.json. Send it as workload.model.huggingface_config",
        ),
        ({"model": "llama-3.1-8b", "qps": 5}, "#/workload", f"Field required. The smallest request: {SMALLEST}"),
        ({}, "#/workload", SMALLEST.replace("llama-3.1-8b", "llama-3.1-8b-instruct").replace(":5,", ":1,")),
        ({"workload": {**CHAT, "quantization": "int4"}}, "#/workload/quantization", "constraints.weight_formats"),
        ({"workload": CHAT, "constraints": {"gpu": "h100"}}, "#/constraints/gpu", "constraints.accelerators"),
        ({"workload": CHAT, "constraints": {"confidence": 99}}, "#/constraints/confidence", "from 0.5 to 0.95"),
        (
            {"workload": {**CHAT, "traffic": {**TRAFFIC, "peak_requests_per_s": "5"}}},
            "#/workload/traffic/peak_requests_per_s",
            "send 5, without quotes",
        ),
        (
            {"workload": {"phase": "training", "model": "llama-3.1-8b", "training_tokens": "1 trillion"}},
            "#/workload/training_tokens",
            "send 1000000000000, without quotes",
        ),
        ({"workload": CHAT, "constraints": {"confidence": "80 %"}}, "#/constraints/confidence", "send 0.8, without"),
        ({"workload": {**CHAT, "slo": {"ttft_ms": "800 ms"}}}, "#/workload/slo/ttft_ms", "send 800, without"),
        (
            {"workload": {**CHAT, "slo": {"ttft_ms": "0.8 s"}}},
            "#/workload/slo/ttft_ms",
            "a valid number, without quotes",
        ),
        (
            {"workload": {**CHAT, "traffic": {**TRAFFIC, "hourly_factors": [1] * 23}}},
            "#/workload/traffic/hourly_factors",
            "Send 24 numbers, one for each hour of the day, not 23",
        ),
        ({"workload": {"phase": "training", "model": "llama-3.1-8b"}}, "#/workload/training_tokens", "training_tokens"),
        ({"workload": CHAT, "economics": {"currency": "EUR"}}, "#/economics/currency", "A bill of materials converts"),
        ({"workload": CHAT, "constraints": {"accelerators": "h100"}}, "#/constraints/accelerators", 'send ["h100"]'),
        ({"workload": {**CHAT, "model": "lama 3 seventy"}}, "#/workload/model", "Did you mean llama-3-70b"),
        ({"workload": {**CHAT, "model": "nonsuch"}}, "#/workload/model", "No name in the catalog is similar"),
        ({"workload": {**CHAT, "model": "70b"}}, "#/workload/model", 'send {"parameters_billion": 70}'),
        ({"workload": {**CHAT, "phase": "serving"}}, "#/workload/phase", "Did you mean inference? Accepted values"),
        ({"workload": {**CHAT, "phase": "pre-training"}}, "#/workload/phase", "Did you mean training?"),
        (
            {"workload": {**CHAT, "traffic": {"users": 9}}},
            "#/workload/traffic/users",
            "count and requests_per_hour_each",
        ),
        (
            {"workload": {**CHAT, "availability": "n+1"}},
            "#/workload/availability",
            "redundancy, zones or failure_domain",
        ),
        (
            {"workload": {**CHAT, "traffic": {"users": {"count": 9}}}},
            "#/workload/traffic/users/requests_per_hour_each",
            "Field required: Requests per user in a busy hour",
        ),
        (
            {"workload": {**CHAT, "traffic": {**TRAFFIC, "rpm": 90}}},
            "#/workload/traffic/rpm",
            "peak_requests_per_s: requests per minute / 60",
        ),
        ({"workload": {**CHAT, "lora": {"rank": 16}}}, "#/workload/lora", "Send it as workload.adapters"),
        (
            {"workload": {**CHAT, "traffic": {**TRAFFIC, "images": {"count": 2, "width": 9, "height": 9}}}},
            "#/workload/traffic/images/count",
            "Accepted fields: height, per_request, width",
        ),
        ({"workload": CHAT, "constraints": {"max_eur_per_hour": 9}}, "#/constraints/max_eur_per_hour", "are in USD"),
        ({"workload": CHAT, "constraints": {"max_usd_per_month": 9}}, "#/constraints/max_usd_per_month", "/ 730"),
        ({"workload": CHAT, "constraints": {"max_rack_kw": 40}}, "#/constraints/max_rack_kw", "Racks, their space"),
        ({"workload": CHAT, "constraints": {"providers": ["hetzner"]}}, "#/constraints/providers/0", "'hetzner'. GET"),
        (
            {"workload": {**CHAT, "model": "bge-m3", "traffic": {"peak_requests_per_s": 1}, "slo": {"ttft_ms": 3}}},
            "#/workload/slo/ttft_ms",
            "Use slo.e2e_ms instead",
        ),
    ],
)
def test_a_recommendation_says_what_was_meant(client: TestClient, body: Any, pointer: str, text: str) -> None:
    where, detail = first_error(client, body)
    assert where == pointer
    assert text in detail


def test_the_smallest_request_that_a_refusal_shows_is_accepted(client: TestClient) -> None:
    for path, body in (("/recommend", {}), ("/estimate", {"rps": 2})):
        text = first_error(client, body, path)[1].partition("The smallest request: ")[2]
        assert client.post(path, json=json.loads(text)).status_code == 200


def test_hardware_fields_of_an_estimate_are_those_of_the_deployment(client: TestClient) -> None:
    body = {"workload": CHAT, "deployment": {"accelerator": "h100 sxm", "quantization": "fp8"}}
    assert "Send it as deployment.weight_format" in first_error(client, body, "/estimate")[1]


def test_an_observed_figure_names_the_fields_of_its_percentiles(client: TestClient) -> None:
    body = {"workload": CHAT, "deployment": {"accelerator": "h100 sxm"}, "observed": {"ttft_ms": 90}}
    detail = first_error(client, body, "/diagnose")[1]
    assert "Did you mean observed.service.ttft_p50_ms, observed.service.ttft_p95_ms" in detail


def test_a_wrong_id_is_refused_with_the_form_of_an_id(client: TestClient) -> None:
    detail = client.get("/recommendations/rec_123").json()["detail"]
    assert "'rec_123' is not an id" in detail
    assert "GET /recommendations lists" in detail


def test_a_pasted_configuration_is_one_error(client: TestClient) -> None:
    response = client.post("/recommend", json={"workload": {**CHAT, "model": CONFIG}})
    assert len(response.json()["errors"]) == 1
    assert "more error" not in response.json()["detail"]


def test_the_call_that_is_named_for_currencies_converts_a_bill(client: TestClient) -> None:
    _, detail = first_error(client, {"workload": CHAT, "currency": "EUR"})
    query = detail.partition("bill-of-materials?")[2].rstrip(".")
    kept = client.post("/recommend", json={"workload": CHAT}).json()["id"]
    bill = client.get(f"/recommendations/{kept}/bill-of-materials?{query}")
    assert bill.json()["currency"] == "EUR", bill.text
