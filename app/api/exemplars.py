"""Provides one example per response status of every operation, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

import orjson

from app.api.problems import MalformedRequest, invalid_request_response, problem_response, unknown_cursor
from app.catalog.filing import unknown_recommendation
from app.errors import (
    AppError,
    ChangedMeanwhile,
    MissingIfMatch,
    NotAllowed,
    TooManyAtOnce,
    UnknownAccelerator,
    UnknownModel,
)

Schema = dict[str, Any]
REF = "#/components/schemas/"
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
    409: (
        "NotAllowed",
        NotAllowed(
            "This recommendation is draft and cannot become ordered. Allowed next: approved or superseded.",
            allowed=["approved", "superseded"],
        ),
    ),
    412: ("Stale", ChangedMeanwhile("The status has changed since you read it.", etag='"status-2"')),
    429: ("TooManyAtOnce", TooManyAtOnce("Your address has the most waiting requests. Send fewer requests at a time.")),
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
    """Returns the name of the problem example for a status of an operation."""
    if status == 400:
        return "UnknownCursor" if method == "get" else "NoBodyTaken" if path.endswith("/reprice") else "MalformedJson"
    if status == 404:
        return next(
            (
                name
                for part, name in ((STORED, "UnknownRecommendation"), ("/support", "UnknownAccelerator"))
                if part in path
            ),
            "UnknownModel",
        )
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
                    name = media.get("schema", {}).get("$ref", "").removeprefix(REF)
                    if name == "Problem":
                        media["examples"] = {
                            "refused": {"$ref": EXAMPLES + problem_example_name(int(status), path, method)}
                        }
                    elif name and components["schemas"][name].get("examples"):
                        kept[name] = {"value": components["schemas"][name]["examples"][0]}
                        media["examples"] = {"answer": {"$ref": EXAMPLES + name}}
                    elif kind in TEXTS:
                        media["example"] = TEXTS[kind]
