"""Reads a request body strictly: size, time, encoding, depth and JSON's dark corners first, schema second."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from app.api.problems import Invalid, Malformed

M = TypeVar("M", bound=BaseModel)

MAX_DEPTH = 32
MAX_NUMBER_LENGTH = 60


async def read_body(request: Request) -> bytes:
    """The raw body, within the size and time that settings allow; only plain JSON media types."""
    limit, deadline = request.app.state.settings.max_body_bytes, request.app.state.settings.body_deadline_s
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Malformed(415, "unsupported-media-type", "Send the body as application/json.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Malformed(415, "unsupported-encoding", "Send the body without content encoding.")
    too_large = Malformed(413, "body-too-large", f"The body may be at most {limit:,} bytes.")
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
        raise Malformed(408, "body-too-slow", f"The body must arrive within {deadline:g} seconds.") from None
    except ClientDisconnect:
        raise Malformed(400, "client-disconnected", "The connection closed before the body was complete.") from None
    return b"".join(chunks)


def _refuse(detail: str) -> Malformed:
    return Malformed(400, "malformed-json", detail)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise _refuse("An object has the same key twice; which value is meant cannot be known.")
    return keys


def _constant(_: str) -> Any:
    raise _refuse("NaN and Infinity are not numbers of JSON; leave the field out or send a finite number.")


def _float(text: str) -> float:
    value = float(text)
    if len(text) > MAX_NUMBER_LENGTH or not math.isfinite(value):
        raise _refuse("A number is out of range.")
    return value


def _int(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise _refuse("A number has too many digits.")
    return int(text)


STRING = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")
NOT_PLAIN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def _check(value: Any) -> None:
    """Strings must be plain text: no control characters, no lone surrogates."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(node.keys())
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, str) and NOT_PLAIN.search(node):
            raise _refuse("A string holds a control character or half of a character pair; only plain text is taken.")


def _depth(text: str) -> int:
    """Deepest nesting of brackets outside strings."""
    depth = deepest = 0
    for bracket in BRACKET.findall(STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def document_of(raw: bytes) -> Any:
    """The body as a document; Malformed says what JSON it is not."""
    if not raw.strip():
        raise _refuse("The body is empty; a JSON object is needed.")
    if raw[:3] == b"\xef\xbb\xbf" or b"\x00" in raw[:4]:
        raise _refuse("The body must be UTF-8 without a byte-order mark.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _refuse("The body is not UTF-8.") from None
    if _depth(text) > MAX_DEPTH:
        raise _refuse(f"The body is nested deeper than {MAX_DEPTH} levels.")
    try:
        document = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
        )
    except json.JSONDecodeError as error:
        raise _refuse(f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from None
    _check(document)
    return document


def parsed(raw: bytes, model: type[M]) -> M:
    """The body as a wire model, strictly."""
    document = document_of(raw)
    try:
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise Invalid(error, document, model) from None
