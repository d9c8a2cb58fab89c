"""Bad input gets a clear problem document: never a 500, never an echo, at most twenty errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.body import MAX_MEMBERS, MAX_VALUES, parse_document
from app.api.problems import MAX_DESCRIBED, MalformedRequest
from tests.examples import answer_of, body

POSTS = ("/recommend", "/estimate", "/catalog/models/inspect")
JSON = {"content-type": "application/json"}
GOOD = json.dumps(body("recommend-inference-chat-70b"))

MALFORMED = {
    "empty": b"",
    "blank": b"  \n",
    "not json": b"{nope",
    "truncated": GOOD[:-5].encode(),
    "trailing": GOOD.encode() + b" {}",
    "nan": GOOD.replace('"limit": 5', '"limit": NaN').encode(),
    "infinity": GOOD.replace('"limit": 5', '"limit": Infinity').encode(),
    "minus infinity": GOOD.replace('"limit": 5', '"limit": -Infinity').encode(),
    "overflow": GOOD.replace('"limit": 5', '"limit": 1e400').encode(),
    "underflow": GOOD.replace('"limit": 5', '"limit": 1e-320').encode(),
    "many digits": GOOD.replace('"limit": 5', '"limit": ' + "9" * 4299).encode(),
    "deep": b"[" * 900 + b"]" * 900,
    "deep object": b'{"a":' * 300 + b"1" + b"}" * 300,
    "duplicate key": b'{"workload": {}, "workload": {}}',
    "nul": GOOD.replace("meta-llama", "meta\\u0000llama").encode(),
    "control": GOOD.replace("meta-llama", "meta\\u0007llama").encode(),
    "surrogate": GOOD.replace("meta-llama", "\\ud800").encode(),
    "utf-16": GOOD.encode("utf-16"),
    "bom": b"\xef\xbb\xbf" + GOOD.encode(),
    "latin-1": '{"workload": "é"}'.encode("latin-1"),
}


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_json_is_a_400(client: TestClient, path: str, kind: str) -> None:
    response = client.post(path, content=MALFORMED[kind], headers=JSON)
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == 400
    assert len(problem["detail"]) > 20
    assert len(response.content) < 2000


def test_a_body_of_more_values_or_fields_than_any_schema_has_is_refused_before_each_is_read() -> None:
    """6 MB of empty lists made a process of 1 GB, which then stopped; half a million unknown fields as many errors."""
    many: dict[str, Any] = {f"k{i}": i for i in range(MAX_MEMBERS - 1)}
    trace = [{"at_s": i, "input_tokens": 1, "output_tokens": 1, "prefix_tokens": 0} for i in range(20_000)]
    for document in ({"a": many}, {"huggingface_config": {**many, "more": many}}, {"trace": trace}):
        assert parse_document(json.dumps(document).encode()) == document
    too_many: tuple[dict[str, Any], ...] = ({"a": many, "b": 1}, {"a": [{"b": many}]}, {"trace": [{}, many, 1], "b": 1})
    for document in too_many:
        with pytest.raises(MalformedRequest, match="more than 20,000 fields"):
            parse_document(json.dumps(document).encode())
    for raw in (b"[],", b"{},", b"1,"):
        with pytest.raises(MalformedRequest, match="more than 150,000 values"):
            parse_document(b'{"huggingface_config":[' + raw * MAX_VALUES + b"1]}")


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("raw", [b"null", b"[]", b"5", b'"x"', b"true", b"{}", b'{"workload": null}'])
def test_the_wrong_document_is_a_422(client: TestClient, path: str, raw: bytes) -> None:
    problem = answer_of(client.post(path, content=raw, headers=JSON), 422)
    assert problem["errors"]
    assert all(e["pointer"].startswith("#") and e["detail"] for e in problem["errors"])


def refused(client: TestClient, pointer: str, **changes: Any) -> str:
    request = body("recommend-inference-chat-70b")
    for dotted, value in changes.items():
        node = request
        *above, last = dotted.split("__")
        for key in above:
            node = node.setdefault(key, {})
        node[last] = value
    errors = answer_of(client.post("/recommend", json=request), 422)["errors"]
    assert pointer in {e["pointer"] for e in errors}, errors
    return str(errors[0]["detail"])


@pytest.mark.parametrize(
    ("pointer", "change"),
    [
        ("#/limit", {"limit": True}),
        ("#/limit", {"limit": "5"}),
        ("#/limit", {"limit": 5.5}),
        ("#/limit", {"limit": 0}),
        ("#/trace", {"trace": "yes"}),
        ("#/objective", {"objective": "fun"}),
        ("#/colour", {"colour": "red"}),
        ("#/workload/phase", {"workload__phase": "dreaming"}),
        ("#/workload/traffic/input_tokens", {"workload__traffic__input_tokens": -1}),
        ("#/workload/traffic/input_tokens/mean", {"workload__traffic__input_tokens": {"mean": "many"}}),
        ("#/workload/traffic/input_tokens/p95", {"workload__traffic__input_tokens": {"mean": 10, "p95": 5, "p50": 1}}),
        ("#/workload/traffic", {"workload__traffic__offline": True}),
        ("#/workload/slo/ttft_ms", {"workload__slo__ttft_ms": 0}),
        ("#/workload/slo/percentile", {"workload__slo__percentile": 101}),
        ("#/workload/availability/redundancy", {"workload__availability__redundancy": "n+9"}),
        ("#/workload/model", {"workload__model": ""}),
        ("#/workload/model/parameters_billion", {"workload__model": {"parameters_billion": -3}}),
        ("#/workload/model/huggingface_config", {"workload__model": {"huggingface_config": 5}}),
        ("#/constraints/regions/0", {"constraints__regions": ["eu west"]}),
        ("#/constraints/weight_formats/1", {"constraints__weight_formats": ["fp8", "fp7"]}),
        ("#/constraints/max_usd_per_hour", {"constraints__max_usd_per_hour": -1}),
        ("#/economics/pue", {"economics__pue": 0.5}),
        ("#/assumptions/target_utilization", {"assumptions": {"target_utilization": "high"}}),
    ],
)
def test_each_wrong_field_is_named(client: TestClient, pointer: str, change: dict[str, Any]) -> None:
    if pointer.endswith("p95"):
        pointer = "#/workload/traffic/input_tokens/p50"
    assert refused(client, pointer, **change)


def test_a_missing_field_is_named(client: TestClient) -> None:
    request = body("recommend-inference-chat-70b")
    del request["workload"]["traffic"]
    response = client.post("/recommend", json=request)
    assert {
        "pointer": "#/workload/traffic",
        "detail": "Field required: How requests arrive and how long they are",
    } in response.json()["errors"]


def test_at_most_twenty_errors_and_no_echo(client: TestClient) -> None:
    request = body("recommend-inference-chat-70b")
    request["constraints"] = {"regions": [{"secret": i} for i in range(90)]}
    response = client.post("/recommend", json=request)
    assert response.status_code == 422
    assert len(response.json()["errors"]) == 20
    assert "secret" not in response.text
    assert len(response.content) < 8192
    problem = client.post("/recommend", json={f"k{i}": 1 for i in range(MAX_DESCRIBED)}).json()
    assert problem["errors"] == [
        {"pointer": "#", "detail": "1,001 fields are invalid. Compare the body with the schema in /docs"}
    ]


def test_names_are_repeated_and_cut_short(client: TestClient) -> None:
    request = body("recommend-inference-chat-70b")
    request["constraints"] = {"regions": ["atlantis " * 20 for _ in range(90)]}
    response = client.post("/recommend", json=request)
    assert response.status_code == 422
    assert len(response.json()["errors"]) == 20
    assert "'atlantis atlantis" in response.json()["detail"]
    assert len(response.content) < 8192


def test_unknown_names_are_404_with_the_nearest(client: TestClient) -> None:
    request = body("recommend-inference-chat-70b")
    request["workload"]["model"] = "llama-3.1-71b-instruct"
    problem = answer_of(client.post("/recommend", json=request), 404)
    assert problem["nearest"]
    request = body("recommend-inference-chat-70b")
    request["constraints"] = {"accelerators": ["nvidia-h100-sxm6-80gb"]}
    problem = answer_of(client.post("/recommend", json=request), 404)
    assert "nvidia-h100-sxm5-80gb" in problem["nearest"]
    wrong = {
        "workload": body("estimate-llama-70b-8xh100")["workload"],
        "deployment": {"accelerator": "nvidia-l4", "system": "aws-p5-48xlarge"},
    }
    problem = answer_of(client.post("/estimate", json=wrong), 404)
    assert problem["type"] == "/problems/unknown-system"


@pytest.mark.parametrize(
    "model",
    [
        {"huggingface_config": {"model_type": "alien", "hidden_size": 8}},
        {"huggingface_config": {}},
        {"huggingface_config": {"model_type": "llama", "hidden_size": -5}},
        {"huggingface_config": {"model_type": "llama", "hidden_size": 1e308}},
        {"huggingface_config": {"model_type": ["llama"]}},
        {
            "huggingface_config": {
                "model_type": "gpt_oss",
                "layer_types": 7,
                "hidden_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
            }
        },
        {"huggingface_config": {"model_type": "llama", "text_config": "x", "hidden_size": 0}},
        {"huggingface_config": {"model_type": "deepseek_v3", "kv_lora_rank": "x", "hidden_size": 64}},
    ],
)
def test_an_unreadable_configuration_is_a_422(client: TestClient, model: dict[str, Any]) -> None:
    problem = answer_of(client.post("/catalog/models/inspect", json={"model": model}), 422)
    assert problem["type"] == "/problems/unreadable-configuration"


def test_the_body_has_a_limit_however_its_length_is_declared(client: TestClient) -> None:
    response = client.post("/recommend", content=b'{"a": "' + b"x" * 70_000 + b'"}', headers=JSON)
    assert response.status_code == 413

    def chunks() -> Any:
        for _ in range(100):
            yield b" " * 1000

    assert client.post("/recommend", content=chunks(), headers=JSON).status_code == 413


@pytest.mark.parametrize(
    "headers",
    [{"content-type": "text/plain"}, {"content-type": "application/xml"}, {**JSON, "content-encoding": "gzip"}, {}],
)
def test_other_media_types_are_415(client: TestClient, headers: dict[str, str]) -> None:
    response = client.post("/recommend", content=GOOD.encode(), headers=headers)
    assert response.status_code == 415
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/recommend", 405),
        ("DELETE", "/catalog/offers", 405),
        ("POST", "/livez", 405),
        ("GET", "/recommendations/..%2f", 404),
        ("GET", "/recommendations/x", 422),
    ],
)
def test_wrong_paths_and_methods_are_problems(client: TestClient, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status


@pytest.mark.parametrize(
    ("traffic", "said"),
    [
        ({"cached_prefix_fraction": 0.5, "shared_prefix_fraction": 0.6}, "must not exceed cached_prefix_fraction"),
        ({"shared_prefix_fraction": 0.1}, "must not exceed cached_prefix_fraction"),
        ({"turn_gap_s": 10}, "requires a cached_prefix_fraction"),
        (
            {"cached_prefix_fraction": 0.5, "turn_gap_s": 10, "offline": True, "peak_requests_per_s": None},
            "of a service",
        ),
    ],
)
def test_fields_about_prefixes_must_agree(client: TestClient, traffic: dict[str, Any], said: str) -> None:
    workload = {"phase": "inference", "model": "gpt2", "traffic": {"peak_requests_per_s": 1.0} | traffic}
    assert said in answer_of(client.post("/recommend", json={"workload": workload}), 422)["errors"][0]["detail"]


def test_a_gap_is_the_usual_one_where_none_is_given(client: TestClient) -> None:
    def memory_with(asked: dict[str, float] | None = None, **traffic: float) -> Any:
        body: dict[str, Any] = {"phase": "inference", "model": "Qwen/Qwen2.5-7B-Instruct"}
        body["traffic"] = {
            "peak_requests_per_s": 20.0,
            "cached_prefix_fraction": 0.9,
            "input_tokens": 4000,
        } | traffic
        answer = client.post("/recommend", json={"workload": body, "assumptions": asked or {}}).json()
        return answer["recommendations"][0]["memory"]

    assert memory_with() == memory_with(turn_gap_s=60) == memory_with(shared_prefix_fraction=0)
    assert memory_with(turn_gap_s=5) == memory_with({"session_turn_gap_s": 5})
    assert memory_with(turn_gap_s=5)["prefix_cache_gib"] > 0
    assert "idle_sessions" not in memory_with(turn_gap_s=0)


EXTREMES: list[dict[str, Any]] = [
    {"peak_requests_per_s": 1e6, "input_tokens": 1e6, "output_tokens": 1e6},
    {"peak_requests_per_s": 1e-9, "input_tokens": 1, "output_tokens": 1},
    {"concurrent_requests": 1_000_000, "input_tokens": 0, "output_tokens": 1},
    {"batch": 100_000, "input_tokens": 1e8, "output_tokens": 1e8},
    {"offline": True, "input_tokens": 1e8, "output_tokens": 1},
    {"peak_requests_per_s": 10, "burstiness": 20, "cached_prefix_fraction": 0.99},
    {"peak_requests_per_s": 1e6, "cached_prefix_fraction": 0.99, "turn_gap_s": 604800},
    {"concurrent_requests": 1_000_000, "cached_prefix_fraction": 1e-9, "turn_gap_s": 1e-9},
]


@pytest.mark.parametrize("traffic", EXTREMES, ids=range(len(EXTREMES)))
@pytest.mark.parametrize(
    "model", ["Qwen/Qwen2.5-7B-Instruct", {"parameters_billion": 20000}, {"parameters_billion": 0.001}]
)
def test_extremes_are_answered_or_refused_never_broken(client: TestClient, traffic: dict[str, Any], model: Any) -> None:
    request = {"workload": {"phase": "inference", "model": model, "traffic": traffic}}
    response = client.post("/recommend", json=request)
    assert response.status_code in (200, 422), response.text
    assert "Infinity" not in response.text
    assert "NaN" not in response.text


@pytest.mark.parametrize("units", [1.0, 1e18])
@pytest.mark.parametrize("batch", [1, 997, 10_000_000])
@pytest.mark.parametrize("days", [1e-6, 36500])
def test_extreme_runs_are_answered_or_refused(client: TestClient, units: float, batch: int, days: float) -> None:
    workload = {
        "phase": "training",
        "model": "gpt2",
        "training_tokens": units,
        "sequence_length": 128,
        "global_batch_sequences": batch,
        "deadline_days": days,
    }
    response = client.post("/recommend", json={"workload": workload})
    assert response.status_code in (200, 422), response.text
