"""GET /recommendations, GET and PATCH of one: searches by catalog names, and status changes with a precondition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from app.api.access import KnownCaller
from app.api.answering import json_bytes
from app.api.body import parse_body
from app.api.deps import Answers, EventOutbox, RawBody, Sessions, Snapshots
from app.api.openapi import body_schema, problem_responses
from app.api.problems import unknown_cursor
from app.api.routes.catalog import decode_cursor, page_response
from app.api.schemas import filing as wire
from app.api.schemas.filing import RecommendationFilter
from app.api.writes import IdempotencyKey, IfMatch, Transaction, Write, check_if_match, perform_write
from app.catalog.filing import FilingFilter, change_status, get_filing, list_changes, list_filings, to_utc
from app.catalog.keys import Caller
from app.catalog.snapshot import CatalogStore
from app.catalog.tenants import record_audit

LIST_PARAMETERS = ("limit", "cursor", "model", "accelerator")


def build_search(asked: RecommendationFilter, catalog_store: CatalogStore, tenant: str) -> FilingFilter:
    """Returns the search to run. Models and accelerators match under the name as typed and under their catalog name."""
    criteria = asked.model_dump(exclude=set(LIST_PARAMETERS))
    if asked.model is not None:
        criteria["models"] = {asked.model, catalog_store.model_identity(asked.model)}
    if asked.accelerator is not None:
        criteria["accelerators"] = {
            asked.accelerator,
            *catalog_store.directory().resolve_name(asked.accelerator).accelerators,
        }
    return FilingFilter(**criteria, tenant=tenant)


router = APIRouter(tags=["filing"])
AnswerId = Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")]
STATUS = {"what": "status", "source": "GET /recommendations/{id}/status"}


@router.get(
    "/recommendations",
    operation_id="listRecommendations",
    response_model=wire.RecommendationList,
    responses=problem_responses(400, 422, 503),
    summary="List stored answers, newest first",
)
def list_recommendations(
    sought: Annotated[wire.RecommendationFilter, Query()],
    sessions: Sessions,
    catalog_store: Snapshots,
    caller: KnownCaller,
) -> Response:
    """Searches stored answers by label, reference or cost center, status, model, first-ranked accelerator and time of
    storage.
    """
    with sessions() as session:
        search = build_search(sought, catalog_store, caller.tenant)
        rows, more = list_filings(session, search, after=_decode_position(sought.cursor), limit=sought.limit)
        items = [wire.FiledShown.as_json(row) for row in rows]
    following = f"{to_utc(rows[-1].stored_at).isoformat()} {rows[-1].recommendation}" if more else None
    return page_response(items, following)


@router.get(
    "/recommendations/{id}/status",
    operation_id="getRecommendationStatus",
    response_model=wire.StatusShown,
    responses=problem_responses(404, 422, 503),
    summary="Get the approval status of a stored answer",
)
def get_status(id: AnswerId, sessions: Sessions, caller: KnownCaller) -> Response:
    """Returns the approval status, who changed it and when, and the ETag that a change must send as If-Match."""
    with sessions() as session:
        row = get_filing(session, id, caller.tenant)
        body, tag = wire.status_json(row, list_changes(session, id)), wire.status_etag(row)
    return Response(json_bytes(body), media_type="application/json", headers={"ETag": tag, "Cache-Control": "no-cache"})


@router.patch(
    "/recommendations/{id}",
    operation_id="changeRecommendationStatus",
    response_model=wire.StatusShown,
    openapi_extra=body_schema(wire.StatusChange),
    responses=problem_responses(400, 404, 409, 412, 413, 415, 422, 428, 429, 503),
    summary="Change the approval status of a stored answer",
)
def change_recommendation(
    request: Request,
    id: AnswerId,
    raw: RawBody,
    sessions: Sessions,
    outbox: EventOutbox,
    answers: Answers,
    caller: KnownCaller,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Changes the approval status: draft to approved, approved to ordered. You can withdraw an approval and supersede
    any answer. The stored answer and its exports do not change.
    """
    change = parse_body(raw, wire.StatusChange).to_change()

    def apply(session: Transaction) -> Response:
        row = get_filing(session, id, caller.tenant)
        check_if_match(if_match, wire.status_etag(row), **STATUS)
        answers.store.keep_for_good(session, row)
        change_status(session, row, change)
        session.refresh(row)
        outbox.record_status_change(session, row, change)
        _audit(session, caller, f"recommendation.{change.status}", id)
        body, tag = wire.status_json(row, list_changes(session, id)), wire.status_etag(row)
        return Response(json_bytes(body), media_type="application/json", headers={"ETag": tag})

    return perform_write(sessions, Write.of(request, caller, idempotency_key, raw), apply)


def _audit(session: Transaction, caller: Caller, action: str, identity: str) -> None:
    """Adds a change of an answer to the audit log."""
    actor, facts = caller.key_id or "anonymous", {"recommendation": identity}
    record_audit(session.connection(), caller.tenant, actor, action, facts, now=datetime.now(UTC))


@router.delete(
    "/recommendations/{id}",
    operation_id="deleteRecommendation",
    status_code=204,
    response_class=Response,
    responses=problem_responses(400, 404, 409, 412, 422, 428, 503),
    summary="Delete a stored answer",
)
def delete_recommendation(
    request: Request,
    id: AnswerId,
    sessions: Sessions,
    answers: Answers,
    caller: KnownCaller,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Deletes a draft or superseded answer with its exports and history. Answers that are approved, ordered or replace
    another one stay. The same request computes the answer again.
    """

    def delete(session: Transaction) -> Response:
        row = get_filing(session, id, caller.tenant)
        check_if_match(if_match, wire.status_etag(row), **STATUS)
        answers.store.delete_answer(session, row)
        _audit(session, caller, "recommendation.deleted", id)
        return Response(status_code=204)

    return perform_write(sessions, Write.of(request, caller, idempotency_key), delete)


def _decode_position(cursor: str | None) -> tuple[datetime, str] | None:
    """Returns time of storage and id of the previous page's last row. Raises MalformedRequest for other cursors."""
    last = decode_cursor(cursor, whole=False)
    if last is None:
        return None
    stored_at, _, identity = last.partition(" ")
    try:
        return to_utc(datetime.fromisoformat(stored_at)), identity
    except (ValueError, OverflowError):
        raise unknown_cursor() from None
