"""Writes a bill as a UBL 2.1 RequestForQuotation: the lines that a supplier quotes, with the expected prices."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from lxml import etree

from app.export.lines import Bill, Line
from app.export.money import plainly

ROOT = "urn:oasis:names:specification:ubl:schema:xsd:RequestForQuotation-2"
CAC = "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2"
CBC = "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2"
# UNTDID 7143 codes, which identify classification schemes in UBL.
LISTS = {"unspsc": "TST", "cpv": "STI", "hs_code": "HS"}
NO_SELLER = "to be chosen"


def ubl_bytes(bill: Bill) -> bytes:
    """The request with all lines; the supplier fills in the missing prices."""
    root = etree.Element(f"{{{ROOT}}}RequestForQuotation", nsmap={None: ROOT, "cac": CAC, "cbc": CBC})
    day, time = bill.created_at.split("T")
    _basic(root, "UBLVersionID", "2.1")
    _basic(root, "ID", bill.reference)
    _basic(root, "IssueDate", day)
    _basic(root, "IssueTime", time)
    for note in _notes(bill):
        _basic(root, "Note", note)
    _basic(root, "PricingCurrencyCode", bill.settlement.currency)
    _basic(root, "LineCountNumeric", str(len(bill.lines)))
    if "reference" in bill.own_words:
        _basic(_group(root, "AdditionalDocumentReference"), "ID", bill.own_words["reference"])
    sellers = {line.supplier for line in bill.lines if line.supplier is not None}
    seller = next(iter(sellers)) if len(sellers) == 1 else NO_SELLER
    _named(_group(root, "SellerSupplierParty"), "Party", seller)
    for line in bill.lines:
        item = _group(root, "RequestForQuotationLine")
        _basic(item, "ID", str(line.number))
        _line_item(_group(item, "LineItem"), bill, line)
    document: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)
    return document


def _notes(bill: Bill) -> list[str]:
    """Notes on the whole request: the option, the expected amounts, and the tax."""
    settled = bill.settlement
    currency = settled.currency
    notes = [
        f"Rank {bill.rank} of recommendation {bill.answer}: {bill.title}.",
        f"Expected subtotal: {bill.subtotal:,.2f} {currency}, of which {bill.once:,.2f} {currency} is paid once and "
        f"{bill.over_term:,.2f} {currency} over the term. Prices are from catalog snapshot {bill.snapshot}.",
    ]
    if "label" in bill.own_words:
        notes.insert(0, f"{bill.own_words['label']}.")
    if settled.tax_name is not None:
        tax = f"{settled.tax_name} ({plainly(settled.tax_percent)} %): {bill.tax:,.2f} {currency}."
        notes.append(f"{tax} Total with tax: {bill.total:,.2f} {currency}.")
    return notes


def _line_item(item: Any, bill: Bill, line: Line) -> None:
    currency = bill.settlement.currency
    _basic(item, "ID", f"{bill.reference}-{line.number}")
    if line.notes:
        _basic(item, "Note", line.notes)
    _basic(item, "Quantity", plainly(line.quantity)).set("unitCode", line.unit.value)
    if line.total is not None:
        _basic(item, "LineExtensionAmount", f"{line.total:f}").set("currencyID", currency)
    if "cost_centre" in bill.own_words:
        _basic(item, "AccountingCost", bill.own_words["cost_centre"])
    if line.unit_price is not None:
        _price(_group(item, "Price"), bill, line, line.unit_price)
    goods = _group(item, "Item")
    _basic(goods, "Description", line.description)
    _basic(goods, "Name", line.short)
    _identified(goods, "SellersItemIdentification", line.supplier_part_id or line.sku)
    if line.part_number is not None:
        _identified(goods, "ManufacturersItemIdentification", line.part_number)
    for name, listed in LISTS.items():
        if name in line.codes:
            code = _basic(_group(goods, "CommodityClassification"), "ItemClassificationCode", line.codes[name])
            code.set("listID", listed)
            if name == "unspsc" and "unspsc_version" in line.codes:
                code.set("listVersionID", line.codes["unspsc_version"])
    if line.manufacturer is not None:
        _named(goods, "ManufacturerParty", line.manufacturer)


def _price(price: Any, bill: Bill, line: Line, amount: Decimal) -> None:
    """Fills in the unit price and the exchange rate."""
    settled = bill.settlement
    _basic(price, "PriceAmount", f"{amount:f}").set("currencyID", settled.currency)
    _basic(price, "BaseQuantity", "1").set("unitCode", line.unit.value)
    if settled.rate_date is not None:
        rate = _group(price, "PricingExchangeRate")
        _basic(rate, "SourceCurrencyCode", "USD")
        _basic(rate, "TargetCurrencyCode", settled.currency)
        _basic(rate, "CalculationRate", plainly(settled.per_usd))
        _basic(rate, "Date", settled.rate_date.isoformat())


def _identified(goods: Any, name: str, identity: str) -> None:
    _basic(_group(goods, name), "ID", identity)


def _named(parent: Any, role: str, name: str) -> None:
    _basic(_group(_group(parent, role), "PartyName"), "Name", name)


def _group(parent: Any, name: str) -> Any:
    return etree.SubElement(parent, f"{{{CAC}}}{name}")


def _basic(parent: Any, name: str, text: str) -> Any:
    child = etree.SubElement(parent, f"{{{CBC}}}{name}")
    child.text = text
    return child
