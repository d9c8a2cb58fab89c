"""What webhooks are told, on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.api.schemas.base import Component, Shown, shown_as
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


class NoticeData(Shown):
    """A stored answer as it was filed when the event happened; what it does not have is absent."""

    model_config = shown_as(DATA)

    id: str = Field(description="Of the recommendation: GET /recommendations/{id} has the answer.")
    status: StatusName = Field(description="As it was after the event.")
    label: str | None = Field(None, description="The request's own.")
    reference: str | None = Field(None, description="The request's own.")
    cost_centre: str | None = Field(None, description="The request's own.")
    model: str | None = Field(None, description="What the answer is about.")
    option: str | None = Field(None, description="The first rank in words; absent where nothing was feasible.")
    accelerators: list[str] = Field(description="Of the first rank; none where nothing was feasible.")
    changed_by: str | None = Field(None, description="Of a change of status: who made it.")
    note: str | None = Field(None, description="Of a change of status: what they said.")
    superseded_by: str | None = Field(None, description="Id of the recommendation that took its place.")


class Notice(Shown):
    """One event, as it is posted to a webhook, signed by the headers of Standard Webhooks."""

    model_config = shown_as({"type": STATUS, "timestamp": "2026-11-21T09:30:00.123456+00:00", "data": DATA})

    type: Annotated[Literal["recommendation.stored", "recommendation.status"], Component("EventType")] = Field(
        description="The kind of event that happened."
    )
    timestamp: str = Field(description="When it happened, RFC 3339.")
    data: NoticeData
