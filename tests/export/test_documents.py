"""cXML against its DTD, UBL against its schema, OCI fields within their lengths; all add up to the same cent."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

import pytest
import python_calamine
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from app.export.columns import csv_bytes
from app.export.cxml import Party, Session, cxml_bytes, unchanged_bytes
from app.export.lines import CENT, PRICE_STEP, Bill, NothingPriced, Settlement, build_bill, clean_text, round_half_up
from app.export.memo import render_memo
from app.export.oci import LENGTHS, TooLarge, oci_bytes, oci_fields, price_and_unit
from app.export.sheet import xlsx_bytes
from app.export.ubl import CBC, ubl_bytes
from tests.export import stored
from tests.export.test_quotes import ORDER

EURO = Settlement("EUR", Decimal("0.92"), date(2026, 11, 20), "VAT", Decimal("19"))
PRICED = (1, 2, 3, 4)
NAMES = {"b": CBC, "a": "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2"}


def bill(rank: int, settlement: Settlement = EURO) -> Bill:
    return build_bill(stored.answer(cluster={"checkpoint_capacity_tb": 2}), stored.supply(), rank, settlement)


def parsed(body: bytes) -> Any:
    return etree.fromstring(body, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))


@pytest.mark.parametrize("rank", PRICED)
def test_a_basket_is_valid_and_adds_up(rank: int, cxml_dtd: etree.DTD) -> None:
    found = bill(rank)
    root = parsed(cxml_bytes(found))
    assert cxml_dtd.validate(root), cxml_dtd.error_log
    items = root.findall(".//ItemIn")
    assert [item.get("lineNumber") for item in items] == [str(line.number) for line in found.priced_lines]
    totals = [
        round_half_up(Decimal(item.get("quantity")) * Decimal(item.findtext(".//UnitPrice/Money")), CENT)
        for item in items
    ]
    assert Decimal(root.findtext(".//Total/Money")) == sum(totals) == found.subtotal
    assert Decimal(root.findtext(".//Tax/Money")) == found.tax
    assert {money.get("currency") for money in root.iter("Money")} == {"EUR"}


def test_a_basket_in_another_order_is_not_valid(cxml_dtd: etree.DTD) -> None:
    root = parsed(cxml_bytes(bill(1)))
    detail = root.find(".//ItemDetail")
    detail.insert(0, detail.find("Classification"))
    assert not cxml_dtd.validate(root)


def test_a_basket_goes_back_to_its_session(cxml_dtd: etree.DTD) -> None:
    between = Session(Party("us"), Party("them", "DUNS"), "cookie-1", "m-1", "2026-11-23T10:00:00Z", "edit")
    for root in (parsed(cxml_bytes(bill(1), between)), parsed(unchanged_bytes(between))):
        assert cxml_dtd.validate(root), cxml_dtd.error_log
        assert root.findtext(".//BuyerCookie") == "cookie-1"
        assert [root.findtext(f"Header/{role}//Identity") for role in ("From", "To")] == ["us", "them"]
        assert root.find("Header/To/Credential").get("domain") == "DUNS"
        assert (root.get("payloadID"), root.get("timestamp")) == ("m-1@headroom", "2026-11-23T10:00:00+00:00")


def test_leaving_with_nothing_is_no_order() -> None:
    root = parsed(unchanged_bytes(Session(cookie="c", message="m", sent_at="2026-11-23T10:00:00Z")))
    assert root.find("Message/Status").get("code") == "204"
    assert root.findall(".//ItemIn") == []


@pytest.mark.parametrize("rank", [*PRICED, 5])
def test_a_request_for_quotation_is_valid_and_has_every_line(rank: int, ubl_schema: etree.XMLSchema) -> None:
    for settlement in (EURO, Settlement()):
        found = bill(rank, settlement)
        root = parsed(ubl_bytes(found))
        assert ubl_schema.validate(root), ubl_schema.error_log
        assert len(root.findall("a:RequestForQuotationLine", NAMES)) == len(found.lines)
        amounts = [Decimal(amount.text) for amount in root.findall(".//b:LineExtensionAmount", NAMES)]
        assert sum(amounts) == found.subtotal
        rates = root.findall(".//a:PricingExchangeRate", NAMES)
        assert len(rates) == (len(found.priced_lines) if settlement.rate_date else 0)


def test_a_line_without_a_code_is_still_classified(cxml_dtd: etree.DTD, ubl_schema: etree.XMLSchema) -> None:
    bare = replace(bill(1), lines=tuple(replace(line, codes={}) for line in bill(1).lines))
    assert cxml_dtd.validate(parsed(cxml_bytes(bare)))
    assert ubl_schema.validate(parsed(ubl_bytes(bare)))


OWN = {"label": "=chat, Zürich", "reference": "PR-2026 & 0417", "cost_centre": "4711"}


def filed(rank: int) -> Bill:
    """A bill of a request that was filed under words of its own."""
    return build_bill({**stored.answer(), "request": {**OWN, "limit": None}}, stored.supply(), rank, EURO)


def test_own_words_stand_where_a_format_has_a_place_for_them(cxml_dtd: etree.DTD, ubl_schema: etree.XMLSchema) -> None:
    found = filed(1)
    basket = parsed(cxml_bytes(found))
    assert cxml_dtd.validate(basket), cxml_dtd.error_log
    items = basket.findall(".//ItemIn")
    for name, text in zip(("Label", "Reference", "CostCenter"), OWN.values(), strict=True):
        assert [e.text for e in basket.iter("Extrinsic") if e.get("name") == name] == [text] * len(items)
    asked = parsed(ubl_bytes(found))
    assert ubl_schema.validate(asked), ubl_schema.error_log
    assert asked.findtext("a:AdditionalDocumentReference/b:ID", None, NAMES) == OWN["reference"]
    assert [e.text for e in asked.findall(".//b:AccountingCost", NAMES)] == [OWN["cost_centre"]] * len(found.lines)
    assert asked.findtext("b:Note", None, NAMES) == f"{OWN['label']}."
    rows = list(csv.DictReader(io.StringIO(csv_bytes(found).decode())))
    assert {tuple(row[name] for name in OWN) for row in rows} == {(f"'{OWN['label']}", *list(OWN.values())[1:])}
    sheet = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(xlsx_bytes(found))).get_sheet_by_name("Totals")
    totals = {row[0]: row[1] for row in sheet.to_python()}
    assert [totals[name] for name in ("Label", "Reference", "Cost center")] == list(OWN.values())
    memo = render_memo(stored.answer(), stored.supply(), [found], found).decode()
    assert "PR-2026 &amp; 0417" in memo.partition("Request for quotation")[2]
    assert "4711" not in memo.partition("Request for quotation")[2]
    assert oci_bytes(found) == oci_bytes(build_bill(stored.answer(), stored.supply(), 1, EURO))


@pytest.mark.parametrize("rank", PRICED)
def test_oci_fields_fit_and_add_up(rank: int) -> None:
    found = bill(rank)
    fields = parse_qsl(oci_bytes(found).decode(), strict_parsing=True)
    assert fields == oci_fields(found)
    items: dict[str, dict[str, str]] = {}
    for field, text in fields:
        if "LONGTEXT" in field:
            continue
        name, _, place = field.removeprefix("NEW_ITEM-").rstrip("]").partition("[")
        assert len(text) <= LENGTHS[name]
        items.setdefault(place, {})[name] = text
    assert list(items) == [str(place) for place in range(1, len(found.priced_lines) + 1)]
    totals = [
        round_half_up(Decimal(item["QUANTITY"]) * Decimal(item["PRICE"]) / Decimal(item["PRICEUNIT"]), CENT)
        for item in items.values()
    ]
    assert sum(totals) == found.subtotal


@given(st.decimals("0.0001", 10**9, places=4))
def test_no_price_loses_a_digit_to_the_price_unit(price: Decimal) -> None:
    shown, unit = price_and_unit(price)
    assert shown / unit == round_half_up(price, PRICE_STEP)


def test_a_figure_that_does_not_fit_is_refused_not_cut() -> None:
    line = bill(3).lines[0]
    vast = replace(bill(3), lines=(replace(line, quantity=Decimal(10) ** 13),))
    with pytest.raises(TooLarge, match="QUANTITY"):
        oci_fields(vast)
    long = replace(bill(3), lines=(replace(line, sku="x" * 90, supplier_part_id=None),))
    assert dict(oci_fields(long))["NEW_ITEM-EXT_PRODUCT_ID[1]"] == "x" * 40


def test_what_has_no_price_is_no_order() -> None:
    for written in (cxml_bytes, oci_bytes):
        with pytest.raises(NothingPriced):
            written(bill(5))


@given(st.text())
def test_any_text_can_be_written(text: str) -> None:
    said = clean_text(text) or "x"
    found = bill(3)
    odd = replace(found, title=said, lines=(replace(found.lines[0], description=said, notes=said, manufacturer=said),))
    assert parsed(cxml_bytes(odd)).findtext(".//ItemDetail/Description") == said
    assert parsed(ubl_bytes(odd)).findtext(".//b:Description", namespaces=NAMES) == said
    assert oci_bytes(odd)


def full(rank: int) -> Bill:
    """A bill whose first line has everything that a line can have, and whose others lack it."""
    found = filed(rank)
    first, *others = found.lines
    first = replace(first, notes="a note", part_number="PN-1", manufacturer="Acme", supplier_part_id="S-1")
    lacking = [replace(line, notes="", part_number=None, manufacturer=None, supplier_part_id=None) for line in others]
    return replace(found, lines=(first, *lacking))


@pytest.mark.parametrize("rank", PRICED)
def test_a_basket_carries_every_fact_of_every_line_and_no_other(rank: int) -> None:
    found = full(rank)
    for item, line in zip(parsed(cxml_bytes(found)).findall(".//ItemIn"), found.priced_lines, strict=True):
        assert Decimal(item.get("quantity")) == line.quantity
        assert item.findtext("ItemID/SupplierPartID") == (line.supplier_part_id or line.sku)
        assert Decimal(item.findtext(".//UnitPrice/Money")) == line.unit_price
        assert item.findtext(".//UnitOfMeasure") == line.unit.value
        assert item.findtext(".//ManufacturerPartID") == line.part_number
        assert item.findtext(".//ManufacturerName") == line.manufacturer
        codes = {e.get("domain"): e.text for e in item.iter("Classification")}
        named = {"UNSPSC": "unspsc", "CPV": "cpv", "HS": "hs_code"}
        assert codes == {d: line.codes[n] for d, n in named.items() if n in line.codes} or codes == {
            "Headroom": line.goods
        }
        facts = {e.get("name"): e.text for e in item.iter("Extrinsic")}
        assert line.price is not None
        assert facts["PriceKind"] == line.price.kind and facts["PriceDate"] == line.price.observed
        assert facts["PriceSource"] == line.price.source
        term = facts.get("TermMonths")
        assert (None if term is None else Decimal(term)) == line.term_months
    placeholder = parsed(cxml_bytes(found))
    assert placeholder.get("payloadID") == f"{found.reference}@headroom"
    assert placeholder.findtext(".//BuyerCookie") == found.reference
    unpriced = replace(found, lines=tuple(replace(line, price=None) for line in found.lines))
    assert not [e for e in parsed(cxml_bytes(unpriced)).iter("Extrinsic") if e.get("name", "").startswith("Price")]


@pytest.mark.parametrize("rank", [*PRICED, 5])
def test_a_request_for_quotation_carries_every_fact_of_every_line(rank: int) -> None:
    found = full(rank)
    root = parsed(ubl_bytes(found))
    notes = " ".join(e.text for e in root.findall("b:Note", NAMES))
    assert f"Rank {rank} of recommendation {found.answer}: {found.title}." in notes
    for amount in (found.subtotal, found.once, found.over_term, found.tax, found.total):
        assert f"{amount:,.2f} EUR" in notes
    sellers = {line.supplier for line in found.lines if line.supplier}
    seller = root.findtext("a:SellerSupplierParty//b:Name", None, NAMES)
    assert seller == (sellers.pop() if len(sellers) == 1 else "to be chosen")
    for item, line in zip(root.findall(".//a:LineItem", NAMES), found.lines, strict=True):
        assert item.findtext("b:ID", None, NAMES) == f"{found.reference}-{line.number}"
        assert item.findtext("b:Note", "", NAMES) == line.notes
        assert Decimal(item.findtext("b:Quantity", None, NAMES)) == line.quantity
        price = item.findtext("a:Price/b:PriceAmount", None, NAMES)
        assert (None if price is None else Decimal(price)) == line.unit_price
        for path, fact in (
            ("a:Item/a:SellersItemIdentification/b:ID", line.supplier_part_id or line.sku),
            ("a:Item/a:ManufacturersItemIdentification/b:ID", line.part_number),
            ("a:Item/a:ManufacturerParty//b:Name", line.manufacturer),
            ("a:Item/b:Description", line.description),
        ):
            assert item.findtext(path, None, NAMES) == fact
        codes = item.findall(".//b:ItemClassificationCode", NAMES)
        assert {c.get("listID"): c.text for c in codes} == {
            listed: line.codes[name]
            for name, listed in (("unspsc", "TST"), ("cpv", "STI"), ("hs_code", "HS"))
            if name in line.codes
        }
        versions = {c.get("listID"): c.get("listVersionID") for c in codes if c.get("listVersionID")}
        assert versions == ({"TST": line.codes["unspsc_version"]} if "unspsc_version" in line.codes else {})


@pytest.mark.parametrize("rank", PRICED)
def test_oci_fields_carry_every_fact_of_every_line(rank: int) -> None:
    found = full(rank)
    fields = dict(oci_fields(found))
    for place, line in enumerate(found.priced_lines, start=1):
        shown = {name: fields.get(f"NEW_ITEM-{name}[{place}]") for name in LENGTHS}
        assert Decimal(shown["PRICE"] or 0) / Decimal(shown["PRICEUNIT"] or 1) == line.unit_price
        code = line.codes.get("unspsc")
        assert (shown["MATGROUP"], shown["EXT_CATEGORY_ID"]) == (code, code)
        assert shown["EXT_SCHEMA_TYPE"] == (None if code is None else "UNSPSC")
        assert shown["VENDORMAT"] == (line.supplier_part_id or line.sku)[:40]
        assert shown["MANUFACTMAT"] == line.part_number and shown["EXT_QUOTE_ID"] == found.reference
        assert (shown["EXT_QUOTE_ITEM"], shown["UNIT"]) == (str(line.number), line.unit.value)
        assert fields[f"NEW_ITEM-LONGTEXT_{place}:132[]"] == line.description
    for price, shown_price, unit in (("3.4568", "34.568", 10), ("3.45678", "345.678", 100), ("3.456", "3.456", 1)):
        assert price_and_unit(Decimal(price)) == (Decimal(shown_price), unit)
    assert price_and_unit(Decimal("3.4567891")) == (Decimal("3456.789"), 1000)


def test_the_details_of_an_order_are_in_every_format_that_has_a_place_for_them(
    cxml_dtd: etree.DTD, ubl_schema: etree.XMLSchema
) -> None:
    found = build_bill(stored.answer(), stored.supply(), 1, EURO, ORDER)
    basket = parsed(cxml_bytes(found))
    assert cxml_dtd.validate(basket), cxml_dtd.error_log
    extrinsics = {e.get("name"): e.text for e in basket.find(".//ItemIn").iter("Extrinsic")}
    assert (extrinsics["Incoterm"], extrinsics["DueDate"], extrinsics["Supplier"]) == (
        "DAP",
        "2026-12-18",
        "Dealer Ltd",
    )
    asked = parsed(ubl_bytes(found))
    assert ubl_schema.validate(asked), ubl_schema.error_log
    for path, text in (
        ("b:SubmissionDueDate", "2026-12-18"),
        ("a:RequestedValidityPeriod/b:EndDate", "2027-01-31"),
        ("a:BuyerCustomerParty/a:Party/a:PartyName/b:Name", "Example & Co"),
        ("a:BuyerCustomerParty/a:Party/a:PostalAddress/a:AddressLine/b:Line", "1 Main Street, Exampletown"),
        ("a:BuyerCustomerParty/a:Party/a:PartyTaxScheme/b:CompanyID", "EX123456"),
        ("a:BuyerCustomerParty/a:Party/a:Contact/b:Name", "J. Doe, j.doe@example.com"),
        ("a:Delivery/a:DeliveryAddress/a:AddressLine/b:Line", "2 Side Street, Exampletown"),
        ("a:Delivery/a:RequestedDeliveryPeriod/b:DurationMeasure", "60"),
        ("a:DeliveryTerms/b:ID", "DAP"),
        ("a:SellerSupplierParty/a:Party/a:PartyName/b:Name", "Dealer Ltd"),
    ):
        assert asked.findtext(path, None, NAMES) == text
    notes = [note.text for note in asked.findall("b:Note", NAMES)]
    assert notes[-2:] == ["No total includes lines 7, 8, 9.", "Payment terms: 30 days net."]
    assert dict(oci_fields(found))["NEW_ITEM-LEADTIME[1]"] == "60"
    row = next(csv.DictReader(io.StringIO(csv_bytes(found).decode())))
    assert [row[name] for name in ("supplier", "incoterm", "lead_time_days")] == ["Dealer Ltd", "DAP", "60"]
    book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(xlsx_bytes(found)))
    totals = {row[0]: row[1] for row in book.get_sheet_by_name("Totals").to_python()}
    assert (totals["Buyer"], totals["Reply by"], totals["Term, months"]) == ("Example & Co", "2026-12-18", "")
    assert str(totals["Not in the total"]).startswith("line 7: Front-end network")
