"""Reads request bodies strictly: size, time, encoding, nesting depth and ambiguous JSON first, then the schema."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from app.api.problems import InvalidBody, MalformedRequest, escape_pointer_step
from app.api.schemas.model import as_plain_json
from app.errors import Unanswerable

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]

MAX_DEPTH = 32
MAX_NUMBER_LENGTH = 60
MIN_MAGNITUDE = 1e-30  # of a number other than 0: quotients by it remain finite
MAX_FIELDS = 100  # of a form
MAX_VALUES = 150_000  # of a document: each takes a hundred bytes and more once it is read
MAX_MEMBERS = 20_000  # of all objects of a document; each that its schema does not have is an error to be described


JSON = ("application/json", "+json")
XML = ("application/xml", "text/xml", "+xml")
FORM = ("application/x-www-form-urlencoded",)
RESULT_FILE = ("application/json", "application/x-ndjson", "text/plain", "application/octet-stream")


async def read_body(request: Request) -> bytes:
    """Returns the raw body, within the size and time limits of the settings. Accepts only JSON media types."""
    return await read_raw(request, JSON, request.app.state.settings.max_body_bytes)


async def read_pasted_body(request: Request) -> bytes:
    """Returns the raw body of a call that accepts pasted metrics and logs, which has a higher size limit."""
    return await read_raw(request, JSON, request.app.state.settings.max_pasted_bytes)


async def read_result_file(request: Request) -> bytes:
    """Returns the raw file of a benchmark's results, as JSON, JSON lines or text."""
    return await read_raw(request, RESULT_FILE, request.app.state.settings.max_pasted_bytes)


async def read_raw(request: Request, media_types: tuple[str, ...], limit: int) -> bytes:
    """Returns the raw body of one of `media_types` and at most `limit` bytes. Raises MalformedRequest."""
    deadline = request.app.state.settings.body_deadline_s
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in media_types and not (kind.startswith("application/") and kind.endswith(media_types)):
        raise MalformedRequest(415, "unsupported-media-type", f"Send the body as {media_types[0]}.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise MalformedRequest(
            415, "unsupported-encoding", "Send the body uncompressed, without a Content-Encoding header."
        )
    too_large = MalformedRequest(413, "body-too-large", f"The body exceeds the limit of {limit:,} bytes.")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(deadline):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise MalformedRequest(408, "body-too-slow", f"The body must arrive within {deadline:g} seconds.") from None
    except ClientDisconnect:
        raise MalformedRequest(
            400, "client-disconnected", "The connection closed before the body was complete."
        ) from None
    return b"".join(chunks)


async def read_form(request: Request) -> dict[str, str]:
    """Returns the fields of a form. If a field occurs twice, the last value counts."""
    raw = await read_raw(request, FORM, request.app.state.settings.max_body_bytes)
    try:
        fields = dict(
            parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
        )
    except ValueError:
        raise MalformedRequest(
            400, "malformed-form", f"The form is not UTF-8 or has more than {MAX_FIELDS} fields."
        ) from None
    check_strings(fields, code="malformed-form")
    return fields


async def reject_body(request: Request) -> None:
    """Rejects a body on calls that take none, so that no input is silently ignored."""
    async for chunk in request.stream():
        if chunk:
            raise MalformedRequest(
                400, "no-body-taken", "This call takes no body. Send its parameters in the query, such as ?rank=2."
            )


def _malformed_json(detail: str) -> MalformedRequest:
    return MalformedRequest(400, "malformed-json", detail)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise _malformed_json("An object contains the same key twice. Send each key once.")
    return keys


# Documents of other tools that a request may contain as they are: they write limits that do not exist as Infinity.
FOREIGN_FIELDS = frozenset(("huggingface_config",))
FAIL_FAST_FIELDS = frozenset(("trace",))


class LargeInteger(Unanswerable):
    """Raised for an integer that JSON libraries cannot write back."""

    code = "invalid-request"

    def __init__(self, place: Place) -> None:
        pointer = "/".join(("#", *map(escape_pointer_step, place)))
        detail = "An integer must fit in 64 bits. Send a smaller number"
        super().__init__(f"At {pointer}: {detail}.", errors=[{"pointer": pointer, "detail": detail}])


def _with_plain_numbers(node: Any, place: Place = ()) -> Any:
    """The document with only numbers that can be written back as JSON: in documents of other tools, NaN and Infinity
    become null and integers beyond 64 bits floats. Raises MalformedRequest and LargeInteger elsewhere.
    """
    if isinstance(node, dict):
        return {
            k: as_plain_json(v) if k in FOREIGN_FIELDS else _with_plain_numbers(v, (*place, k)) for k, v in node.items()
        }
    if isinstance(node, list):
        return [_with_plain_numbers(v, (*place, i)) for i, v in enumerate(node)]
    if isinstance(node, float) and not math.isfinite(node):
        raise _malformed_json("NaN and Infinity are not valid JSON numbers. Send a finite number or omit the field.")
    if _is_large(node):
        raise LargeInteger(place)
    return node


