"""Bills of materials, deployment files, punch-out sessions of procurement systems, and the webhooks that are sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any

import orjson
import structlog
from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from app.api.access import client_address
from app.api.answering import json_bytes
from app.api.body import FORM, XML, check_strings, read_form, read_raw
from app.api.deps import Answers, OptionalDesk, PrivateRecords, Sessions, ShortSlot, Snapshots, Today
from app.api.middleware import log_unexpected_error
from app.api.openapi import problem_responses
from app.api.problems import InvalidBody, MalformedRequest, error_message, problem_kinds
from app.api.routes.recommendations import compute_recommendation
from app.api.schemas.base import COMPONENT_KEY
from app.api.schemas.materials import (
    HandoffQuery,
    HandoffShown,
    MaterialsQuery,
    MaterialsShown,
)
from app.api.schemas.results import Notice
from app.catalog.filing import FilingFilter, Status, Visibility, check_visible, list_filings
from app.catalog.holdings import HoldingsStore
from app.catalog.outbox import STANDING, STATUS, STORED
from app.catalog.purchasing import PunchoutVisit
from app.catalog.recommendations import TenantAnswers
from app.catalog.snapshot import CatalogStore
from app.db import DatabaseError, act_for
from app.errors import AppError, NotAllowed, NotFound
from app.export.columns import csv_bytes
from app.export.cxml import cxml_bytes
from app.export.handoff.option import File, Handoff, load_options
from app.export.handoff.targets import build_fleet_handoff
from app.export.lines import FILING_LABELS, Bill, Settlement, build_bill, plan_rank
from app.export.memo import render_memo, select_ranks
from app.export.oci import oci_bytes
from app.export.quotes import render_quote_requests
from app.export.sheet import xlsx_bytes
from app.export.ubl import ubl_bytes
from app.procurement.desk import PunchoutService, UnknownSession
from app.procurement.pages import handover_page, options_page, page_policy, refused_page, start_page
from app.procurement.partners import Buyer
from app.procurement.setup import (
    BAD_REQUEST,
    INTERNAL_ERROR,
    NOT_IMPLEMENTED,
    TEMPORARY_ERROR,
    TOO_MANY,
    PunchoutRefused,
    status_bytes,
)

exports_router = APIRouter(tags=["exports"])


class UnknownFile(NotFound):
    """Raised for a file that a deployment package does not contain."""

    code = "unknown-file"


@exports_router.get(
    "/recommendations/{id}/deployment",
    operation_id="getDeployment",
    response_model=HandoffShown,
    responses=problem_responses(404, 422, 503),
    summary="Get deployment files for one ranked option",
)
def get_deployment(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    asked: Annotated[HandoffQuery, Query()],
    answers: Answers,
) -> Response:
    """Returns scripts and manifests for the option, a benchmark that verifies it, and the remaining manual steps. They
    are generated from the stored answer only and contain no secrets. Set `file` to download one file.
    """
    body, supply = answers.get_answer_and_supply(id)
    answer = orjson.loads(body)
    options = load_options(answer, orjson.loads(supply), plan_rank(answer, asked.rank), asked.volume_claim)
    made = build_fleet_handoff(options, asked.target, asked.engine_version)
    if asked.file is None:
        return Response(json_bytes(HandoffShown.as_json(made)), media_type="application/json")
    file = find_file(made, asked.file)
    return Response(
        file.text,
        media_type=f"{file.media_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{file.name.replace("/", "-")}"'},
    )


def find_file(made: Handoff, name: str) -> File:
    """Returns one file of a deployment package. Raises UnknownFile."""
    for file in made.files:
        if file.name == name:
            return file
    raise UnknownFile(f"Unknown file for target {made.target}. Available: {', '.join(f.name for f in made.files)}.")


# Media type, file extension and writer of each format.
FORMATS: dict[str, tuple[str, str, Callable[[Bill], bytes]]] = {
    "json": ("application/json", "json", lambda bill: json_bytes(MaterialsShown.as_json(bill))),
    "csv": ("text/csv; charset=utf-8; header=present", "csv", csv_bytes),
    "cxml": ("application/xml", "xml", cxml_bytes),
    "oci": ("application/x-www-form-urlencoded", "txt", oci_bytes),
    "ubl": ("application/xml", "xml", ubl_bytes),
    "xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx", xlsx_bytes),
}
DISPLAYED_FORMATS = ("json", "html", "rfq")  # formats that a browser displays; others download as files
# A printable page needs only its inline styles.
PRINT_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
TEXT = {"schema": {"type": "string"}}
FILE_RESPONSE = {"content": {kind.partition(";")[0]: TEXT for kind, _, _ in FORMATS.values() if "json" not in kind}}
FILE_RESPONSE["content"]["text/html"] = TEXT


@exports_router.get(
    "/recommendations/{id}/bill-of-materials",
    operation_id="getBillOfMaterials",
    response_model=MaterialsShown,
    responses={**problem_responses(404, 422, 501, 503), 200: FILE_RESPONSE},
    summary="Get the bill of materials of one ranked option",
)
def get_bill_of_materials(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    asked: Annotated[MaterialsQuery, Query()],
    answers: Answers,
) -> Response:
    """Returns lines with quantity, unit, price, price source and age, part numbers and commodity codes. Formats: JSON,
    CSV, a workbook with formulas, cXML PunchOutOrderMessage, OCI form fields, UBL RequestForQuotation, a printable
    decision memo with quote requests, or the quote requests alone (rfq). The bill is generated from the stored answer,
    so later price changes do not affect it. The parameters of the order fill in the documents.
    """
    body, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(id))
    settlement, order = asked.to_settlement(), asked.to_order()
    bill = build_bill(body, supply, plan_rank(body, asked.rank), settlement, order)
    if asked.format == "html":
        ranks = select_ranks(body, supply, bill.rank)
        others = [build_bill(body, supply, rank, settlement, order) for rank in ranks]
        return _file_response(render_memo(body, supply, others, bill), bill, "html", "text/html", "html", PRINT_POLICY)
    if asked.format == "rfq":
        return _file_response(render_quote_requests(bill), bill, "rfq", "text/html", "html", PRINT_POLICY)
    media_type, ending, written = FORMATS[asked.format]
    return _file_response(written(bill), bill, asked.format, media_type, ending)


def _file_response(
    content: bytes, bill: Bill, kind: str, media_type: str, ending: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns a document with its file name."""
    way = "inline" if kind in DISPLAYED_FORMATS else "attachment"
    name = f"bill-of-materials-{bill.answer}-{bill.rank}.{ending}"
    named = {"Content-Disposition": f'{way}; filename="{name}"', **(headers or {})}
    return Response(content, media_type=media_type, headers=named)


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
        fields = dict(request.query_params)
        check_strings(fields, code="malformed-form")
        return await run_in_threadpool(show_session, desk, token, answers, sessions, fields)
    except (AppError, MalformedRequest, DatabaseError) as error:
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
    records: PrivateRecords,
) -> Response:
    """Handles a new question, a basket to return, or leaving without one."""
    try:
        fields = await read_form(request)
        if "model" in fields:
            return await turn.answer_exclusively(
                answer_form, desk, token, fields, answers, catalog_store, sessions, today, records
            )
        if not {"recommendation", "leave"} & set(fields):
            return private_page(
                refused_page("Invalid form", "The form contains no basket, no question and no leave field."), status=400
            )
        return await run_in_threadpool(hand_over_basket, desk, token, answers, sessions, fields)
    except (AppError, MalformedRequest, DatabaseError) as error:
        return _refusal_page(error)


