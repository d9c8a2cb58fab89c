"""GET /recommendations, GET /recommendations/{id}/status, PATCH /recommendations/{id}: finding and moving answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import Response

from app.api import filing
from app.api.body import parsed
from app.api.deps import Notices, RawBody, Sessions, Snapshots
from app.api.openapi import body_of, problems
from app.api.problems import unknown_cursor
from app.api.routes.catalog import after, page_of
from app.api.schemas import filing as wire
from app.api.sized import json_bytes
from app.catalog.filing import FilingRow, change_status, get_filing, in_utc, list_changes, list_filings

router = APIRouter(tags=["filing"])
AnswerId = Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="As the answer gave it.")]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", max_length=200, description="The status' ETag, or * for whatever it is.")
]


@router.get(
    "/recommendations",
    operation_id="listRecommendations",
    response_model=wire.RecommendationList,
    responses=problems(400, 422, 503),
    summary="Stored answers, the newest first",
)
def list_recommendations(
    sought: Annotated[wire.RecommendationFilter, Query()], sessions: Sessions, snapshots: Snapshots
) -> Response:
    """Found by the words of their requests, by status, by model, by what is first, and by when they were stored."""
    with sessions() as session:
        found = filing.sought(sought, snapshots)
        rows, more = list_filings(session, found, after=_after(sought.cursor), limit=sought.limit)
        items = [wire.filed_json(row) for row in rows]
    return page_of(items, _key(rows[-1]) if more else None)


@router.get(
    "/recommendations/{id}/status",
    operation_id="getRecommendationStatus",
    response_model=wire.StatusShown,
    responses=problems(404, 422, 503),
    summary="How far a stored answer has come",
)
def get_status(id: AnswerId, sessions: Sessions) -> Response:
    """Its status with who moved it there, and the ETag that a change of it takes."""
    with sessions() as session:
        row = get_filing(session, id)
        told, tag = wire.status_json(row, list_changes(session, id)), wire.tag_of(row)
    return Response(json_bytes(told), media_type="application/json", headers={"ETag": tag, "Cache-Control": "no-cache"})


@router.patch(
    "/recommendations/{id}",
    operation_id="changeRecommendationStatus",
    response_model=wire.StatusShown,
    openapi_extra=body_of(wire.StatusChange),
    responses=problems(400, 404, 409, 412, 413, 415, 422, 428, 503),
    summary="Approve, order or supersede a stored answer",
)
def change_recommendation(
    id: AnswerId, raw: RawBody, sessions: Sessions, outbox: Notices, if_match: IfMatch = None
) -> Response:
    """Draft becomes approved, approved ordered; approval can be taken back, and whatever stands be superseded. The
    answer's bytes and those of its exports stay as they are.
    """
    change = parsed(raw, wire.StatusChange).to_change()
    with sessions() as session, session.begin():
        row = get_filing(session, id)
        filing.check_guarded(if_match, wire.tag_of(row))
        change_status(session, row, change)
        session.refresh(row)
        outbox.note_status(session, row, change)
        told, tag = wire.status_json(row, list_changes(session, id)), wire.tag_of(row)
    return Response(json_bytes(told), media_type="application/json", headers={"ETag": tag})


def _key(row: FilingRow) -> str:
    return f"{in_utc(row.stored_at).isoformat()} {row.recommendation}"


def _after(cursor: str | None) -> tuple[datetime, str] | None:
    """When the last of the page before was stored, and its id; Malformed for a cursor this service did not give."""
    last = after(cursor, whole=False)
    if last is None:
        return None
    stored_at, _, identity = last.partition(" ")
    try:
        return in_utc(datetime.fromisoformat(stored_at)), identity
    except (ValueError, OverflowError):
        raise unknown_cursor() from None
