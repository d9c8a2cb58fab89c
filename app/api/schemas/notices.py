"""Schemas of webhook events."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.api.schemas.base import Component, ResponseModel, with_examples
from app.api.schemas.filing import StatusName
from app.catalog.outbox import STATUS

DATA = {
    "id": "rec_0123456789abcdef0123456789ab",
    "status": "approved",
    "label": "chat, second site",
    "reference": "PR-2026-0417",
    "cost_centre": "4711",
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "option": "8 x NVIDIA H200 SXM 141GB",
    "accelerators": ["nvidia-h200-sxm-141gb"],
    "changed_by": "J. Doe",
    "note": "Board of 20 November.",
}


class NoticeData(ResponseModel):
    """A stored answer at the time of the event; fields without a value are omitted."""

    model_config = with_examples(DATA)

    id: str = Field(description="ID of the recommendation; GET /recommendations/{id} returns the answer.")
    status: StatusName = Field(description="Approval status after the event.")
    label: str | None = Field(None, description="Label from the request.")
    reference: str | None = Field(None, description="Reference from the request.")
    cost_centre: str | None = Field(None, description="Cost center from the request.")
    model: str | None = Field(None, description="Model that the answer is for.")
    option: str | None = Field(None, description="The first rank in words; absent if nothing was feasible.")
    accelerators: list[str] = Field(description="Accelerators of the first rank; empty if nothing was feasible.")
    changed_by: str | None = Field(None, description="Who changed the status.")
    note: str | None = Field(None, description="Reason given for the change of status.")
    superseded_by: str | None = Field(None, description="ID of the recommendation that replaced this one.")


class Notice(ResponseModel):
    """One event as posted to a webhook, signed with the headers of Standard Webhooks."""

    model_config = with_examples({"type": STATUS, "timestamp": "2026-11-21T09:30:00.123456+00:00", "data": DATA})

    type: Annotated[Literal["recommendation.stored", "recommendation.status"], Component("EventType")] = Field(
        description="The kind of event that happened."
    )
    timestamp: str = Field(description="Time of the event, RFC 3339.")
    data: NoticeData
