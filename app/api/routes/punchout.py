"""POST /procurement/punchout (cXML) and /procurement/oci: how a buyer's system opens a session."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from app.api.body import FORM, XML, read_form, read_raw
from app.api.deps import AtDesk
from app.api.front import broke
from app.api.problems import Malformed
from app.api.routes.sessions import PRIVATE, page_of
from app.api.schemas.base import NAMED
from app.db import DatabaseError
from app.procurement.desk import Desk
from app.procurement.pages import refused_page
from app.procurement.refusals import BAD_REQUEST, INTERNAL_ERROR, NOT_IMPLEMENTED, TEMPORARY_ERROR, Refused
from app.procurement.setup import status_bytes

router = APIRouter(tags=["procurement"])
log = structlog.get_logger("headroom")

CXML = {"text/xml": {"schema": {"type": "string"}}}
HTML = {"text/html": {"schema": {"type": "string"}}}


@router.post(
    "/procurement/punchout",
    operation_id="punchout",
    responses={200: {"description": "A cXML Response; its Status says how it went.", "content": CXML}},
    openapi_extra={"requestBody": {"required": True, "content": CXML}},
    response_class=Response,
    summary="Open a punch-out session by a cXML PunchOutSetupRequest",
)
async def post_punchout(request: Request, desk: AtDesk) -> Response:
    """The sender's shared secret is one that settings name for its identity. The answer is a PunchOutSetupResponse with
    the start page of a session, or a Status that says why not: 400 what is missing, 401 the secret, 403 where the
    basket should go, 406 what is no XML that is taken, 409 a document that has ordered already, 450 what is not
    offered, 560 the database.
    """
    now = datetime.now(UTC)
    try:
        raw = await read_raw(request, XML, request.app.state.settings.max_body_bytes)
        told = await run_in_threadpool(_there(desk).opened, raw, now=now)
    except Refused as error:
        told = _status(error.status, error.detail, now)
    except Malformed as error:
        told = _status(BAD_REQUEST, error.detail, now)
    except DatabaseError:
        told = _status(TEMPORARY_ERROR, "The database does not answer; try again shortly.", now)
    except Exception as error:
        broke(request.scope, error)
        told = _status(INTERNAL_ERROR, "Something went wrong here; it has been logged.", now)
    return Response(told, media_type="text/xml; charset=utf-8", headers=PRIVATE)


def _there(desk: Desk | None) -> Desk:
    if desk is None:
        raise Refused(NOT_IMPLEMENTED, "Punch-out is not set up here: settings name no buyer, or no public URL.")
    return desk


def _status(status: int, detail: str, now: datetime) -> bytes:
    log.warning("punchout_refused", status=status, detail=detail)
    return status_bytes(f"{now.timestamp():.6f}", now.isoformat(timespec="seconds"), status, detail)


# Fields of an OCI call by name, with what each is.
OCI = {
    "USERNAME": "The buyer's user, as settings name it.",
    "PASSWORD": "The password of that user.",
    "HOOK_URL": "Where the browser posts the basket.",
    "~OkCode": "Goes back as it came.",
    "~CALLER": "Goes back as it came.",
    "~TARGET": "The frame that the basket goes to; _top where none is named.",
}
STRING = {"type": "string"}
OCI_FORM = {
    NAMED: "OciCall",
    "type": "object",
    "properties": {name: {**STRING, "description": said} for name, said in OCI.items()},
    "examples": [{"USERNAME": "buyer", "PASSWORD": "a shared secret", "HOOK_URL": "https://srm.example.com/basket"}],
}
ENTRY: dict[str, Any] = {
    "response_class": HTMLResponse,
    "status_code": 303,
    "responses": {
        303: {"description": "The start page of a session."},
        **{status: {"description": "Why not, as a page.", "content": HTML} for status in (400, 401, 403, 404, 503)},
    },
}


@router.get(
    "/procurement/oci",
    operation_id="ociVisit",
    summary="Open a session by an OCI call",
    openapi_extra={
        "parameters": [{"name": n, "in": "query", "description": said, "schema": STRING} for n, said in OCI.items()]
    },
    **ENTRY,
)
async def get_oci(request: Request, desk: AtDesk) -> Response:
    """USERNAME, PASSWORD and HOOK_URL, as SAP sends them. A password in an address is written into many logs: where the
    buyer's system can, let it POST.
    """
    return await _entered(desk, request.query_params)


@router.post(
    "/procurement/oci",
    operation_id="ociVisitByForm",
    summary="Open a session by an OCI call that posts a form",
    openapi_extra={
        "requestBody": {"required": True, "content": {FORM[0]: {"schema": OCI_FORM}}},
    },
    **ENTRY,
)
async def post_oci(request: Request, desk: AtDesk) -> Response:
    """The same fields in the body."""
    try:
        fields = await read_form(request)
    except Malformed as error:
        return page_of(refused_page("No session", error.detail), status=400)
    return await _entered(desk, fields)


async def _entered(desk: Desk | None, fields: Mapping[str, str]) -> Response:
    try:
        address = await run_in_threadpool(_there(desk).entered, fields, now=datetime.now(UTC))
    except Refused as error:
        log.warning("punchout_refused", status=error.status, detail=error.detail)
        status = 404 if error.status == NOT_IMPLEMENTED else error.status
        return page_of(refused_page("No session", error.detail), status=status)
    except DatabaseError:
        return page_of(refused_page("No session", "The database does not answer; try again shortly."), status=503)
    return Response(status_code=303, headers={"Location": address, **PRIVATE})
