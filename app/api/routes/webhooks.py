"""What this service posts to others, for the document: /openapi.json lists it under `webhooks`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header

from app.api.schemas.notices import Notice
from app.catalog.outbox import STATUS, STORED

router = APIRouter(tags=["procurement"])

Id = Annotated[str, Header(alias="webhook-id", description="Of the event, the same at every try.")]
Timestamp = Annotated[int, Header(alias="webhook-timestamp", description="When it was sent, seconds since 1970.")]
Signature = Annotated[str, Header(alias="webhook-signature", description="v1, and HMAC-SHA256 of id.timestamp.body.")]
ANSWERS: dict[int | str, dict[str, Any]] = {
    410: {"description": "Nobody wants it any more: it is given up."},
    "default": {"description": "Any other: it is tried again later."},
}


@router.post(
    STORED, operation_id="recommendationStored", status_code=204, responses=ANSWERS, summary="An answer was stored"
)
def stored(notice: Notice, id: Id, timestamp: Timestamp, signature: Signature) -> None:
    """Any 2xx within 10 s is delivery; anything else is tried again, but for 410."""


@router.post(
    STATUS,
    operation_id="recommendationStatus",
    status_code=204,
    responses=ANSWERS,
    summary="A stored answer was moved on",
)
def status(notice: Notice, id: Id, timestamp: Timestamp, signature: Signature) -> None:
    """The same after somebody approved, ordered or superseded it."""
