"""Writes a bill as a UBL 2.1 RequestForQuotation: the lines that a supplier quotes, with the expected prices."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from app.export.lines import Bill, Line, format_decimal
from app.export.order import OrderDetails
from app.extras import defer_import

etree = defer_import("lxml.etree", "export", "The format ubl")

ROOT = "urn:oasis:names:specification:ubl:schema:xsd:RequestForQuotation-2"
CAC = "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2"
CBC = "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2"
# UNTDID 7143 codes, which identify classification schemes in UBL.
SCHEME_CODES = {"unspsc": "TST", "cpv": "STI", "hs_code": "HS"}
NO_SELLER = "to be chosen"


def ubl_bytes(bill: Bill) -> bytes:
    """The request with all lines; the supplier fills in the missing prices."""
    root = etree.Element(f"{{{ROOT}}}RequestForQuotation", nsmap={None: ROOT, "cac": CAC, "cbc": CBC})
    day, time = bill.created_at.split("T")
    _add_text(root, "UBLVersionID", "2.1")
    _add_text(root, "ID", bill.reference)
    _add_text(root, "IssueDate", day)
    _add_text(root, "IssueTime", time)
    if bill.order.due_date is not None:
        _add_text(root, "SubmissionDueDate", bill.order.due_date.isoformat())
    for note in _note_texts(bill):
        _add_text(root, "Note", note)
    _add_text(root, "PricingCurrencyCode", bill.settlement.currency)
    _add_text(root, "LineCountNumeric", str(len(bill.ordered_lines)))
    if bill.order.valid_until is not None:
        _add_text(_add_group(root, "RequestedValidityPeriod"), "EndDate", bill.order.valid_until.isoformat())
    if "reference" in bill.filing_values:
        _add_text(_add_group(root, "AdditionalDocumentReference"), "ID", bill.filing_values["reference"])
    sellers = {line.supplier for line in bill.ordered_lines if line.supplier is not None}
    seller = next(iter(sellers)) if len(sellers) == 1 else NO_SELLER
    _add_party(_add_group(root, "SellerSupplierParty"), "Party", seller)
    _add_buyer(root, bill.order)
    _add_delivery(root, bill.order)
    for line in bill.ordered_lines:
        item = _add_group(root, "RequestForQuotationLine")
        _add_text(item, "ID", str(line.number))
        _fill_line_item(_add_group(item, "LineItem"), bill, line)
    document: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)
    return document


def _add_buyer(root: Any, order: OrderDetails) -> None:
    """Adds the company that buys, if any of its details is stated."""
    if not any((order.buyer, order.buyer_address, order.buyer_contact, order.buyer_tax_id)):
        return
    party = _add_group(_add_group(root, "BuyerCustomerParty"), "Party")
    if order.buyer is not None:
        _add_text(_add_group(party, "PartyName"), "Name", order.buyer)
    if order.buyer_address is not None:
        _add_address(party, "PostalAddress", order.buyer_address)
    if order.buyer_tax_id is not None:
        tax = _add_group(party, "PartyTaxScheme")
        _add_text(tax, "CompanyID", order.buyer_tax_id)
        _add_group(tax, "TaxScheme")
    if order.buyer_contact is not None:
        _add_text(_add_group(party, "Contact"), "Name", order.buyer_contact)


def _add_delivery(root: Any, order: OrderDetails) -> None:
    """Adds the delivery address, the longest lead time, and the Incoterm."""
    if order.delivery_address is not None or order.lead_time_days is not None:
        delivery = _add_group(root, "Delivery")
        if order.delivery_address is not None:
            _add_address(delivery, "DeliveryAddress", order.delivery_address)
        if order.lead_time_days is not None:
            period = _add_group(delivery, "RequestedDeliveryPeriod")
            _add_text(period, "DurationMeasure", str(order.lead_time_days)).set("unitCode", "DAY")
    if order.incoterm is not None:
        _add_text(_add_group(root, "DeliveryTerms"), "ID", order.incoterm).set("schemeID", "INCOTERMS")


def _add_address(parent: Any, name: str, text: str) -> None:
    _add_text(_add_group(_add_group(parent, name), "AddressLine"), "Line", text)


def _note_texts(bill: Bill) -> list[str]:
    """Notes on the whole request: the option, the expected amounts, and the tax."""
    settled = bill.settlement
    currency = settled.currency
    notes = [
        f"{bill.name.capitalize()} of recommendation {bill.answer}: {bill.title}.",
        f"Expected subtotal: {bill.subtotal:,.2f} {currency}, of which {bill.once:,.2f} {currency} is paid once and "
        f"{bill.over_term:,.2f} {currency} over the term. Prices are from catalog snapshot {bill.snapshot}.",
    ]
    if "label" in bill.filing_values:
        notes.insert(0, f"{bill.filing_values['label']}.")
    if settled.tax_name is not None:
        tax = f"{settled.tax_name} ({format_decimal(settled.tax_percent)} %): {bill.tax:,.2f} {currency}."
        notes.append(f"{tax} Total with tax: {bill.total:,.2f} {currency}.")
    if bill.unpriced_lines:
        notes.append(f"No total includes lines {', '.join(str(line.number) for line in bill.unpriced_lines)}.")
    if bill.order.payment_terms is not None:
        notes.append(f"Payment terms: {bill.order.payment_terms}.")
    return notes


def _fill_line_item(item: Any, bill: Bill, line: Line) -> None:
    currency = bill.settlement.currency
    _add_text(item, "ID", f"{bill.reference}-{line.number}")
    if line.notes:
        _add_text(item, "Note", line.notes)
    _add_text(item, "Quantity", format_decimal(line.quantity)).set("unitCode", line.unit.value)
    if line.total is not None:
        _add_text(item, "LineExtensionAmount", f"{line.total:f}").set("currencyID", currency)
    if "cost_centre" in bill.filing_values:
        _add_text(item, "AccountingCost", bill.filing_values["cost_centre"])
    if line.unit_price is not None:
        _fill_price(_add_group(item, "Price"), bill, line, line.unit_price)
    goods = _add_group(item, "Item")
    _add_text(goods, "Description", line.description)
    _add_text(goods, "Name", line.short_description)
    _add_identification(goods, "SellersItemIdentification", line.supplier_part_id or line.sku)
    if line.part_number is not None:
        _add_identification(goods, "ManufacturersItemIdentification", line.part_number)
    for name, listed in SCHEME_CODES.items():
        if name in line.codes:
            code = _add_text(_add_group(goods, "CommodityClassification"), "ItemClassificationCode", line.codes[name])
            code.set("listID", listed)
            if name == "unspsc" and "unspsc_version" in line.codes:
                code.set("listVersionID", line.codes["unspsc_version"])
    if line.manufacturer is not None:
        _add_party(goods, "ManufacturerParty", line.manufacturer)


def _fill_price(price: Any, bill: Bill, line: Line, amount: Decimal) -> None:
    """Fills in the unit price and the exchange rate."""
    settled = bill.settlement
    _add_text(price, "PriceAmount", f"{amount:f}").set("currencyID", settled.currency)
    _add_text(price, "BaseQuantity", "1").set("unitCode", line.unit.value)
    if settled.rate_date is not None:
        rate = _add_group(price, "PricingExchangeRate")
        _add_text(rate, "SourceCurrencyCode", "USD")
        _add_text(rate, "TargetCurrencyCode", settled.currency)
        _add_text(rate, "CalculationRate", format_decimal(settled.per_usd))
        _add_text(rate, "Date", settled.rate_date.isoformat())


def _add_identification(goods: Any, name: str, identity: str) -> None:
    _add_text(_add_group(goods, name), "ID", identity)


def _add_party(parent: Any, role: str, name: str) -> None:
    _add_text(_add_group(_add_group(parent, role), "PartyName"), "Name", name)


def _add_group(parent: Any, name: str) -> Any:
    return etree.SubElement(parent, f"{{{CAC}}}{name}")


def _add_text(parent: Any, name: str, text: str) -> Any:
    child = etree.SubElement(parent, f"{{{CBC}}}{name}")
    child.text = text
    return child
