"""Renders errors as RFC 9457 problem responses, maps error families to HTTP statuses, and serves a page per kind."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Any, Literal, get_args, get_origin

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.api.doubts import accepted_names_hint, unit_hint
from app.api.meant import explain_misnamed, is_configuration, phase_message, related_fields, smallest_request
from app.api.schemas.base import field_texts
from app.api.typed_numbers import read_number
from app.catalog.names import quote_name
from app.db import DatabaseError, is_damaged, storage_remedy
from app.errors import (
    AppError,
    ChangedMeanwhile,
    Conflict,
    FilingLimited,
    MissingIfMatch,
    MissingScope,
    NotAllowed,
    NotFound,
    RateLimited,
    TooManyAtOnce,
    Unanswerable,
    Unauthenticated,
    Unavailable,
    describe_error,
)
from app.extras import MissingExtra
from app.sizing.words import join_words
from app.work import OutOfTime

Models = tuple[type[BaseModel], ...]
UNKNOWN_FIELD = "Unknown field"
TOP_LEVEL = "the request"  # stands for the empty path
MAX_PLACES = 3
MIN_SIMILARITY = 0.6
PHASES = ("inference", "training", "fine_tuning")  # tags of workloads in a location
ID_PATTERN = re.compile(r"\^(rec|meas)_")
ID_LISTS = {"rec": "/recommendations", "meas": "/measurements"}  # the lists of the ids with a prefix
HOURLY = ("hourly_factors", "hours")  # lists with an entry for each hour


@cache
def models_in(annotation: Any) -> Models:
    """Returns the models in a type annotation, including those in unions, lists and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    if get_origin(annotation) is Literal:
        return ()
    return tuple(dict.fromkeys(model for part in get_args(annotation) for model in models_in(part)))


def model_phase(model: type[BaseModel]) -> str | None:
    """Returns the phase of a workload model, or None for other models."""
    field = model.model_fields.get("phase")
    return get_args(field.annotation)[0] if field is not None and get_origin(field.annotation) is Literal else None


def models_at(root: type[BaseModel], location: Sequence[Any]) -> Models:
    """Returns the models at a location of the request. A phase tag in the location selects among several models."""
    models: Models = (root,)
    for step in location:
        annotations: list[Any] = [model.model_fields[step].annotation for model in models if step in model.model_fields]
        below = tuple(found for annotation in annotations for found in models_in(annotation))
        models = below or tuple(m for m in models if model_phase(m) == step) or models
    return models


