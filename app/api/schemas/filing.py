"""Schemas of stored answers: labels in requests, lists of answers, and their approval status."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from app.api.schemas.base import Component, PrintableText, RequestModel, ResponseModel, require_printable, with_examples
from app.api.schemas.catalog import Page
from app.catalog.filing import ALLOWED_TRANSITIONS, FilingRow, Status, StatusChangeRow, StatusUpdate, to_utc

StatusName = Annotated[Literal["draft", "approved", "ordered", "superseded"], Component("Status")]
Note = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(require_printable)]
Identity = Annotated[str, Field(pattern=r"^rec_[0-9a-f]{28}$")]
FILED_EXAMPLE: dict[str, Any] = {
    "id": "rec_0123456789abcdef0123456789ab",
    "stored_at": "2026-11-20T08:00:00Z",
    "status": "approved",
    "etag": '"status-1"',
    "label": "chat, second site",
    "reference": "PR-2026-0417",
    "cost_centre": "4711",
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "accelerators": ["nvidia-h200-sxm-141gb"],
    "option": "8 x NVIDIA H200 SXM 141GB",
}
CHANGE_EXAMPLE = {"status": "approved", "at": "2026-11-21T09:30:00Z", "by": "J. Doe", "note": "Board of 20 November."}


def _parse_time(text: Any) -> Any:
    """Parses a date or time in ISO 8601. A date means midnight; a time without a zone is UTC."""
    try:
        return to_utc(datetime.fromisoformat(text))
    except (TypeError, ValueError, OverflowError):
        raise ValueError("must be a date or time, such as 2026-11-20 or 2026-11-20T08:00:00Z") from None


Moment = Annotated[datetime, BeforeValidator(_parse_time)]


class RecommendationFilter(Page):
    """Filters of the list of stored answers."""

    label: PrintableText | None = Field(None, description="Words of the label, in any order.")
    reference: PrintableText | None = Field(None, description="Exact value from the request.")
    cost_centre: PrintableText | None = Field(None, description="Exact value from the request.")
    status: StatusName | None = None
    model: PrintableText | None = Field(None, description="Model name, alias or the name in the request.")
    accelerator: PrintableText | None = Field(
        None, description="Accelerator of the first rank, by slug or common name."
    )
    created_after: Moment | None = Field(None, description="First stored at this time or later; a date or time in UTC.")
    created_before: Moment | None = Field(None, description="First stored before this date or time in UTC.")


class FiledShown(ResponseModel):
    """A stored answer in a list."""

    model_config = with_examples(FILED_EXAMPLE)

    id: str
    stored_at: str = Field(description="Time when the answer was first stored.")
    status: StatusName
    etag: str = Field(description="ETag of the status; send it as If-Match to change the status.")
    superseded_by: str | None = Field(None, description="ID of the recommendation that replaced this one.")
    label: str | None = None
    reference: str | None = None
    cost_centre: str | None = None
    model: str | None = None
    accelerators: list[str] = Field(description="Accelerators of the first rank; empty if nothing was feasible.")
    option: str | None = Field(None, description="The first rank in words.")


class RecommendationList(ResponseModel):
    """Stored answers, newest first."""

    model_config = with_examples({"items": [FILED_EXAMPLE], "next_cursor": "MjAyNi0xMS0yMFQwODowMDowMCswMDowMA"})

    items: list[FiledShown]
    next_cursor: str | None


class StatusChangeShown(ResponseModel):
    """A change of status: who made it and when."""

    model_config = with_examples(CHANGE_EXAMPLE)

    status: StatusName
    at: str
    by: str
    note: str | None = None
    superseded_by: str | None = None


class StatusShown(FiledShown):
    """Approval status of a stored answer, the allowed next statuses and the history."""

    model_config = with_examples(
        {**FILED_EXAMPLE, "next": ["draft", "ordered", "superseded"], "history": [CHANGE_EXAMPLE]}
    )

    next: list[StatusName] = Field(description="Allowed next statuses.")
    history: list[StatusChangeShown] = Field(description="Every change, oldest first.")


class StatusChange(RequestModel):
    """A change of status. The answer itself does not change."""

    model_config = with_examples({"status": "approved", "by": "J. Doe", "note": "Board of 20 November."})

    status: StatusName
    by: PrintableText = Field(description="Who makes the change; it is stored, not verified.")
    note: Note | None = None
    superseded_by: Identity | None = Field(
        None, description="ID of the stored recommendation that replaces this one; requires status superseded."
    )

    @model_validator(mode="after")
    def _check_successor(self) -> StatusChange:
        if self.superseded_by is not None and self.status != "superseded":
            raise ValueError("superseded_by requires status superseded")
        return self

    def to_change(self) -> StatusUpdate:
        return StatusUpdate(Status(self.status), self.by, self.note, self.superseded_by)


def status_etag(row: FilingRow) -> str:
    """The ETag of an answer's status."""
    return f'"status-{row.version}"'


def filed_json(row: FilingRow) -> dict[str, Any]:
    """A stored answer in a list as JSON; fields without a value are omitted."""
    values = {
        "id": row.recommendation,
        "stored_at": _format_time(row.stored_at),
        "status": row.status,
        "etag": status_etag(row),
        "superseded_by": row.superseded_by,
        "label": row.label,
        "reference": row.reference,
        "cost_centre": row.cost_centre,
        "model": row.model,
        "accelerators": (row.accelerators or "").split(),
        "option": row.option,
    }
    return {name: value for name, value in values.items() if value is not None}


def status_json(row: FilingRow, changes: Sequence[StatusChangeRow]) -> dict[str, Any]:
    """A stored answer as JSON with the history of its status."""
    history = [
        {"status": c.status, "at": _format_time(c.changed_at), "by": c.changed_by}
        | {name: value for name in ("note", "superseded_by") if (value := getattr(c, name)) is not None}
        for c in changes
    ]
    return {**filed_json(row), "next": list(ALLOWED_TRANSITIONS[Status(row.status)]), "history": history}


def _format_time(moment: datetime) -> str:
    return to_utc(moment).isoformat(timespec="seconds").replace("+00:00", "Z")
