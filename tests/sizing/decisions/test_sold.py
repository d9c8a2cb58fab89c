"""Where a machine is had: the listing behind each row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.machines import unpriced_machine
from app.sizing.decisions.sold import SoldMachine, describe_sold_machines
from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.prices import PriceKind
from app.sizing.question import Deployment
from tests.sizing.decisions.offered import asked
from tests.sizing.small import CARD, RARE, SMALL, offer, snapshot


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
