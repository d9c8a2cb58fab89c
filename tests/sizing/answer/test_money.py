"""Build or buy in one sentence, either way round, and nothing where no host may be named. Money in words, and
where a price comes from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.money import (
    HOST_CAVEAT,
    compare_hosted_api,
    confident_usd,
    cost_summary,
    describe_price,
    finite_or_none,
    format_usd,
    price_reason,
    tokens_served_per_s,
)
from app.sizing.decisions.acquisition import SoldMachine
from app.sizing.decisions.cost import Cost
from app.sizing.hardware.parts import PRICE_KIND_TEXTS, PriceKind
from app.sizing.hardware.terms import LeadTime
from app.sizing.question import Constraints, Economics, Question
from app.sizing.result import Assurance, HostedPrice, Level
from app.sizing.snapshot import Catalog, prices_by_model
from app.sizing.workload import InferenceWorkload, Load
from tests.examples import CHAT, PRETRAIN, col, present, registered
from tests.sizing.answer.given import COST, DEPLOYMENT, PRICE, SPEED, estimated
from tests.sizing.small import BIG, snapshot

# 1,024 tokens in and 256 out: 0.8 USD per million tokens, 5,382 USD a month at 2 requests/s.
HOSTED_PRICE = HostedPrice(CHAT.model.name, "host", 0.5, 2.0, None, "a table", "2026-01-01")
OWN = estimated(performance=replace(SPEED, requests_per_s_capacity=12.0))  # 40 USD per hour


def catalog(*prices: HostedPrice) -> Catalog:
    return snapshot(hosted=prices)


def said(workload: InferenceWorkload = CHAT, own: Any = OWN, price: HostedPrice = HOSTED_PRICE) -> str:
    found = present(compare_hosted_api(Question(workload), catalog(price), own))
    assert found.text.endswith(HOST_CAVEAT)
    return found.text.removesuffix(HOST_CAVEAT).strip()


def test_a_cheaper_api_is_recommended_with_its_break_even_load() -> None:
    """40 USD an hour are 10.9 requests/s of 1,280 tokens at 0.8 USD per million."""
    assert said() == (
        "Cheaper as an API: host at 5,382 USD per month (self-hosted: 29,200 USD). "
        "Break-even: above an average of 10.9 requests/s, self-hosting costs less."
    )


def test_hardware_without_a_break_even_is_reported() -> None:
    own = estimated(performance=replace(SPEED, requests_per_s_capacity=5.0))
    assert said(own=own).endswith("Self-hosting costs more even at full utilization.")


def test_machines_that_cost_less_are_built() -> None:
    dear = replace(HOSTED_PRICE, usd_per_million_input=10.0)
    text = said(price=dear)
    assert text.startswith(
        "Cheaper self-hosted: 29,200 USD per month. The cheapest API is host at 56,510 USD per month."
    )
    assert text.endswith("requests/s, the API costs less.")


def test_a_fleet_that_follows_the_day_is_compared_at_its_mean() -> None:
    own = estimated(cost=replace(COST, usd_per_hour=20.0, usd_per_day=480.0, peak_usd_per_hour=40.0))
    assert "(self-hosted with autoscaling: 14,600 USD)" in said(own=own)


def test_work_that_ends_is_compared_in_all() -> None:
    work = replace(CHAT, load=Load.OFFLINE, volume_requests=1e6)
    own = estimated(cost=replace(COST, usd_total=500.0))
    assert said(work, own) == "Cheaper self-hosted: 500 USD. The cheapest API is host at 1,024 USD."


def test_without_machines_the_host_stands_alone() -> None:
    assert said(own=None) == "API price at host: 5,382 USD per month."
    flying = replace(CHAT, load=Load.CLOSED, in_flight=8.0)
    assert said(flying, own=None) == "API price at host: 0.80 USD per million tokens of this traffic."
    assert said(own=estimated(cost=None)) == "API price at host: 5,382 USD per month."


def test_what_machines_do_is_what_their_price_is_spread_over() -> None:
    """40 USD an hour at 0.25 USD per million tokens are 160 million an hour."""
    flying = replace(CHAT, load=Load.CLOSED, in_flight=8.0)
    assert tokens_served_per_s(flying, OWN) == pytest.approx(160e6 / 3600)
    assert tokens_served_per_s(CHAT, OWN) == 2 * 1280


@pytest.mark.parametrize(
    "question",
    [
        Question(CHAT, Constraints(regions=("eu-*",))),
        Question(replace(CHAT, model=replace(CHAT.model, name="a model without hosts"))),
        Question(replace(CHAT, model=replace(registered("microsoft/resnet-50"), name=CHAT.model.name))),
        Question(PRETRAIN),
    ],
    ids=["regions", "unknown", "samples", "training"],
)
def test_where_no_host_may_be_named_nothing_is_said(question: Question) -> None:
    assert compare_hosted_api(question, catalog(HOSTED_PRICE), OWN) is None


def test_prices_are_found_by_model_and_in_the_order_of_their_hosts() -> None:
    other = replace(HOSTED_PRICE, model="other")
    assert prices_by_model([replace(HOSTED_PRICE, provider="z"), other, HOSTED_PRICE]) == {
        HOSTED_PRICE.model: (HOSTED_PRICE, replace(HOSTED_PRICE, provider="z")),
        "other": (other,),
    }


def cost(usd_per_hour: float) -> Cost:
    unknown = col(np.nan)
    rated, drawn = col(9000.0), col(7200.0)
    return Cost(col(usd_per_hour), unknown, power_w=drawn, rated_w=rated, tco_usd=unknown, carbon_kg=unknown)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234.5, "1,234 USD"),
        (1_234_567.89, "1,235,000 USD"),
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
        SoldMachine(BIG, price=PRICE),
        cost(36.0),
        units_per_s=10_000.0,
        usd_total=None,
        per_million="tokens",
        economics=Economics(),
    )
    # 36 USD an hour is a cent a second, in which 10 000 tokens are made: a million take 100 seconds
    assert found.usd_per_million == pytest.approx(1.0)
    assert found.usd_per_month == pytest.approx(36 * 730)
    # 7.2 kW for 100 seconds
    assert found.kwh_per_million == pytest.approx(0.2)
    assert (found.purchase_usd, found.tco_usd, found.price) == (None, None, PRICE)


def test_without_a_price_the_answer_shows_energy_but_no_money() -> None:
    of, economics = (SoldMachine(BIG), cost(np.nan)), Economics()
    found = cost_summary(*of, units_per_s=10_000.0, usd_total=None, per_million="tokens", economics=economics)
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
    waited = LeadTime("big", "resellers", 40.0, "a page", "2026-05")
    (reason,) = price_reason(replace(owned, price=replace(PRICE, lead_time=waited)), DEPLOYMENT)
    assert reason.text.endswith(" Reported lead time: 40 weeks or more (resellers, 2026-05, a page).")


def test_a_price_in_a_clause() -> None:
    assert describe_price(estimated()) == "40.00 USD/h, 0.25 USD per million tokens"
    pictures, videos = (
        replace(COST, usd_per_million=usd, per_million="samples", million_of="samples") for usd in (9e3, 1.25e6)
    )
    assert describe_price(estimated(cost=pictures)) == "40.00 USD/h, 9,000 USD per million samples"
    assert describe_price(estimated(cost=videos)) == "40.00 USD/h, 1.25 USD per sample"
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
