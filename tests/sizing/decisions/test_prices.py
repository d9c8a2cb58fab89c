"""The prices that count: firm ones, unless a request says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.decisions.prices import age_days, commitment_models, run_pricing, service_pricing
from app.sizing.hardware.parts import COUNTED, FIRM, Commitment, Environment, PriceKind, PricingModel, day_numbers
from app.sizing.question import Constraints
from tests.sizing.decisions.offered import asked, names
from tests.sizing.small import OFFERS, SYSTEMS, offer, snapshot

ON_DEMAND, OWNED = PricingModel.ON_DEMAND, PricingModel.OWNED
CLOUD: dict[str, Any] = {"environments": (Environment.CLOUD,)}


@pytest.mark.parametrize(
    ("limits", "owned"),
    [
        ({}, False),
        ({"max_purchase_usd": 1e6}, True),
        ({"environments": (Environment.ON_PREM,)}, True),
        ({"environments": (Environment.ON_PREM, Environment.CLOUD)}, False),
    ],
)
def test_own_machines_are_judged_for_a_run_where_they_are_asked_for(limits: dict[str, Any], owned: bool) -> None:
    assert run_pricing(Constraints(**limits)) == ((ON_DEMAND, OWNED) if owned else (ON_DEMAND,))


def test_commitments_are_used_only_on_request() -> None:
    one, three = Commitment.ONE_YEAR, Commitment.THREE_YEARS
    assert service_pricing(Constraints()) == (ON_DEMAND, OWNED)
    assert commitment_models(Commitment.NONE) == ()
    assert commitment_models(one) == (PricingModel.RESERVED_1Y, PricingModel.COMMITTED_1Y)
    assert set(commitment_models(three)) > set(commitment_models(one))
    assert run_pricing(Constraints(commitment=one)) == (ON_DEMAND, *commitment_models(one))
    named = Constraints(pricing_models=(PricingModel.SPOT,))
    assert service_pricing(named) == run_pricing(named) == (PricingModel.SPOT,)
    assert service_pricing(replace(named, commitment=one)) == (PricingModel.SPOT, *commitment_models(one))


@pytest.mark.parametrize(
    ("constraints", "offered"),
    [
        # a broker counts where it is named as a provider or among the kinds, and kinds are taken at their word
        ({}, {"acme-card sky 0.8"}),
        ({"providers": ("flea",)}, {"acme-card flea 0.3"}),
        ({"price_kinds": (PriceKind.BROKER,)}, {"acme-card flea 0.3"}),
        ({"price_kinds": (*FIRM, PriceKind.BROKER)}, {"acme-card flea 0.3"}),
        ({"providers": ("flea",), "price_kinds": (PriceKind.PROVIDER,)}, set()),
        # naming an accelerator adds no other price while there is a firm one
        ({"accelerators": ("acme-card",)}, {"acme-card sky 0.8"}),
        ({"accelerators": ("acme-card",), "regions": ("us-1",)}, {"acme-card sky 0.8"}),
    ],
)
def test_brokers_count_where_they_are_asked_for(constraints: dict[str, Any], offered: set[str]) -> None:
    assert {n for n in names(asked(**CLOUD, **constraints)[0]) if "card" in n} == offered


def test_an_accelerator_that_is_named_counts_at_what_there_is() -> None:
    brokered = snapshot(offers=[o for o in OFFERS if o.accelerator == "acme-big" or o.price_kind is PriceKind.BROKER])
    assert names(asked(of=brokered, **CLOUD)[0], brokered) == {"acme-big sky 40"}
    found, _ = asked(of=brokered, accelerators=("acme-card",), **CLOUD)
    assert names(found, brokered) == {"acme-card flea 0.3"}
    only = (PriceKind.PROVIDER,)
    assert not len(asked(of=brokered, accelerators=("acme-card",), price_kinds=only, **CLOUD)[0])


def test_a_type_without_a_firm_price_names_the_price_kinds_that_include_it() -> None:
    rejected = asked()[1].by_accelerator
    assert rejected[2].code == "no_firm_price"
    assert rejected[2].text == (
        "For Bolt Desk, the catalog has only an estimate from parts plus an assumed host. "
        "To allow it, include `estimate` in `price_kinds`."
    )
    asked_for = asked(price_kinds=(PriceKind.BROKER,))[1].by_accelerator
    assert (asked_for[2].code, asked_for[0].code) == ("no_offer", "no_offer")
    assert "the provider's own price and the manufacturer's list price" in asked_for[0].text


def test_prices_that_are_too_old_do_not_count() -> None:
    old = snapshot(offers=[replace(offer("card-1", 0.5), as_of="2025"), offer("card-1", 0.9, region="eu-2")])

    def found(most: float | None, today: str = "2026-02-01") -> set[str]:
        return {n for n in names(asked(of=old, max_price_age_days=most, today=today, **CLOUD)[0], old) if "card" in n}

    assert found(None) == {"acme-card sky 0.5"}
    assert found(31) == {"acme-card sky 0.9"}
    assert found(30) == set()
    assert found(30, today="") == set()  # of unknown age
    turned_down = asked(of=old, max_price_age_days=30, today="2026-02-01", **CLOUD)[1].by_accelerator[1]
    assert (turned_down.code, turned_down.needed, turned_down.available) == ("price_too_old", 31, 30)
    assert turned_down.text == "The newest price of Acme Card is 31 days old; the limit is 30 days."


def test_naming_a_seller_or_a_type_does_not_make_an_outdated_rent_count() -> None:
    of = snapshot(offers=[replace(offer("card-1", 0.5), as_of="2024-06-01"), offer("big-8", 40.0)])

    def found(**limits: Any) -> set[str]:
        return {n for n in names(asked(of=of, today="2026-02-01", **limits, **CLOUD)[0], of) if "card" in n}

    for named in ({}, {"accelerators": ("acme-card",)}, {"vendors": ("acme",)}, {"providers": ("sky",)}):
        assert found(**named) == found(**named, price_kinds=FIRM) == set()
        assert found(**named, max_price_age_days=1000) == {"acme-card sky 0.5"}
        assert found(**named, outdated_prices=True) == {"acme-card sky 0.5"}
    turned_down = asked(of=of, today="2026-02-01", **CLOUD)[1].by_accelerator[1]
    assert (turned_down.code, turned_down.needed, turned_down.available) == ("price_too_old", 579, 365)


def test_an_outdated_price_of_an_owned_machine_counts_for_a_desktop_only() -> None:
    of = snapshot(systems=[replace(s, price_observed="2024-06-01") for s in SYSTEMS], offers=[offer("card-1", 0.5)])
    for serves_many, outdated in ((True, False), (True, True), (False, False)):
        found, _ = asked(of=of, today="2026-02-01", serves_many=serves_many, outdated_prices=outdated)
        assert ("acme-big maker 16.25" in names(found, of)) == (outdated or not serves_many)


def test_an_outdated_rent_counts_only_for_types_without_a_current_one() -> None:
    of = snapshot(offers=[replace(offer("card-1", 0.5), as_of="2024-06-01"), offer("card-1", 0.9), offer("big-8", 40)])
    found, _ = asked(of=of, today="2026-02-01", outdated_prices=True, **CLOUD)
    assert {n for n in names(found, of) if "card" in n} == {"acme-card sky 0.9"}


def test_a_price_of_a_launch_or_of_the_press_is_not_firm() -> None:
    for kind in PriceKind:
        systems = [replace(s, price_kind=kind) for s in SYSTEMS]
        of = snapshot(systems=systems, offers=())
        assert ("acme-big maker 16.25" in names(asked(of=of)[0], of)) == (kind in COUNTED)


def test_ages_count_from_the_first_day_of_a_month_or_year() -> None:
    ages = age_days(day_numbers(["2026-01-31", "2026-01", "2026", "", "2026-03-01"]), "2026-02-01")
    np.testing.assert_array_equal(ages, [1, 31, 31, np.nan, 0])


def test_what_is_only_had_in_another_way_says_so() -> None:
    """Without a requested environment the reason is a pricing model that runs do not use, or a missing price."""
    renting = asked(pricing=(PricingModel.ON_DEMAND,), of=snapshot(offers=OFFERS[2:4]))[1].by_accelerator
    assert (renting[0].code, renting[0].text) == (
        "no_offer",
        "Acme Big is available only as spot capacity, by purchase or with a commitment. "
        "To include it, add `owned`, `reserved_1y` and `spot` to `pricing_models`.",
    )
    assert renting[3].text == "The catalog has no price for Bolt Rare."
    elsewhere = asked(regions=("us-9",), environments=(Environment.CLOUD,))[1].by_accelerator
    assert elsewhere[0].text.endswith("within the requested environments, providers, regions and pricing models.")
    assert asked(pricing=(PricingModel.ON_DEMAND,))[1].by_accelerator[2].text == (
        "Bolt Desk is available only by purchase, at a price that no seller has published or quoted. "
        "To include it, add `owned` to `pricing_models`, and `estimate` to `price_kinds`."
    )


def test_a_part_for_sale_is_a_closer_miss_than_an_unlisted_one() -> None:
    turned_down = asked(pricing=(PricingModel.ON_DEMAND,), of=snapshot(offers=OFFERS[2:4]))[1].closest_first()
    assert [r.accelerator for r in turned_down] == ["acme-big", "acme-card", "bolt-desk", "bolt-rare"]
