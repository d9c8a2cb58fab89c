"""The OpenAPI document as readers and generators of clients need it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from app.api.openapi import SCHEMA_REF, describe_field, install, unit_of
from app.api.schemas.base import COMPONENT_KEY, field_texts

Schema = dict[str, Any]
LEAST_WORDS = 3


@pytest.fixture(scope="module")
def document(client: TestClient) -> Schema:
    made: Schema = client.get("/openapi.json").json()
    return made


def parts(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """A schema and all below it, with the path of each; examples are not schemas."""
    yield path, schema
    for key in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(key), dict):
            yield from parts(schema[key], f"{path}/{key}")
    for key in ("properties", "patternProperties"):
        for name, below in schema.get(key, {}).items():
            yield from parts(below, f"{path}/{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, below in enumerate(schema.get(key, ())):
            yield from parts(below, f"{path}/{key}/{i}")


def operations(document: Schema) -> Iterator[tuple[str, Schema]]:
    for room in ("paths", "webhooks"):
        for path, item in document[room].items():
            for method, operation in item.items():
                yield f"{method} {path}", operation


def everywhere(document: Schema) -> Iterator[tuple[str, Schema]]:
    """Every schema of the document: of components, bodies, answers and parameters."""
    for name, schema in document["components"]["schemas"].items():
        yield from parts(schema, name)
    for called, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            yield from parts(parameter["schema"], f"{called} {parameter['name']}")
        for answer in (operation.get("requestBody", {}), *operation["responses"].values()):
            for kind, media in answer.get("content", {}).items():
                yield from parts(media.get("schema", {}), f"{called} {kind}")


def test_every_field_is_described(document: Schema) -> None:
    short = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, shape in schema.get("properties", {}).items()
        if len(shape.get("description", "").split()) < LEAST_WORDS
    ]
    assert short == []


def test_every_component_and_parameter_is_described(document: Schema) -> None:
    components = document["components"]["schemas"]
    assert [n for n, s in components.items() if len(s.get("description", "").split()) < LEAST_WORDS] == []
    parameters = [(c, p) for c, operation in operations(document) for p in operation.get("parameters", ())]
    assert [(c, p["name"]) for c, p in parameters if len(p.get("description", "").split()) < LEAST_WORDS] == []


def test_numbers_say_their_unit(document: Schema) -> None:
    schemas = document["components"]["schemas"]
    assert "Unit: USD per month." in schemas["CostShown"]["properties"]["usd_per_month"]["description"]
    assert [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, shape in schema.get("properties", {}).items()
        if field.endswith(("_ms", "_gib", "_kw")) and shape.get("type") in ("number", "integer")
        if str(unit_of(field)).split(" ", maxsplit=1)[0] not in shape["description"]
    ] == []


def test_defaults_are_words_and_none_is_null(document: Schema) -> None:
    """A `default` makes generators take a field for one that is always there."""
    inside = [path for path, schema in everywhere(document) if "default" in schema and " " not in path]
    assert inside == []
    assert [path for path, schema in everywhere(document) if schema.get("default", 0) is None] == []
    limit = document["components"]["schemas"]["RecommendRequest"]["properties"]["limit"]
    assert limit["description"].endswith("Default: 5.")


def test_every_union_and_object_has_a_name(document: Schema) -> None:
    components = set(document["components"]["schemas"])
    for path, schema in everywhere(document):
        assert COMPONENT_KEY not in schema, path
        if path in components:
            continue
        options = [o for o in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) if o != {"type": "null"}]
        assert len(options) < 2, f"{path}: a union without a name"
        assert "anyOf" not in schema or not any("additionalProperties" in o for o in options), f"{path}: no name"
        assert "properties" not in schema, f"{path}: an object without a name"


def test_answers_are_open_and_requests_are_closed(document: Schema) -> None:
    components = document["components"]["schemas"]
    assert components["RecommendRequest"]["additionalProperties"] is False
    assert components["Traffic"]["additionalProperties"] is False
    for name in ("RecommendResponse", "EstimateShown", "DeploymentShown", "Problem", "AcceleratorList", "Notice"):
        assert components[name].get("additionalProperties", True) is not False, name


def test_operations_have_summaries_in_words(document: Schema) -> None:
    for called, operation in operations(document):
        assert len(operation["summary"].split()) >= LEAST_WORDS, called
        assert operation["summary"] != operation["operationId"], called


def test_no_text_is_left_over(document: Schema) -> None:
    """Every line of fields.toml is some field's description."""
    components = document["components"]["schemas"]
    apart = ("any", "named", "parameters", "units")
    unused = [
        f"{section}.{field}"
        for section, lines in field_texts().items()
        for field, text in lines.items()
        if section not in apart
        if text not in components.get(section, {}).get("properties", {}).get(field, {}).get("description", "")
    ]
    fields = {
        (field, shape["description"])
        for schema in components.values()
        for field, shape in schema.get("properties", {}).items()
    }
    unused += [
        field
        for field, text in field_texts()["any"].items()
        if not any(field == name and said.startswith(text) for name, said in fields)
    ]
    assert unused == []
    assert set(field_texts()["named"]) <= set(components)
    names = {p["name"] for _, operation in operations(document) for p in operation.get("parameters", ())}
    assert set(field_texts()["parameters"]) <= names


