"""Reads a buyer's cXML PunchOutSetupRequest without trusting it, and writes the response or the refusal.

Elements follow the cXML 1.2.063 DTD. Every response is sent with HTTP 200, whatever its own status is: HTTP reports
on the transport, the Status element on the request (cXML Reference Guide, as quoted by gatebold.com, read
2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.errors import AppError
from app.export.cxml import LANGUAGE, Party, cxml_root, document_bytes
from app.extras import defer_import

etree = defer_import("lxml.etree", "export", "Punch-out")

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_ACCEPTABLE, CONFLICT, NOT_IMPLEMENTED = 400, 401, 403, 406, 409, 450
TOO_MANY, INTERNAL_ERROR, TEMPORARY_ERROR = 429, 500, 560
STATUS_TEXTS = {
    200: "OK",
    204: "No Content",
    BAD_REQUEST: "Bad Request",
    UNAUTHORIZED: "Unauthorized",
    FORBIDDEN: "Forbidden",
    NOT_ACCEPTABLE: "Not Acceptable",
    CONFLICT: "Conflict",
    NOT_IMPLEMENTED: "Not Implemented",
    TOO_MANY: "Too Many Requests",
    INTERNAL_ERROR: "Internal Server Error",
    TEMPORARY_ERROR: "Temporary Server Error",
}


class PunchoutRefused(AppError):
    """Raised for a document or call that opens no session."""

    code = "punch-out-refused"

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


MAX_DEPTH = 32
ENCODINGS = ("utf-8", "us-ascii", "iso-8859-1")
ENCODING_DECLARATION = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
DECLARATION = re.compile(r"<!(?:ENTITY|ELEMENT|ATTLIST|NOTATION)|<!DOCTYPE[^>]*\[")


def read_xml(raw: bytes) -> Any:
    """Root element of a document. Raises PunchoutRefused.

    The text is decoded before parsing, so that no encoding can hide a declaration from the check.
    """
    declared = ENCODING_DECLARATION.match(raw[:400])
    encoding = declared[1].decode("ascii").lower() if declared else "utf-8"
    if encoding not in ENCODINGS:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The encoding is not supported. Use one of: {', '.join(ENCODINGS)}.")
    try:
        text = raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The document is not valid {encoding}.") from None
    if DECLARATION.search(text):
        raise PunchoutRefused(NOT_ACCEPTABLE, "Entity declarations and internal DTD subsets are not accepted.")
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The document is not well-formed XML: line {error.lineno}.") from None
    if next(root.iter(etree.Entity), None) is not None:
        raise PunchoutRefused(NOT_ACCEPTABLE, "Entities are not accepted.")
    if _element_depth(root) > MAX_DEPTH:
        raise PunchoutRefused(NOT_ACCEPTABLE, f"The document is nested deeper than {MAX_DEPTH} levels.")
    return root


def _element_depth(root: Any) -> int:
    depth = deepest = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
    return deepest


OPERATIONS = ("create", "edit", "inspect")
MAX_LENGTH = 255
MAX_COOKIE_LENGTH = 1000
# Line ids in baskets from this service: recommendation, rank, line.
LINE_ID = re.compile(r"(rec_[0-9a-f]{28})-([0-9]{1,3})-[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """Content of a setup request; its credentials are not verified yet."""

    payload: str  # payloadID of the document
    senders: tuple[tuple[Party, str], ...]  # credentials with their shared secrets
    buyer: Party
    seller: Party
    operation: str
    cookie: str
    return_url: str | None
    basket: tuple[str, int] | None  # recommendation and rank of the basket of an earlier session


def read_setup(raw: bytes) -> SetupRequest:
    """Setup request of a document. Raises PunchoutRefused."""
    root = read_xml(raw)
    request = root.find("Request")
    if root.tag != "cXML" or request is None:
        raise PunchoutRefused(BAD_REQUEST, "The document must be cXML with a Request element.")
    setup = request.find("PunchOutSetupRequest")
    if setup is None:
        raise PunchoutRefused(NOT_IMPLEMENTED, "The request type is not supported. Send a PunchOutSetupRequest.")
    operation = setup.get("operation", "")
    if operation not in OPERATIONS:
        raise PunchoutRefused(NOT_IMPLEMENTED, f"The operation is not supported. Use one of: {', '.join(OPERATIONS)}.")
    url = setup.findtext("BrowserFormPost/URL")
    return SetupRequest(
        payload=_require_text(root.get("payloadID"), "payloadID"),
        senders=tuple(_read_senders(root)),
        buyer=_read_party(root, "From"),
        seller=_read_party(root, "To"),
        operation=operation,
        cookie=_require_text(_only_text(setup.find("BuyerCookie")), "BuyerCookie", MAX_COOKIE_LENGTH),
        return_url=None if url is None else url.strip(),
        basket=next(_read_baskets(setup), None),
    )


def _require_text(text: str | None, name: str, longest: int = MAX_LENGTH) -> str:
    value = (text or "").strip()
    if not value or len(value) > longest:
        raise PunchoutRefused(BAD_REQUEST, f"{name} is required and can have at most {longest} characters.")
    return value


def _only_text(element: Any) -> str | None:
    """Text of an element.

    The DTD allows markup in it; buyers do not send any, and it could not be returned unchanged.
    """
    if element is not None and len(element):
        raise PunchoutRefused(BAD_REQUEST, f"{element.tag} must contain only text.")
    return None if element is None else element.text


def _read_party(root: Any, role: str) -> Party:
    credential = root.find(f"Header/{role}/Credential")
    if credential is None:
        raise PunchoutRefused(BAD_REQUEST, f"Header/{role}/Credential is required.")
    identity = _require_text(_only_text(credential.find("Identity")), f"Identity of {role}")
    return Party(identity, _require_text(credential.get("domain"), f"domain of {role}"))


def _read_senders(root: Any) -> Iterator[tuple[Party, str]]:
    for credential in root.findall("Header/Sender/Credential"):
        identity, secret = _only_text(credential.find("Identity")), _only_text(credential.find("SharedSecret"))
        if identity and secret:
            yield Party(identity.strip(), credential.get("domain", "")), secret


def _read_baskets(setup: Any) -> Iterator[tuple[str, int]]:
    for element in setup.iter("SupplierPartAuxiliaryID"):
        match = LINE_ID.fullmatch((_only_text(element) or "").strip())
        if match is not None:
            yield match[1], int(match[2])


def response_bytes(payload: str, timestamp: str, start_page: str) -> bytes:
    """Response for an open session, with the start page for the buyer's browser."""
    root, response = _create_response(payload, timestamp, 200)
    page = etree.SubElement(etree.SubElement(response, "PunchOutSetupResponse"), "StartPage")
    etree.SubElement(page, "URL").text = start_page
    return document_bytes(root)


def status_bytes(payload: str, timestamp: str, status: int, detail: str) -> bytes:
    """Response without a session, with the reason."""
    root, response = _create_response(payload, timestamp, status)
    response[0].text = detail
    return document_bytes(root)


def _create_response(payload: str, timestamp: str, status: int) -> tuple[Any, Any]:
    root = cxml_root(payload, timestamp)
    response = etree.SubElement(root, "Response")
    etree.SubElement(response, "Status", {"code": str(status), "text": STATUS_TEXTS[status], LANGUAGE: "en"})
    return root, response
