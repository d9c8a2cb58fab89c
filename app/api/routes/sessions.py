"""Pages of a punch-out session: choose a stored answer or request a new one, see its options, return a basket."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from app.api.body import read_form
from app.api.deps import Answers, OptionalDesk, Sessions, ShortSlot, Snapshots, Today
from app.api.kinds import problem_kinds
from app.api.problems import InvalidBody, MalformedRequest, error_message
from app.api.routes.recommendations import compute_recommendation
from app.catalog.filing import FilingFilter, Status, list_filings
from app.catalog.punchouts import PunchoutVisit
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import CatalogStore
from app.db import DatabaseError
from app.errors import AppError, NotAllowed, NotFound
from app.export.goods import build_bill
from app.export.lines import FILING_LABELS, Bill
from app.export.money import Settlement
from app.procurement.desk import PunchoutService, UnknownSession
from app.procurement.pages import handover_page, options_page, page_policy, refused_page, start_page

router = APIRouter(tags=["procurement"])

MAX_LISTED = 20
PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
CLOSED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Fields = Mapping[str, str]


def private_page(text: str, *, status: int = 200, content_policy: str = CLOSED) -> Response:
    """Returns an HTML page that is neither cached nor revealed in referrers."""
    return HTMLResponse(text, status, headers={**PRIVATE, "Content-Security-Policy": content_policy})


@router.get("/procurement/sessions/{token}", include_in_schema=False)
async def get_session(
    request: Request, token: str, desk: OptionalDesk, answers: Answers, sessions: Sessions
) -> Response:
    """Shows the stored answers, or the options of one answer."""
    try:
        return await run_in_threadpool(show_session, desk, token, answers, sessions, request.query_params)
    except (AppError, DatabaseError) as error:
        return _refusal_page(error)


@router.post("/procurement/sessions/{token}", include_in_schema=False)
async def post_session(
    request: Request,
    token: str,
    desk: OptionalDesk,
    answers: Answers,
    catalog_store: Snapshots,
    sessions: Sessions,
    turn: ShortSlot,
    today: Today,
) -> Response:
    """Handles a new question, a basket to return, or leaving without one."""
    try:
        fields = await read_form(request)
        if "model" in fields:
            return await turn.answer_exclusively(
                answer_form, desk, token, fields, answers, catalog_store, sessions, today
            )
        if not {"recommendation", "leave"} & set(fields):
            return private_page(
                refused_page("Invalid form", "The form contains no basket, no question and no leave field."), status=400
            )
        return await run_in_threadpool(hand_over_basket, desk, token, answers, fields)
    except (AppError, MalformedRequest, DatabaseError) as error:
        return _refusal_page(error)


def _refusal_page(error: AppError | MalformedRequest | DatabaseError) -> Response:
    if isinstance(error, DatabaseError):
        return private_page(refused_page("Retry shortly", "The database is not available."), status=503)
    if isinstance(error, MalformedRequest):
        return private_page(refused_page("Invalid form", error.detail), status=error.status)
    status = 404 if isinstance(error, NotFound) else 409 if isinstance(error, NotAllowed) else 422
    return private_page(refused_page(problem_kinds()[error.code].title, error.detail), status=status)


def _require_desk(desk: PunchoutService | None) -> PunchoutService:
    if desk is None:
        raise UnknownSession("Punch-out is not configured.")
    return desk


def show_session(
    desk: PunchoutService | None, token: str, answers: AnswerStore, sessions: Sessions, fields: Fields
) -> Response:
    """Returns the page with the stored answers, or with the options of the answer that is named or in the session's
    basket.
    """
    visit, buyer = _require_desk(desk).find_visit(token, now=datetime.now(UTC))
    basket = visit.facts.get("basket")
    named = fields.get("recommendation") or (basket[0] if basket and "all" not in fields else None)
    content_policy = page_policy(buyer.hosts, visit.facts["address"])
    if named is None:
        return private_page(_render_start_page(visit, token, sessions, fields), content_policy=content_policy)
    body, bills = bills_of(answers, named)
    text = options_page(visit, token, body, bills, tuple(basket) if basket else None)
    return private_page(text, content_policy=content_policy)


def _render_start_page(visit: PunchoutVisit, token: str, sessions: Sessions, fields: Fields, wrong: str = "") -> str:
    label, reference, cost_centre = (fields.get(name) or None for name in FILING_LABELS)
    sought = FilingFilter(label=label, reference=reference, cost_centre=cost_centre)
    with sessions() as session:
        rows, _ = list_filings(session, sought, after=None, limit=MAX_LISTED)
        standing = [row for row in rows if row.status != Status.SUPERSEDED]
        return start_page(visit, token, standing, wrong=wrong, submitted=fields)


def bills_of(answers: AnswerStore, named: str) -> tuple[dict[str, Any], list[Bill]]:
    """Returns a stored answer and the bills of its ranks."""
    body, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(named))
    ranks = range(1, len(body["recommendations"]) + 1)
    return body, [build_bill(body, supply, rank, Settlement()) for rank in ranks]


def hand_over_basket(desk: PunchoutService | None, token: str, answers: AnswerStore, fields: Fields) -> Response:
    """Returns the form that sends a basket to the buyer's system."""
    bill = None
    if "recommendation" in fields:
        rank = fields.get("rank", "1")
        body, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(fields["recommendation"]))
        bill = build_bill(body, supply, int(rank) if rank.isdecimal() and rank.isascii() else 0, Settlement())
    form, buyer = _require_desk(desk).hand_over(token, bill, now=datetime.now(UTC))
    return private_page(handover_page(form), content_policy=page_policy(buyer.hosts, form.address))


def answer_form(
    desk: PunchoutService | None,
    token: str,
    fields: Fields,
    answers: AnswerStore,
    catalog_store: CatalogStore,
    sessions: Sessions,
    today: date,
) -> Response:
    """Answers the form and stores the answer. On an error, returns the form with the error above it."""
    visit, buyer = _require_desk(desk).find_visit(token, now=datetime.now(UTC))
    try:
        sent = compute_recommendation(orjson.dumps(_build_request(fields)), answers, catalog_store, today)
    except InvalidBody as error:
        wrong = "; ".join(error_message(e, error.model) for e in error.error.errors(include_url=False)[:3])
    except (AppError, MalformedRequest) as error:
        wrong = error.detail
    else:
        place = f"{token}?recommendation={orjson.loads(bytes(sent.body))['id']}"
        return Response(status_code=303, headers={"Location": place, **PRIVATE})
    text = _render_start_page(visit, token, sessions, fields, wrong)
    return private_page(text, status=422, content_policy=page_policy(buyer.hosts, visit.facts["address"]))


def _build_request(fields: Fields) -> dict[str, Any]:
    """Returns the POST /recommend body that corresponds to the form."""
    users = {"count": _parse_number(fields, "users"), "requests_per_hour_each": _parse_number(fields, "requests")}
    traffic = {"users": users, "input_tokens": 800, "output_tokens": 300}
    workload = {"phase": "inference", "model": fields.get("model", ""), "traffic": traffic}
    return {"workload": workload, "objective": fields.get("objective", "cost")}


def _parse_number(fields: Fields, name: str) -> float | str:
    text = fields.get(name, "")
    try:
        return float(text)
    except ValueError:
        return text
