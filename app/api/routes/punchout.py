"""POST /procurement/punchout (cXML) and /procurement/oci: entry points for procurement systems."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from app.api.body import FORM, XML, read_form, read_raw
from app.api.deps import OptionalDesk
from app.api.front import log_unexpected_error
from app.api.problems import MalformedRequest
from app.api.routes.sessions import PRIVATE, private_page
from app.api.schemas.base import COMPONENT_KEY
from app.db import DatabaseError
from app.procurement.desk import PunchoutService
from app.procurement.pages import refused_page
from app.procurement.refusals import BAD_REQUEST, INTERNAL_ERROR, NOT_IMPLEMENTED, TEMPORARY_ERROR, PunchoutRefused
from app.procurement.setup import status_bytes

router = APIRouter(tags=["procurement"])
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
    secret, 403 return address not allowed, 406 unsupported XML, 409 document already ordered, 450 operation not
    offered, 560 database unavailable.
    """
    now = datetime.now(UTC)
    try:
        raw = await read_raw(request, XML, request.app.state.settings.max_body_bytes)
        reply = await run_in_threadpool(_require_desk(desk).open_session, raw, now=now)
    except PunchoutRefused as error:
        reply = _status_reply(error.status, error.detail, now)
    except MalformedRequest as error:
        reply = _status_reply(BAD_REQUEST, error.detail, now)
    except DatabaseError:
        reply = _status_reply(TEMPORARY_ERROR, "The database is not available. Retry shortly.", now)
    except Exception as error:
        log_unexpected_error(request.scope, error)
        reply = _status_reply(INTERNAL_ERROR, "An internal error occurred and was logged.", now)
    return Response(reply, media_type="text/xml; charset=utf-8", headers=PRIVATE)


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
            for status in (400, 401, 403, 404, 503)
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
    return await _open_oci_session(desk, request.query_params)


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
    return await _open_oci_session(desk, fields)


async def _open_oci_session(desk: PunchoutService | None, fields: Mapping[str, str]) -> Response:
    try:
        address = await run_in_threadpool(_require_desk(desk).open_oci_session, fields, now=datetime.now(UTC))
    except PunchoutRefused as error:
        log.warning("punchout_refused", status=error.status, detail=error.detail)
        status = 404 if error.status == NOT_IMPLEMENTED else error.status
        return private_page(refused_page("No session", error.detail), status=status)
    except DatabaseError:
        return private_page(refused_page("No session", "The database is not available. Retry shortly."), status=503)
    return Response(status_code=303, headers={"Location": address, **PRIVATE})
