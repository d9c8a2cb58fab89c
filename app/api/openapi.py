"""The OpenAPI document: request bodies are read raw, so their schemas are declared here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.document import finished
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
`application/problem+json` (RFC 9457)."""


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
        400: "The body is not well-formed JSON.",
        404: "Something named does not exist.",
        409: "The state of what is changed does not allow it.",
        412: "What is changed has changed since it was read.",
        413: "The body is too large.",
        415: "The body is not plain JSON.",
        422: "The request breaks its schema or contradicts itself.",
        428: "The change does not say, by If-Match, what it changes.",
        503: "The catalogue is not available.",
    }
    return {s: {"description": texts[s], "content": content} for s in statuses}


def install(app: FastAPI) -> None:
    """Build the document once, with the schemas of raw bodies among its components."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title,
                version=app.version,
                description=DESCRIPTION,
                routes=app.routes,
                webhooks=app.webhooks.routes,
            )
            _, extra = models_json_schema(
                [*((m, "validation") for m in BODIES), (Problem, "serialization")], ref_template=REF
            )
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            for name, schema in extra.get("$defs", {}).items():
                schemas.setdefault(name, schema)
            for name, value in example("schemas").items():
                schemas.get(name, {}).setdefault("examples", [value])
            app.openapi_schema = finished(made)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