def test_every_example_is_something(document: Schema) -> None:
    assert [n for n, s in document["components"]["schemas"].items() if None in s.get("examples", [None])] == []


def test_every_example_is_of_its_schema(document: Schema) -> None:
    parts_of = {"components": document["components"]}
    for name, schema in document["components"]["schemas"].items():
        judge = Draft202012Validator({**schema, **parts_of})
        for shown in schema["examples"]:
            assert [f"{name}{e.json_path}: {e.message}" for e in judge.iter_errors(shown)] == []


def test_ranked_options_have_speed_memory_and_price(document: Schema) -> None:
    """The schema requires these fields, so a client need not check for them."""
    ranked = document["components"]["schemas"]["RecommendationShown"]
    assert {"support", "memory", "performance", "bottleneck", "cost", "confidence"} <= set(ranked["required"])


def test_references_lead_somewhere(document: Schema) -> None:
    components = document["components"]["schemas"]
    for path, schema in everywhere(document):
        if "$ref" in schema:
            assert schema["$ref"].removeprefix(SCHEMA_REF) in components, path


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("ttft_ms", "ms"),
        ("usd_per_hour", "USD per hour"),
        ("max_power_kw", "kW"),
        ("memory_gb_per_s", "GB/s (10^9 bytes)"),
        ("requests_per_s", "per second"),
        ("deadline_days", "days"),
        ("network_gbit_s", "Gbit/s"),
        ("gbit_per_s", "Gbit/s"),
        ("replicas_per_minute", "per minute"),
        ("objective", None),
    ],
)
def test_units_are_read_from_names(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


def test_a_description_has_unit_and_default_once() -> None:
    number = {"type": "number"}
    assert describe_field("wait_ms", number, "How long.", default=5) == "How long. Unit: ms. Default: 5."
    assert describe_field("wait_ms", number, "In ms. Default: 5.", default=5) == "In ms. Default: 5."
    assert describe_field("model", {"type": "string"}, "The model.") == "The model."
    assert describe_field("trace", {"type": "boolean"}, "All.", default=False) == "All. Default: false."


def test_every_status_has_one_example(document: Schema) -> None:
    examples, components = document["components"]["examples"], document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, answer in operation["responses"].items():
                for kind, media in answer.get("content", {}).items():
                    called = f"{method} {path} {status} {kind}"
                    if "json" not in kind:
                        assert media["example"], called
                        continue
                    (shown,) = media["examples"].values()
                    value = examples[shown["$ref"].removeprefix("#/components/examples/")]["value"]
                    name = media["schema"]["$ref"].removeprefix(SCHEMA_REF)
                    assert set(components[name]["required"]) <= set(value), called
                    if name == "Problem":
                        assert value["status"] == int(status), called


@pytest.mark.parametrize(
    ("example", "method", "path", "body"),
    [
        (
            "UnknownModel",
            "post",
            "/recommend",
            {"workload": {"phase": "inference", "model": "gpt-9", "traffic": {"peak_requests_per_s": 1}}},
        ),
        ("Invalid", "post", "/catalog/models/inspect", {"model": "llama-3.1-8b", "limit": 0}),
        ("UnknownCursor", "get", "/catalog/offers?cursor=none", None),
        ("NoBodyTaken", "post", "/recommendations/rec_0123456789abcdef0123456789ab/reprice", {}),
        ("UnknownRecommendation", "get", "/recommendations/rec_0123456789abcdef0123456789ab", None),
        ("UnknownAccelerator", "get", "/catalog/support?accelerator=h900&engine=vllm", None),
    ],
)
def test_examples_of_refusals_match_the_answers(
    document: Schema, client: TestClient, example: str, method: str, path: str, body: Any
) -> None:
    shown, sent = document["components"]["examples"][example]["value"], client.request(method, path, json=body).json()
    assert {k: sent[k] for k in ("type", "title", "status")} == {k: shown[k] for k in ("type", "title", "status")}
    assert set(sent) >= set(shown)


def test_headers_that_clients_send_back_are_documented_and_sent(document: Schema, client: TestClient) -> None:
    documented = {
        path: set(item["get"]["responses"]["200"]["headers"])
        for path, item in document["paths"].items()
        if "headers" in item.get("get", {}).get("responses", {}).get("200", {})
    }
    lists = [path for path in documented if path.startswith("/catalog/")]
    assert len(lists) == 10
    for path in (*lists, "/accuracy"):
        assert documented[path] <= {name.replace("etag", "ETag") for name in client.get(path).headers}, path
    assert documented["/recommendations/{id}"] == {"ETag", "Last-Modified"}
    assert documented["/recommendations/{id}/status"] == {"ETag"}


def test_the_document_says_who_runs_it_and_who_is_let_in(document: Schema) -> None:
    assert document["info"]["license"]["identifier"] == "Apache-2.0"
    assert document["servers"] == [{"url": "/", "description": "This service."}]
    assert document["security"] == []
    assert "proxy" in document["info"]["description"]
    schemes = set(document["components"]["securitySchemes"])
    guarded = [(called, set(one)) for called, o in operations(document) for one in o.get("security", ())]
    assert set().union(*(names for _, names in guarded)) == schemes
    signed = {called for called, one in guarded if one == {"webhookSignature"}}
    assert signed == {f"post {e}" for e in document["webhooks"]}
    by_key = {called for called, o in operations(document) if {"key": []} in o.get("security", ())}
    assert by_key >= {"post /recommend", "get /catalog/models", "patch /recommendations/{id}"}
    assert not by_key & {"get /livez", "post /procurement/punchout"}
    tags = {tag["name"] for tag in document["tags"]}
    assert {tag for _, operation in operations(document) for tag in operation["tags"]} == tags


def test_the_document_is_built_once_while_others_wait_without_a_thread() -> None:
    app, go, built = FastAPI(openapi_url=None), threading.Event(), []
    install(app)

    def build() -> Schema:
        built.append(go.wait(10))
        return {}

    app.openapi = build  # type: ignore[method-assign]

    async def ask() -> list[str]:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            asked = [asyncio.create_task(http.get("/openapi.json")) for _ in range(50)]
            await asyncio.sleep(0.05)
            await asyncio.wait_for(run_in_threadpool(go.set), 5)  # fails if they hold every thread
            return [answer.headers["etag"] for answer in await asyncio.gather(*asked)]

    assert len(set(asyncio.run(ask()))) == 1
    assert built == [True]
