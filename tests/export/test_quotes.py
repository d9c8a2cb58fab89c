"""Requests for quotation: each supplier is asked for what it sells, on one page, with the buyer's details filled in."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from lxml import html

from app.export.lines import Bill, Settlement, Trade, build_bill
from app.export.order import ORDER_LABELS, OrderDetails
from app.export.quotes import quote_groups, render_quote_requests
from tests.export import stored
from tests.export.test_writers import EURO

ORDER = OrderDetails(
    buyer="Example & Co",
    buyer_address="1 Main Street, Exampletown",
    buyer_contact="J. Doe, j.doe@example.com",
    buyer_tax_id="EX123456",
    supplier="Dealer Ltd",
    delivery_address="2 Side Street, Exampletown",
    incoterm="DAP",
    payment_terms="30 days net",
    lead_time_days=60,
    due_date=date(2026, 12, 18),
    valid_until=date(2027, 1, 31),
)


def bill(*lots: dict[str, Any], order: OrderDetails = ORDER) -> Bill:
    supply = stored.supply()
    supply["ranks"][0] = list(lots)
    return build_bill(stored.answer(), supply, 1, EURO, order)


def test_each_supplier_is_asked_for_what_it_sells() -> None:
    groups = quote_groups(bill({**stored.BOUGHT, "licence": "Sold Engine"}))
    goods = {group.trade: [line.goods for line in group.lines] for group in groups}
    assert goods == {
        Trade.HARDWARE: ["machine", "network", "rack", "support", "network", "power_distribution", "installation"],
        Trade.DATA_CENTER: ["hosting", "power"],
        Trade.SOFTWARE: ["licence"],
    }
    assert [group.supplier for group in groups] == ["Dealer Ltd", None, None]


def test_no_supplier_is_asked_for_the_electricity_of_a_desk() -> None:
    tower = {**stored.BOUGHT, "parts": [p for p in stored.BOUGHT["parts"] if p["what"] not in ("rack_kw", "floor_kw")]}
    (only,) = quote_groups(bill(tower))
    assert only.trade is Trade.HARDWARE
    assert "power" not in [line.goods for line in only.lines]


def test_two_clouds_get_a_page_each_and_one_dealer_gets_all_goods() -> None:
    other = {**stored.RENTED, "seller": "B Cloud"}
    assert [group.supplier for group in quote_groups(bill(stored.RENTED, other))] == ["A Cloud", "B Cloud"]
    groups = quote_groups(bill(stored.BOUGHT, order=OrderDetails()))
    assert [group.supplier for group in groups] == ["Supermicro", None]  # racks and networks are asked of it, too


def pages(found: Bill) -> list[Any]:
    found_pages: list[Any] = html.fromstring(render_quote_requests(found)).findall(".//div[@class='quote']")
    return found_pages


def test_a_form_is_filled_with_what_the_buyer_states() -> None:
    hardware, data_center = (page.text_content() for page in pages(bill(stored.BOUGHT)))
    for name, text in ORDER.stated():
        assert f"{ORDER_LABELS[name] if name != 'supplier' else 'Supplier (hardware dealer)'}: {text}" in hardware
    assert "Delivery address" not in data_center and "Incoterm" not in data_center  # services are not shipped
    assert "Supplier (data center operator): " in data_center and "Dealer Ltd" not in data_center
    assert "VAT 19 %" in hardware


def test_a_missing_detail_is_an_empty_line_and_no_price_is_shown() -> None:
    found = bill(stored.BOUGHT, order=OrderDetails())
    (page, _) = pages(found)
    texts = [p.text_content().strip() for p in page.findall(".//p")]
    for name in ("buyer", "delivery_address", "incoterm", "due_date", "valid_until"):
        assert f"{ORDER_LABELS[name]}:" in texts
    assert not [line for line in found.priced_lines if f"{line.total:,.2f}" in page.text_content()]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "A & B"])
def test_text_of_the_buyer_stays_text(text: str) -> None:
    page = render_quote_requests(bill(stored.BOUGHT, order=OrderDetails(buyer=text))).decode()
    assert "<script" not in page
    assert html.fromstring(page).text_content().count(text) == 2


def test_a_service_is_asked_for_its_start_and_goods_for_their_lead_time() -> None:
    assert "Start date" in pages(bill(stored.RENTED))[0].text_content()
    assert "Lead time" in pages(bill(stored.BOUGHT))[0].text_content()
    assert "term: 1 month;" in pages(bill(stored.RENTED))[0].text_content()


def test_machines_without_a_price_are_asked_for_with_their_delivery() -> None:
    (only,) = pages(build_bill(stored.answer(), stored.supply(), 5, Settlement()))
    assert "Delivery and set-up" in only.text_content()


def test_quantities_and_terms_are_those_of_the_other_formats() -> None:
    run = stored.answer(days=7.40231)
    run["recommendations"][2]["cost"]["usd_total"] = 4912.9
    rented = {**stored.RENTED, "parts": [{"what": "machine", "quantity": 77.0, "usd_per_hour": 3.45678}]}
    supply = stored.supply()
    supply["ranks"][2] = [rented]
    made = build_bill(run, supply, 3, EURO, ORDER)
    (line, _) = made.lines
    text = render_quote_requests(made).decode()
    assert (str(line.quantity), str(line.term_months)) == ("13679.435", "0.243364")
    assert "13,679.435 hours" in text
    assert "term: 7.4 days" in text
