"""app/api/examples/schemas.json: an example of every schema of the API, from real requests and their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from app.api.schemas.diagnose import EXAMPLE as DIAGNOSED
from app.api.schemas.requests import load_example
from artefacts.service import service_client, worked_requests

FILE = Path(__file__).resolve().parents[1] / "app" / "api" / "examples" / "schemas.json"
LISTS = (
    "providers",
    "regions",
    "frameworks",
    "schedulers",
    "accelerators",
    "systems",
    "offers",
    "prices",
    "models",
    "engines",
    "assumptions",
)
# Requests for features that the worked requests do not use, by path and a word; PASTED is a metrics exposition.
PASTED = """\
vllm:request_success_total{{engine="0",finished_reason="stop"}} {requests}
vllm:num_preemptions_total{{engine="0"}} {preempted}
vllm:num_requests_running{{engine="0"}} 48
python_info{{version="3.12"}} 1
"""
SCRAPES = ((1000, 200, 0), (1300, 290, 60))
FURTHER: dict[str, Schema] = {
    "/estimate": {
        "workload": {
            "phase": "inference",
            "model": "llama-3.1-70b-instruct",
            "traffic": {"concurrent_requests": 8, "input_tokens": 1024, "output_tokens": 256},
        },
        "deployment": {
            "accelerator": "nvidia-h100-sxm5-80gb",
            "accelerators_per_replica": 8,
            "offer": {"provider": "gcp", "region": "europe-west4", "pricing_model": "on_demand"},
            "speculative": {"method": "eagle", "draft_tokens": 3, "acceptance_rate": 0.7},
        },
        "economics": {"horizon_months": 36, "electricity_usd_per_kwh": 0.12, "pue": 1.3},
    },
    "/estimate maximum": {
        "maximize": "sequence_length",
        "workload": {"phase": "fine_tuning", "method": "full", "model": "llama-3.1-8b", "training_tokens": 1e8},
        "deployment": {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 8},
    },
    "/recommend maximum": {
        "maximize": "users",
        "workload": {
            "phase": "inference",
            "model": "llama-3.1-8b-instruct",
            "traffic": {"concurrent_requests": 1, "input_tokens": 1000, "output_tokens": 300},
        },
        "inventory": [{"accelerator": "a6000", "count": 4}],
        "limit": 1,
    },
    "/recommend mixed fleet": {
        "workload": {
            "phase": "inference",
            "model": "llama-3.1-8b-instruct",
            "traffic": {"peak_requests_per_s": 14, "input_tokens": 1000, "output_tokens": 300},
        },
        "inventory": [{"accelerator": "a6000", "count": 4}],
        "limit": 1,
    },
    "/recommend images": {
        "workload": {
            "phase": "inference",
            "model": "qwen2.5-vl-7b-instruct",
            "traffic": {
                "concurrent_requests": 4,
                "images": {"width": 1024, "height": 768, "per_request": 1},
                "input_tokens": 200,
                "output_tokens": 200,
            },
        },
        "limit": 1,
    },
    "/recommend classes": {
        "workload": {
            "phase": "inference",
            "model": "llama-3.1-8b-instruct",
            "traffic": {
                "classes": [
                    {"name": "chat", "peak_requests_per_s": 5, "input_tokens": 1000, "slo": {"ttft_ms": 800}},
                    {"name": "bulk", "peak_requests_per_s": 1, "input_tokens": 6000, "slo": {"ttft_ms": 60000}},
                ]
            },
        },
        "limit": 1,
    },
    "/recommend day": {
        "workload": {
            "phase": "inference",
            "model": "llama-3.1-8b-instruct",
            "traffic": {"peak_requests_per_s": 40, "peak_to_average": 3, "input_tokens": 1000, "output_tokens": 300},
            "companions": [
                {"model": "BAAI/bge-m3", "traffic": {"peak_requests_per_s": 5, "input_tokens": 300}},
            ],
        },
        "limit": 1,
    },
    "/recommend sample": {
        "workload": {
            "phase": "inference",
            "model": "stable-diffusion-xl-base-1.0",
            "traffic": {"samples_per_s": 1},
            "sample": {"width": 1024, "height": 1024, "steps": 30},
        },
        "limit": 1,
    },
    "/compare options": load_example("compare-llama-70b"),
    "/compare phases": load_example("compare-phases-8b"),
    "/diagnose": DIAGNOSED,
    "/diagnose pasted": {
        **DIAGNOSED,
        "observed": {
            "expositions": [{"text": PASTED.format(requests=r, preempted=p), "at_s": t} for r, p, t in SCRAPES]
        },
    },
    "/diagnose memory": {
        **DIAGNOSED,
        "observed": {"memory": {"weights_gib": 3.9, "cache_gib": 10.2}, "service": {"cache_tokens": 80000}},
    },
    "/diagnose training": {
        "workload": {
            "phase": "training",
            "model": "llama-3.1-8b",
            "training_tokens": 1e12,
            "global_batch_tokens": 4194304,
            "sequence_length": 8192,
        },
        "deployment": {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 64},
        "observed": {
            "training": {
                "step_time_s": 14.0,
                "input_s": 2.5,
                "scales": [
                    {"accelerators": 8, "tokens_per_s": 85000},
                    {"accelerators": 64, "tokens_per_s": 300000},
                ],
            }
        },
    },
    "/catalog/models/inspect size": {"model": {"parameters_billion": 13}},
    "/catalog/models/inspect image": {"model": "qwen2.5-vl-7b", "image": {"width": 1024, "height": 768}},
}
INSPECTED = ("deepseek-v3", "qwen2.5-vl-7b", "whisper-large-v3", "FLUX.1-dev")
REF = "#/components/schemas/"
Schema = dict[str, Any]


class Examples:
    """Collects one value per schema component; the value with the most fields wins."""

    def __init__(self, document: Schema) -> None:
        self.components: dict[str, Schema] = document["components"]["schemas"]
        self.found: dict[str, Any] = {}
        self.least = {
            name: each["minItems"]
            for component in self.components.values()
            for name, shape in component.get("properties", {}).items()
            for each in (shape, *shape.get("anyOf", ()))
            if each.get("minItems", 0) > 1
        }

    def record_example(self, value: Any, schema: Schema) -> None:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(REF)
            schema = self.components[name]
            if (
                "properties" in schema
                and isinstance(value, dict)
                and stated_fields(value) > stated_fields(self.found.get(name))
            ):
                self.found[name] = self.shorten_value(value)
        for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
            if self.matches_schema(value, option):
                self.record_example(value, option)
        if isinstance(value, dict):
            inner = schema.get("additionalProperties")
            for key, each in value.items():
                below = schema.get("properties", {}).get(key, inner)
                if isinstance(below, dict):
                    self.record_example(each, below)
        elif isinstance(value, list) and isinstance(schema.get("items"), dict):
            for each in value:
                self.record_example(each, schema["items"])

    def shorten_value(self, value: Any, least: int = 1) -> Any:
        """The value with lists shortened to one object, two plain values, or the minimum of the schema."""
        if isinstance(value, dict):
            return {k: self.shorten_value(v, self.least.get(k, 1)) for k, v in value.items()}
        if not isinstance(value, list):
            return value
        return [
            self.shorten_value(v)
            for v in value[: least if value and isinstance(value[0], dict | list) else max(2, least)]
        ]

    def matches_schema(self, value: Any, schema: Schema) -> bool:
        """Whether a value can be of a schema, by its type, keys and enumerated values."""
        if "$ref" in schema:
            schema = self.components[schema["$ref"].removeprefix(REF)]
        if isinstance(value, list):
            return schema.get("type") == "array"
        if not isinstance(value, dict):
            return False
        known: Schema = schema.get("properties", {})
        if not set(schema.get("required", ())) <= set(value) or (known and not set(value) <= set(known)):
            return False
        bound = {k: s.get("enum", [s["const"]] if "const" in s else None) for k, s in known.items()}
        return all(bound[k] is None or v in bound[k] for k, v in value.items() if k in bound)


def stated_fields(value: Any) -> int:
    """Number of fields of an object that are not empty; -1 for other values."""
    return sum(v not in (None, [], {}) for v in value.values()) if isinstance(value, dict) else -1


def real_exchanges(client: TestClient) -> Iterator[tuple[str, str, Any, Any]]:
    """(path, method, request, answer) of every request that is sent."""
    for name, body in worked_requests().items():
        path = "/" + name.partition("-")[0]
        yield path, "post", body, client.post(path, json={**body, "trace": True}).json()
    for model in INSPECTED:
        body = {"model": model}
        yield "/catalog/models/inspect", "post", body, client.post("/catalog/models/inspect", json=body).json()
    for name, body in FURTHER.items():
        path = name.partition(" ")[0]
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        yield path, "post", body, answer.json()
    for name in LISTS:
        yield f"/catalog/{name}", "get", None, client.get(f"/catalog/{name}", params={"limit": 1}).json()
    stored = client.post("/recommend", json=worked_requests()["recommend-fine-tuning-70b-qlora"]).json()["id"]
    start: int | None = 0
    while start is not None:
        turning = client.get(f"/recommendations/{stored}/sensitivity", params={"start": start}).json()
        yield "/recommendations/{id}/sensitivity", "get", None, turning
        start = turning.get("next")
    yield "/accuracy", "get", None, client.get("/accuracy").json()


def make_examples(client: TestClient) -> dict[str, Any]:
    """Examples of all schemas that occur in real requests and answers."""
    document = client.get("/openapi.json").json()
    examples = Examples(document)
    for path, method, body, answer in real_exchanges(client):
        operation = document["paths"][path][method]
        if body is not None:
            examples.record_example(body, operation["requestBody"]["content"]["application/json"]["schema"])
        examples.record_example(answer, operation["responses"]["200"]["content"]["application/json"]["schema"])
    refused = client.post("/recommend", json={**worked_requests()["recommend-inference-chat-70b"], "limit": 0}).json()
    examples.record_example(refused, {"$ref": f"{REF}Problem"})
    return dict(sorted(examples.found.items()))


def write() -> None:
    with service_client() as client:
        FILE.write_text(json.dumps(make_examples(client), indent=1, ensure_ascii=False) + "\n")
