"""Warnings about prices: not firm, too old, or for too many or too few machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.cautions import AnswerContext
from app.sizing.answer.prices import USUAL_QUANTITY_ASSUMPTIONS, price_not_firm, quantity_warning, stale_price
from app.sizing.assumptions import Assumptions
from app.sizing.hardware.prices import FIRM, PRICE_KIND_TEXTS, PriceKind
from app.sizing.question import Question
from app.sizing.result import CostSummary, Notice
from tests.examples import CHAT
from tests.sizing.answer.given import COST, PRICE, estimated, ranked


def cost(**terms: Any) -> CostSummary:
    return replace(COST, price=replace(PRICE, terms=replace(PRICE.terms, **terms)))


def case(given: CostSummary | None, **deployment: Any) -> AnswerContext:
    return AnswerContext(Question(CHAT), estimated(cost=given, **deployment))


@pytest.mark.parametrize("kind", PriceKind)
def test_a_price_that_is_not_firm_is_named(kind: PriceKind) -> None:
    found = price_not_firm([ranked(1), ranked(2, cost=cost(kind=kind)), ranked(3, cost=None)])
    assert (found is None) == (kind in FIRM)
    if found is not None:
        assert found.text.startswith("This price is not a firm offer: Acme Big (a")
        assert found.text.endswith("). Ask for a quote before deciding.")


def test_prices_of_one_kind_are_named_together() -> None:
    found = price_not_firm([ranked(i, cost=cost(kind=PriceKind.ESTIMATE)) for i in (1, 2)])
    assert found is not None
    assert found.text.startswith("These prices are not firm offers: Acme Big and Acme Big (an estimate from parts")


@pytest.mark.parametrize(("days", "stale"), [(None, False), (365, False), (366, True)])
def test_an_old_price_is_to_be_asked_for_again(days: int | None, stale: bool) -> None:
    found = stale_price(case(replace(COST, price=replace(PRICE, age_days=days))))
    assert (found is not None) == stale
    if found is not None:
        assert found.text == "The price dates from 2026-01-01, 366 days ago. Ask for a current price before deciding."


@pytest.mark.parametrize(
    ("terms", "deployment", "code"),
    [
        ({}, {}, None),
        ({}, {"nodes": 8, "total_accelerators": 64}, None),
        ({}, {"nodes": 9, "total_accelerators": 72}, "beyond_usual_quantity"),
        ({"kind": PriceKind.BROKER}, {"nodes": 2, "total_accelerators": 9}, "beyond_usual_quantity"),
        ({"kind": PriceKind.ESTIMATE}, {"nodes": 200, "total_accelerators": 1600}, None),  # there is no seller
        # a known limit precedes the usual one
        ({"max_quantity": 100}, {"nodes": 100, "total_accelerators": 800}, None),
        ({"max_quantity": 100}, {"nodes": 101, "total_accelerators": 808}, "above_maximum_quantity"),
        ({"min_quantity": 4}, {"nodes": 3, "total_accelerators": 24}, "below_minimum_quantity"),
        ({"min_quantity": 4}, {"nodes": 4, "total_accelerators": 32}, None),
    ],
)
def test_quantities_are_held_against_the_seller(
    terms: dict[str, Any], deployment: dict[str, Any], code: str | None
) -> None:
    found: Notice | None = quantity_warning(case(cost(**terms), **deployment))
    assert (None if found is None else found.code) == code
    assert quantity_warning(case(None, **deployment)) is None


def test_every_seller_has_a_usual_quantity_and_the_sentence_says_it() -> None:
    assert all(Assumptions.default_value(name) >= 1 for name in USUAL_QUANTITY_ASSUMPTIONS.values())
    assert set(PriceKind) - set(USUAL_QUANTITY_ASSUMPTIONS) == {PriceKind.LAUNCH, PriceKind.PRESS, PriceKind.ESTIMATE}
    found = quantity_warning(case(cost(), nodes=54, total_accelerators=432))
    assert found is not None
    assert found.text == (
        "This option uses 432 accelerators. Sellers with this type of price "
        f"({PRICE_KIND_TEXTS[PriceKind.PROVIDER]}) rarely have more than 64 at once. "
        "Confirm availability and price."
    )
