"""Renders errors as RFC 9457 problem responses and maps error families to HTTP statuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.api.doubts import accepted_names_hint, unit_hint
from app.api.fields import UNKNOWN_FIELD, explain_unknown_field, models_in
from app.api.kinds import problem_kinds
from app.catalog.names import quote_name
from app.causes import describe_error
from app.db import DatabaseError
from app.errors import (
    AppError,
    ChangedMeanwhile,
    Conflict,
    MissingIfMatch,
    NotAllowed,
    NotFound,
    TooManyAtOnce,
    Unanswerable,
    Unavailable,
)
from app.work import OutOfTime

MAX_ERRORS = 20
STATUS: tuple[tuple[type[AppError], int], ...] = (
    (NotFound, 404),
    (Conflict, 422),
    (Unanswerable, 422),
    (NotAllowed, 409),
    (ChangedMeanwhile, 412),
    (MissingIfMatch, 428),
    (TooManyAtOnce, 429),
    (Unavailable, 503),
)
HTTP_CODES = {404: "not-found", 405: "method-not-allowed"}

log = structlog.get_logger("headroom")


class MalformedRequest(Exception):
    """A request that cannot be read, with its HTTP status and problem code."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


def unknown_cursor() -> MalformedRequest:
    """Returns the error for a cursor that this service did not issue."""
    return MalformedRequest(400, "unknown-cursor", "Unknown cursor. Start without a cursor and follow next_cursor.")


class InvalidBody(Exception):
    """A body that was read but violates its schema."""

    def __init__(self, error: ValidationError, document: Any, model: type[BaseModel]) -> None:
        super().__init__("invalid body")
        self.error, self.document, self.model = error, document, model


def problem_response(
    status: int,
    *,
    code: str,
    detail: str,
    headers: dict[str, str] | None = None,
    **facts: Any,
) -> Response:
    """Returns a problem response; `code` is one of the problem kinds."""
    body = {
        "type": f"/problems/{code}",
        "title": problem_kinds()[code].title,
        "status": status,
        "detail": detail,
        **facts,
    }
    return Response(orjson.dumps(body), status_code=status, media_type="application/problem+json", headers=headers)


def escape_pointer_step(step: Any) -> str:
    """Escapes one step of a JSON pointer."""
    return str(step)[:80].replace("~", "~0").replace("/", "~1").encode("ascii", "replace").decode()


def json_pointer(location: Sequence[Any], document: Any, *, missing: bool = True) -> str:
    """Returns the RFC 6901 pointer of a validation error.

    Location steps that are not in the document belong to the schema and are dropped, except for the last step of a
    missing field.
    """
    node, parts = document, []
    for i, step in enumerate(location):
        last = i == len(location) - 1
        if (isinstance(node, dict) and step in node) or (
            isinstance(node, list) and isinstance(step, int) and 0 <= step < len(node)
        ):
            node = node[step]
        elif not (missing and last and isinstance(node, dict)):
            continue
        parts.append(escape_pointer_step(step))
    return "#/" + "/".join(parts) if parts else "#"


def validation_errors(errors: Sequence[Any], document: Any, model: type[BaseModel]) -> list[dict[str, str]]:
    """Returns at most twenty errors, each with a pointer and a message. Messages repeat only short names of the
    input.
    """
    shown = []
    for e in errors[:MAX_ERRORS]:
        where = json_pointer(e["loc"], document, missing=e["type"] == "missing")
        if e["type"] == "union_tag_invalid":
            where += "/" + str(e["ctx"]["discriminator"]).strip("'")
        shown.append({"pointer": where, "detail": with_location(error_message(e, model), where)})
    return shown


def with_location(message: str, place: str) -> str:
    """Returns the message with its location if it is about an unknown field: "Unknown field #/limt."."""
    return (
        message.replace(UNKNOWN_FIELD, f"{UNKNOWN_FIELD} {place}", 1) if message.startswith(UNKNOWN_FIELD) else message
    )


def error_message(error: Any, model: type[BaseModel] | None = None) -> str:
    """Returns a validation message with a hint on what was probably meant. It repeats only a name or a fraction of the
    input.
    """
    context = error.get("ctx") or {}
    kind, value = error["type"], error.get("input")
    if kind == "union_tag_invalid":
        return f"Accepted values for {context.get('discriminator', 'this field')}: {context.get('expected_tags')}"
    if kind == "extra_forbidden":
        return explain_unknown_field(model, error["loc"]) if model is not None else UNKNOWN_FIELD
    said = str(error["msg"]).removeprefix("Value error, ")
    if kind == "literal_error" and isinstance(value, str):
        return f"{quote_name(value)} is not accepted. {accepted_names_hint(value, context['expected'])}"
    return said + unit_hint(str(error["loc"][-1]) if error["loc"] else "", kind, value, context)