def _refusal_page(error: AppError | MalformedRequest | DatabaseError) -> Response:
    if isinstance(error, DatabaseError):
        return private_page(refused_page("Retry shortly", "The database is not available."), status=503)
    if isinstance(error, MalformedRequest):
        return private_page(refused_page("Invalid form", error.detail), status=error.status)
    status = 404 if isinstance(error, NotFound) else 409 if isinstance(error, NotAllowed) else 422
    return private_page(refused_page(problem_kinds()[error.code].title, error.detail), status=status)


def _require_session_desk(desk: PunchoutService | None) -> PunchoutService:
    if desk is None:
        raise UnknownSession("Punch-out is not configured.")
    return desk


def show_session(
    desk: PunchoutService | None, token: str, answers: TenantAnswers, sessions: Sessions, fields: Fields
) -> Response:
    """Returns the page with the stored answers, or with the options of the answer that is named or in the basket."""
    visit, buyer = _require_session_desk(desk).find_visit(token, now=datetime.now(UTC))
    answers = _answers_of(buyer, answers)
    basket = visit.facts.get("basket")
    named = fields.get("recommendation") or (basket[0] if basket and "all" not in fields else None)
    content_policy = page_policy(buyer.hosts, visit.facts["address"])
    if named is None:
        text = _render_start_page(visit, token, sessions, fields, _visible_answers(desk, buyer))
        return private_page(text, content_policy=content_policy)
    _check_visible(desk, buyer, sessions, named)
    body, bills = bills_of(answers, named)
    text = options_page(visit, token, body, bills, tuple(basket) if basket else None)
    return private_page(text, content_policy=content_policy)


