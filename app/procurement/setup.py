"""A buyer's cXML PunchOutSetupRequest, and the responses to it.

Elements after the cXML 1.2.063 DTD. A response is sent with HTTP 200 whatever its own status says: HTTP speaks of the
transport, the Status element of the request (cXML Reference Guide, as gatebold.com tells it, read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from app.export.cxml import LANGUAGE, Party, cxml_root, document_bytes
from app.procurement.refusals import BAD_REQUEST, NOT_IMPLEMENTED, TEXTS, Refused
from app.procurement.xml import read_xml

OPERATIONS = ("create", "edit", "inspect")
LONGEST = 255
LONGEST_COOKIE = 1000
# What a basket of ours names its lines: recommendation, rank, line.
OURS = re.compile(r"(rec_[0-9a-f]{28})-([0-9]{1,3})-[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """What a buyer's system asks for, as it says; nothing of it is proven yet."""

    payload: str
    senders: tuple[tuple[Party, str], ...]  # credentials with their shared secrets
    buyer: Party
    seller: Party
    operation: str
    cookie: str
    return_url: str | None
    basket: tuple[str, int] | None  # the recommendation and rank that it was made of, of an earlier session


def read_setup(raw: bytes) -> SetupRequest:
    """The request of a document. Raises Refused."""
    root = read_xml(raw)
    request = root.find("Request")
    if root.tag != "cXML" or request is None:
        raise Refused(BAD_REQUEST, "The document is no cXML with a Request.")
    setup = request.find("PunchOutSetupRequest")
    if setup is None:
        raise Refused(NOT_IMPLEMENTED, "Of requests a PunchOutSetupRequest is taken, and no other.")
    operation = setup.get("operation", "")
    if operation not in OPERATIONS:
        raise Refused(NOT_IMPLEMENTED, f"Of operations {', '.join(OPERATIONS)} are taken.")
    url = setup.findtext("BrowserFormPost/URL")
    return SetupRequest(
        payload=_needed(root.get("payloadID"), "payloadID"),
        senders=tuple(_senders(root)),
        buyer=_party(root, "From"),
        seller=_party(root, "To"),
        operation=operation,
        cookie=_needed(_only_text(setup.find("BuyerCookie")), "BuyerCookie", LONGEST_COOKIE),
        return_url=None if url is None else url.strip(),
        basket=next(_baskets(setup), None),
    )


def _needed(text: str | None, name: str, longest: int = LONGEST) -> str:
    told = (text or "").strip()
    if not told or len(told) > longest:
        raise Refused(BAD_REQUEST, f"{name} is needed, of at most {longest} characters.")
    return told


def _only_text(element: Any) -> str | None:
    """Its text. The DTD allows markup in it, which nobody sends and which could not be given back as it was."""
    if element is not None and len(element):
        raise Refused(BAD_REQUEST, f"{element.tag} may hold text alone.")
    return None if element is None else element.text


def _party(root: Any, role: str) -> Party:
    credential = root.find(f"Header/{role}/Credential")
    if credential is None:
        raise Refused(BAD_REQUEST, f"Header/{role}/Credential is needed.")
    identity = _needed(_only_text(credential.find("Identity")), f"Identity of {role}")
    return Party(identity, _needed(credential.get("domain"), f"domain of {role}"))


def _senders(root: Any) -> Iterator[tuple[Party, str]]:
    for credential in root.findall("Header/Sender/Credential"):
        identity, secret = _only_text(credential.find("Identity")), _only_text(credential.find("SharedSecret"))
        if identity and secret:
            yield Party(identity.strip(), credential.get("domain", "")), secret


def _baskets(setup: Any) -> Iterator[tuple[str, int]]:
    for told in setup.iter("SupplierPartAuxiliaryID"):
        found = OURS.fullmatch((_only_text(told) or "").strip())
        if found is not None:
            yield found[1], int(found[2])


def response_bytes(payload: str, timestamp: str, start_page: str) -> bytes:
    """The session is open: where the buyer's browser goes."""
    root, response = _response(payload, timestamp, 200)
    page = etree.SubElement(etree.SubElement(response, "PunchOutSetupResponse"), "StartPage")
    etree.SubElement(page, "URL").text = start_page
    return document_bytes(root)


def status_bytes(payload: str, timestamp: str, status: int, detail: str) -> bytes:
    """No session, and why."""
    root, response = _response(payload, timestamp, status)
    response[0].text = detail
    return document_bytes(root)


def _response(payload: str, timestamp: str, status: int) -> tuple[Any, Any]:
    root = cxml_root(payload, timestamp)
    response = etree.SubElement(root, "Response")
    etree.SubElement(response, "Status", {"code": str(status), "text": TEXTS[status], LANGUAGE: "en"})
    return root, response
