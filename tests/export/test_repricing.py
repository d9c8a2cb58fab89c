"""Two bills side by side: causes add up to differences, and differences to what the bills differ by."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.export.goods import build_bill
from app.export.lines import Bill, Line, PriceSource, Unit
from app.export.money import Settlement
from app.export.repricing import Cause, match_lines, total_difference
from tests.export import stored

BILL = build_bill(stored.answer(), stored.supply(), 1, Settlement())
PRICES = st.decimals("0.01", 10**6, places=4)


@st.composite
def lines(draw: st.DrawFn) -> Line:
    price = draw(st.none() | PRICES)
    kind = draw(st.sampled_from(["quote", "list", "estimate"]))
    return Line(
        goods=draw(st.sampled_from(["machine", "network"])),
        kind="compute",
        sku="x",
        description="x",
        quantity=draw(st.decimals("0.001", 10**5, places=3)),
        unit=draw(st.sampled_from([Unit.EACH, Unit.HOUR])),
        usd=price,
        unit_price=price,
        once=draw(st.booleans()),
        price=PriceSource(kind, "s", draw(st.sampled_from(["2026-08", "2026-11"])), "high"),
        supplier=draw(st.sampled_from([None, "A", "B"])),
        lot=draw(st.integers(0, 1)),
    )


def of(*found: Line) -> Bill:
    return replace(BILL, lines=found)


@given(then=st.lists(lines(), max_size=5), now=st.lists(lines(), max_size=5))
def test_causes_add_up_to_lines_and_lines_to_bills(then: list[Line], now: list[Line]) -> None:
    moved = match_lines(of(*then), of(*now))
    assert sorted(map(id, then)) == sorted(id(pair.then) for pair in moved if pair.then is not None)
    assert sorted(map(id, now)) == sorted(id(pair.now) for pair in moved if pair.now is not None)
    for pair in moved:
        if pair.difference is not None:
            assert sum(cause.amount or 0 for cause in pair.causes) == pair.difference
            assert bool(pair.causes) or pair.difference == 0
    if all(line.total is not None for line in (*then, *now)):
        assert total_difference(moved) == of(*now).total - of(*then).total


def caused(now: Line, then: Line | None = None) -> tuple[Cause, ...]:
    (pair,) = match_lines(of(then or MACHINE), of(now))
    return pair.causes


MACHINE = replace(
    BILL.lines[0],
    quantity=Decimal(5),
    unit_price=Decimal(370_000),
    price=PriceSource("quote", "survey", "2026-08-02", "medium"),
    supplier="A",
    supplier_part_id=None,
)
DEARER = replace(MACHINE, unit_price=Decimal(444_000))


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (MACHINE, []),
        (
            replace(DEARER, price=PriceSource("quote", "survey", "2026-11-02", "medium")),
            [
                (
                    "price",
                    370_000,
                    "370,000 per EA (quote, 2026-08-02) originally, 444,000 per EA (quote, 2026-11-02) "
                    "today (+20.0 %).",
                )
            ],
        ),
        (
            replace(DEARER, supplier="B"),
            [
                (
                    "seller",
                    370_000,
                    "Originally A, 5 at 370,000 per EA (quote, 2026-08-02). The cheapest offer today: B, 5 at 444,000 "
                    "per EA (quote, 2026-08-02).",
                )
            ],
        ),
        (
            replace(MACHINE, quantity=Decimal(6)),
            [("quantity", 370_000, "The quantity changed: 5 EA originally, 6 today.")],
        ),
        (replace(MACHINE, unit_price=None), [("unpriced", None, "No seller lists a price today.")]),
    ],
)
def test_a_line_says_why_it_moved(now: Line, found: list[tuple[str, int | None, str]]) -> None:
    assert [(cause.cause, cause.amount, cause.text) for cause in caused(now)] == found


def test_price_and_quantity_changes_are_distinguished() -> None:
    causes = caused(replace(DEARER, quantity=Decimal(6)))
    assert [(cause.cause, int(cause.amount or 0)) for cause in causes] == [("price", 370_000), ("quantity", 444_000)]


def test_a_derived_price_is_no_price_of_a_seller() -> None:
    support = next(line for line in BILL.lines if line.goods == "support")
    (cause,) = caused(replace(support, unit_price=(support.unit_price or Decimal(0)) * 2), support)
    assert cause.cause == "estimate"


def test_what_only_one_bill_has_is_all_of_its_difference() -> None:
    assert [p.causes[0].cause for p in match_lines(of(), of(MACHINE))] == ["added"]
    (gone,) = match_lines(of(MACHINE), of())
    assert (gone.causes[0].cause, gone.difference) == ("gone", Decimal(-1_850_000))
    assert total_difference(match_lines(of(MACHINE), of(replace(MACHINE, unit_price=None)))) is None