def _answers_of(buyer: Buyer, answers: TenantAnswers) -> TenantAnswers:
    """Returns the answers of the buyer's tenant, for which the rest of the request acts."""
    act_for(buyer.tenant)
    return answers.store.for_tenant(buyer.tenant)


def _visible_answers(desk: PunchoutService | None, buyer: Buyer) -> Visibility:
    return _require_session_desk(desk).visible_answers(buyer)


def _check_visible(desk: PunchoutService | None, buyer: Buyer, sessions: Sessions, named: str) -> None:
    """Raises UnknownRecommendation for an answer that the buyer does not see."""
    with sessions() as session:
        check_visible(session, named, _visible_answers(desk, buyer))


def _render_start_page(
    visit: PunchoutVisit, token: str, sessions: Sessions, fields: Fields, visible: Visibility, wrong: str = ""
) -> str:
    label, reference, cost_centre = (fields.get(name) or None for name in FILING_LABELS)
    sought = FilingFilter(
        label=label, reference=reference, cost_centre=cost_centre, visible=visible, tenant=visible.tenant
    )
    with sessions() as session:
        rows, _ = list_filings(session, sought, after=None, limit=MAX_LISTED)
        standing = [row for row in rows if row.status != Status.SUPERSEDED]
        return start_page(visit, token, standing, wrong=wrong, submitted=fields)


def bills_of(answers: TenantAnswers, named: str) -> tuple[dict[str, Any], list[Bill]]:
    """Returns a stored answer and the bills of its mixed fleet and of its ranks."""
    body, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(named))
    ranks = range(0 if "mixed_fleet" in supply else 1, len(body["recommendations"]) + 1)
    return body, [build_bill(body, supply, rank, Settlement()) for rank in ranks]


def hand_over_basket(
    desk: PunchoutService | None, token: str, answers: TenantAnswers, sessions: Sessions, fields: Fields
) -> Response:
    """Returns the form that sends a basket to the buyer's system."""
    bill = None
    if "recommendation" in fields:
        _, buyer = _require_session_desk(desk).find_visit(token, now=datetime.now(UTC))
        answers = _answers_of(buyer, answers)
        _check_visible(desk, buyer, sessions, fields["recommendation"])
        rank = fields.get("rank", "1")
        body, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(fields["recommendation"]))
        bill = build_bill(body, supply, int(rank) if re.fullmatch("[0-9]{1,9}", rank) else -1, Settlement())
    form, buyer = _require_session_desk(desk).hand_over(token, bill, now=datetime.now(UTC))
    return private_page(handover_page(form), content_policy=page_policy(buyer.hosts, form.address))


