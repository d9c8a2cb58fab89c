"""Nonsense input: numbers beyond any machine, texts with text direction marks, forged cursors, costly files."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.body import MIN_MAGNITUDE
from app.catalog.seed import model_entries
from benchmarks.nonsense import run_campaign
from tests.examples import answer_of, body

NO_LIMIT = 1000000000000000019884624838656  # as tokenizers write it
CONFIGS = {entry["hf_id"]: entry["config"] for entry in model_entries()}
LLAMA = CONFIGS["meta-llama/Llama-3.1-8B"]


def asked_of(config: dict[str, Any], path: str) -> dict[str, Any]:
    """A request of one of the calls about a pasted configuration."""
    model = {"huggingface_config": config}
    question = body("recommend-inference-chat-70b")
    return {"model": model} if "inspect" in path else {**question, "workload": {**question["workload"], "model": model}}


@pytest.mark.parametrize("path", ["/recommend", "/catalog/models/inspect"])
def test_a_number_beyond_64_bits_is_taken_where_it_counts_nothing(client: TestClient, path: str) -> None:
    harmless = client.post(path, json=asked_of({**LLAMA, "model_max_length": NO_LIMIT}, path))
    assert harmless.status_code == 200
    counted = answer_of(client.post(path, json=asked_of({**LLAMA, "hidden_size": NO_LIMIT}, path)), 422)
    assert "hidden_size" in counted["detail"]


def test_a_configuration_of_endlessly_different_layers_is_refused(client: TestClient) -> None:
    config = {**CONFIGS["deepseek-ai/DeepSeek-V4-Flash"], "num_hidden_layers": 1000}
    config["compress_ratios"] = [4 + i for i in range(1000)]
    for path in ("/recommend", "/catalog/models/inspect"):
        refused = answer_of(client.post(path, json=asked_of(config, path)), 422)
        assert "At most 8 kinds of attention layer" in refused["detail"]


@pytest.mark.parametrize("text", ["9" * 30, "-5", "\x00", "12\x00", str(2**63)])
@pytest.mark.parametrize("path", ["/catalog/offers", "/catalog/models", "/recommendations"])
def test_a_cursor_of_nonsense_is_refused(client: TestClient, path: str, text: str) -> None:
    cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    answer = client.get(path, params={"cursor": cursor})
    if text.isascii() and text.isprintable() and path == "/catalog/models":
        assert answer.status_code == 200  # a key as good as any other
    else:
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/unknown-cursor")


@pytest.mark.parametrize(
    "path",
    [
        "/catalog/offers?provider=%00",
        "/catalog/models?q=%00",
        "/catalog/models?q=%E2%80%AEx",
        "/recommendations?label=a%00",
        "/catalog/support?accelerator=%00&engine=vllm",
        "/catalog/offers?limit=99999999999999999999",
    ],
)
def test_a_filter_of_nonsense_is_refused(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 422


@pytest.mark.parametrize("text", ["a\u202eb", "a\u2066b", "a\u2028b", "\u200fa", "a\u0085b"])
def test_text_that_turns_or_breaks_lines_is_refused(client: TestClient, text: str) -> None:
    for changed in ({"label": text}, {"workload": {**body("recommend-inference-chat-70b")["workload"], "model": text}}):
        raw = json.dumps({**body("recommend-inference-chat-70b"), **changed}, ensure_ascii=False)
        refused = client.post("/recommend", content=raw.encode(), headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["type"]) == (400, "/problems/malformed-json")
        assert text not in refused.text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_json_is_utf_8(client: TestClient, encoding: str) -> None:
    raw = json.dumps(body("recommend-inference-chat-70b")).encode(encoding)
    refused = answer_of(client.post("/recommend", content=raw, headers={"content-type": "application/json"}), 400)
    assert "UTF-8" in refused["detail"]


def test_limits_that_nothing_meets_are_reported_without_figures_of_work_never_done(client: TestClient) -> None:
    question = body("estimate-llama-70b-8xh100")
    question["workload"] |= {
        "slo": {"ttft_ms": 0.001},
        "traffic": {"peak_requests_per_s": 5, "input_tokens": 1024, "output_tokens": 256},
    }
    for deployment in (question["deployment"], {"accelerator": "nvidia-h100-sxm5-80gb"}):
        answer = answer_of(client.post("/estimate", json={**question, "deployment": deployment}))
        assert "serves none of the requested 5 requests/s" in answer["summary"]
        assert answer["cost"]["usd_per_million_tokens"] is None
        assert answer["deployment"]["replicas"] == 1


def test_a_run_is_at_least_of_one_token(client: TestClient) -> None:
    question = body("recommend-training-405b")
    question["workload"]["training_tokens"] = MIN_MAGNITUDE
    refused = answer_of(client.post("/recommend", json=question), 422)
    assert refused["errors"][0]["pointer"] == "#/workload/training_tokens"


def test_a_rate_near_zero_has_no_bill_to_divide(client: TestClient) -> None:
    question = body("recommend-inference-8b-small-team")
    question["workload"]["traffic"] = {"peak_requests_per_s": MIN_MAGNITUDE, "input_tokens": 900, "output_tokens": 200}
    answer = answer_of(client.post("/recommend", json=question))
    assert answer["recommendations"][0]["deployment"]["replicas"] == 1


def test_bad_requests_of_all_kinds_are_answered_by_the_rules(client: TestClient) -> None:
    assert run_campaign(client, count=200, seed=20)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/procurement/oci", "GET, POST"),
        ("/recommendations/rec_" + "0" * 28, "DELETE, GET, PATCH"),
        ("/recommend", "POST"),
    ],
)
def test_a_refused_method_lists_the_accepted_ones(client: TestClient, path: str, methods: str) -> None:
    refused = client.request("PUT", path)
    assert (refused.status_code, refused.headers["allow"]) == (405, methods)
