"""Slices lie on a card as its driver lets them."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from app.catalog.files import rows_of
from app.sizing.hardware.slices import QUARTERS, SEVENTHS, SLICINGS, Slice, lie_beside

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
    assert lie_beside(slices, 8) is legal


@pytest.mark.parametrize(("kinds", "compute", "memory"), [(SEVENTHS, 7, 8), (QUARTERS, 4, 4)])
def test_no_cut_has_more_than_the_card(kinds: tuple[Slice, ...], compute: int, memory: int) -> None:
    for count in range(1, 9):
        for slices in combinations_with_replacement(kinds, count):
            if lie_beside(slices, memory):
                assert sum(s.compute for s in slices) <= compute
                assert sum(s.memory for s in slices) <= memory


def test_every_card_that_is_cut_is_in_the_catalogue_and_its_slices_have_names() -> None:
    memory_gb = {row["slug"]: float(row["memory_gb"] or 0) for row in rows_of("accelerators.csv")}
    for slug, slicing in SLICINGS.items():
        assert slicing.gigabytes[slicing.memory] == pytest.approx(memory_gb[slug], rel=0.02)
        assert slicing.source
        assert slicing.as_of
        assert len({slicing.name(s) for s in slicing.slices}) == len(slicing.slices)
