"""Changes of shared data: each in one transaction, once per Idempotency-Key, for the version that If-Match names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Header, Request
from fastapi.responses import Response
from pydantic import AfterValidator
from sqlalchemy.orm import Session, sessionmaker

from app.api.schemas.base import require_printable
from app.catalog.holdings import StoredResponse, find_response, request_digest, store_response
from app.catalog.keys import Caller
from app.catalog.tenants import lock_tenant
from app.errors import ChangedMeanwhile, MissingIfMatch, ReusedIdempotencyKey

Transaction = Session  # of a change
REPLAYED = {"Idempotency-Replayed": "true"}
STORED_HEADERS = ("etag", "content-type")

IfMatch = Annotated[
    str | None, Header(alias="If-Match", max_length=200, description="ETag that you read, or * for any version.")
]
IdempotencyKey = Annotated[
    Annotated[str, AfterValidator(require_printable)] | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="Key of your own for this change, such as a UUID. A repeated request with the same key and body "
        "within a day returns the first response and changes nothing.",
    ),
]


@dataclass(frozen=True, slots=True)
class Write:
    """A change that a caller asks for. `sent` identifies the request: a repetition has the same."""

    caller: Caller
    key: str | None
    sent: str

    @classmethod
    def of(cls, request: Request, caller: Caller, key: str | None, body: bytes = b"") -> Write:
        further = (request.url.query, request.headers.get("if-match", ""))
        return cls(caller, key, request_digest(request.method, request.url.path, body, *further))


def perform_write(sessions: sessionmaker[Session], write: Write, change: Callable[[Session], Response]) -> Response:
    """Makes a change in one transaction and returns its response, or that of the first request with its
    Idempotency-Key. Changes of one tenant wait for each other. Raises ReusedIdempotencyKey and what `change` raises.
    """
    now, tenant = datetime.now(UTC), write.caller.tenant
    with sessions() as session, session.begin():
        connection = session.connection()
        lock_tenant(connection, tenant)
        known = None if write.key is None else find_response(connection, tenant, write.key, now=now)
        if known is not None:
            return _replay(known, write)
        response = change(session)
        if write.key is not None:
            kept = {name: value for name, value in response.headers.items() if name in STORED_HEADERS}
            stored = StoredResponse(write.sent, response.status_code, kept, bytes(response.body))
            store_response(connection, tenant, write.key, stored, now=now)
    return response


def _replay(known: StoredResponse, write: Write) -> Response:
    if known.request != write.sent:
        raise ReusedIdempotencyKey("This Idempotency-Key was used for another request. Send a new key.")
    headers: Mapping[str, str] = {**known.headers, **REPLAYED}
    return Response(known.body, status_code=known.status, headers=dict(headers))


def check_if_match(if_match: str | None, tag: str, *, what: str, source: str) -> None:
    """Checks that a change applies to the version that the client read. Raises MissingIfMatch and ChangedMeanwhile."""
    if if_match is None:
        raise MissingIfMatch(f"Send If-Match with the ETag of the {what} that you change. {source} returns it.")
    if tag not in (sent := [t.strip() for t in if_match.split(",")]) and "*" not in sent:
        raise ChangedMeanwhile(
            f"The {what} has changed since you read it. Its ETag is now {tag}. Read it again.", etag=tag
        )
