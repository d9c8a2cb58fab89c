"""Models in slices of a card: each acts as a smaller card, and the driver limits their placement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings

from app.sizing.columns import Column, Columns, column, lazy_rows, materialize_as
from app.sizing.hardware.slices import Slicing, fit_together
from app.sizing.packing.cards import Option, Room, arrange_models
from app.sizing.workload import InferenceWorkload
from app.sizing.workload.companions import Companion
from tests.sizing.hardware.test_slices import SEVENTHS
from tests.sizing.packing.test_together import CHATS, COMPANIONS, ON_BIG, chat, packed
from tests.sizing.small import SMALL

BY_NAME = dict(zip(("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"), SEVENTHS, strict=True))
H100 = Slicing(BY_NAME)


@pytest.fixture(autouse=True, scope="module")
def cut_cards() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SMALL, "slicings", {"acme-big": H100})
        yield


@pytest.mark.slow
@settings(max_examples=12)
@given(CHATS, COMPANIONS)
def test_a_card_is_cut_or_shared_and_never_holds_more_than_it_has(
    main: InferenceWorkload, companions: tuple[Companion, ...]
) -> None:
    packing = packed(main, companions)
    cards = defaultdict(list)
    for p in packing.on:
        cards[p.card].append(p)
    for on in cards.values():
        sliced = [BY_NAME[p.slice] for p in on if p.slice is not None]
        assert len(sliced) in (0, len(on))
        if sliced:
            assert fit_together(tuple(sorted(sliced)), 8)
        else:
            limit = 1.0 if len(on) == 1 else 0.95
            assert sum(p.share_memory for p in on) <= limit + 1e-9
            assert sum(p.share_time for p in on) <= limit + 1e-9


@pytest.mark.slow
@settings(max_examples=8)
@given(CHATS, COMPANIONS)
def test_slices_never_take_more_cards_than_shares_alone(
    main: InferenceWorkload, companions: tuple[Companion, ...]
) -> None:
    with_slices = packed(main, companions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SMALL, "slicings", {})
        shared = packed(main, companions)
    assert (with_slices.cards or 0) <= (shared.cards or np.inf)


def test_where_slices_do_they_are_taken() -> None:
    quiet = chat(0.2, 200, 50, 0.2)
    on_one = replace(ON_BIG, accelerators_per_replica=1, replicas=1)
    packing = packed(quiet, (Companion("other", quiet),), on_one)
    assert packing.cards == 1
    assert all(p.slice is not None for p in packing.on)


def test_slices_are_filled_by_hand() -> None:
    one, three = (Option(1, s.memory / 8, s.compute / 7, s) for s in (H100.slices[0], H100.slices[3]))
    # two slices of three sevenths leave one seventh of the compute, and none of the memory
    arrangement = arrange_models([[three], [three], [one]], Room(0.95, 0.95, 8))
    assert arrangement is not None
    assert arrangement.count == 2
    # a card is cut or it is shared
    mixed = arrange_models([[one], [Option(1, 0.1, 0.1)]], Room(0.95, 0.95, 8))
    assert mixed is not None
    assert mixed.count == 2


@dataclass(frozen=True, slots=True)
class Inner(Columns):
    of: Column


@dataclass(frozen=True, slots=True)
class Outer(Columns):
    inner: Inner


def test_a_table_within_a_table_is_looked_up_by_the_rows_of_both() -> None:
    table = Outer(Inner(column([5.0, 6.0, 7.0])))
    twice = lazy_rows(lazy_rows(table, np.array([2, 0])), np.array([1, 1]))
    assert materialize_as(Inner, twice.inner).of.tolist() == [5.0, 5.0]
