"""Builds the OpenAPI document. Request bodies are read raw, so their schemas are declared here."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.document import finish_document
from app.api.exemplars import add_examples
from app.api.schemas.base import ResponseModel
from app.api.schemas.compare import CompareRequest
from app.api.schemas.diagnose import DiagnoseRequest
from app.api.schemas.filing import StatusChange
from app.api.schemas.requests import EstimateRequest, InspectRequest, RecommendRequest, load_example

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
Headroom sizes hardware for AI workloads. Describe a workload; get ranked hardware options with quantity, layout, \
memory, throughput, latency, energy, cost and confidence, and the reasons for every rejected option.

Field names contain units: `_gib` is 2^30 bytes, `_gb` is 10^9 bytes. Fractions range from 0 to 1; money is in USD. \
Errors are `application/problem+json` (RFC 9457). Every response has an `X-Request-ID`; quote it in bug reports. \
Unknown request fields are rejected; responses may gain fields.

The service has no built-in login: run it behind an authenticating proxy. Procurement systems authenticate with a \
shared secret from the settings. Webhook notices are signed."""
TAGS = [
    {"name": "sizing", "description": "Size hardware for a workload."},
    {"name": "filing", "description": "Search, approve and order stored answers."},
    {"name": "exports", "description": "Export an answer as a bill of materials or as deployment files."},
    {"name": "procurement", "description": "Punch-out sessions for procurement systems, and webhooks."},
    {"name": "catalogue", "description": "Hardware, models, software, prices and assumptions."},
    {"name": "accuracy", "description": "Prediction errors against published measurements."},
    {"name": "operations", "description": "Health checks for operators."},
]
SCHEMES = {
    "ociUser": {
        "type": "apiKey",
        "in": "query",
        "name": "USERNAME",
        "description": "The buyer's user name for OCI calls, as set in the settings.",
    },
    "ociPassword": {
        "type": "apiKey",
        "in": "query",
        "name": "PASSWORD",
        "description": "The password of that user. Prefer POST: URLs end up in logs.",
    },
    "webhookSignature": {
        "type": "apiKey",
        "in": "header",
        "name": "webhook-signature",
        "description": "Signature of notices that this service sends: v1, and the HMAC-SHA256 of id.timestamp.body "
        "with the shared secret (Standard Webhooks).",
    },
}
# A cXML request carries its shared secret in the document, and an OCI form carries its password in a field. OpenAPI
# has no scheme for either.
GUARDED: dict[str, list[dict[str, list[str]]]] = {"ociVisit": [{"ociUser": [], "ociPassword": []}]}


ETAG = {
    "description": "Version of the response. To change a status, send the ETag of the status as If-Match.",
    "schema": {"type": "string"},
}
LAST_MODIFIED = {"description": "Time at which the answer was first stored.", "schema": {"type": "string"}}
# Response headers by operation id. The catalog lists carry an ETag as well.
HEADERS: dict[str, dict[str, Any]] = {
    "accuracy": {"ETag": ETAG},
    "getRecommendation": {"ETag": ETAG, "Last-Modified": LAST_MODIFIED},
    "getRecommendationStatus": {"ETag": ETAG},
    "changeRecommendationStatus": {"ETag": ETAG},
}


class ProblemError(ResponseModel):
    """Pointer to an invalid part of the request, and the reason."""

    pointer: str
    detail: str


class Problem(ResponseModel):
    """Error response after RFC 9457. Further members carry machine-readable facts."""

    model_config = {"extra": "allow"}

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemError] | None = None


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the declared request body of a route that reads its body raw."""
    reference = {"$ref": REF.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the declared problem responses of a route."""
    content = {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}}}
    texts = {
        400: "The body is not well-formed JSON, or this service did not issue the cursor.",
        404: "A named resource does not exist.",
        409: "The current status does not allow this change.",
        412: "The resource has changed since you read it.",
        413: "The body is too large.",
        415: "The body is not uncompressed JSON.",
        422: "The request violates its schema or contradicts itself.",
        428: "The If-Match header is missing.",
        429: "Your address has the most waiting requests. Retry after the time in `Retry-After`.",
        503: "Catalog or database unavailable, or the service is at capacity. Retry after the time in `Retry-After`.",
    }
    return {s: {"description": texts[s], "content": content} for s in statuses}


def _declare_security(document: dict[str, Any]) -> None:
    """Declares the security schemes: none by default, except for the operations in GUARDED and the signed webhooks."""
    document["components"]["securitySchemes"] = SCHEMES
    document["security"] = []
    for room, guards in (("paths", GUARDED), ("webhooks", None)):
        for item in document.get(room, {}).values():
            for operation in item.values():
                guard = [{"webhookSignature": []}] if guards is None else guards.get(operation["operationId"])
                if guard is not None:
                    operation["security"] = guard


def _declare_headers(document: dict[str, Any]) -> None:
    """Declares the response headers that clients send back or store."""
    for item in document["paths"].values():
        for operation in item.values():
            name: str = operation["operationId"]
            of_a_snapshot = "catalogue" in operation["tags"] and name.startswith("list") and name != "listAssumptions"
            if headers := HEADERS.get(name, {"ETag": ETAG} if of_a_snapshot else {}):
                operation["responses"]["200"]["headers"] = headers


def install(app: FastAPI) -> None:
    """Builds and encodes the document once, with the schemas of raw bodies among its components."""

    def build_document() -> dict[str, Any]:
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
            for name, value in load_example("schemas").items():
                schemas.get(name, {}).setdefault("examples", [value])
            _declare_security(made)
            _declare_headers(made)
            finish_document(made)
            add_examples(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = build_document  # type: ignore[method-assign]
    making = Lock()

    @cache
    def encode_document() -> bytes:
        return orjson.dumps(app.openapi())

    def send_document(_: Request) -> Response:
        with making:
            body = encode_document()
        return Response(body, media_type="application/json")

    app.add_route(
        "/openapi.json", send_document, include_in_schema=False
    )  # runs in a thread: the first call takes long
