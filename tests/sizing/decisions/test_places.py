"""Regions and jurisdictions: certain places count, possible ones are named, unknown ones are called that."""

from __future__ import annotations

from typing import Any

import pytest

from app.sizing.decisions.places import (
    explain_unknown_places,
    in_regions,
    possible_countries,
    possibly_in_regions,
    under_jurisdiction,
)
from app.sizing.hardware.parts import Environment, PlaceFact, Places
from app.sizing.question import Constraints
from tests.sizing.decisions.offered import asked, names
from tests.sizing.small import offer, snapshot

CLOUD: dict[str, Any] = {"environments": (Environment.CLOUD,)}


def fact(*countries: str) -> PlaceFact:
    return PlaceFact(frozenset(countries), "a page", "2026-01-01")


OF = snapshot(
    offers=[
        offer("card-1", 0.8, region="us-1"),
        offer("card-1", 0.9, provider="north", region="unspecified"),
        offer("card-1", 0.7, provider="wide", region="unspecified"),
        offer("card-1", 0.6, provider="somewhere", region="unspecified"),
        offer("big-8", 40.0, provider="wide", region="unspecified"),
    ],
    places={
        "sky": Places(seat=fact("US")),
        "north": Places(data_centers=fact("FI", "IS"), seat=fact("FI")),
        "wide": Places(data_centers=fact("CA", "FI"), seat=fact("CA")),
    },
    region_countries={"us-1": "US"},
)


def sellers(mask: Any) -> list[str]:
    """Providers of the rents that a mask keeps."""
    rows = OF.listings.provider[mask & ~OF.listings.is_owned].tolist()
    return sorted({OF.providers[code] for code in rows})


def test_a_price_without_a_region_stands_for_the_countries_of_its_provider() -> None:
    assert possible_countries(OF, "sky", "us-1") == {"US"}
    assert possible_countries(OF, "north", "unspecified") == {"FI", "IS"}
    assert possible_countries(OF, "somewhere", "unspecified") == frozenset()


@pytest.mark.parametrize(
    ("limits", "certain", "possible"),
    [
        ({}, ["north", "sky", "somewhere", "wide"], []),
        ({"regions": ("us-1",)}, ["sky"], []),
        ({"countries": ("FI", "IS", "SE")}, ["north"], ["wide"]),
        ({"countries": ("FI",)}, [], ["north", "wide"]),
        ({"countries": ("CA", "FI", "IS", "US"), "regions": ("us-1",)}, ["north", "sky", "wide"], []),
        ({"countries": ("DE",)}, [], []),
    ],
)
def test_all_countries_must_be_requested_and_some_make_it_possible(
    limits: dict[str, Any], certain: list[str], possible: list[str]
) -> None:
    constraints = Constraints(**limits)
    assert sellers(in_regions(OF, constraints)) == certain
    assert sellers(possibly_in_regions(OF, constraints)) == possible


def test_owned_machines_stand_where_the_buyer_says() -> None:
    owned = OF.listings.is_owned
    limits = Constraints(countries=("DE",), jurisdictions=("DE",))
    assert in_regions(OF, limits)[owned].all()
    assert under_jurisdiction(OF, limits)[owned].all()


@pytest.mark.parametrize(
    ("jurisdictions", "found"), [((), ["north", "sky", "somewhere", "wide"]), (("FI", "SE"), ["north"]), (("DE",), [])]
)
def test_the_seat_of_a_provider_decides_its_jurisdiction(jurisdictions: tuple[str, ...], found: list[str]) -> None:
    assert sellers(under_jurisdiction(OF, Constraints(jurisdictions=jurisdictions))) == found


def test_a_refusal_names_unknown_places() -> None:
    limits: dict[str, Any] = {"countries": ("FI", "SE")}
    found, rejections = asked(of=OF, **CLOUD, **limits)
    assert names(found, OF) == set()
    text = rejections.by_accelerator[1].text
    assert text == (
        "Where north (in one of FI, IS), somewhere or wide (in one of CA, FI) would place Acme Card is not known."
    )
    assert rejections.by_accelerator[0].text == "Where wide (in one of CA, FI) would place Acme Big is not known."
    elsewhere = asked(of=OF, **CLOUD, countries=("DE",))[1].by_accelerator
    assert elsewhere[0].text.startswith("The catalog has no price for Acme Big within")
    assert elsewhere[1].text == "Where somewhere would place Acme Card is not known."
    assert explain_unknown_places(OF, Constraints(countries=("DE",)), (OF.listings.provider == -1).nonzero()[0]) == ""
