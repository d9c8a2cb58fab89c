"""The OpenAPI document: request bodies are read raw, so their schemas are declared here."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.document import finished
from app.api.exemplars import show
from app.api.schemas.base import Shown
from app.api.schemas.compare import CompareRequest
from app.api.schemas.diagnose import DiagnoseRequest
from app.api.schemas.filing import StatusChange
from app.api.schemas.requests import EstimateRequest, InspectRequest, RecommendRequest, example

REF = "#/components/schemas/{model}"
BODIES: tuple[type[BaseModel], ...] = (
    RecommendRequest,
    EstimateRequest,
    CompareRequest,
    DiagnoseRequest,
    InspectRequest,
    StatusChange,
)

DESCRIPTION = """\
Headroom sizes hardware for AI work: describe a workload, get the hardware that runs it, how many, laid out
how, with what memory, speed, latency, energy and cost, how sure that is, and why everything else was turned down.

Units are in the names: `_gib` is 2^30 bytes, `_gb` 10^9, fractions run from 0 to 1, money is USD. Every error is
`application/problem+json` (RFC 9457), and every answer has an `X-Request-ID` to ask about it by. Requests take no
fields beside those shown; answers may gain fields.

The service asks nobody who they are: let a proxy in front of it do that. Only buyers' systems that punch out prove
themselves, by a secret that settings name, and notices to webhooks are signed."""
TAGS = [
    {"name": "sizing", "description": "Ask what hardware a workload takes."},
    {"name": "filing", "description": "Find stored answers again, approve and order them."},
    {"name": "exports", "description": "An answer as a bill of materials, or as files that start it."},
    {"name": "procurement", "description": "How buyers' systems open a session, and what webhooks are told."},
    {"name": "catalogue", "description": "What exists, what it costs and what was assumed."},
    {"name": "accuracy", "description": "How far predictions are from published measurements."},
    {"name": "operations", "description": "For whoever runs the service."},
]
SCHEMES = {
    "ociUser": {
        "type": "apiKey",
        "in": "query",
        "name": "USERNAME",
        "description": "The buyer's user of an OCI call, as settings name it.",
    },
    "ociPassword": {
        "type": "apiKey",
        "in": "query",
        "name": "PASSWORD",
        "description": "The password of that user. Let the buyer's system POST it: addresses are written into logs.",
    },
    "webhookSignature": {
        "type": "apiKey",
        "in": "header",
        "name": "webhook-signature",
        "description": "Of what this service sends: v1, and HMAC-SHA256 of id.timestamp.body by the secret, "
        "after Standard Webhooks.",
    },
}
# A cXML request carries its shared secret inside the document, an OCI form its password in a field: neither is a
# scheme that OpenAPI knows.
GUARDED: dict[str, list[dict[str, list[str]]]] = {"ociVisit": [{"ociUser": [], "ociPassword": []}]}


ETAG = {
    "description": "What names this state of the answer. Of a status, a change of it sends it back as If-Match.",
    "schema": {"type": "string"},
}
LAST_MODIFIED = {"description": "When the answer was first stored.", "schema": {"type": "string"}}
# Beside the lists of a catalogue snapshot, which carry an ETag each.
HEADERS: dict[str, dict[str, Any]] = {
    "accuracy": {"ETag": ETAG},
    "getRecommendation": {"ETag": ETAG, "Last-Modified": LAST_MODIFIED},
    "getRecommendationStatus": {"ETag": ETAG},
    "changeRecommendationStatus": {"ETag": ETAG},
}


class ProblemError(Shown):
    """One place of a request and what is wrong there."""

    pointer: str
    detail: str


class Problem(Shown):
    """RFC 9457. Further members carry facts for programs."""

    model_config = {"extra": "allow"}

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemError] | None = None


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The declared request body of a route that reads its body raw."""
    reference = {"$ref": REF.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Declared problem answers of a route."""
    content = {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}}}
    texts = {
        400: "The body is not well-formed JSON, or the cursor is not one of this service.",
        404: "Something named does not exist.",
        409: "The state of what is changed does not allow it.",
        412: "What is changed has changed since it was read.",
        413: "The body is too large.",
        415: "The body is not plain JSON.",
        422: "The request breaks its schema or contradicts itself.",
        428: "The change does not say, by If-Match, what it changes.",
        429: "Most of the questions that wait here are of this address; `Retry-After` says when to ask again.",
        503: "No catalogue, no database, or too much asked at once; `Retry-After` says when to ask again.",
    }
    return {s: {"description": texts[s], "content": content} for s in statuses}


def _secure(document: dict[str, Any]) -> None:
    """Say who proves what: nobody, but for what GUARDED names and this service's own notices."""
    document["components"]["securitySchemes"] = SCHEMES
    document["security"] = []
    for room, guards in (("paths", GUARDED), ("webhooks", None)):
        for item in document.get(room, {}).values():
            for operation in item.values():
                guard = [{"webhookSignature": []}] if guards is None else guards.get(operation["operationId"])
                if guard is not None:
                    operation["security"] = guard


def _headed(document: dict[str, Any]) -> None:
    """Say which headers answers carry that a client sends back or keeps."""
    for item in document["paths"].values():
        for operation in item.values():
            name: str = operation["operationId"]
            of_a_snapshot = "catalogue" in operation["tags"] and name.startswith("list") and name != "listAssumptions"
            if headers := HEADERS.get(name, {"ETag": ETAG} if of_a_snapshot else {}):
                operation["responses"]["200"]["headers"] = headers


def install(app: FastAPI) -> None:
    """Build and encode the document once, with the schemas of raw bodies among its components."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title,
                version=app.version,
                description=DESCRIPTION,
                routes=app.routes,
                webhooks=app.webhooks.routes,
                tags=TAGS,
                servers=[{"url": app.state.settings.public_url or "/", "description": "This service."}],
                license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            )
            _, extra = models_json_schema(
                [*((m, "validation") for m in BODIES), (Problem, "serialization")], ref_template=REF
            )
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            for name, schema in extra.get("$defs", {}).items():
                schemas.setdefault(name, schema)
            for name, value in example("schemas").items():
                schemas.get(name, {}).setdefault("examples", [value])
            _secure(made)
            _headed(made)
            finished(made)
            show(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
    making = Lock()

    @cache
    def encoded() -> bytes:
        return orjson.dumps(app.openapi())

    def sent(_: Request) -> Response:
        with making:
            body = encoded()
        return Response(body, media_type="application/json")

    app.add_route("/openapi.json", sent, include_in_schema=False)  # in a thread: the first takes long
