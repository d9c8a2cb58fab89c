"""Catalogue, documentation, page and health."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from importlib import import_module, resources
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from pydantic import BaseModel
from schemathesis.checks import positive_data_acceptance
from schemathesis.core.result import Ok
from starlette.testclient import TestClient

from app.api import openapi, schemas
from app.api.schemas import catalog as wire
from app.api.schemas import requests
from app.api.schemas.inspect import InspectResponse
from app.catalog.files import read_rows
from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.main import create_app
from app.sizing.assumptions import Assumptions
from tests.examples import answer_of, body, rows_in

LISTS: dict[str, Any] = {
    "accelerators": (rows_in("accelerators.csv"), wire.AcceleratorList),
    "systems": (rows_in("systems.csv"), wire.SystemList),
    "offers": (rows_in("offers.csv"), wire.OfferList),
    "models": (rows_in("models.jsonl"), wire.ModelList),
    "engines": (rows_in("engine_support.csv"), wire.EngineList),
    "prices": (rows_in("price_history.csv"), wire.PriceList),
    "assumptions": (len(fields(Assumptions)), wire.AssumptionList),
}


@pytest.mark.parametrize("name", LISTS)
def test_pages_cover_a_list_once(client: TestClient, name: str) -> None:
    size, model = LISTS[name]
    seen, cursor, pages = [], None, 0
    while True:
        page = answer_of(
            client.get(
                f"/catalog/{name}",
                params={"limit": 60 if name == "assumptions" else 300, **({"cursor": cursor} if cursor else {})},
            )
        )
        model.model_validate(page)
        seen += [str(item) for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
        if cursor is None:
            break
    assert len(seen) == size
    assert len(set(seen)) == size
    assert pages == -(-size // (60 if name == "assumptions" else 300))


@pytest.mark.parametrize("sort", ["usd_per_accelerator_hour", "usd_per_hour"])
def test_offers_are_listed_by_price_over_all_pages(client: TestClient, sort: str) -> None:
    query: dict[str, Any] = {"accelerator": "h100 sxm", "sort": sort, "limit": 7}
    found: list[dict[str, Any]] = []
    for _ in range(100):
        page = client.get("/catalog/offers", params=query).json()
        found += page["items"]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    whole = client.get("/catalog/offers", params={"accelerator": "h100 sxm", "limit": 1000}).json()["items"]
    assert [o[sort] for o in found] == sorted(o[sort] for o in whole)
    assert sorted(map(str, found)) == sorted(map(str, whole))
    for offer in found:
        each = offer["usd_per_hour"] / offer["accelerator_count"]
        assert offer["usd_per_accelerator_hour"] == pytest.approx(each, rel=1e-5)
    for cursor in ("bm9uc2Vuc2U", "MS41IC0x", query["cursor"][:3]):
        answer = client.get("/catalog/offers", params={"sort": sort, "cursor": cursor})
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/unknown-cursor")


def test_what_an_answer_assumes_is_listed_with_its_source_and_range(client: TestClient) -> None:
    listed = {a["name"]: a for a in client.get("/catalog/assumptions", params={"limit": 1000}).json()["items"]}
    whole = {**body("recommend-inference-chat-70b"), "rejected_limit": 5}
    answer = client.post("/recommend", json=whole).json()
    echoed = {a["name"]: a for a in answer["assumptions"] if a["name"] in listed and not a["asked"]}
    assert len(echoed) > 25  # of the assumptions used; the least decisive ones make room for notes on the machines
    for name, shown in echoed.items():
        assert shown["value"] == listed[name]["value"]
        assert shown["range"] == [listed[name]["low"], listed[name]["high"]]
        assert listed[name]["source"].startswith(shown["source"])
        assert listed[name]["low"] <= shown["value"] <= listed[name]["high"]
        assert listed[name]["source"]
        assert listed[name]["as_of"]


def test_filters_cut_and_unknown_ones_are_refused(client: TestClient) -> None:
    items = client.get("/catalog/accelerators", params={"vendor": "Apple"}).json()["items"]
    assert len(items) == sum(r["vendor"] == "Apple" for r in read_rows("accelerators.csv")) > 0
    offers = client.get(
        "/catalog/offers", params={"accelerator": "nvidia-l4", "pricing_model": "spot", "provider": "gcp"}
    ).json()["items"]
    assert offers
    assert all(o["provider"] == "gcp" and o["pricing_model"] == "spot" for o in offers)
    assert any(
        m["id"] == "Qwen/Qwen2.5-32B-Instruct"
        for m in client.get("/catalog/models", params={"q": "Qwen2.5 32B"}).json()["items"]
    )
    assert client.get("/catalog/offers", params={"colour": "red"}).status_code == 422
    assert client.get("/catalog/offers", params={"limit": "nan"}).status_code == 422
    assert client.get("/catalog/offers", params={"cursor": "!!"}).status_code in (400, 422)
    assert client.get("/catalog/offers", params={"cursor": "YWJj"}).status_code == 400


def test_an_unchanged_page_is_not_sent_twice(client: TestClient) -> None:
    first = client.get("/catalog/systems", params={"limit": 5})
    again = client.get("/catalog/systems", params={"limit": 5}, headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    other = client.get("/catalog/systems", params={"limit": 6}, headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


def test_rows_carry_friendly_units(client: TestClient) -> None:
    h100 = next(
        a
        for a in client.get("/catalog/accelerators", params={"vendor": "NVIDIA"}).json()["items"]
        if a["slug"] == "nvidia-h100-sxm5-80gb"
    )
    assert h100["memory_gib"] == pytest.approx(79.647, abs=1e-3)
    assert h100["tflops"]["bf16"] == 989.4
    assert h100["memory_gb_per_s"] == 3350


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("qwen 7b instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("LLAMA-3.1", "meta-llama/Llama-3.1-8B"),
        ("v3 whisper", "openai/whisper-large-v3"),
        ("diffusion", "stabilityai/stable-diffusion-xl-base-1.0"),
    ],
)
def test_models_are_searched_by_words_in_any_order(client: TestClient, typed: str, found: str) -> None:
    items = client.get("/catalog/models", params={"q": typed, "limit": 100}).json()["items"]
    assert found in [i["id"] for i in items]
    assert len(items) < rows_in("models.jsonl") / 5


@pytest.mark.parametrize("typed", ["%", "_", "--", "\u00e9", "no such model at all"])
def test_a_search_that_finds_nothing_is_an_empty_list(client: TestClient, typed: str) -> None:
    assert client.get("/catalog/models", params={"q": typed}).json() == {"items": [], "next_cursor": None}


def test_inspection_counts_a_model(client: TestClient) -> None:
    counted = client.post("/catalog/models/inspect", json={"model": "llama-3.1-8b"}).json()
    InspectResponse.model_validate(counted)
    assert counted["parameters"] == 8_030_261_248
    assert counted["kv_cache_bytes_per_token"] == 131_072
    assert sum(counted["parts"].values()) == counted["parameters"]
    image = client.post("/catalog/models/inspect", json={"model": "resnet50"}).json()
    assert image["flops_per_sample"] == pytest.approx(8.178e9, rel=1e-3)


def test_health(client: TestClient, tmp_path: Path) -> None:
    assert client.get("/livez").json() == {"status": "ok"}
    assert client.get("/readyz").json()["status"] == "ready"
    with TestClient(
        create_app(Settings(database_url=f"sqlite:///{tmp_path}/none.sqlite3")), raise_server_exceptions=False
    ) as empty:
        assert empty.get("/livez").status_code == 200
        response = empty.get("/readyz")
        assert response.status_code == 503
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["retry-after"]
        assert empty.post("/recommend", json=body("recommend-inference-chat-70b")).status_code == 503


def test_the_catalogue_is_loaded_before_anybody_asks(sqlite_url: str) -> None:
    app = create_app(Settings(database_url=sqlite_url))
    with TestClient(app) as made:
        assert made.get("/readyz").status_code == 200
        assert app.state.catalog_store.catalog_status().catalog is not None


def test_docs_and_page_ask_no_other_host(client: TestClient) -> None:
    for path in ("/", "/docs"):
        response = client.get(path)
        assert response.status_code == 200
        assert "default-src 'none'" in response.headers["content-security-policy"]
        for link in re.findall(r'(?:src|href)="([^"]+)"', response.text):
            assert link.startswith(("/", "data:", "#")), link
            if link.startswith("/static"):
                assert client.get(link).status_code == 200
    for name in ("docs.js", "page.css"):
        text = resources.files("app.api").joinpath("static", name).read_text()
        assert "http://" not in text
        assert "https://" not in text


def test_the_openapi_document_is_complete(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operations = [o for path in document["paths"].values() for o in path.values()]
    identities = [o["operationId"] for o in operations]
    assert len(identities) == len(set(identities))
    assert {"recommend", "estimate", "getRecommendation", "listOffers", "inspectModel", "livez", "readyz"} <= set(
        identities
    )
    for reference in re.findall(r'"#/components/schemas/([^"]+)"', client.get("/openapi.json").text):
        assert reference in document["components"]["schemas"], reference
    assert [name for name, schema in document["components"]["schemas"].items() if "examples" not in schema] == []
    for name in ("RecommendRequest", "EstimateRequest"):
        examples = document["components"]["schemas"][name]["examples"]
        path = "/recommend" if name == "RecommendRequest" else "/estimate"
        assert all(client.post(path, json=e).status_code == 200 for e in examples)


def test_every_example_is_an_instance_of_its_schema() -> None:
    models = {
        name: made
        for module in (openapi, *(import_module(f"app.api.schemas.{m.name}") for m in iter_modules(schemas.__path__)))
        for name, made in vars(module).items()
        if isinstance(made, type) and issubclass(made, BaseModel)
    }
    for name, value in requests.load_example("schemas").items():
        models[name].model_validate_json(json.dumps(value))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Do not use the .random. module")  # the service's threads draw identifiers meanwhile
def test_schemathesis_finds_nothing(sqlite_url: str, loaded: LoadedCatalog) -> None:
    """Generated requests of every operation: documented statuses, documented shapes, never a server error.

    That a schema-valid request is accepted is not asked: rules between fields answer 422.
    """
    app = create_app(Settings(database_url=sqlite_url), loaded)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(max_examples=8, database=None)
        @given(case=operation.as_strategy())
        def conforms(case: schemathesis.Case[Any]) -> None:
            case.validate_response(case.call(), excluded_checks=[positive_data_acceptance])

        conforms()
