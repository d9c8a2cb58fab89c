"""The same machines had otherwise: what each way costs, and when owning breaks even, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.acquisition import DeployedMachines, break_even_month, find_alternatives, running_usd_per_hour
from app.sizing.decisions.cost import deployment_cost
from app.sizing.decisions.machines import find_candidates
from app.sizing.decisions.rejections import NullRejections
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.hardware.prices import PriceKind
from app.sizing.question import Constraints, Economics, Question
from app.sizing.snapshot import Catalog
from app.sizing.units import HOURS_PER_MONTH
from app.sizing.values.ways import AcquisitionOption, Alternative
from tests.examples import CHAT, col
from tests.sizing.small import OFFERS, SMALL, offer, snapshot

ASSUMED = Assumptions()


def had(
    *, pricing: PricingModel = PricingModel.ON_DEMAND, nodes: float = 2.0, of: Catalog = SMALL, **limits: object
) -> dict[AcquisitionOption, Alternative]:
    """Other ways to have some machines of eight, by the way."""
    question = Question(CHAT, Constraints(**limits))  # type: ignore[arg-type]
    sought = Constraints(accelerators=("acme-big",), pricing_models=(pricing,))
    found = find_candidates(of, sought, Economics(), ASSUMED, NullRejections(of.accelerators), pricing=(pricing,))
    assert len(found) == 1
    cost = deployment_cost(found, col(nodes), col(0.0), ASSUMED, Economics())
    none = col(0.0)
    (ways,) = find_alternatives(question, of, DeployedMachines(found, cost, col(nodes), none, np.array([False]), none))
    assert len({a.way for a in ways}) == len(ways)
    return {a.way: a for a in ways}


def test_every_alternative_is_priced_for_the_same_number_of_machines() -> None:
    ways = had()
    assert set(ways) == {AcquisitionOption.ONE_YEAR, AcquisitionOption.SPOT, AcquisitionOption.OWNED}
    assert (ways[AcquisitionOption.ONE_YEAR].usd_per_hour, ways[AcquisitionOption.SPOT].usd_per_hour) == (48.0, 32.0)
    assert (
        ways[AcquisitionOption.SPOT].provider,
        ways[AcquisitionOption.SPOT].region,
        ways[AcquisitionOption.SPOT].kind,
    ) == ("sky", "us-1", PriceKind.PROVIDER)
    assert (ways[AcquisitionOption.OWNED].purchase_usd or 0) >= 600_000
    assert ways[AcquisitionOption.SPOT].risk == "the provider can interrupt it at any time"


def test_owning_breaks_even_against_each_rent() -> None:
    """Of the machine recommended 80 USD an hour are saved but for what running its own costs."""
    ways, own = had(), had(pricing=PricingModel.OWNED)
    purchase, owned = ways[AcquisitionOption.OWNED].purchase_usd, ways[AcquisitionOption.OWNED].usd_per_hour
    assert purchase is not None
    running = owned - purchase / (36 * HOURS_PER_MONTH)
    for way, rent in ((AcquisitionOption.OWNED, 80.0), (AcquisitionOption.ONE_YEAR, 48.0)):
        month = ways[way].break_even_month
        assert month == pytest.approx(purchase / ((rent - running) * HOURS_PER_MONTH))
    assert AcquisitionOption.OWNED not in own
    assert own[AcquisitionOption.ON_DEMAND].break_even_month == pytest.approx(
        ways[AcquisitionOption.OWNED].break_even_month
    )


def test_ownership_without_a_break_even_is_reported_only_with_known_prices() -> None:
    cheap = snapshot(offers=[replace(o, usd_per_hour=o.usd_per_hour / 20) for o in OFFERS])
    owned = had(of=cheap)[AcquisitionOption.OWNED]
    assert owned.ownable and owned.break_even_month is None
    spot = had(environments=(Environment.CLOUD,))[AcquisitionOption.SPOT]
    assert not spot.ownable and spot.break_even_month is None


def test_what_binds_and_costs_no_less_is_no_alternative() -> None:
    dear = snapshot(offers=[replace(o, usd_per_hour=41.0) if o.usd_per_hour == 24 else o for o in OFFERS])
    assert AcquisitionOption.ONE_YEAR not in had(of=dear)


def test_a_price_that_somebody_stands_behind_comes_before_a_cheaper_one() -> None:
    broker = offer("big-8", 5.0, provider="flea", pricing_model=PricingModel.SPOT, price_kind=PriceKind.BROKER)
    assert had(of=snapshot(offers=[*OFFERS, broker]))[AcquisitionOption.SPOT].provider == "sky"
    alone = [o for o in OFFERS if o.pricing_model is not PricingModel.SPOT]
    found = had(of=snapshot(offers=[*alone, broker]))[AcquisitionOption.SPOT]
    assert (found.provider, found.kind) == ("flea", PriceKind.BROKER)
    assert found.risk == "the provider can interrupt it at any time; marketplace price: hosts and availability vary"


def test_what_the_caller_allows_holds_of_every_way() -> None:
    assert set(had(regions=("eu-1",))) == {AcquisitionOption.OWNED}
    assert set(had(environments=(Environment.CLOUD,))) == {AcquisitionOption.ONE_YEAR, AcquisitionOption.SPOT}
    assert set(had(max_usd_per_hour=40.0)) == {AcquisitionOption.SPOT, AcquisitionOption.OWNED}
    assert AcquisitionOption.OWNED not in had(max_purchase_usd=100_000.0)


@given(st.floats(1e3, 1e9), st.floats(0.0, 1e4), st.floats(0.01, 1e4))
def test_at_break_even_both_have_cost_the_same(purchase: float, running: float, saved: float) -> None:
    month = float(break_even_month(col(purchase), col(running), col(running + saved))[0])
    hours = month * HOURS_PER_MONTH
    assert purchase + running * hours == pytest.approx((running + saved) * hours, rel=1e-6)


def test_running_is_what_is_left_without_the_purchase() -> None:
    assert running_usd_per_hour(col(10.0), col(26_280.0), 26_280.0).tolist() == [9.0]
    assert break_even_month(col(1e5), col(5.0), col(5.0)).tolist() == [np.inf]
