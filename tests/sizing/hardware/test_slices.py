"""Slices lie on a card as its driver lets them."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from app.sizing.hardware.slices import Profile, Slice, fit_together, slicings_by_accelerator

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