def answer_form(
    desk: PunchoutService | None,
    token: str,
    fields: Fields,
    answers: TenantAnswers,
    catalog_store: CatalogStore,
    sessions: Sessions,
    today: date,
    records: HoldingsStore,
) -> Response:
    """Answers the form and stores the answer. On an error, returns the form with the error above it."""
    visit, buyer = _require_session_desk(desk).find_visit(token, now=datetime.now(UTC))
    answers = _answers_of(buyer, answers)
    try:
        sent = compute_recommendation(
            orjson.dumps(_build_request(fields)), answers, catalog_store, today, records.read(buyer.tenant)
        )
    except InvalidBody as error:
        wrong = "; ".join(error_message(e, error.model) for e in error.error.errors(include_url=False)[:3])
    except (AppError, MalformedRequest) as error:
        wrong = error.detail
    else:
        made = orjson.loads(bytes(sent.body))["id"]
        _require_session_desk(desk).record_made(visit, made)
        place = f"{token}?recommendation={made}"
        return Response(status_code=303, headers={"Location": place, **PRIVATE})
    text = _render_start_page(visit, token, sessions, fields, _visible_answers(desk, buyer), wrong)
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


log = structlog.get_logger("headroom")

CXML = {"text/xml": {"schema": {"type": "string"}}}
HTML = {"text/html": {"schema": {"type": "string"}}}


@router.post(
    "/procurement/punchout",
    operation_id="punchout",
    responses={200: {"description": "A cXML Response. Its Status contains the result.", "content": CXML}},
    openapi_extra={"requestBody": {"required": True, "content": CXML}},
    response_class=Response,
    summary="Open a punch-out session with a cXML PunchOutSetupRequest",
)
async def post_punchout(request: Request, desk: OptionalDesk) -> Response:
    """Opens a session if the shared secret matches the one set for the sender's identity. Returns a
    PunchOutSetupResponse with the session's start page, or a Status with the reason: 400 incomplete request, 401 wrong
    secret, 403 return address not allowed, 406 unsupported XML, 409 document already ordered, 429 too many wrong
    secrets (the HTTP status is 429 as well), 450 operation not offered, 560 database unavailable.
    """
    now, status = datetime.now(UTC), 200
    try:
        raw = await read_raw(request, XML, request.app.state.settings.max_body_bytes)
        reply = await run_in_threadpool(_require_desk(desk).open_session, raw, client=client_address(request), now=now)
    except PunchoutRefused as error:
        reply = _status_reply(error.status, error.detail, now)
        status = TOO_MANY if error.status == TOO_MANY else 200
    except MalformedRequest as error:
        reply = _status_reply(BAD_REQUEST, error.detail, now)
    except DatabaseError:
        reply = _status_reply(TEMPORARY_ERROR, "The database is not available. Retry shortly.", now)
    except Exception as error:
        log_unexpected_error(request.scope, error)
        reply = _status_reply(INTERNAL_ERROR, "An internal error occurred and was logged.", now)
    return Response(reply, status, media_type="text/xml; charset=utf-8", headers=PRIVATE)


def _require_desk(desk: PunchoutService | None) -> PunchoutService:
    if desk is None:
        raise PunchoutRefused(
            NOT_IMPLEMENTED, "Punch-out is not configured: the settings contain no buyer or no public URL."
        )
    return desk


def _status_reply(status: int, detail: str, now: datetime) -> bytes:
    log.warning("punchout_refused", status=status, detail=detail)
    return status_bytes(f"{now.timestamp():.6f}", now.isoformat(timespec="seconds"), status, detail)


