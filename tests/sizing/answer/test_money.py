"""Money in words, and where a price comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.answer.money import (
    confident_usd,
    cost_summary,
    describe_price,
    finite_or_none,
    format_usd,
    price_reason,
)
from app.sizing.decisions.cost import Cost
from app.sizing.decisions.sold import SoldMachine
from app.sizing.hardware.prices import PRICE_KIND_TEXTS, PriceKind
from app.sizing.result import Assurance, Level
from tests.examples import col
from tests.sizing.answer.given import COST, DEPLOYMENT, PRICE, estimated
from tests.sizing.small import BIG


def cost(usd_per_hour: float) -> Cost:
    unknown = col(np.nan)
    return Cost(col(usd_per_hour), purchase_usd=unknown, tco_usd=unknown, power_w=col(7200.0), rated_w=col(9000.0))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234.5, "1,234 USD"),
        (100.0, "100 USD"),
        (99.994, "99.99 USD"),
        (0.1, "0.10 USD"),
        (0.0123, "0.0123 USD"),
        (0.0, "0.00 USD"),
    ],
)
def test_dollars_have_the_digits_a_buyer_writes(value: float, words: str) -> None:
    assert format_usd(value) == words


def test_what_is_not_finite_is_not_known() -> None:
    assert (finite_or_none(1.5), finite_or_none(float("nan")), finite_or_none(float("inf"))) == (1.5, None, None)


def test_money_of_a_table_of_one_row() -> None:
    found = cost_summary(
        SoldMachine(BIG, price=PRICE), cost(36.0), units_per_s=10_000.0, usd_total=None, per_million="tokens"
    )
    # 36 USD an hour is a cent a second, in which 10 000 tokens are made: a million take 100 seconds
    assert found.usd_per_million == pytest.approx(1.0)
    assert found.usd_per_month == pytest.approx(36 * 730)
    # 7.2 kW for 100 seconds
    assert found.kwh_per_million == pytest.approx(0.2)
    assert (found.purchase_usd, found.tco_usd, found.price) == (None, None, PRICE)


def test_without_a_price_the_answer_shows_energy_but_no_money() -> None:
    found = cost_summary(SoldMachine(BIG), cost(np.nan), units_per_s=10_000.0, usd_total=None, per_million="tokens")
    assert (found.usd_per_hour, found.usd_per_month, found.usd_per_million) == (None, None, None)
    assert found.kwh_per_million == pytest.approx(0.2)
    (reason,) = price_reason(found, DEPLOYMENT)
    assert "no cost is calculated" in reason.text


def test_a_rented_price_names_machine_seller_and_date() -> None:
    (reason,) = price_reason(COST, DEPLOYMENT)
    assert reason.text == "1 machine of type big-8 from sky in us-1, on demand: 40.00 USD/h. Price basis: " + (
        f"{PRICE_KIND_TEXTS[PriceKind.PROVIDER]}, as of 2026-01-01."
    )
    assert (reason.value, reason.unit) == (40.0, "USD/h")
    (several,) = price_reason(COST, replace(DEPLOYMENT, nodes=2, region="unspecified"))
    assert several.text.startswith("2 machines of type big-8 from sky, on demand")


def test_the_answer_states_the_upfront_payment() -> None:
    reserved = replace(PRICE, terms=replace(PRICE.terms, upfront_usd=87_600.0))
    (reason,) = price_reason(replace(COST, price=reserved), DEPLOYMENT)
    assert reason.text.endswith("This includes an upfront payment of 87,600 USD per machine.")


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_bought_price_says_what_is_in_it_and_whether_it_was_put_together(in_parts: bool) -> None:
    kind = PriceKind.ESTIMATE if in_parts else PriceKind.QUOTE
    owned = replace(COST, purchase_usd=300_000.0, price=replace(PRICE, terms=replace(PRICE.terms, kind=kind)))
    (reason,) = price_reason(owned, DEPLOYMENT)
    assert reason.text.startswith("Purchase of 1 machine for 300,000 USD. This is 40.00 USD/h over the horizon")
    assert ("Ask for a quote" in reason.text) is in_parts


def test_a_price_in_a_clause() -> None:
    assert describe_price(estimated()) == "40.00 USD/h, 0.25 USD per million tokens"
    run = estimated(cost=replace(COST, usd_total=4800.0))
    assert describe_price(run) == "4,800 USD for the run (40.00 USD/h)"
    levels = (Level(0.5, 6, usd_total=4000.0), Level(0.8, 8, usd_total=5500.0))
    sure = replace(run, assurance=Assurance(0.8, 1.0, None, 0.9, levels))
    assert describe_price(sure) == "4,800 USD for the run, 5,500 USD at 80 % confidence (40.00 USD/h)"
    assert confident_usd(sure) == 5500
    few = replace(sure, deployment=replace(sure.deployment, total_accelerators=6))
    assert confident_usd(few) is None  # what holds with it takes other machines
    assert describe_price(few) == describe_price(run)
    assert describe_price(estimated(cost=replace(COST, usd_per_hour=None))) == "no known price"
    assert describe_price(estimated(cost=None)) == "no known price"