@cache
def field_places(root: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Maps every field name of a request to the dotted paths of its parents, marked with the phase if one applies."""
    paths_by_name: dict[str, dict[str, None]] = {}
    for name, path in _walk_fields(root, "", ()):
        paths_by_name.setdefault(name, {})[path] = None
    return {name: tuple(paths) for name, paths in paths_by_name.items()}


def _walk_fields(model: type[BaseModel], path: str, above: Models) -> Iterator[tuple[str, str]]:
    phase = model_phase(model)
    for name, field in model.model_fields.items():
        yield name, (path or TOP_LEVEL) + (f" of phase {phase}" if phase is not None else "")
        annotation: Any = field.annotation
        for below in models_in(annotation):
            if below not in above:
                yield from _walk_fields(below, f"{path}.{name}" if path else name, (*above, model))


def explain_unknown_field(root: type[BaseModel], location: Sequence[Any]) -> str:
    """Returns the error text for an unknown field: the closest accepted field, or the accepted fields."""
    name = str(location[-1])[:80]
    here = sorted({field for model in models_at(root, location[:-1]) for field in model.model_fields})
    close = difflib.get_close_matches(name.lower(), here, n=1, cutoff=MIN_SIMILARITY)
    if close and close[0].replace("_", "") == name.lower().replace("_", "").replace("-", ""):
        return f"{UNKNOWN_FIELD}. Did you mean {close[0]}?"
    related = related_fields(name, fields_near(root, location[:-1]))
    if related:
        above = ".".join(str(step) for step in location[:-1] if isinstance(step, str) and step not in PHASES)
        paths = [f"{above}.{field}" if above and "." in field else field for field in related[:MAX_PLACES]]
        return f"{UNKNOWN_FIELD}. Did you mean {join_words(paths, 'or')}?"
    serves = {"training", "fine_tuning"}.isdisjoint(location)
    misnamed = explain_misnamed(name, root, serves=serves)
    elsewhere = field_places(root).get(name)
    if misnamed and (not elsewhere or "inference" in location):
        return f"{UNKNOWN_FIELD}. {misnamed}"
    is_small = 0 < len(here) <= MAX_PLACES  # its own fields say more than fields of other objects
    if elsewhere and not is_small:
        nearest = sorted(elsewhere, key=lambda place: place.count("."))[:MAX_PLACES]
        return f"{UNKNOWN_FIELD}. Did you mean {join_words([_field_path(place, name) for place in nearest], 'or')}?"
    if close:
        return f"{UNKNOWN_FIELD}. Did you mean {close[0]}?"
    near = difflib.get_close_matches(name.lower(), field_places(root), n=1, cutoff=MIN_SIMILARITY)
    if near and not is_small:
        paths = [_field_path(place, near[0]) for place in field_places(root)[near[0]][:MAX_PLACES]]
        return f"{UNKNOWN_FIELD}. Did you mean {join_words(paths, 'or')}?"
    return f"{UNKNOWN_FIELD}. Accepted fields: {', '.join(here)}" if here else UNKNOWN_FIELD


def fields_near(root: type[BaseModel], location: Sequence[Any]) -> list[str]:
    """Returns the fields at a location, and the dotted paths of the fields one level below."""
    models = models_at(root, location)
    here = dict.fromkeys(name for model in models for name in model.model_fields)
    fields: list[tuple[str, Any]] = [(name, f.annotation) for model in models for name, f in model.model_fields.items()]
    below = (f"{name}.{field}" for name, part in fields for inner in models_in(part) for field in inner.model_fields)
    return [*here, *dict.fromkeys(below)]


def _field_path(place: str, name: str) -> str:
    """Returns the dotted path of a field from its entry in `field_places`, with the phase in brackets if any."""
    path, _, phase = place.partition(" of phase ")
    return (name if path == TOP_LEVEL else f"{path}.{name}") + (f" (phase {phase})" if phase else "")


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: HTTP status, title, what happened and what to do."""

    status: int
    title: str
    happened: str
    remedy: str


@cache
def problem_kinds() -> dict[str, ProblemKind]:
    """Returns the kinds of problems by the last part of their type URI."""
    text = resources.files("app.api.schemas").joinpath("problems.toml").read_text(encoding="utf-8")
    return {slug: ProblemKind(**fields) for slug, fields in tomllib.loads(text).items()}


def problem_page(slug: str) -> str:
    """Returns the HTML of one kind of problem. Raises KeyError if there is none."""
    kind = problem_kinds()[slug]
    return (
        f"<h1>{escape(kind.title)}</h1>\n<p>{escape(kind.happened)}</p>\n"
        f"<h2>What to do</h2>\n<p>{escape(kind.remedy)}</p>\n"
        f"<p>Answered with status {kind.status} as <code>application/problem+json</code> (RFC 9457) of type "
        f'<code>/problems/{escape(slug)}</code>. <a href="/problems">All problems</a>, <a href="/docs">the API</a>.</p>'
    )


def problem_index_page() -> str:
    """Returns the HTML that lists every kind of problem."""
    rows = "\n".join(
        f'<tr><td>{kind.status}</td><td><a href="/problems/{slug}">{slug}</a></td><td>{escape(kind.happened)}</td></tr>'
        for slug, kind in problem_kinds().items()
    )
    head = "<tr><th>Status</th><th>Type</th><th>What happened</th></tr>"
    table = f"<table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    return f'<h1>Problems</h1>\n<div class="scroll" tabindex="0" role="region" aria-label="Problems">{table}</div>'


MAX_ERRORS = 20
MAX_DESCRIBED = 1_000  # errors of a body; pydantic describes all at once, and no other request is answered meanwhile
STATUS: tuple[tuple[type[AppError], int], ...] = (
    (NotFound, 404),
    (Conflict, 422),
    (Unanswerable, 422),
    (NotAllowed, 409),
    (ChangedMeanwhile, 412),
    (MissingIfMatch, 428),
    (Unauthenticated, 401),
    (MissingScope, 403),
    (TooManyAtOnce, 429),
    (RateLimited, 429),
    (FilingLimited, 429),
    (MissingExtra, 501),
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
    """Returns at most twenty errors with pointer and message. Messages repeat only short names of the input."""
    shown: dict[tuple[str, str], None] = {}
    for e in errors[:MAX_ERRORS]:
        where = json_pointer(e["loc"], document, missing=e["type"] == "missing")
        if e["type"].startswith("union_tag_"):
            where = where.rstrip("/") + "/" + str(e["ctx"]["discriminator"]).strip("'")
        message = with_location(error_message(e, model), where)
        if e["type"] == "missing" and len(e["loc"]) == 1:
            message = f"{message}. {smallest_request(model, document)}".rstrip(". ")
        if (holder := pasted_configuration(e["loc"], document)) is not None:
            where, message = (
                holder,
                f"This is a config.json. Send it as {holder[2:].replace('/', '.')}.huggingface_config",
            )
        shown[where, message] = None
    return [{"pointer": where, "detail": message} for where, message in shown]


def pasted_configuration(location: Sequence[Any], document: Any) -> str | None:
    """Returns the pointer of the config.json that a model was replaced with, if an error is in one."""
    node, path = document, []
    for step in location:
        if not isinstance(node, dict) or step not in node:
            continue
        node = node[step]
        path.append(escape_pointer_step(step))
        if step == "model" and is_configuration(node):
            return "#/" + "/".join(path)
    return None


def with_location(message: str, place: str) -> str:
    """Returns the message with its location if it is about an unknown field: "Unknown field #/limt."."""
    return (
        message.replace(UNKNOWN_FIELD, f"{UNKNOWN_FIELD} {place}", 1) if message.startswith(UNKNOWN_FIELD) else message
    )


def error_message(error: Any, model: type[BaseModel] | None = None) -> str:
    """Returns a validation message with a hint on what was meant. It repeats only a name or part of the input."""
    context = error.get("ctx") or {}
    kind, value = error["type"], error.get("input")
    if kind == "union_tag_invalid":
        tag = quote_name(str(context.get("tag")))
        return f"{tag} is not accepted. {phase_message(str(context.get('tag')), str(context.get('expected_tags')))}"
    if kind == "union_tag_not_found":
        return missing_tag_message(error, model)
    if kind in ("too_short", "too_long") and context.get("field_type") == "List":
        return list_length_message(str(error["loc"][-1]), context)
    if kind.startswith(("int", "float")) and isinstance(value, str):
        number = read_number(value, str(error["loc"][-1]).rpartition("_")[2])
        suggestion = f": send {number:.15g}" if number is not None and math.isfinite(number) else ""
        wanted = "integer" if kind.startswith("int") else "number"
        return f"Input should be a valid {wanted}{suggestion}, without quotes or a unit"
    if kind in ("list_type", "tuple_type") and isinstance(value, str | int | float) and len(str(value)) <= 80:
        return f"Input should be a list: send {orjson.dumps([value]).decode()}"
    if kind == "model_type" and model is not None and (fields := needed_fields(models_at(model, error["loc"]))):
        return f"Input should be an object with {fields}"
    if kind == "missing" and model is not None and len(error["loc"]) > 1:
        described = describe_missing(models_at(model, error["loc"][:-1]), str(error["loc"][-1]))
        return f"{error['msg']}: {described}" if described else str(error["msg"])
    if kind == "string_pattern_mismatch" and (form := ID_PATTERN.match(str(context.get("pattern", "")))):
        listed = f"GET {ID_LISTS[form[1]]} lists them"
        return f"{quote_name(str(value))} is not an id: {form[1]}_ and 28 hexadecimal digits. {listed}"
    if kind == "extra_forbidden":
        return explain_unknown_field(model, error["loc"]) if model is not None else UNKNOWN_FIELD
    said = str(error["msg"]).removeprefix("Value error, ")
    if kind == "literal_error" and isinstance(value, str):
        return f"{quote_name(value)} is not accepted. {accepted_names_hint(value, context['expected'])}"
    return said + unit_hint(str(error["loc"][-1]) if error["loc"] else "", kind, value, context)


MOST_NAMED = 8  # fields in one sentence


def needed_fields(models: Models) -> str:
    """Returns the fields that an object of the first model must have, or else the first that it may have, as text."""
    fields = models[0].model_fields if models else {}
    required = [name for name, field in fields.items() if field.is_required()]
    return join_words(required or list(fields)[:MOST_NAMED], "and" if required else "or")


def describe_missing(models: Models, name: str) -> str:
    """Returns the description of a field as the OpenAPI document states it; empty if there is none."""
    texts = field_texts()
    for model in models:
        if (field := model.model_fields.get(name)) is not None:
            text = field.description or texts.get(model.__name__, {}).get(name) or texts["any"].get(name, "")
            return text.rstrip(".")
    return ""


def missing_tag_message(error: Any, model: type[BaseModel] | None) -> str:
    """Returns the message for a union whose discriminator is missing, with the accepted values."""
    name = str(error["ctx"]["discriminator"]).strip("'")
    phases = [model_phase(m) for m in models_at(model, error["loc"])] if model is not None else []
    accepted = list(dict.fromkeys(phase for phase in phases if phase))
    return f"{name} is missing" + (f": send {join_words(accepted, 'or')}" if accepted else "")


def list_length_message(field: str, context: Mapping[str, Any]) -> str:
    bound, actual = context.get("min_length", context.get("max_length")), context.get("actual_length")
    if field in HOURLY:
        return f"Send {bound} numbers, one for each hour of the day, not {actual}"
    return f"Send at {'least' if 'min_length' in context else 'most'} {bound} entries, not {actual}"


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
    if isinstance(error, Unauthenticated):
        headers = {"WWW-Authenticate": 'Bearer realm="headroom"'}
    return problem_response(status, code=error.code, detail=error.detail, headers=headers, **error.facts)


async def handle_malformed(_: Request, error: MalformedRequest) -> Response:
    headers = {"Connection": "close"} if error.status in (408, 413) else None
    return problem_response(error.status, code=error.code, detail=error.detail, headers=headers)


async def handle_invalid_body(_: Request, error: InvalidBody) -> Response:
    count = error.error.error_count()
    if count > MAX_DESCRIBED:
        detail = f"{count:,} fields are invalid. Compare the body with the schema in /docs"
        return invalid_request_response([{"pointer": "#", "detail": detail}], 1)
    raw = error.error.errors(include_url=False)
    shown = validation_errors(raw, error.document, error.model)
    repeated = len(raw[:MAX_ERRORS]) - len(shown)
    return invalid_request_response(shown, count - repeated)


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
    """Returns the Allow header with every method of a path. The framework names only those of the first route."""
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
    if is_damaged(error):
        return problem_response(
            503,
            code="database-damaged",
            detail="The database file is damaged. Retrying does not help: its operator must restore a backup.",
        )
    return problem_response(
        503,
        code="database-unavailable",
        detail=storage_remedy(error) or "The catalog database is not available. Retry after the time in Retry-After.",
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
    named = text.startswith(UNKNOWN_FIELD) or first["pointer"].startswith("path/")
    detail = text if named else f"At {first['pointer']}: {text}"
    detail += "" if detail.endswith((".", "?")) else "."
    if more:
        detail += f" ({more:,} more error{'s' if more > 1 else ''})"
    return problem_response(422, code="invalid-request", detail=detail, errors=errors)
