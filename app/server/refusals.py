"""What a connection is told that is cut before the application sees a request: problem documents, ready made."""

from __future__ import annotations

from http import HTTPStatus

import orjson

from app.api.kinds import kinds


def refusal(code: str, detail: str, *, retry_after_s: int | None = None) -> bytes:
    """A whole answer but for its first line's date, after which the connection closes."""
    kind = kinds()[code]
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


MALFORMED = refusal("malformed-http", "What was sent is no request of HTTP/1.1, or has other than one Host.")
HEADERS = refusal("headers-too-large", "The request has more headers, or longer ones, than this service takes.")
URL = refusal("url-too-long", "The address asked for is longer than this service takes.")
SLOW = refusal("headers-too-slow", "The headers of the request did not arrive in time.")
FULL = refusal("too-many-connections", "Every connection of this service has a request under way.", retry_after_s=1)
CROWDED = refusal(
    "too-many-connections-of-one",
    "This address has as many connections as one may have.",
    retry_after_s=1,
)
