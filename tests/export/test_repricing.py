"""Two bills side by side: causes add up to differences, and differences to what the bills differ by. Why the first
place of an answer changed or did not, derived from both answers.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.export.lines import Bill, Line, PriceSource, Settlement, Unit, build_bill
from app.export.repricing import Cause, explain_first, has_same_first, match_lines, ranked_options, total_difference
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


NAMES = {"a": "Card A", "b": "Card B"}


def ranked(slug: str, count: int, usd: float | None, provider: str = "x", **cost: Any) -> dict[str, Any]:
    return {
        "deployment": {"accelerator": slug, "total_accelerators": count, "offer": {"provider": provider}},
        "cost": {"usd_per_hour": usd, "usd_total": None, **cost},
    }


def answer(*ranks: dict[str, Any], snapshot: str = "s1", **rejected: str) -> dict[str, Any]:
    return {
        "catalog": {"snapshot": snapshot},
        "recommendations": [{"rank": n, **rank} for n, rank in enumerate(ranks, start=1)],
        "rejected": [{"accelerator": slug, "text": text} for slug, text in rejected.items()],
    }


POOLS = {
    "deployment": {
        "accelerator": "a",
        "pools": {"prefill": {"total_accelerators": 2}, "decode": {"accelerator": "b", "total_accelerators": 4}},
    },
    "cost": {"usd_per_hour": 9.0},
}
THEN = answer(ranked("a", 8, 10.0), ranked("b", 4, 12.0))


@pytest.mark.parametrize(
    ("then", "now", "same", "sentences"),
    [
        (THEN, THEN, True, ["8 x Card A still ranks first: 10.00 USD/h, unchanged."]),
        (
            THEN,
            answer(ranked("a", 9, 13.0, "y")),
            True,
            [
                "Card A still ranks first: 8 x Card A at 10.00 USD/h originally, 9 x Card A at 13.00 USD/h today "
                "(+30.0 % since then).",
                "The seller is now y instead of x.",
            ],
        ),
        (
            THEN,
            answer(ranked("b", 4, 12.0), ranked("a", 8, 13.0), snapshot="s2"),
            False,
            [
                "4 x Card B ranks first today at 12.00 USD/h; 8 x Card A originally ranked first at 10.00 USD/h.",
                "Card A is rank 2 today: 8 x Card A at 13.00 USD/h (+30.0 % since then).",
                "Card B was originally rank 2: 4 x Card B at 12.00 USD/h (+0.0 % since then).",
            ],
        ),
        (
            answer(ranked("a", 8, 10.0), b="No seller lists it."),
            answer(ranked("b", 4, None), snapshot="s1"),
            False,
            [
                "4 x Card B ranks first today at an unknown price; 8 x Card A originally ranked first at 10.00 USD/h.",
                "Card A is not ranked today.",
                "Card B was rejected originally: No seller lists it.",
                "The catalog has not changed: prices have aged, or the service now calculates differently.",
            ],
        ),
        (answer(), answer(), True, ["No option met the limits originally, and none does today."]),
        (answer(), THEN, False, ["Originally no option met the limits. Today 8 x Card A does, at 10.00 USD/h."]),
        (
            THEN,
            answer(a="Too slow."),
            False,
            [
                "8 x Card A originally ranked first. Today no option meets the limits.",
                "Card A is rejected today: Too slow.",
            ],
        ),
        (
            answer(POOLS),
            answer(ranked("a", 8, 10.0, usd_total=500.0), snapshot="s2"),
            False,
            [
                "8 x Card A ranks first today at 500.00 USD; 2 x Card A and 4 x Card B originally ranked first at "
                "9.00 USD/h.",
                "Card A and Card B is not ranked today.",
                "Card A was not ranked originally.",
            ],
        ),
    ],
)
def test_the_change_of_the_first_place_is_explained(then: Any, now: Any, same: bool, sentences: list[str]) -> None:
    assert has_same_first(ranked_options(then, NAMES), ranked_options(now, NAMES)) == same
    assert list(explain_first(then, now, NAMES)) == sentences


def test_a_seller_is_named_by_all_that_is_known_of_it() -> None:
    """By name, by the number of the part, by both, or as unnamed."""
    for supplier, part, name in (
        ("B", None, "B"),
        ("B", "7", "B 7"),
        (None, "7", "7"),
        (None, None, "an unnamed seller"),
    ):
        (cause,) = caused(replace(DEARER, supplier=supplier, supplier_part_id=part))
        assert f"The cheapest offer today: {name}, 5 at" in cause.text
