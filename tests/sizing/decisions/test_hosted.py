"""What traffic costs at hosts that are paid by the token, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.decisions.hosted import (
    HOSTS_SHOWN,
    allows_hosted_api,
    break_even_rate_per_s,
    hosted_costs,
    hosted_usd_per_million,
    hosted_usd_per_month,
)
from app.sizing.hardware.parts import Environment
from app.sizing.question import Constraints
from app.sizing.units import HOURS_PER_MONTH
from app.sizing.values.hosted import HostedPrice
from app.sizing.workload import Load
from tests.examples import CHAT


def price(provider: str = "host", **usd: float | None) -> HostedPrice:
    asked = {"usd_per_million_input": 0.5, "usd_per_million_output": 2.0, "usd_per_million_cached_input": None}
    return HostedPrice("a-model", provider, source="a table", observed="2026-01-01", **{**asked, **usd})  # type: ignore[arg-type]


def test_a_service_costs_its_mean_load_by_the_month() -> None:
    """2 requests/s of 1,024 in and 256 out: 1,280 tokens at 0.8 USD per million, in 2,628,000 seconds."""
    (found,) = hosted_costs(CHAT, [price()], 2 * 1280.0)
    assert found.usd_per_million_tokens == pytest.approx((1024 * 0.5 + 256 * 2.0) / 1280)
    assert found.usd_per_month == pytest.approx(0.8e-6 * 2560 * 2_628_000)
    assert found.usd_total is None


def test_work_that_ends_costs_what_all_of_it_does() -> None:
    work = replace(CHAT, load=Load.OFFLINE, volume_requests=1e6)
    (found,) = hosted_costs(work, [price()], None)
    assert found.usd_total == pytest.approx(1e6 * 1280 * 0.8e-6)
    assert found.usd_per_month is None


def test_cached_input_has_its_own_price_where_the_host_has_one() -> None:
    cached = replace(CHAT, cached_prefix_fraction=0.5)
    (without,), (with_one,) = (
        hosted_costs(cached, [price(usd_per_million_cached_input=usd)], None) for usd in (None, 0.1)
    )
    assert without.usd_per_million_tokens == pytest.approx(0.8)
    assert with_one.usd_per_million_tokens == pytest.approx(0.8 - 0.5 * 1024 * 0.4 / 1280)


def test_a_few_hosts_are_shown_in_order_of_cost() -> None:
    prices = [price(f"host-{i}", usd_per_million_input=float(9 - i)) for i in range(6)]
    found = hosted_costs(CHAT, prices, None)
    assert [c.price.provider for c in found] == ["host-5", "host-4", "host-3"]
    assert len(found) == HOSTS_SHOWN


@pytest.mark.parametrize(
    ("limits", "open_to"),
    [
        (Constraints(), True),
        (Constraints(environments=(Environment.CLOUD,)), True),
        (Constraints(environments=(Environment.ON_PREM,)), False),
        (Constraints(regions=("eu-*",)), False),
        (Constraints(providers=("aws",)), False),
    ],
)
def test_no_host_is_named_where_it_would_have_to_stand_somewhere(limits: Constraints, open_to: bool) -> None:
    assert allows_hosted_api(limits) is open_to


@given(st.floats(0.01, 1e4), st.floats(0.001, 50.0), st.floats(2.0, 1e5))
def test_where_machines_begin_to_pay_both_cost_the_same(usd_per_hour: float, usd: float, tokens: float) -> None:
    rate = break_even_rate_per_s(usd_per_hour, usd, tokens)
    assert hosted_usd_per_month(usd, rate * tokens) == pytest.approx(usd_per_hour * HOURS_PER_MONTH)


@given(st.floats(0.01, 10.0), st.floats(0.01, 40.0), st.floats(1.0, 1e5), st.floats(0.0, 1e4), st.floats(0.0, 1.0))
def test_a_million_lies_between_the_prices_it_is_made_of(
    prompt: float, output: float, tokens_in: float, tokens_out: float, cached: float
) -> None:
    found = hosted_usd_per_million(prompt, prompt / 10, output, tokens_in, tokens_out, cached)
    assert min(prompt / 10, output) * (1 - 1e-9) <= found <= max(prompt, output) * (1 + 1e-9)
