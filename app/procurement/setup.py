"""Reads a buyer's cXML PunchOutSetupRequest and writes the response.

Elements follow the cXML 1.2.063 DTD. Every response is sent with HTTP 200, whatever its own status is: HTTP reports
on the transport, the Status element on the request (cXML Reference Guide, as quoted by gatebold.com, read
2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from app.export.cxml import LANGUAGE, Party, cxml_root, document_bytes
from app.procurement.refusals import BAD_REQUEST, NOT_IMPLEMENTED, STATUS_TEXTS, PunchoutRefused
from app.procurement.xml import read_xml

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
