"""Ready-made problem documents for connections that are refused before the application sees a request."""

from __future__ import annotations

from http import HTTPStatus

import orjson

from app.api.problems import problem_kinds


def make_refusal(code: str, detail: str, *, retry_after_s: int | None = None) -> bytes:
    """Returns a complete HTTP response without a Date header, after which the connection closes."""
    kind = problem_kinds()[code]
    body = orjson.dumps(
        {"type": f"/problems/{code}", "title": kind.title, "status": kind.status, "detail": detail},
    )
    lines = [
        f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}",
        "content-type: application/problem+json",
        f"content-length: {len(body)}",
        "x-content-type-options: nosniff",
        "connection: close",
    ]
    if retry_after_s is not None:
        lines.append(f"retry-after: {retry_after_s}")
    return "\r\n".join((*lines, "", "")).encode() + body


MALFORMED = make_refusal(
    "malformed-http", "The request is not valid HTTP/1.1. Send a well-formed request with exactly one Host header."
)
HEADERS_TOO_LARGE = make_refusal(
    "headers-too-large",
    "The request has too many headers, or its headers are too large. Send fewer or shorter headers.",
)
URL_TOO_LONG = make_refusal("url-too-long", "The URL of the request is too long. Use a shorter URL.")
HEADERS_TOO_SLOW = make_refusal("headers-too-slow", "The headers of the request did not arrive within the time limit.")
POOL_FULL = make_refusal(
    "too-many-connections",
    "Every connection of this service has a request in progress. Retry after the time in Retry-After.",
    retry_after_s=1,
)
ADDRESS_FULL = make_refusal(
    "too-many-connections-of-one",
    "Your address has reached the limit of connections per address. Close one, then retry.",
    retry_after_s=1,
)
