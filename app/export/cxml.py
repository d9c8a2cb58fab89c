"""Writes a bill as a cXML PunchOutOrderMessage: the basket that a supplier's site returns to a buyer's system.

The element order follows the cXML 1.2.063 DTD, in which ItemDetail is strict: price, description, unit,
classification, manufacturer's part number and name, extrinsics.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from app.export.lines import SERVICE_KINDS, Bill, Line, format_decimal
from app.extras import defer_import

etree = defer_import("lxml.etree", "export", "The format cxml")

VERSION = "1.2.063"
DOCTYPE = f'<!DOCTYPE cXML SYSTEM "http://xml.cxml.org/schemas/cXML/{VERSION}/cXML.dtd">'
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# cXML names of the classification schemes in the catalog.
DOMAINS = {"unspsc": "UNSPSC", "cpv": "CPV", "hs_code": "HS"}

# cXML names of the details of an order, which ItemDetail has no elements for.
ORDER_EXTRINSICS = {
    "buyer": "Buyer",
    "delivery_address": "DeliveryAddress",
    "incoterm": "Incoterm",
    "payment_terms": "PaymentTerms",
    "lead_time_days": "LeadTimeDays",
    "due_date": "DueDate",
    "valid_until": "ValidUntil",
}
EXTRINSICS = {"label": "Label", "reference": "Reference", "cost_centre": "CostCenter"}  # by field of the request


@dataclass(frozen=True, slots=True)
class Party:
    """Credential of a party: its identity and the register that issued it."""

    identity: str
    domain: str = "NetworkId"


@dataclass(frozen=True, slots=True)
class Session:
    """Parties and context of a message. The defaults are placeholders for an export without a punch-out session."""

    seller: Party = Party("SUPPLIER-ID")
    buyer: Party = Party("BUYER-ID")
    cookie: str | None = None  # the buyer's cookie; None: the reference of the option
    message: str | None = None  # id of the message; None: the reference of the option
    sent_at: str | None = None  # time of the message; None: creation time of the answer
    operation_allowed: str = "create"


def cxml_bytes(bill: Bill, session: Session | None = None) -> bytes:
    """Basket with the priced lines of a bill; lines without a price are left out. Raises NothingPriced."""
    session, lines = session or Session(), bill.require_priced_lines()
    root, message = _create_envelope(session, session.message or bill.reference, session.sent_at or bill.created_at)
    head = _add_order(message, session, session.cookie or bill.reference)
    _add_money(etree.SubElement(head, "Total"), bill.settlement.currency, bill.subtotal)
    if bill.settlement.tax_name is not None:
        tax = etree.SubElement(head, "Tax")
        _add_money(tax, bill.settlement.currency, bill.tax)
        percent = format_decimal(bill.settlement.tax_percent)
        _add_text(tax, "Description", f"{bill.settlement.tax_name} {percent} %").set(LANGUAGE, "en")
    for line in lines:
        _add_item(head.getparent(), bill, line)
    return document_bytes(root)


def unchanged_bytes(session: Session) -> bytes:
    """Message that ends a session without a choice: cXML status 204."""
    root, message = _create_envelope(session, session.message or "", session.sent_at or "")
    _add_text(message, "Status", "Nothing was chosen.").attrib.update(
        {"code": "204", "text": "No Content", LANGUAGE: "en"}
    )
    head = _add_order(message, session, session.cookie or "")
    _add_money(etree.SubElement(head, "Total"), "USD", Decimal("0.00"))
    return document_bytes(root)


def cxml_root(payload: str, timestamp: str) -> Any:
    """Root element of a cXML document."""
    root = etree.Element("cXML", version=VERSION, payloadID=f"{payload}@headroom", timestamp=timestamp)
    root.set(LANGUAGE, "en")
    return root


def document_bytes(root: Any) -> bytes:
    """Serialized document with XML declaration and document type."""
    document: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True, doctype=DOCTYPE)
    return document


def _create_envelope(session: Session, payload: str, sent_at: str) -> tuple[Any, Any]:
    """Document with its header, and its empty Message element."""
    root = cxml_root(payload, sent_at.replace("Z", "+00:00"))
    header = etree.SubElement(root, "Header")
    for role, party in (("From", session.seller), ("To", session.buyer), ("Sender", session.seller)):
        credential = etree.SubElement(etree.SubElement(header, role), "Credential", domain=party.domain)
        _add_text(credential, "Identity", party.identity)
    _add_text(header[-1], "UserAgent", "Headroom")
    return root, etree.SubElement(root, "Message")


def _add_order(message: Any, session: Session, cookie: str) -> Any:
    """Adds an order message and returns its header element."""
    order = etree.SubElement(message, "PunchOutOrderMessage")
    _add_text(order, "BuyerCookie", cookie)
    allowed = {"operationAllowed": session.operation_allowed, "quoteStatus": "pending"}
    return etree.SubElement(order, "PunchOutOrderMessageHeader", allowed)


def _add_item(order: Any, bill: Bill, line: Line) -> None:
    kind = "service" if line.kind in SERVICE_KINDS else "material"
    item = etree.SubElement(
        order, "ItemIn", quantity=format_decimal(line.quantity), lineNumber=str(line.number), itemClassification=kind
    )
    named = etree.SubElement(item, "ItemID")
    _add_text(named, "SupplierPartID", line.supplier_part_id or line.sku)
    _add_text(named, "SupplierPartAuxiliaryID", f"{bill.reference}-{line.number}")
    detail = etree.SubElement(item, "ItemDetail")
    _add_money(etree.SubElement(detail, "UnitPrice"), bill.settlement.currency, line.unit_price or Decimal(0))
    described = _add_text(detail, "Description", line.description)
    described.set(LANGUAGE, "en")
    _add_text(detail, "UnitOfMeasure", line.unit.value)
    codes = {domain: line.codes[name] for name, domain in DOMAINS.items() if name in line.codes}
    for domain, code in (codes or {"Headroom": line.goods}).items():
        _add_text(detail, "Classification", code).set("domain", domain)
    if line.part_number is not None:
        _add_text(detail, "ManufacturerPartID", line.part_number)
    if line.manufacturer is not None:
        _add_text(detail, "ManufacturerName", line.manufacturer)
    for name, value in _line_extrinsics(bill, line).items():
        _add_text(detail, "Extrinsic", value).set("name", name)


def _line_extrinsics(bill: Bill, line: Line) -> dict[str, str]:
    """Extrinsics of a line: facts for which cXML has no element."""
    price, own = line.price, {EXTRINSICS[name]: text for name, text in bill.filing_values.items()}
    facts = {} if price is None else {"PriceKind": price.kind, "PriceSource": price.source, "PriceDate": price.observed}
    facts |= {} if line.supplier is None else {"Supplier": line.supplier}
    facts |= {} if line.term_months is None else {"TermMonths": format_decimal(line.term_months)}
    order = {ORDER_EXTRINSICS[name]: text for name, text in bill.order.stated() if name in ORDER_EXTRINSICS}
    return facts | own | order


def _add_money(parent: Any, currency: str, amount: Decimal) -> None:
    _add_text(parent, "Money", f"{amount:f}").set("currency", currency)


def _add_text(parent: Any, name: str, text: str) -> Any:
    child = etree.SubElement(parent, name)
    child.text = text
    return child
