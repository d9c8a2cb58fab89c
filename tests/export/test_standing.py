"""Words and rules of the standing of a stored plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.export.repricing import RankedOption
from app.export.standing import (
    Change,
    Standing,
    age_findings,
    cheaper_finding,
    is_cheaper,
    offer_findings,
    unchanged_finding,
)
from app.sizing.hardware.parts import PriceKind
from app.sizing.result import Price
from tests.sizing.answer.given import PRICE

PLAN = RankedOption(1, ("h200",), "NVIDIA H200", "8 x NVIDIA H200", 40.0, "USD/h", "lambda")


@pytest.mark.parametrize(
    ("usd", "unit", "cheaper"), [(38.01, "USD/h", False), (37.99, "USD/h", True), (1.0, "USD", False)]
)
def test_only_differences_above_the_near_tie_count_and_only_of_one_unit(usd: float, unit: str, cheaper: bool) -> None:
    assert is_cheaper(replace(PLAN, amount=usd, unit=unit), PLAN, 0.05) == cheaper


def test_a_plan_without_a_price_is_neither_cheaper_nor_dearer() -> None:
    assert not is_cheaper(replace(PLAN, amount=None), PLAN, 0.05)
    assert not is_cheaper(PLAN, replace(PLAN, amount=None), 0.05)


@pytest.mark.parametrize(
    ("today", "codes", "holds"),
    [
        (PLAN, [], True),
        (replace(PLAN, amount=30.0), [Change.PRICE], True),  # a plan that became cheaper holds
        (replace(PLAN, amount=42.0), [Change.PRICE], False),
        (None, [Change.GONE], False),
    ],
)
def test_a_plan_holds_at_its_price_or_below(today: RankedOption | None, codes: list[Change], holds: bool) -> None:
    findings = tuple(offer_findings(PLAN, today))
    assert [finding.change for finding in findings] == codes
    assert Standing(PLAN, today, None, findings or (unchanged_finding(PLAN),)).holds == holds


def test_a_change_is_said_in_words_and_numbers() -> None:
    (dearer,) = offer_findings(PLAN, replace(PLAN, amount=42.0))
    assert dearer.text == "8 x NVIDIA H200 from Lambda: 42.00 USD/h today, 40.00 USD/h then (+5.0 %)."
    (gone,) = offer_findings(PLAN, None)
    assert (gone.text, gone.then, gone.now) == ("The offer of Lambda for 8 x NVIDIA H200 has ended.", 40.0, None)
    cheaper = cheaper_finding(replace(PLAN, amount=30.0, text="8 x AMD MI300X", provider="vultr"), PLAN, 0.05)
    assert cheaper.text.startswith("8 x AMD MI300X from Vultr meets the same request today at 30.00 USD/h, 25 % less")


@pytest.mark.parametrize(("age", "expired"), [(90, False), (91, True), (None, False)])
def test_a_quote_expires_after_the_age_that_the_request_allows(age: int | None, expired: bool) -> None:
    price = Price(replace(PRICE.terms, kind=PriceKind.QUOTE), "owned", age)
    findings = tuple(age_findings(price, 90.0))
    assert [finding.change for finding in findings] == [Change.EXPIRED] * expired
    assert Standing(PLAN, PLAN, None, findings).holds != expired
    if expired:
        assert "91 days old; the limit is 90. Ask for a new quote." in findings[0].text