def query_model(request: Request) -> type[BaseModel] | None:
    """Returns the query parameter model of a route, or None."""
    taken = request.scope["route"].dependant.query_params
    return next((model for p in taken for model in models_in(p.field_info.annotation)), None)


def parameter_errors(errors: Sequence[Any], request: Request) -> list[dict[str, str]]:
    """Returns the errors of path and query parameters, with locations such as `query/limit`."""
    model = query_model(request)
    places = ["/".join(str(p)[:80] for p in e["loc"]) for e in errors[:MAX_ERRORS]]
    return [
        {"pointer": place, "detail": with_location(error_message(e, model), place)}
        for e, place in zip(errors, places, strict=False)
    ]


async def handle_app_error(_: Request, error: AppError) -> Response:
    status = next((s for family, s in STATUS if isinstance(error, family)), 400)
    headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, Unavailable) else None
    return problem_response(status, code=error.code, detail=error.detail, headers=headers, **error.facts)


async def handle_malformed(_: Request, error: MalformedRequest) -> Response:
    headers = {"Connection": "close"} if error.status in (408, 413) else None
    return problem_response(error.status, code=error.code, detail=error.detail, headers=headers)


async def handle_invalid_body(_: Request, error: InvalidBody) -> Response:
    raw = error.error.errors(include_url=False)
    return invalid_request_response(validation_errors(raw, error.document, error.model), error.error.error_count())


async def handle_invalid_parameters(request: Request, error: RequestValidationError) -> Response:
    raw = error.errors()
    shown = parameter_errors(raw, request)
    return invalid_request_response(shown, len(raw))


async def handle_http_error(request: Request, error: HTTPException) -> Response:
    detail = {
        404: "Unknown path. /docs lists all paths.",
        405: f"This path does not support {request.method[:20]}. The Allow header lists the supported methods.",
    }.get(error.status_code, str(error.detail))
    headers = dict(error.headers) if error.headers else None
    if error.status_code == 405:
        headers = {**(headers or {}), **allow_header(request)}
    code = HTTP_CODES.get(error.status_code, "unanswerable")
    return problem_response(error.status_code, code=code, detail=detail, headers=headers)


def allow_header(request: Request) -> dict[str, str]:
    """Returns the Allow header with every method of a path. The framework itself names only those of the first matching
    route.
    """
    path = getattr(request.scope.get("route"), "path", None)
    methods = request.app.openapi()["paths"].get(path, {})
    return {"Allow": ", ".join(sorted(m.upper() for m in methods))} if methods else {}


async def handle_out_of_time(_: Request, __: OutOfTime) -> Response:
    return problem_response(
        503,
        code="out-of-time",
        detail="The computation exceeded the time limit and was stopped. Retry later or send a smaller request.",
        headers={"Retry-After": "5"},
    )


async def handle_database_error(_: Request, error: DatabaseError) -> Response:
    log.error("database_unavailable", **describe_error(error))
    return problem_response(
        503,
        code="database-unavailable",
        detail="The catalog database is not available. Retry after the time in Retry-After.",
        headers={"Retry-After": "2"},
    )


async def handle_unexpected(request: Request, _: Exception) -> Response:
    """Returns a 500 response. RequestMiddleware logs the error."""
    return problem_response(
        500,
        code="internal-error",
        detail="An internal error occurred and was logged. Report it with its request_id if it persists.",
        request_id=getattr(request.state, "request_id", None),
    )


def install(app: FastAPI) -> None:
    """Registers every handler. They are asynchronous because FastAPI runs synchronous handlers in a thread."""
    handlers: dict[type[Exception], Any] = {
        AppError: handle_app_error,
        MalformedRequest: handle_malformed,
        InvalidBody: handle_invalid_body,
        RequestValidationError: handle_invalid_parameters,
        HTTPException: handle_http_error,
        OutOfTime: handle_out_of_time,
        DatabaseError: handle_database_error,
        Exception: handle_unexpected,
    }
    for family, handler in handlers.items():
        app.add_exception_handler(family, handler)


def invalid_request_response(errors: list[dict[str, str]], count: int) -> Response:
    """Returns a 422 response: the first error in the detail, all errors in `errors`."""
    first, more = errors[0], count - 1
    text = first["detail"]
    detail = text if text.startswith(UNKNOWN_FIELD) else f"At {first['pointer']}: {text}"
    detail += "" if detail.endswith((".", "?")) else "."
    if more:
        detail += f" ({more:,} more error{'s' if more > 1 else ''})"
    return problem_response(422, code="invalid-request", detail=detail, errors=errors)
