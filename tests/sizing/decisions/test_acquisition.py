"""The same machines had otherwise: what each way costs, and when owning breaks even, worked by hand. The bill adds
up to the cost, whatever is rented, bought or put together. Where a machine is had: the listing behind each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, HOURS_PER_MONTH
from app.sizing.decisions.acquisition import (
    DeployedMachines,
    SoldMachine,
    break_even_month,
    describe_sold_machines,
    equivalent_or_better,
    find_alternatives,
    itemize_costs,
    running_usd_per_hour,
)
from app.sizing.decisions.cost import deployment_cost
from app.sizing.decisions.machines import find_candidates, unpriced_machine
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search
from app.sizing.hardware.parts import KINDS, Environment, PriceKind, PricingModel
from app.sizing.question import Constraints, Deployment, Economics, Question
from app.sizing.result import AcquisitionOption, Alternative, Part
from app.sizing.snapshot import Catalog
from tests.examples import CHAT, col
from tests.sizing.decisions.offered import asked
from tests.sizing.small import CARD, OFFERS, RARE, SMALL, offer, snapshot

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
    (ways,) = find_alternatives(
        Search.start(question, of), DeployedMachines(found, cost, col(nodes), none, np.array([False]), none, none)
    )
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


MACHINES = len(asked(price_kinds=KINDS)[0])


def spent(lines: Sequence[Part]) -> float:
    return sum(part.quantity * part.unit_usd for part in lines if part.unit_usd is not None)


def hourly(lines: Sequence[Part]) -> float:
    return sum(part.quantity * part.usd_per_hour for part in lines if part.usd_per_hour is not None)


def named(lines: Sequence[Part], what: str) -> Part:
    (found,) = (part for part in lines if part.what == what)
    return found


@given(
    st.lists(st.integers(1, 3000), min_size=MACHINES, max_size=MACHINES),
    st.integers(1, 100),
    st.floats(0, 2000),
    st.builds(
        Economics,
        horizon_months=st.floats(1, 240),
        electricity_usd_per_kwh=st.floats(0, 2),
        pue=st.floats(1, 3),
        discounts=st.sampled_from([(), (("acme-big", 0.3), ("acme-card", 0.1))]),
    ),
)
def test_every_cost_adds_up_from_its_bill(
    machines: list[int], linked: int, host_gib: float, economics: Economics
) -> None:
    found, nodes = asked(economics=economics, price_kinds=KINDS)[0], col(*machines)
    joined, host = np.full(MACHINES, float(linked)), host_gib * GIB
    cost = deployment_cost(found, nodes, joined, Assumptions(), economics, host_bytes=host)
    for row, lines in enumerate(itemize_costs(found, nodes, joined, Assumptions(), economics, host_bytes=host)):
        hours = named(lines, "horizon_hours").quantity
        assert spent(lines) / hours + hourly(lines) == pytest.approx(cost.usd_per_hour[row])
        assert hours * cost.usd_per_hour[row] == pytest.approx(cost.tco_usd[row])
        assert machines[row] * named(lines, "machine_kw").quantity * 1e3 == pytest.approx(cost.power_w[row])
        if np.isnan(cost.purchase_usd[row]):
            assert not [part for part in lines if part.unit_usd is not None]
        else:
            assert spent(lines) == pytest.approx(cost.purchase_usd[row])


def test_a_quoted_machine_is_one_line_and_another_says_what_is_in_it() -> None:
    one = np.ones(MACHINES)
    lines = {
        tuple(part.what for part in bill if part.unit_usd is not None)
        for bill in itemize_costs(asked(price_kinds=KINDS)[0], one, one, Assumptions(), Economics())
    }
    assert lines == {
        (),
        ("machine", "rack_kw"),
        ("accelerator", "chassis", "processors", "memory", "rack_kw"),
        ("accelerator", "chassis", "processors", "memory"),  # under a desk
    }


def test_a_rented_machine_names_its_offer() -> None:
    found = describe_sold_machines(SMALL, asked(providers=("cloudy",))[0])[0]
    assert (found.provider, found.region, found.instance_type) == ("cloudy", "eu-2", "card-1")
    assert found.pricing_model is PricingModel.ON_DEMAND
    assert found.system is not None
    assert (found.system.slug, found.accelerator) == ("card-1", CARD)
    assert found.price is not None
    assert (found.price.pricing_model, found.price.terms.source) == ("on_demand", "a price page")
    assert found.price.terms.kind is PriceKind.PROVIDER


def test_an_owned_machine_is_bought_whole_or_in_parts() -> None:
    server = describe_sold_machines(SMALL, asked(providers=("maker",))[0])[0]
    assert (server.system and server.system.slug, server.instance_type) == ("big-server", None)
    assert server.price is not None
    assert (server.price.pricing_model, server.price.terms.source) == ("owned", "a maker's page")
    assert server.price.terms.kind is PriceKind.LIST
    desk = describe_sold_machines(SMALL, asked(accelerators=("bolt-desk",))[0])[0]
    assert desk.price is not None
    assert (desk.price.terms.kind, desk.price.terms.source) == (PriceKind.ESTIMATE, "Bolt's price list")
    assert (desk.provider, desk.region) == ("generic", "on_prem")


@pytest.mark.parametrize(("today", "age"), [("2026-02-01", 31), ("2025-12-01", 0), ("", None)])
def test_the_age_of_a_price_is_counted_to_a_day(today: str, age: int | None) -> None:
    (found,) = describe_sold_machines(SMALL, asked(providers=("cloudy",))[0], today)
    assert found.price is not None
    assert found.price.age_days == age


def test_the_first_system_of_the_catalogue_is_one_too() -> None:
    found = describe_sold_machines(SMALL, asked(providers=("sky",), accelerators=("acme-big",))[0])[0]
    assert found.system is not None
    assert found.system.slug == SMALL.system_slugs[0] == "big-8"


def test_an_unlisted_part_has_a_name_and_nothing_else() -> None:
    assert describe_sold_machines(SMALL, unpriced_machine(SMALL, Deployment(RARE.slug), Assumptions())) == (
        SoldMachine(RARE),
    )


def test_an_offer_of_no_known_system_has_none() -> None:
    bare = snapshot(systems=(), offers=[replace(offer("card-1", 1.0), system=None)])
    found = asked(of=bare, providers=("sky",))[0]
    assert describe_sold_machines(bare, found)[0].system is None
    assert np.isnan(found.ram_bytes[0])


def test_a_price_that_cannot_be_derived_is_none() -> None:
    found = asked(providers=("sky",))[0]
    unknown = replace(found, usd_per_hour=np.full(len(found), np.nan))
    assert [s.price for s in describe_sold_machines(SMALL, unknown)] == [None, None]


@pytest.mark.parametrize("nodes", [1.0, 3.0])
@pytest.mark.parametrize("more_gib", [0.0, 4096.0])
def test_every_bill_comes_to_the_cost_of_its_machines(nodes: float, more_gib: float) -> None:
    """Purchases and hourly lines of each machine on sale, itemized or as one line, with and without a network."""
    found = asked(price_kinds=KINDS)[0]
    count, host = np.full(len(found), nodes), np.full(len(found), more_gib * GIB)
    cost = deployment_cost(found, count, count, ASSUMED, Economics(), host_bytes=host)
    bills = itemize_costs(found, count, count, ASSUMED, Economics(), host_bytes=host)
    for row, lines in enumerate(bills):
        bought = float(np.nan_to_num(cost.purchase_usd[row]))
        assert spent(lines) == pytest.approx(bought)
        assert named(lines, "machine_kw").quantity == pytest.approx(found.draw_w[row] / 1000)
        hours = named(lines, "horizon_hours").quantity
        known = float(np.nan_to_num(cost.usd_per_hour[row]))
        assert hourly(lines) + spent(lines) / hours == pytest.approx(known)
        assert all(part.quantity > 0 for part in lines if part.what != "machine_kw")
        for part in lines:
            assert part.unit_usd is None or part.unit_usd > 0 or part.what in ("machine", "accelerator")
        whats = [part.what for part in lines]
        if "accelerator" in whats:  # by its parts: as many as its machines hold, each at its own price
            each = named(lines, "accelerator")
            assert each.quantity == nodes * found.node.accelerators_per_node[row]
            assert each.unit_usd == pytest.approx(
                found.parts.accelerators_usd[row] / found.node.accelerators_per_node[row]
            )
        networked = "network_gbit_per_s" in whats
        assert not networked or nodes > 1 or bought > 0
        assert ("power_kw" in whats) == (bought > 0)


def test_an_equivalent_machine_has_at_least_all_that_the_deployment_uses() -> None:
    """A listing sells itself; more memory of the host is bought with owned machines and found in no rented one."""
    listings = SMALL.listings
    rows = np.arange(len(listings))
    found = find_candidates(
        SMALL, Constraints(price_kinds=KINDS), Economics(), ASSUMED, NullRejections(SMALL.accelerators)
    )
    none = np.zeros(len(found))
    cost = deployment_cost(found, none + 1, none, ASSUMED, Economics())

    def good(host_bytes: float = 0.0) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        spanning = np.ones(len(found), bool)
        return equivalent_or_better(
            SMALL, DeployedMachines(found, cost, none + 1, none, spanning, none + host_bytes, none), rows
        )

    plain, large = good(), good(1e18)
    own = found.listing >= 0
    assert plain[np.flatnonzero(own), found.listing[own]].all()
    same = SMALL.machines.accelerator[found.machine][:, None] == SMALL.machines.accelerator[listings.machine][None, :]
    assert not (plain & ~same).any()
    unknown = np.isnan(listings.ram_bytes)
    assert (large == (plain & (listings.is_owned | unknown)[None, :])).all()
