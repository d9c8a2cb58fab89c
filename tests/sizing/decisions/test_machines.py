"""Machines of a deployment that somebody names. What listings come to: as asked or per hour of owning, at the
share of the price that is paid. Machines on sale, each at its cheapest allowed price, out of a catalogue that
fits on a page. What a service of many is put on: parts of servers, unless others are named.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.decisions import machines as machines_room
from app.sizing.decisions.acquisition import describe_sold_machines
from app.sizing.decisions.machines import (
    Candidates,
    apply_oversubscription,
    drop_dominated,
    filter_by_size,
    find_machines,
    listing_prices,
    listings_allowed,
    max_connected_accelerators,
    min_connected_accelerators,
    paid_share,
    required_connection,
    unlisted_machine,
    unpriced_machine,
    usual_types,
    within_machine_limits,
)
from app.sizing.decisions.ownership import purchase_usd_per_hour, upkeep_usd_per_hour
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.hardware.parts import FIRM, LINKS, Commitment, Environment, Link, PriceKind, PricingModel, Segment
from app.sizing.question import Constraints, Deployment, Economics, Question
from tests.examples import PRETRAIN, col, registered
from tests.sizing.decisions.offered import asked, machines, names
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, CARD, DESK, OFFERS, RARE, SMALL, SYSTEMS, offer, snapshot

QUESTION = Question(STEADY)
SEARCH = Search.start(QUESTION, SMALL)


def test_a_named_offer_is_used_and_an_unlisted_one_is_a_conflict() -> None:
    found = find_machines(Search.start(QUESTION, SMALL), Deployment(BIG.slug, provider="sky", region="us-1"))
    assert max_connected_accelerators(found) == 8
    with pytest.raises(Conflict, match="No catalog listing"):
        find_machines(Search.start(QUESTION, SMALL), Deployment(BIG.slug, provider="cloudy"))


def test_a_named_machine_that_is_only_sold_interruptibly_has_that_price() -> None:
    spot = offer("big-8", 16.0, pricing_model=PricingModel.SPOT, provider="fleeting")
    found = find_machines(
        Search.start(QUESTION, snapshot(offers=[*OFFERS, spot])), Deployment(BIG.slug, system="big-8")
    )
    assert len(found) and not found.spot.any()
    only = find_machines(Search.start(QUESTION, snapshot(offers=[spot])), Deployment(BIG.slug, system="big-8"))
    assert len(only) == 1 and only.spot.all()


def test_an_unlisted_part_runs_in_a_machine_without_a_price() -> None:
    assert len(find_machines(Search.start(QUESTION, SMALL), Deployment(RARE.slug))) == 1


def test_a_machine_is_to_carry_a_replica_or_what_the_machines_given_carry() -> None:
    assert min_connected_accelerators(SEARCH, Deployment(BIG.slug, nodes=2, total_accelerators=16)) == 8
    assert min_connected_accelerators(SEARCH, Deployment(BIG.slug, tensor_parallel=4)) == 4
    assert min_connected_accelerators(SEARCH, Deployment(BIG.slug, accelerators_per_replica=64)) == 64  # racks do
    assert min_connected_accelerators(SEARCH, Deployment(BIG.slug, data_parallel=16, tensor_parallel=2)) == 32


def test_a_large_run_needs_machines_of_the_usual_size() -> None:
    run = Search.start(Question(PRETRAIN), SMALL)
    sizes = [min_connected_accelerators(run, Deployment(BIG.slug, total_accelerators=n)) for n in (4, 16, 17, 512)]
    assert sizes == [4, 16, BIG.typical_node_size, BIG.typical_node_size]


def test_a_group_is_held_whole_where_a_machine_can_and_never_one_by_one() -> None:
    group, largest = col(1, 4, 8, 16, 4, 4), col(8, 8, 8, 8, 2, 1)
    assert required_connection(group, largest).tolist() == [1, 4, 8, 2, 2, 1]


def test_a_machine_beyond_a_limit_is_not_affordable() -> None:
    found = machines(accelerators_per_node=[1.0, 8.0], usd_per_hour=[4.0, 30.0], rated_w=[1e3, 1e4])
    assert within_machine_limits(found, Constraints()).tolist() == [True, True]
    for limit in (Constraints(max_accelerators=4), Constraints(max_usd_per_hour=20), Constraints(max_power_w=5e3)):
        assert within_machine_limits(found, limit).tolist() == [True, False]


def test_machines_and_accelerators_given_together_say_how_large_a_machine_is() -> None:
    given = Deployment(BIG.slug, nodes=4, total_accelerators=32)
    every = find_machines(Search.start(QUESTION, SMALL), given)
    assert set(filter_by_size(every, QUESTION, given).node.accelerators_per_node.tolist()) == {8}
    other = Deployment(BIG.slug, nodes=4, total_accelerators=12)
    assert not len(filter_by_size(every, QUESTION, other))
    assert unlisted_machine(Search.start(QUESTION, SMALL), other).node.accelerators_per_node.tolist() == [3]


def test_what_no_machine_comes_to_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="a fraction of an accelerator"):
        unlisted_machine(Search.start(QUESTION, SMALL), Deployment(BIG.slug, nodes=3, total_accelerators=32))
    with pytest.raises(Conflict, match="has another size"):
        unlisted_machine(
            Search.start(QUESTION, SMALL), Deployment(BIG.slug, provider="sky", nodes=4, total_accelerators=12)
        )


EVERY = np.ones(len(SMALL.listings), bool)
THIRD_OFF = Economics(discounts=(("acme-big", 0.3),))


def test_a_discount_is_of_its_type_alone() -> None:
    share, big = paid_share(SMALL, THIRD_OFF), SMALL.accelerator_index["acme-big"]
    assert set(share[SMALL.listings.accelerator == big]) == {0.7}
    assert set(share[SMALL.listings.accelerator != big]) == {1.0}
    assert set(paid_share(SMALL, Economics())) == {1.0}


def test_rent_falls_by_it_and_owning_by_what_hangs_on_the_price() -> None:
    plain, less = (listing_prices(SMALL, EVERY, Assumptions(), e) for e in (Economics(), THIRD_OFF))
    big, owned = SMALL.listings.accelerator == SMALL.accelerator_index["acme-big"], SMALL.listings.is_owned
    assert less.usd_per_hour[big & ~owned] == pytest.approx(0.7 * plain.usd_per_hour[big & ~owned])
    assert less.purchase_usd[big & owned] == pytest.approx(0.7 * plain.purchase_usd[big & owned])
    saved = col(*(0.3 * plain.purchase_usd[big & owned]))
    by_hand = purchase_usd_per_hour(saved, 26_280.0) + upkeep_usd_per_hour(saved, Assumptions())
    assert plain.usd_per_hour[big & owned] - less.usd_per_hour[big & owned] == pytest.approx(by_hand)
    assert less.usd_per_hour[~big] == pytest.approx(plain.usd_per_hour[~big], nan_ok=True)
    assert (less.draw_w[big] == plain.draw_w[big]).all(), "power keeps its price"


RENTED = {"acme-big sky 40", "acme-card sky 0.8"}
# List prices of vendors, and prices derived from parts.
LISTED = {"acme-big maker 16.25"}
DERIVED = {"acme-card generic 0.5321", "acme-card generic 1.341", "bolt-desk generic 0.4465"}
OWNED = LISTED | DERIVED
ANY: dict[str, Any] = {"price_kinds": tuple(PriceKind)}


@pytest.mark.parametrize(
    ("constraints", "offered"),
    [
        # reservations, brokers and purchases without a quote count only on request
        ({}, RENTED | LISTED),
        (ANY, {"acme-big sky 40", "acme-card flea 0.3"} | OWNED),
        ({"environments": (Environment.CLOUD,)}, RENTED),
        ({"environments": (Environment.ON_PREM,)}, LISTED),
        ({"environments": (Environment.ON_PREM,)} | ANY, OWNED),
        ({"environments": (Environment.ON_PREM, Environment.CLOUD)}, RENTED | LISTED),
        ({"commitment": Commitment.ONE_YEAR}, {"acme-big sky 24", "acme-card sky 0.8"} | LISTED),
        ({"commitment": Commitment.THREE_YEARS}, {"acme-big sky 24", "acme-card sky 0.8"} | LISTED),
        ({"pricing_models": (PricingModel.SPOT,)}, {"acme-big sky 16"}),
        (  # spot capacity may be dearer to a run than uninterrupted capacity
            {"pricing_models": (PricingModel.SPOT, PricingModel.ON_DEMAND)},
            {"acme-big sky 16", "acme-big sky 40", "acme-card sky 0.8"},
        ),
        ({"pricing": (PricingModel.ON_DEMAND,)}, RENTED),
        ({"pricing_models": (PricingModel.RESERVED_1Y,)}, {"acme-big sky 24"}),
        ({"providers": ("cloudy",)}, {"acme-card cloudy 0.9"}),
        ({"providers": ("flea", "cloudy")}, {"acme-card flea 0.3"}),
        ({"providers": ("maker",)}, {"acme-big maker 16.25"}),
        ({"regions": ("eu-*",), "environments": (Environment.CLOUD,)}, {"acme-big sky 44", "acme-card cloudy 0.9"}),
        (
            {"regions": ("eu-1", "eu-2"), "environments": (Environment.CLOUD,)},
            {"acme-big sky 44", "acme-card cloudy 0.9"},
        ),
        ({"regions": ("EU-1",)}, {"acme-big sky 44"} | LISTED),  # what one owns stands where one wants it
        ({"vendors": ("BOLT",)} | ANY, {"bolt-desk generic 0.4465"}),
        ({"vendors": ("BOLT",)}, set()),
        ({"segments": ("workstation",)} | ANY, {"bolt-desk generic 0.4465"}),
        ({"segments": ("datacenter", "edge")}, RENTED | LISTED),
        (
            {"vendors": ("bolt", "acme"), "exclude_accelerators": ("acme-card",)} | ANY,
            {"acme-big sky 40", "acme-big maker 16.25", "bolt-desk generic 0.4465"},
        ),
        ({"accelerators": ("bolt-desk", "bolt-rare")}, {"bolt-desk generic 0.4465"}),
        ({"accelerators": ("acme-big",), "vendors": ("bolt",)}, set()),
        (
            {"max_purchase_usd": 37_000.0, "price_kinds": (*FIRM, PriceKind.ESTIMATE)},
            RENTED | {"acme-card generic 0.5321", "acme-card generic 1.341", "bolt-desk generic 0.4465"},
        ),
        ({"max_purchase_usd": 9_000.0, "price_kinds": (PriceKind.ESTIMATE,)}, {"bolt-desk generic 0.4465"}),
        ({"max_purchase_usd": 8_799.0}, RENTED),
    ],
)
def test_each_machine_comes_at_its_cheapest_allowed_price(constraints: dict[str, Any], offered: set[str]) -> None:
    assert names(asked(**constraints)[0]) == offered


@pytest.mark.parametrize(
    ("fixed", "offered"),
    [
        ({"provider": "flea"}, {"acme-card flea 0.3"}),
        ({"provider": "unknown"}, set()),
        ({"region": "us-1"}, {"acme-card sky 0.8"}),
        # a derived price is not firm, but the deployment names it
        ({"region": "on_prem"}, {"acme-card generic 0.5321", "acme-card generic 1.341"}),
        ({"system": "card-1"}, {"acme-card sky 0.8"}),
        ({"system": "host-4x-acme-card"}, {"acme-card generic 1.341"}),
        ({"pricing_model": PricingModel.OWNED}, {"acme-card generic 0.5321", "acme-card generic 1.341"}),
        ({"instance_type": "card-1"}, {"acme-card sky 0.8"}),
        ({"instance_type": "card-1", "region": "eu-2"}, {"acme-card cloudy 0.9"}),
        ({"instance_type": "big-8"}, set()),
    ],
)
def test_a_deployment_takes_the_listing_it_names(fixed: dict[str, Any], offered: set[str]) -> None:
    deployment = Deployment("acme-card", **fixed)
    assert names(asked(fixed=deployment, accelerators=("acme-card",))[0]) == offered


def test_types_outside_the_request_and_without_a_price_say_so() -> None:
    rejected = asked(vendors=("Bolt",), environments=(Environment.CLOUD,))[1].by_accelerator
    assert {i: r.code for i, r in rejected.items()} == {0: "excluded", 1: "excluded", 2: "no_offer", 3: "no_offer"}
    rejected = asked()[1].by_accelerator
    assert {i: r.code for i, r in rejected.items()} == {2: "no_firm_price", 3: "no_offer"}
    assert "no price for Bolt Rare" in rejected[3].text
    assert "filters exclude Acme Big." in asked(accelerators=("acme-card",))[1].by_accelerator[0].text


def test_zones_take_rented_machines_of_named_regions() -> None:
    """A listing without a region has no zones; owned machines can be placed in any zone."""
    somewhere = snapshot(
        offers=[
            offer("big-8", 20.0, region="unspecified"),
            offer("big-8", 40.0, region="us-1"),
            offer("card-1", 0.5, region="global"),
        ]
    )
    rented: dict[str, Any] = {"of": somewhere, "environments": (Environment.CLOUD,)}
    assert names(asked(**rented)[0], somewhere) == {"acme-big sky 20", "acme-card sky 0.5"}
    found, turned_down = asked(**rented, zones=3)
    assert names(found, somewhere) == {"acme-big sky 40"}
    assert turned_down.by_accelerator[1].code == "no_zones"
    assert turned_down.by_accelerator[1].text == (
        "The catalog lists Acme Card for rent only without a named region; 3 zones require named regions."
    )
    assert {r.code for i, r in turned_down.by_accelerator.items() if i != 1} == {"no_offer"}
    assert names(asked(environments=(Environment.ON_PREM,), zones=3)[0]) == LISTED


def test_a_type_that_only_costs_too_much_to_buy_says_by_how_much() -> None:
    """The nearest machine of each type; a type that can be rented is not rejected."""
    limit, bought = 5_000.0, (Environment.ON_PREM,)
    rejected = asked(max_purchase_usd=limit, environments=bought, **ANY)[1].by_accelerator
    assert {i: (r.code, r.needed, r.available) for i, r in rejected.items() if i < 3} == {
        0: ("over_budget", 300_000, 5_000),
        1: ("over_budget", 10_608, 5_000),
        2: ("over_budget", 8_800, 5_000),
    }
    assert rejected[3].code == "no_offer"
    assert "One machine with Bolt Desk costs 8,800 USD; the purchase budget is 5,000 USD" in rejected[2].text
    assert rejected[2].unit == "usd"
    assert set(asked(max_purchase_usd=limit, **ANY)[1].by_accelerator) == {2, 3}
    excluded = asked(max_purchase_usd=limit, **ANY, vendors=("Acme",))[1].by_accelerator
    assert (excluded[2].code, excluded[3].code) == ("excluded", "excluded")


def test_a_listing_carries_the_machine_its_power_and_its_price() -> None:
    found, _ = asked(accelerators=("acme-big",), economics=Economics(horizon_months=12))
    rented, owned = (found.take(np.array([i])) for i in (0, 1))
    assert (rented.usd_per_hour[0], rented.rated_w[0], rented.draw_w[0]) == (40, 10_200, 7650)
    assert np.isnan(rented.purchase_usd[0])
    assert rented.ram_bytes[0] == 2e12
    assert rented.node.accelerators_per_node[0] == 8
    assert owned.purchase_usd[0] == 300_000
    # 300,000 over a year, a twentieth for upkeep, 7.65 kW of floor and power
    assert owned.usd_per_hour[0] == pytest.approx(300_000 / 8760 + 15_000 / 8760 + 7.65 * 184 / 730 + 7.65 * 1.3 * 0.12)
    desk = asked(accelerators=("bolt-desk",))[0]
    # 8,800 USD over three years and upkeep, 393.75 W; no floor is rented for it
    assert desk.usd_per_hour[0] == pytest.approx(8800 / 26_280 + 440 / 8760 + 0.39375 * 1.3 * 0.12)


def test_of_equal_prices_the_first_listing_is_taken() -> None:
    equal = snapshot(offers=[offer("card-1", 1.0, region=r) for r in ("b", "a", "c")])
    found, _ = asked(of=equal, accelerators=("acme-card",), environments=(Environment.CLOUD,))
    assert [equal.regions[equal.listings.region[i]] for i in found.listing.tolist()] == ["a"]


def test_an_oversubscribed_switch_halves_the_network_and_nothing_else() -> None:
    found = machines(network_bytes_per_s=col(50e9, np.nan))
    halved = apply_oversubscription(found, Assumptions(network_oversubscription=2.0))
    assert halved.node.network_bytes_per_s[0] == 25e9
    assert np.isnan(halved.node.network_bytes_per_s[1])
    assert halved.node.link_bytes_per_s.tolist() == found.node.link_bytes_per_s.tolist()


def kept(**columns: Any) -> list[int]:
    return [int(i) for i in drop_dominated(machines(**columns)).machine]


@pytest.mark.parametrize(
    "better",
    [
        {"memory_bytes": col(90e9, 80e9)},
        {"vcpus": col(32, 16)},
        {"link_bytes_per_s": col(900e9, 450e9)},
        {"scale_up_domain": col(72, 8)},
        {"network_bytes_per_s": col(100e9, 50e9)},
        {"network_bytes_per_s": col(1, np.nan)},  # an unknown network promises nothing
        {"ram_bytes": col(4e12, 2e12)},
        {"ram_bytes": col(np.nan, 2e12)},  # an unknown host refuses nothing
        {"usd_per_hour": col(30, 40)},
        {"spot": np.array([False, True])},
        {"draw_w": col(7000, 7500)},
        {"rated_w": col(9000, 10_000)},
        {"purchase_usd": col(np.nan, 300_000)},
        {"purchase_usd": col(200_000, 300_000)},
    ],
)
def test_a_machine_beaten_in_one_thing_and_better_in_none_is_left_out(better: dict[str, Any]) -> None:
    assert kept(**better) == [0]
    other = {"draw_w": col(2, 1)} if "draw_w" not in better else {"usd_per_hour": col(2, 1)}
    assert kept(**better, **other) == [0, 1]  # each better in something
    assert kept(**better, accelerator=[0, 1]) == [0, 1]
    assert kept(**better, accelerators_per_node=col(8, 4)) == [0, 1]


def test_of_equal_machines_the_first_stays() -> None:
    assert kept(usd_per_hour=col(40, 40, 40)) == [0]
    assert kept(usd_per_hour=col(40, 40, 39)) == [2]
    assert kept(usd_per_hour=col(39, 40, 39, 38), accelerator=[0, 0, 0, 1]) == [0, 3]


@pytest.mark.parametrize(
    ("deployment", "count"),
    [
        ({}, 4),
        ({"accelerators_per_replica": 8}, 8),
        ({"total_accelerators": 16}, 16),
        ({"accelerators_per_replica": 8, "total_accelerators": 16}, 8),
        ({"accelerators_per_replica": 17}, 4),  # no host has 17 slots
        ({"accelerators_per_replica": 2}, 4),
    ],
)
def test_an_unlisted_part_is_judged_in_a_machine_of_its_usual_size(deployment: dict[str, Any], count: int) -> None:
    found = unpriced_machine(SMALL, Deployment(RARE.slug, **deployment), Assumptions())
    assert found.node.accelerators_per_node.tolist() == [count]
    assert found.node.accelerator.tolist() == [3]
    assert found.node.memory_bytes.tolist() == [32 * GIB]
    assert found.rated_w.tolist() == [count * (350 + 0.75 * 350)]
    assert found.draw_w.tolist() == pytest.approx([0.75 * count * (350 + 0.75 * 350)])
    assert (LINKS[found.node.link[0]], found.node.link_bytes_per_s[0]) == (Link.PCIE, 32e9)
    assert found.node.scale_up_domain.tolist() == [count]
    for unknown in (found.usd_per_hour, found.purchase_usd, found.ram_bytes, found.node.power_w):
        assert np.isnan(unknown[0])
    assert (found.machine[0], found.listing[0]) == (-1, -1)
    assert (found.node.on_prem[0], found.node.workstation[0]) == (True, False)


def test_a_single_or_linked_unlisted_part_has_its_own_link() -> None:
    alone = snapshot(offers=[o for o in OFFERS if o.accelerator != CARD.slug])
    assert LINKS[unpriced_machine(alone, Deployment(BIG.slug), Assumptions()).node.link[0]] is Link.SCALE_UP


def test_every_machine_keeps_its_row() -> None:
    found: Candidates = asked()[0]
    node = found.node
    assert [SMALL.accelerators[i].memory_bytes for i in node.accelerator.tolist()] == node.memory_bytes.tolist()


def test_machines_differ_in_their_host_only_for_work_that_reads_it() -> None:
    """Two sizes of instance with the same card: the cheaper one, or both, with the threads of each."""
    small = replace(offer("card-1", 0.8), vcpus=4.0)
    sizes = snapshot(offers=[small, replace(offer("card-1", 1.2), instance_type="card-1-large", vcpus=16.0)])
    found, _ = asked(of=sizes, environments=(Environment.CLOUD,))
    assert (found.usd_per_hour.tolist(), np.isnan(found.vcpus).tolist()) == ([0.8], [True])
    found, _ = asked(of=sizes, environments=(Environment.CLOUD,), reads_host=True)
    assert sorted(zip(found.vcpus.tolist(), found.usd_per_hour.tolist(), strict=True)) == [(4.0, 0.8), (16.0, 1.2)]
    assert found.host_kinds[0] == 2


def test_a_machine_with_a_price_of_its_own_stands_before_one_put_together() -> None:
    quoted = replace(SYSTEMS[1], slug="quoted", accelerator=DESK.slug, accelerator_count=1.0, list_price_usd=50_000)
    derived = replace(quoted, slug="derived", power_w=900.0, list_price_usd=None)
    both = snapshot(systems=(*SYSTEMS, quoted, derived))
    found = asked(of=both, vendors=("bolt",))[0]
    assert [s.system.slug for s in describe_sold_machines(both, found) if s.system] == ["quoted"]
    named = asked(of=both, fixed=Deployment(DESK.slug, system="derived"), accelerators=(DESK.slug,))[0]
    assert [s.system.slug for s in describe_sold_machines(both, named) if s.system] == [
        "derived"
    ]  # it is judged if it is named


def test_the_faster_network_of_an_owned_machine_is_paid_for() -> None:
    """What a machine with a faster network costs depends on how many work as one; of rented ones it is in the rent."""
    networks = {"network_bytes_per_s": col(50e9, 12.5e9)}
    assert kept(**networks) == [0]
    assert kept(**networks, purchase_usd=col(300_000, 300_000)) == [0, 1]
    assert kept(**networks, purchase_usd=col(np.nan, 300_000)) == [0]


TOY = replace(DESK, slug="toy", name="Toy", segment=Segment.CONSUMER)


KIT = replace(DESK, slug="kit", name="Kit", segment=Segment.EDGE)
OF = snapshot(accelerators=[BIG, CARD, DESK, TOY, KIT])


def servers_kept(
    part: str = "toy",
    *,
    serves_many: bool = True,
    only: tuple[str, ...] = (),
    named: tuple[str, ...] = (),
    **limits: Any,
) -> tuple[bool, Rejections]:
    types = [a.slug for a in OF.accelerators]
    allowed = np.array([not only or slug in only for slug in types])
    rejections = Rejections(OF.accelerators)
    outright = np.array([slug in named for slug in types])
    found = usual_types(
        OF, Constraints(**limits), allowed, outright, Assumptions(), rejections, serves_many=serves_many
    )
    return bool(found[OF.accelerator_index[part]]), rejections


def test_a_consumer_part_serves_only_on_request() -> None:
    counts, rejections = servers_kept()
    assert not counts
    assert {(r.accelerator, r.code) for r in rejections.closest_first()} == {
        ("toy", "not_for_servers"),
        ("kit", "not_for_servers"),
    }


def test_one_person_has_a_desktop_and_no_development_kit() -> None:
    assert servers_kept("toy", serves_many=False)[0]
    assert not servers_kept("kit", serves_many=False)[0]
    assert servers_kept("kit", serves_many=False, max_power_w=60.0)[0]


@pytest.mark.parametrize(
    "asked",
    [
        {"segments": ("consumer",)},
        {"named": ("toy",)},
        {"only": ("toy",)},
        {"max_power_w": 60.0},
    ],
    ids=["segment", "named", "nothing else", "no server draws so little"],
)
def test_it_counts_where_it_is_asked_for(asked: dict[str, Any]) -> None:
    counts, rejections = servers_kept(**asked)
    assert counts
    assert "toy" not in {r.accelerator for r in rejections.closest_first()}


def test_a_limit_of_power_that_servers_keep_changes_nothing() -> None:
    assert not servers_kept(max_power_w=5000.0)[0]


@pytest.mark.parametrize(
    "named", [{"system": "big-8"}, {"provider": "sky"}, {"region": "us-1"}, {"instance_type": "x"}]
)
def test_a_machine_named_in_any_way_has_its_own_size(named: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match="the named machine has another size"):
        unlisted_machine(Search.start(QUESTION, SMALL), Deployment(BIG.slug, nodes=2, total_accelerators=16, **named))
    with pytest.raises(Conflict, match="fraction of an accelerator"):
        unlisted_machine(Search.start(QUESTION, SMALL), Deployment(BIG.slug, nodes=2, total_accelerators=15))


def test_hosts_are_read_only_where_a_service_answers_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[bool] = []

    def candidates(*_: object, reads_host: bool, **__: object) -> Candidates:
        asked_for.append(reads_host)
        return machines_room.unpriced_machine(SMALL, Deployment(BIG.slug), Assumptions())

    monkeypatch.setattr(machines_room, "find_candidates", candidates)
    picture = replace(STEADY, model=registered("google/vit-base-patch16-224"))
    for workload, reads in ((STEADY, False), (picture, True), (PRETRAIN, False)):
        asked_for.clear()
        find_machines(Search.start(Question(workload), SMALL), Deployment(BIG.slug))
        assert asked_for == [reads]


def test_a_named_accelerator_is_a_whole_one_and_a_named_machine_any_part() -> None:
    """Of machines of which every other sells halves, an accelerator alone takes the whole ones."""
    listings, machines = SMALL.listings, len(SMALL.machines)
    share = np.where(np.arange(machines) % 2, 1.0, 0.5)
    names = ("system_slugs", "providers", "regions", "instance_types")
    known = {name: getattr(SMALL, name) for name in names}
    parted: Any = SimpleNamespace(listings=listings, machines=SimpleNamespace(share=share), **known)
    whole = share[listings.machine] == 1
    assert 0 < whole.sum() < len(whole)

    def kept_of(**named: Any) -> list[bool]:
        found: list[bool] = listings_allowed(parted, Constraints(), Deployment(BIG.slug, **named)).tolist()
        return found

    assert kept_of() == whole.tolist() == kept_of(provider=None)
    sky = listings.provider == SMALL.providers.index("sky")
    assert kept_of(provider="sky") == (whole & sky).tolist()
    system = listings.system == SMALL.system_slugs.index("big-8")
    assert kept_of(system="big-8") == system.tolist()
    kind = SMALL.instance_types[int(listings.instance_type.max())]
    assert kept_of(instance_type=kind) == (listings.instance_type == listings.instance_type.max()).tolist()
    assert listings_allowed(parted, Constraints(), None).all()
