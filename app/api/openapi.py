"""Builds the OpenAPI document: request bodies, names of unions, and one example per response status.

Unions and enumerations get names, and every field gets a description with unit and default. Response schemas may gain
fields. Defaults are stated in descriptions because generators treat a field with a `default` as always present.
"""

from __future__ import annotations

import hashlib
import json
import re
from asyncio import Lock
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.access import SCOPE_OF
from app.api.problems import MalformedRequest, invalid_request_response, problem_response, unknown_cursor
from app.api.schemas.base import COMPONENT_KEY, ResponseModel, field_texts
from app.api.schemas.compare import CompareRequest
from app.api.schemas.diagnose import DiagnoseRequest
from app.api.schemas.filing import StatusChange
from app.api.schemas.private import (
    QuotedOffer,
    QuotedOfferList,
    QuotedSystem,
    QuotedSystemList,
    StoredHardware,
    StoredHardwareList,
)
from app.api.schemas.requests import EstimateRequest, InspectRequest, RecommendRequest, load_example
from app.api.schemas.runnable import RunnableRequest
from app.catalog.filing import unknown_recommendation
from app.errors import (
    AppError,
    ChangedMeanwhile,
    MissingIfMatch,
    MissingScope,
    NotAllowed,
    TooManyAtOnce,
    Unauthenticated,
    UnknownAccelerator,
    UnknownModel,
)
from app.extras import MissingExtra

Schema = dict[str, Any]
SCHEMA_REF = "#/components/schemas/"
ANNOTATION_KEYS = ("description", "default", "title")  # annotations of a field, next to its type
# Pattern of a field's name, and the unit that it implies.
UNITS: tuple[tuple[str, str], ...] = (
    (r"(^|_)gbit(_per)?_s(_per_node)?$", "Gbit/s"),
    (r"_per_minute$", "per minute"),
    (r"_gb_per_s$", "GB/s (10^9 bytes)"),
    (r"_mb_per_s$", "MB/s (10^6 bytes)"),
    (r"^usd_per_hour$|_usd_per_hour$", "USD per hour"),
    (r"^usd_per_day$", "USD per day"),
    (r"^usd_per_month$", "USD per month"),
    (r"usd_per_million_tokens$", "USD per million tokens"),
    (r"usd_per_million_samples$", "USD per million samples"),
    (r"usd_per_million_", "USD per million tokens"),
    (r"usd_per_kwh$", "USD per kWh"),
    (r"usd_rate$", "1"),
    (r"(^|_)usd(_|$)", "USD"),
    (r"kwh_per_million_", "kWh"),
    (r"_gib(_per_node)?$", "GiB (2^30 bytes)"),
    (r"_mib(_per_|$)|^mib_per_", "MiB (2^20 bytes)"),
    (r"_gb$", "GB (10^9 bytes)"),
    (r"_tb$", "TB (10^12 bytes)"),
    (r"_bytes$|bytes_per_", "bytes"),
    (r"_kw$", "kW"),
    (r"(^|_)power(_limit)?_w$", "W"),
    (r"_ms$|^ms$", "ms"),
    (r"_per_s(_|$)", "per second"),
    (r"_s$|seconds$", "seconds"),
    (r"(^|_)minutes?$", "minutes"),
    (r"(^|_)hours(_|$)", "hours"),
    (r"(^|_)days$", "days"),
    (r"(^|_)months?$", "months"),
    (r"flops", "FLOPs"),
    (r"_(share|fraction)$", "0 to 1"),
)


def unit_of(name: str) -> str | None:
    """Returns the unit implied by a field's name, or None."""
    return next((unit for pattern, unit in UNITS if re.search(pattern, name)), None)


