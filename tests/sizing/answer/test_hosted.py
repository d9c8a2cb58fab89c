"""Build or buy in one sentence, either way round, and nothing where no host may be named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.hosted import HOST_CAVEAT, compare_hosted_api, tokens_served_per_s
from app.sizing.question import Constraints, Question
from app.sizing.snapshot import Catalog, prices_by_model
from app.sizing.values.hosted import HostedPrice
from app.sizing.workload import InferenceWorkload, Load
from tests.examples import CHAT, PRETRAIN, registered
from tests.sizing.answer.given import COST, SPEED, estimated
from tests.sizing.small import snapshot

# 1,024 tokens in and 256 out: 0.8 USD per million tokens, 5,382 USD a month at 2 requests/s.
PRICE = HostedPrice(CHAT.model.name, "host", 0.5, 2.0, None, "a table", "2026-01-01")
OWN = estimated(performance=replace(SPEED, requests_per_s_capacity=12.0))  # 40 USD per hour


def catalog(*prices: HostedPrice) -> Catalog:
    return snapshot(hosted=prices)


def said(workload: InferenceWorkload = CHAT, own: Any = OWN, price: HostedPrice = PRICE) -> str:
    found = compare_hosted_api(Question(workload), catalog(price), own)
    assert found is not None
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
    dear = replace(PRICE, usd_per_million_input=10.0)
    text = said(price=dear)
    assert text.startswith(
        "Cheaper self-hosted: 29,200 USD per month. The cheapest API is host at 56,513 USD per month."
    )
    assert text.endswith("requests/s, the API costs less.")


def test_a_fleet_that_follows_the_day_is_compared_at_its_size_at_peak() -> None:
    own = estimated(cost=replace(COST, usd_per_day=500.0))
    assert "(self-hosted without autoscaling: 29,200 USD)" in said(own=own)


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
    assert compare_hosted_api(question, catalog(PRICE), OWN) is None


def test_prices_are_found_by_model_and_in_the_order_of_their_hosts() -> None:
    other = replace(PRICE, model="other")
    assert prices_by_model([replace(PRICE, provider="z"), other, PRICE]) == {
        PRICE.model: (PRICE, replace(PRICE, provider="z")),
        "other": (other,),
    }