def _is_large(value: Any) -> bool:
    """Returns whether a value is an integer beyond 64 bits, which orjson cannot write."""
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def _read_float(text: str) -> float:
    value = float(text)
    if len(text) > MAX_NUMBER_LENGTH or not math.isfinite(value) or 0 < abs(value) < MIN_MAGNITUDE:
        raise _malformed_json(f"A number is out of range: send 0, or a magnitude from {MIN_MAGNITUDE:g} to 1.8e+308.")
    return value


def _read_int(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise _malformed_json("A number has too many digits.")
    return int(text)


STRING = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")
# Control characters, bidirectional controls, line separators and lone surrogates.
NOT_PLAIN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
NOT_TEXT = re.compile("[\ud800-\udfff]")


def check_strings(value: Any, pasted: frozenset[str] = frozenset(), *, code: str = "malformed-json") -> None:
    """Raises MalformedRequest with the given code if a string contains control characters or lone surrogates. Pasted
    fields may contain control characters.
    """
    stack = [(value, NOT_PLAIN)]
    while stack:
        node, refused = stack.pop()
        if isinstance(node, dict):
            stack.extend((key, NOT_PLAIN) for key in node)
            stack.extend((held, NOT_TEXT if key in pasted else NOT_PLAIN) for key, held in node.items())
        elif isinstance(node, list):
            stack.extend((held, NOT_PLAIN) for held in node)
        elif isinstance(node, str) and refused.search(node):
            raise MalformedRequest(
                400,
                code,
                "A string contains a control character, a bidirectional or line-break character, or a lone surrogate. "
                "Send plain text.",
            )


def _check_shape(text: str) -> None:
    """Raises MalformedRequest if a JSON text has too many values or is nested too deep, before it is read."""
    structure = STRING.sub("", text)
    if sum(map(structure.count, ",[{")) > MAX_VALUES:
        raise _malformed_json(f"The body has more than {MAX_VALUES:,} values.")
    depth = 0
    for bracket in BRACKET.findall(structure):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise _malformed_json(f"The body is nested deeper than {MAX_DEPTH} levels.")


def _check_members(document: Any) -> None:
    """Raises MalformedRequest if the objects of a document have too many members. Documents of other tools, which no
    schema describes, do not count, and of lists whose validation ends at the first invalid entry the longest entry.
    """
    stack, members = [document], 0
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            members += len(node)
            for key, held in node.items():
                if key in FAIL_FAST_FIELDS and isinstance(held, list):
                    stack.append(max((entry for entry in held if isinstance(entry, dict)), key=len, default=None))
                elif key not in FOREIGN_FIELDS:
                    stack.append(held)
        elif isinstance(node, list):
            stack.extend(held for held in node if isinstance(held, dict | list))
    if members > MAX_MEMBERS:
        raise _malformed_json(f"The body has more than {MAX_MEMBERS:,} fields.")


def parse_document(raw: bytes, pasted: frozenset[str] = frozenset()) -> Any:
    """Returns a JSON body; fields in `pasted` may have several lines. Raises MalformedRequest and LargeInteger."""
    if not raw.strip():
        raise _malformed_json("The body is empty. Send a JSON object.")
    if raw[:3] == b"\xef\xbb\xbf" or b"\x00" in raw[:4]:
        raise _malformed_json("The body must be UTF-8 without a byte-order mark.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed_json("The body is not UTF-8.") from None
    _check_shape(text)
    unusual: list[object] = []

    def read_constant(name: str) -> float:
        unusual.append(name)
        return math.inf if name == "Infinity" else -math.inf if name == "-Infinity" else math.nan

    def read_int(digits: str) -> int:
        value = _read_int(digits)
        if _is_large(value):
            unusual.append(value)
        return value

    try:
        document = json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_constant=read_constant,
            parse_float=_read_float,
            parse_int=read_int,
        )
    except json.JSONDecodeError as error:
        raise _malformed_json(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    if unusual:
        document = _with_plain_numbers(document)
    check_strings(document, pasted)
    _check_members(document)
    return document


def parse_body(raw: bytes, model: type[M], pasted: frozenset[str] = frozenset()) -> M:
    """Validates the body strictly against `model`. Raises MalformedRequest, LargeInteger and InvalidBody."""
    document = parse_document(raw, pasted)
    try:
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise InvalidBody(error, document, model) from None
