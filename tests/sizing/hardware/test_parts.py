"""Kinds of price, commitments and dates. Links and what a collective takes over them, worked by hand. What a kind
of system says of how it is had. Slices lie on a card as its driver lets them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

from app.sizing.hardware.parts import (
    COUNTED,
    FIRM,
    PRICE_KIND_TEXTS,
    Commitment,
    Environment,
    Link,
    PriceKind,
    PricingModel,
    Profile,
    Slice,
    SystemKind,
    all_reduce_s,
    day_numbers,
    fit_together,
    machine_link,
    slicings_by_accelerator,
)
from tests.examples import col
from tests.sizing.small import BIG, CARD, SYSTEMS, system


def test_every_kind_has_words_and_some_are_firm() -> None:
    assert set(PRICE_KIND_TEXTS) == set(PriceKind)
    unbacked = {PriceKind.BROKER, PriceKind.LAUNCH, PriceKind.PRESS, PriceKind.ESTIMATE}
    assert set(PriceKind) - set(FIRM) == {PriceKind.SURVEY, *unbacked}
    assert set(PriceKind) - set(COUNTED) == unbacked


@pytest.mark.parametrize("pricing", PricingModel)
def test_a_way_of_renting_says_how_long_it_binds(pricing: PricingModel) -> None:
    bound = {"1y": Commitment.ONE_YEAR, "3y": Commitment.THREE_YEARS}
    assert pricing.commitment is bound.get(pricing.value[-2:], Commitment.NONE)


def test_dates_are_days_apart() -> None:
    found = day_numbers(["2024-02-28", "2024-03-01", "2024", ""])
    assert found[1] - found[0] == 2  # a leap year
    assert found[2] < found[0]
    assert np.isnan(found[3])


def test_ring_all_reduce() -> None:
    assert all_reduce_s(col(1e6), col(8), col(337.5e9))[0] == pytest.approx(1.75e6 / 337.5e9)
    assert all_reduce_s(col(1e6), col(1), col(1e15))[0] == 0


def test_a_machine_of_which_no_more_is_known_is_wired_as_usual() -> None:
    assert machine_link(BIG, count=8) == (Link.SCALE_UP, 450e9, 8.0)
    assert machine_link(BIG, count=4) == (Link.SCALE_UP, 450e9, 4.0)
    assert machine_link(BIG, count=16) == (Link.SCALE_UP, 450e9, 8.0)  # two boards
    assert machine_link(BIG, count=1) == (Link.NONE, 0.0, 1.0)
    assert machine_link(CARD, count=4) == (Link.PCIE, 32e9, 4.0)


def test_a_domain_beyond_the_machine_links_even_a_single_chip() -> None:
    chip = replace(BIG, link_spans_machines=True, scaleup_domain_size=256)
    assert machine_link(chip, count=1) == (Link.SCALE_UP, 450e9, 256.0)
    assert machine_link(chip, count=8) == (Link.SCALE_UP, 450e9, 256.0)


def test_what_a_system_says_of_its_wiring_counts() -> None:
    pairs = replace(SYSTEMS[0], link=Link.SCALE_UP, scaleup_domain_size=2.0)
    assert machine_link(BIG, count=8, system=pairs) == (Link.SCALE_UP, 450e9, 2.0)
    slots = replace(SYSTEMS[0], link=Link.PCIE, scaleup_domain_size=None)
    assert machine_link(BIG, count=8, system=slots) == (Link.PCIE, 64e9, 8.0)
    assert machine_link(BIG, count=8, system=replace(slots, link=Link.NONE)) == (Link.NONE, 0.0, 1.0)


@pytest.mark.parametrize("kind", SystemKind)
def test_servers_and_workstations_are_bought_and_the_rest_rented(kind: SystemKind) -> None:
    bought = kind in (SystemKind.SERVER, SystemKind.WORKSTATION)
    assert system("x", kind, BIG, 8).environment is (Environment.ON_PREM if bought else Environment.CLOUD)


SEVENTHS = (
    Slice(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    Slice(1, 2, (0, 2, 4, 6)),
    Slice(2, 2, (0, 2, 4)),
    Slice(3, 4, (0, 4)),
    Slice(4, 4, (0,)),
    Slice(7, 8, (0,)),
)
QUARTERS = (Slice(1, 1, (0, 1, 2, 3)), Slice(2, 2, (0, 2)), Slice(4, 4, (0,)))
ONE, ONE_OF_TWO, TWO, THREE, FOUR, SEVEN = SEVENTHS


@pytest.mark.parametrize(
    ("slices", "legal"),
    [
        ((FOUR, THREE), True),
        ((FOUR, TWO, ONE), True),
        ((THREE, THREE), True),
        ((THREE, TWO, TWO), True),
        ((THREE, TWO, ONE, ONE), True),
        ((TWO, TWO, TWO, ONE), True),
        ((ONE,) * 7, True),
        ((ONE_OF_TWO,) * 4, True),
        ((ONE,) * 8, False),
        ((FOUR, FOUR), False),
        ((TWO,) * 4, False),
        ((THREE, THREE, ONE), False),
        ((SEVEN, ONE), False),
    ],
)
def test_a_card_of_sevenths_is_cut_as_the_guide_says(slices: tuple[Slice, ...], legal: bool) -> None:
    assert fit_together(slices, 8) is legal


@pytest.mark.parametrize(("kinds", "compute", "memory"), [(SEVENTHS, 7, 8), (QUARTERS, 4, 4)])
def test_no_cut_has_more_than_the_card(kinds: tuple[Slice, ...], compute: int, memory: int) -> None:
    for count in range(1, 9):
        for slices in combinations_with_replacement(kinds, count):
            if fit_together(slices, memory):
                assert sum(s.compute for s in slices) <= compute
                assert sum(s.memory for s in slices) <= memory


def test_slices_are_gathered_by_card_the_largest_is_the_whole() -> None:
    profiles = [
        Profile("a", "4g.24gb", QUARTERS[2]),
        Profile("b", "7g.80gb", SEVEN),
        Profile("a", "1g.6gb", QUARTERS[0]),
    ]
    found = slicings_by_accelerator(profiles)
    assert sorted(found) == ["a", "b"]
    assert found["a"].slices == (QUARTERS[0], QUARTERS[2])
    assert (found["a"].compute, found["a"].memory) == (4, 4)
    assert found["a"].profile_name(QUARTERS[0]) == "1g.6gb"
