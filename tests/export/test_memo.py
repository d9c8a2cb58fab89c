"""The printable memo: requirement, options, reasons, risks and verification, in the words of the answer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from lxml import html

from app.export.lines import CENT, Bill, Settlement, build_bill, round_half_up
from app.export.memo import MAX_OPTIONS, render_memo, select_ranks
from app.export.order import OrderDetails
from app.export.quotes import quote_groups
from tests.export import stored
from tests.export.test_writers import EURO

A_PAGE = 6000  # characters that an A4 page of this style takes, about


def memo(rank: int, settlement: Settlement = EURO) -> str:
    answer, supply = stored.answer(), stored.supply()
    bills = [build_bill(answer, supply, shown, settlement) for shown in select_ranks(answer, supply, rank)]
    return render_memo(answer, supply, bills, build_bill(answer, supply, rank, settlement)).decode()


def test_it_has_what_a_decision_needs() -> None:
    page = html.fromstring(memo(1).encode())
    heads = [head.text_content() for head in page.findall(".//h2")]
    own = ["Requirement", "Options", "Why rank 1", "Risks", "Verification and sensitivity", "Approval"]
    assert heads == [*own, "Supplier's answer", "Supplier's answer"]  # of the dealer and of the data center
    text = page.text_content()
    for said in (
        "Serving <b>a model</b>",
        "It has the lowest cost.",
        "Check accuracy.",
        "95 % confidence of meeting the limits needs 56 accelerators at 125 EUR/h.",
        "161 instead of 89.25 EUR per hour",
        "65 % cheaper with spot capacity",
        "At 1,814 tokens/s 24 accelerators are enough.",
        "bench --rate 1 && kill $!",
        "1 USD = 0.92 EUR on 2026-11-20",
        "SYS-821GE-TNHR",
    ):
        assert said in text
    assert "One replica on each." not in text  # a reason that decides nothing
    assert "90 % confidence" not in text  # takes no more than was asked for


def test_the_next_confidence_is_named_only_where_none_below_it_is_left_out() -> None:
    answer, supply = stored.answer(), stored.supply()
    bill = build_bill(answer, supply, 2, EURO)
    levels = answer["recommendations"][1]["confidence"]["by_level"]
    answer["recommendations"][1] |= {"confidence": {"asked": 0.8, "by_level": [levels[0], levels[2]]}}
    page = render_memo(answer, supply, [bill], bill).decode()
    assert "confidence of meeting the limits needs" not in page
    assert "95 % confidence of meeting the limits needs 56 accelerators" in memo(2)


def test_the_sums_of_a_memo_are_the_bills_and_a_supplier_sees_none() -> None:
    bill = build_bill(stored.answer(), stored.supply(), 1, EURO)
    ours, *forms = memo(1).split('<div class="quote">')
    theirs = "".join(forms)
    for amount in (bill.once, bill.over_term, bill.tax, bill.total):
        assert f"{amount:,.2f}" in ours
    for line in bill.priced_lines:
        assert f"{line.unit_price:,f}" not in theirs
        assert f"{line.total:,.2f}" not in theirs
    asked = [row.findtext("td") for row in html.fromstring(theirs.encode()).findall(".//tr")]
    assert sorted(int(number) for number in asked if number and number.isdecimal()) == [
        line.number for line in bill.lines
    ]


@pytest.mark.parametrize("rank", range(1, len(stored.RANKS) + 1))
def test_it_is_a_page_and_one_for_each_supplier_of_its_own_making(rank: int) -> None:
    page = memo(rank)
    assert not re.search(r"<script|<b>|<link|<img|@import|src=|href=|url\(", page)
    shown = re.sub(r"<style>.*</style>", "", page, flags=re.DOTALL)
    pages = [len(html.fromstring(part).text_content()) for part in shown.split('<div class="quote">')]
    assert len(pages) == 1 + len(quote_groups(build_bill(stored.answer(), stored.supply(), rank, EURO)))
    assert max(pages) < A_PAGE


@pytest.mark.parametrize(("rank", "shown"), [(1, (1, 2, 3)), (2, (1, 2, 3)), (5, (1, 2, 5))])
def test_three_options_are_weighed_the_one_asked_for_among_them(rank: int, shown: tuple[int, ...]) -> None:
    assert select_ranks(stored.answer(), stored.supply(), rank) == shown
    assert select_ranks(stored.answer(1), stored.supply(), 1) == (1,)
    assert len(html.fromstring(memo(rank).encode()).findall(".//table")[0].findall(".//tr")) == MAX_OPTIONS + 1


def option_cells(answer: dict[str, Any], bill: Bill) -> list[str]:
    """Cells of the first option in the table of a memo."""
    table = html.fromstring(render_memo(answer, stored.supply(), [bill], bill)).findall(".//table")[0]
    return [cell.text_content() for cell in table.findall(".//tr")[1]]


@pytest.mark.parametrize("settlement", [EURO, Settlement()], ids=["EUR", "USD"])
@pytest.mark.parametrize("rank", range(1, len(stored.RANKS)))
def test_options_are_compared_by_month_and_over_one_horizon_to_the_cent(rank: int, settlement: Settlement) -> None:
    answer, supply = stored.answer(), stored.supply()
    bill = build_bill(answer, supply, rank, settlement)
    whole = build_bill(answer, supply, rank, settlement, OrderDetails(term_months=36))
    years = 3 if rank == 4 else 1  # a commitment of one year, renewed
    monthly, total = option_cells(answer, bill)[4:6]
    assert monthly == f"{years * whole.over_term / 36:,.2f}"
    assert total == f"{whole.once + years * whole.over_term:,.2f} in 36 months"


def test_a_run_costs_its_rentals_or_its_share_of_bought_machines() -> None:
    answer = stored.answer(days=2.5)
    for option in answer["recommendations"]:
        option["cost"]["usd_total"] = 1659.25
    rented = build_bill(answer, stored.supply(), 3, EURO)
    assert rented.lines[0].quantity == 8 * 60  # hours of the machines
    assert option_cells(answer, rented)[4:6] == ["", f"{rented.subtotal:,.2f} for the run"]
    bought = build_bill(answer, stored.supply(), 1, EURO)
    share = bought.subtotal * 60 / 26_280
    assert option_cells(answer, bought)[5] == f"{round_half_up(share, CENT):,.2f} for the run"


def test_an_option_without_a_horizon_has_no_total_cost() -> None:
    lot = {**stored.BOUGHT, "parts": [part for part in stored.BOUGHT["parts"] if part["what"] != "horizon_hours"]}
    bill = build_bill(stored.answer(1), stored.supply(lot), 1, EURO)
    assert option_cells(stored.answer(1), bill)[5] == ""


def test_a_generic_host_has_no_seller_yet() -> None:
    answer = stored.answer(1)
    answer["recommendations"][0]["deployment"]["offer"] = {"provider": "generic", "pricing_model": "owned"}
    bill = build_bill(answer, stored.supply(stored.BOUGHT), 1, EURO)
    assert "purchase, dealer to be chosen" in render_memo(answer, stored.supply(), [bill], bill).decode()
    assert "Dell, purchase" in memo(1)


def test_what_holds_of_the_best_alone_is_not_said_of_another() -> None:
    page = memo(2)
    assert "Verification and sensitivity of rank 1" in page
    assert "spot capacity" not in page


def test_the_memo_names_the_line_with_the_oldest_price_and_what_models_come_to_together() -> None:
    answer = stored.answer()
    answer["recommendations"][0]["packing"] = {"cheaper": "together", "why": "2 models share 40 cards.", "machines": 5}
    bill = build_bill(answer, stored.supply(), 1, EURO)
    page = render_memo(answer, stored.supply(), [bill], bill).decode()
    assert "The oldest price is on line 1: 113 days old" in page
    assert "2 models share 40 cards." in page


def test_of_pools_both_sellers_are_named() -> None:
    answer = stored.answer()
    offers = [{"offer": {"provider": name, "pricing_model": "on_demand"}} for name in ("dell", "lambda")]
    answer["recommendations"][0]["deployment"] = {"pools": dict(zip(("prefill", "decode"), offers, strict=True))}
    bill = build_bill(answer, stored.supply(), 1, EURO)
    assert "Dell, on demand and Lambda, on demand" in render_memo(answer, stored.supply(), [bill], bill).decode()