def _holds_numbers(schema: Schema) -> bool:
    """True if a field is a number or a list of numbers."""
    parts = [schema, schema.get("items", {}), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return any(part.get("type") in ("number", "integer") for part in parts)


def describe_field(name: str, field: Schema, text: str | None, *, default: Any = None, unit: str | None = None) -> str:
    """Returns a field's description with its unit, and its default if that is a plain value."""
    description = (text or "").strip()
    unit = unit_of(name) or unit if _holds_numbers(field) else None
    if unit and unit != "1" and not re.search(rf"\b{re.escape(unit.split(' ')[0])}\b", description):
        description += f" Unit: {unit}."
    if default not in (None, "", [], {}) and not isinstance(default, dict | list) and "Default" not in description:
        description += f" Default: {json.dumps(default) if not isinstance(default, str) else default}."
    return description


def _child_schemas(schema: Schema) -> Iterator[tuple[Schema, Any]]:
    """Yields each nested schema as (container, key)."""
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema, key
    for key in ("properties", "patternProperties"):
        for name in schema.get(key, {}):
            yield schema[key], name
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, _ in enumerate(schema.get(key, ())):
            yield schema[key], i


def extract_named_schemas(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replaces named unions and enumerations in a schema by references and collects them in `definitions`."""
    for holder, key in _child_schemas(schema):
        holder[key] = extract_named_schemas(holder[key], definitions)
    name = schema.pop(COMPONENT_KEY, None)
    if name is None:
        return schema
    own = {key: schema.pop(key) for key in ANNOTATION_KEYS if key in schema}
    definitions.setdefault(name, {"title": name, **schema})
    return {"$ref": SCHEMA_REF + name, **{key: value for key, value in own.items() if key != "title"}}


def pick_example(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """Returns an example of a named union or enumeration: its first value, or that of a part that has one."""
    if "enum" in schema:
        return schema["enum"][0]
    if "examples" in schema:
        return schema["examples"][0]
    parts = schema.get("oneOf") or schema.get("anyOf") or ()
    referred = [part["$ref"].removeprefix(SCHEMA_REF) for part in parts if "$ref" in part]
    return next((schemas[name]["examples"][0] for name in referred if schemas[name].get("examples")), None)


def clean_schema(schema: Schema, *, open_: bool) -> None:
    """Removes generated titles and null defaults. With `open_`, allows additional properties."""
    for holder, key in _child_schemas(schema):
        holder[key].pop("title", None)
        clean_schema(holder[key], open_=open_)
    schema.pop("default", None)
    if open_ and schema.get("additionalProperties") is False:
        del schema["additionalProperties"]


def describe_component(name: str, schema: Schema) -> None:
    """Adds a description to every field of a component."""
    own, common, unit = field_texts().get(name, {}), field_texts()["any"], field_texts()["units"].get(name)
    for field, shape in schema.get("properties", {}).items():
        text = shape.get("description") or own.get(field) or common.get(field)
        shape["description"] = describe_field(field, shape, text, default=shape.get("default"), unit=unit)


def reachable_schemas(node: Any, schemas: Mapping[str, Schema]) -> set[str]:
    """Returns the names of all components that `node` refers to, directly or indirectly."""
    waiting, names = set(re.findall(rf'"{SCHEMA_REF}([^"]+)"', json.dumps(node))), set()
    while waiting:
        name = waiting.pop()
        names.add(name)
        waiting |= set(re.findall(rf'"{SCHEMA_REF}([^"]+)"', json.dumps({**schemas[name], "examples": None}))) - names
    return names


def finish_document(document: Schema) -> Schema:
    """Returns the finished OpenAPI document for readers and client generators."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    definitions: dict[str, Schema] = {}
    for name, schema in list(schemas.items()):
        schemas[name] = extract_named_schemas(schema, definitions)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    notices = [operation for path in document.get("webhooks", {}).values() for operation in path.values()]
    for operation in (*operations, *notices):
        _describe_parameters(operation, definitions)
    schemas |= definitions
    answers = reachable_schemas([*(operation["responses"] for operation in operations), *notices], schemas)
    request_schemas = reachable_schemas([operation.get("requestBody", {}) for operation in operations], schemas)
    for name, schema in schemas.items():
        describe_component(name, schema)
        clean_schema(schema, open_=name in answers and name not in request_schemas)
    for name in definitions:
        schemas[name].setdefault("description", field_texts()["named"].get(name, ""))
        schemas[name].setdefault("examples", [pick_example(schemas[name], schemas)])
    return document


def _describe_parameters(operation: Schema, definitions: dict[str, Schema]) -> None:
    """Describes the parameters of an operation and replaces named parts of its body by references.

    Parameters keep their defaults, because generators treat them as optional.
    """
    for media in operation.get("requestBody", {}).get("content", {}).values():
        media["schema"] = extract_named_schemas(media["schema"], definitions)
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        if {"type": "null"} in schema.get("anyOf", ()):  # an absent parameter is omitted, never null
            (only,) = [part for part in schema.pop("anyOf") if part != {"type": "null"}]
            schema |= only
            schema.pop("default", None)
        description = parameter.get("description") or schema.pop("description", None)
        description = description or field_texts()["parameters"].get(parameter["name"])
        parameter["description"] = describe_field(parameter["name"], schema, description, default=schema.get("default"))
        for key in ("title", "description"):
            schema.pop(key, None)
        parameter["schema"] = extract_named_schemas(schema, definitions)


EXAMPLES = "#/components/examples/"
STORED = "/recommendations/{id}"
NOT_FOUND_ERRORS: dict[str, AppError] = {
    "UnknownModel": UnknownModel(
        "Unknown model 'gpt-9': it is not in the catalog. Did you mean gpt-j?", nearest=["gpt-j"]
    ),
    "UnknownRecommendation": unknown_recommendation(),
    "UnknownAccelerator": UnknownAccelerator("Unknown accelerator 'h900'.", nearest=[]),
}
STATE_ERRORS: dict[int, tuple[str, AppError]] = {
    401: ("KeyRequired", Unauthenticated("This call needs a key with the scope procure.")),
    403: ("MissingScope", MissingScope("This key lacks the scope procure. It has: read, size.", scope="procure")),
    409: (
        "NotAllowed",
        NotAllowed(
            "This recommendation is draft and cannot become ordered. Allowed next: approved or superseded.",
            allowed=["approved", "superseded"],
        ),
    ),
    412: ("Stale", ChangedMeanwhile("The status has changed since you read it.", etag='"status-2"')),
    429: ("TooManyAtOnce", TooManyAtOnce("You have the most waiting requests. Send fewer requests at a time.")),
    501: ("MissingExtra", MissingExtra("The format xlsx", "export")),
    428: ("Unguarded", MissingIfMatch("Send If-Match with the ETag of the status that you read.")),
}
BODY_ERRORS: dict[int, tuple[str, MalformedRequest]] = {
    413: ("BodyTooLarge", MalformedRequest(413, "body-too-large", "The body exceeds the limit of 65,536 bytes.")),
    415: ("NotJson", MalformedRequest(415, "unsupported-media-type", "Send the body as application/json.")),
}
# First characters of responses that are not JSON, by media type.
TEXTS = {
    "text/csv": "line_no,kind,goods,sku,description,quantity,unit,unit_price,line_total\r\n",
    "application/xml": "<?xml version='1.0' encoding='UTF-8'?>\n",
    "application/x-www-form-urlencoded": "NEW_ITEM-DESCRIPTION%5B1%5D=Supermicro+SYS-821GE-TNHR",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "a workbook",
    "text/html": "<!doctype html>\n",
    "text/xml": '<cXML payloadID="1" timestamp="2026-11-20T08:00:00+00:00"><Response>'
    '<Status code="401" text="Unauthorized">Unknown sender.</Status></Response></cXML>',
}


def _example_value(response: Any) -> Any:
    return {"value": orjson.loads(response.body)}


def _app_error_example(error: AppError, status: int) -> Any:
    return _example_value(problem_response(status, code=error.code, detail=error.detail, **error.facts))


def _malformed_example(error: MalformedRequest) -> Any:
    return _example_value(problem_response(error.status, code=error.code, detail=error.detail))


def problem_examples() -> Schema:
    """Returns every example of a problem response by its name."""
    invalid = [{"pointer": "#/limit", "detail": "Input should be greater than or equal to 1"}]
    return {
        "MalformedJson": _malformed_example(
            MalformedRequest(400, "malformed-json", "The body is not JSON: unexpected end of data.")
        ),
        "NoBodyTaken": _malformed_example(MalformedRequest(400, "no-body-taken", "This call takes no body.")),
        "UnknownCursor": _malformed_example(unknown_cursor()),
        "Invalid": _example_value(invalid_request_response(invalid, 1)),
        "NotReady": _example_value(problem_response(503, code="not-ready", detail="The catalog is not loaded yet.")),
        **{name: _app_error_example(error, 404) for name, error in NOT_FOUND_ERRORS.items()},
        **{name: _app_error_example(error, status) for status, (name, error) in STATE_ERRORS.items()},
        **{name: _malformed_example(error) for name, error in BODY_ERRORS.values()},
    }


def problem_example_name(status: int, path: str, method: str) -> str:
    if status == 400:
        return "UnknownCursor" if method == "get" else "NoBodyTaken" if path.endswith("/reprice") else "MalformedJson"
    if status == 404:
        if "/support" in path:
            return "UnknownAccelerator"
        return "UnknownRecommendation" if STORED in path else "UnknownModel"
    named = {422: "Invalid", 503: "NotReady"} | {s: name for s, (name, _) in (STATE_ERRORS | BODY_ERRORS).items()}
    return named[status]


def add_examples(document: Schema) -> None:
    """Adds an example to every response. Problem and schema examples are stored once, in the components."""
    components = document["components"]
    kept: Schema = components.setdefault("examples", {})
    kept |= problem_examples()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, answer in operation["responses"].items():
                for kind, media in answer.get("content", {}).items():
                    name = media.get("schema", {}).get("$ref", "").removeprefix(SCHEMA_REF)
                    if name == "Problem":
                        media["examples"] = {
                            "refused": {"$ref": EXAMPLES + problem_example_name(int(status), path, method)}
                        }
                    elif name and components["schemas"][name].get("examples"):
                        kept[name] = {"value": components["schemas"][name]["examples"][0]}
                        media["examples"] = {"answer": {"$ref": EXAMPLES + name}}
                    elif kind in TEXTS:
                        media["example"] = TEXTS[kind]


BODIES: tuple[type[BaseModel], ...] = (
    RecommendRequest,
    EstimateRequest,
    CompareRequest,
    DiagnoseRequest,
    InspectRequest,
    RunnableRequest,
    StatusChange,
    StoredHardware,
    StoredHardwareList,
    QuotedOffer,
    QuotedOfferList,
    QuotedSystem,
    QuotedSystemList,
)

DESCRIPTION = """\
Headroom sizes hardware for AI workloads. Describe a workload; get ranked hardware options with quantity, layout, \
memory, throughput, latency, energy, cost and confidence, and the reasons for every rejected option.

Field names contain units: `_gib` is 2^30 bytes, `_gb` is 10^9 bytes. Fractions range from 0 to 1; money is in USD. \
Errors are `application/problem+json` (RFC 9457). Every response has an `X-Request-ID`; quote it in bug reports. \
Unknown request fields are rejected; responses may gain fields.

Callers authenticate with a key (`Authorization: Bearer hr_...`), which has scopes and belongs to a tenant. Reading \
and sizing are open unless the operator requires a key. The service has no passwords: people sign in at a proxy in \
front. Procurement systems authenticate with a shared secret from the settings. Webhook notices are signed."""
TAGS = [
    {"name": "sizing", "description": "Size hardware for a workload."},
    {"name": "filing", "description": "Search, approve and order stored answers."},
    {"name": "measurements", "description": "Your own benchmarks and training runs, which move predictions."},
    {"name": "exports", "description": "Export an answer as a bill of materials or as deployment files."},
    {"name": "procurement", "description": "Punch-out sessions for procurement systems, and webhooks."},
    {"name": "catalogue", "description": "Hardware, models, software, prices and assumptions."},
    {"name": "private", "description": "Your own hardware, quotes and negotiated prices."},
    {"name": "accuracy", "description": "Prediction errors against published measurements."},
    {"name": "operations", "description": "Health checks for operators."},
]
SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of this service, hr_..., with the scope that the operation names.",
    },
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
    reference = {"$ref": SCHEMA_REF + model.__name__}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


CSV = "text/csv"


def table_or_body(*models: type[BaseModel]) -> dict[str, Any]:
    """Returns the declared request body of a route that takes one record, several, or a CSV table."""
    any_of = [{"$ref": SCHEMA_REF + model.__name__} for model in models]
    either = {"anyOf": any_of, COMPONENT_KEY: f"{models[0].__name__}Records"}
    content = {"application/json": {"schema": either}, CSV: {"schema": {"type": "string"}}}
    return {"requestBody": {"required": True, "content": content}}


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the declared problem responses of a route."""
    content = {"application/problem+json": {"schema": {"$ref": SCHEMA_REF + "Problem"}}}
    texts = {
        400: "The body is not well-formed JSON, or this service did not issue the cursor.",
        401: "The call needs a key, or its key does not count.",
        403: "The key lacks the scope that the call needs.",
        404: "A named resource does not exist.",
        409: "The current status does not allow this change.",
        412: "The resource has changed since you read it.",
        413: "The body is too large.",
        415: "The body is not uncompressed JSON.",
        422: "The request violates its schema or contradicts itself.",
        428: "The If-Match header is missing.",
        429: "You have the most waiting requests, or have used up a limit. Retry after the time in `Retry-After`.",
        501: "This format needs packages that the service does not have.",
        503: "Catalog or database unavailable, or the service is at capacity. Retry after the time in `Retry-After`.",
    }
    return {s: {"description": texts[s], "content": content} for s in statuses}


def _declare_security(document: dict[str, Any]) -> None:
    """Declares the security schemes: an optional key with its scope, those of GUARDED, and the signed webhooks."""
    document["components"]["securitySchemes"] = SCHEMES
    document["security"] = []
    for item in document["paths"].values():
        for operation in item.values():
            scope = SCOPE_OF.get(operation["operationId"])
            if scope is not None:
                operation["security"] = [{}, {"key": []}]
                operation["description"] = f"{operation.get('description', '')}\n\nScope of the key: `{scope}`.".strip()
                for status in (401, 403):
                    operation["responses"][str(status)] = problem_responses(status)[status]
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
                [*((m, "validation") for m in BODIES), (Problem, "serialization")], ref_template=SCHEMA_REF + "{model}"
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
    def encode_document() -> tuple[bytes, dict[str, str]]:
        body = orjson.dumps(app.openapi())
        return body, {"ETag": f'W/"{hashlib.sha256(body).hexdigest()[:24]}"'}

    async def send_document(_: Request) -> Response:
        async with making:  # the first call takes long: one thread builds the document, and those that wait hold none
            body, headers = await run_in_threadpool(encode_document)
        return Response(body, headers=headers, media_type="application/json")

    app.add_route("/openapi.json", send_document, include_in_schema=False)