# Fields of an OCI call and their descriptions.
OCI = {
    "USERNAME": "The buyer's user name, as set in the settings.",
    "PASSWORD": "The password of that user.",
    "HOOK_URL": "URL to which the browser posts the basket.",
    "~OkCode": "Returned unchanged with the basket.",
    "~CALLER": "Returned unchanged with the basket.",
    "~TARGET": "Frame that receives the basket; _top if omitted.",
}
STRING = {"type": "string"}
OCI_FORM = {
    COMPONENT_KEY: "OciCall",
    "type": "object",
    "properties": {name: {**STRING, "description": said} for name, said in OCI.items()},
    "examples": [{"USERNAME": "buyer", "PASSWORD": "a shared secret", "HOOK_URL": "https://srm.example.com/basket"}],
}
ENTRY: dict[str, Any] = {
    "response_class": HTMLResponse,
    "status_code": 303,
    "responses": {
        303: {"description": "Redirect to the session's start page."},
        **{
            status: {"description": "HTML page with the reason.", "content": HTML}
            for status in (400, 401, 403, 404, 429, 503)
        },
    },
}


@router.get(
    "/procurement/oci",
    operation_id="ociVisit",
    summary="Open a session with an OCI call",
    openapi_extra={
        "parameters": [{"name": n, "in": "query", "description": said, "schema": STRING} for n, said in OCI.items()]
    },
    **ENTRY,
)
async def get_oci(request: Request, desk: OptionalDesk) -> Response:
    """Takes USERNAME, PASSWORD and HOOK_URL, as SAP sends them. Use POST where possible: passwords in URLs end up in
    logs.
    """
    return await _open_oci_session(desk, request.query_params, client_address(request))


@router.post(
    "/procurement/oci",
    operation_id="ociVisitByForm",
    summary="Open a session with an OCI form",
    openapi_extra={
        "requestBody": {"required": True, "content": {FORM[0]: {"schema": OCI_FORM}}},
    },
    **ENTRY,
)
async def post_oci(request: Request, desk: OptionalDesk) -> Response:
    """Takes the same fields as a form in the body."""
    try:
        fields = await read_form(request)
    except MalformedRequest as error:
        return private_page(refused_page("No session", error.detail), status=400)
    return await _open_oci_session(desk, fields, client_address(request))


async def _open_oci_session(desk: PunchoutService | None, fields: Mapping[str, str], client: str) -> Response:
    try:
        address = await run_in_threadpool(
            _require_desk(desk).open_oci_session, fields, client=client, now=datetime.now(UTC)
        )
    except PunchoutRefused as error:
        log.warning("punchout_refused", status=error.status, detail=error.detail)
        status = 404 if error.status == NOT_IMPLEMENTED else error.status
        return private_page(refused_page("No session", error.detail), status=status)
    except DatabaseError:
        return private_page(refused_page("No session", "The database is not available. Retry shortly."), status=503)
    return Response(status_code=303, headers={"Location": address, **PRIVATE})


webhook_router = APIRouter(tags=["procurement"])

Id = Annotated[str, Header(alias="webhook-id", description="Id of the event, the same for every retry.")]
Timestamp = Annotated[int, Header(alias="webhook-timestamp", description="Time of sending in seconds since 1970.")]
Signature = Annotated[
    str, Header(alias="webhook-signature", description="v1, and the HMAC-SHA256 of id.timestamp.body.")
]
ANSWERS: dict[int | str, dict[str, Any]] = {
    410: {"description": "The receiver no longer wants this event; it is not retried."},
    "default": {"description": "Any other status: the event is retried later."},
}


@webhook_router.post(
    STORED, operation_id="recommendationStored", status_code=204, responses=ANSWERS, summary="An answer was stored"
)
def notify_stored(notice: Notice, id: Id, timestamp: Timestamp, signature: Signature) -> None:
    """Sent after an answer was stored. Reply with a 2xx status within 10 s. Any other reply is retried, except 410."""


@webhook_router.post(
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


@webhook_router.post(
    STANDING,
    operation_id="recommendationStanding",
    status_code=204,
    responses=ANSWERS,
    summary="An offer ended or a cheaper plan exists",
)
def notify_standing(notice: Notice, id: Id, timestamp: Timestamp, signature: Signature) -> None:
    """Sent after `headroom standing` found that an offer of a filed plan has ended or that a cheaper plan exists. The
    same finding has the same webhook-id whenever it is found. Replies as for the stored event.
    """
