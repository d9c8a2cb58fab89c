"""Webhooks that this service sends, for the `webhooks` section of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header

from app.api.schemas.notices import Notice
from app.catalog.outbox import STATUS, STORED

router = APIRouter(tags=["procurement"])

Id = Annotated[str, Header(alias="webhook-id", description="Id of the event, the same for every retry.")]
Timestamp = Annotated[int, Header(alias="webhook-timestamp", description="Time of sending in seconds since 1970.")]
Signature = Annotated[
    str, Header(alias="webhook-signature", description="v1, and the HMAC-SHA256 of id.timestamp.body.")
]
ANSWERS: dict[int | str, dict[str, Any]] = {
    410: {"description": "The receiver no longer wants this event; it is not retried."},
    "default": {"description": "Any other status: the event is retried later."},
}


@router.post(
    STORED, operation_id="recommendationStored", status_code=204, responses=ANSWERS, summary="An answer was stored"
)
def notify_stored(notice: Notice, id: Id, timestamp: Timestamp, signature: Signature) -> None:
    """Sent after an answer was stored. Reply with a 2xx status within 10 s. Any other reply is retried, except 410."""


@router.post(
    STATUS,
    operation_id="recommendationStatus",
    status_code=204,
    responses=ANSWERS,
    summary="An approval status changed",
)
def notify_status(notice: Notice, id: Id, timestamp: Timestamp, signature: Signature) -> None:
    """Sent after the status of an answer changed to approved, ordered or superseded. Replies as for the stored
    event.
    """
