"""Cards are filled within their memory and time, on as few as an exhaustive search finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from app.sizing.packing.cards import Arrangement, Option, Room, arrange_models, split_counts

ROOM = Room(0.95, 0.95)
OPTIONS = st.builds(
    lambda cards, memory, time: Option(cards, memory / 20, time / 20),
    st.integers(1, 3),
    st.integers(1, 20),
    st.integers(1, 20),
)
MODELS = st.lists(st.lists(OPTIONS, min_size=1, max_size=3), min_size=1, max_size=4)


def fewest(models: Sequence[Sequence[Option]]) -> int:
    """Cards of the best of all arrangements: every option of every model, every replica on every card."""

    def placed(left: list[tuple[int, Option]], cards: list[tuple[tuple[int, Option], ...]], best: int) -> int:
        if len(cards) >= best:
            return best
        if not left:
            return len(cards)
        (model, option), rest = left[0], left[1:]
        for k, on in enumerate(cards):
            if all(other != model for other, _ in on) and ROOM.can_hold([*(o for _, o in on), option]):
                best = placed(rest, [*cards[:k], (*on, (model, option)), *cards[k + 1 :]], best)
        return placed(rest, [*cards, ((model, option),)], best)

    most = 1 + sum(min(o.cards for o in options) for options in models)
    for taken in product(*models):
        most = placed([(i, o) for i, o in enumerate(taken) for _ in range(o.cards)], [], most)
    return most


def found(models: Sequence[Sequence[Option]]) -> Arrangement:
    arrangement = arrange_models(models, ROOM)
    assert arrangement is not None
    return arrangement


@given(MODELS)
def test_no_card_holds_more_than_it_has_and_every_model_stands_on_its_cards(models: list[list[Option]]) -> None:
    arrangement = found(models)
    taken, stands = [ways[j] for ways, j in zip(models, arrangement.option_indices, strict=True)], Counter[int]()
    for tenants, count in arrangement.cards.items():
        memory, time = sum(taken[i].memory_share for i in tenants), sum(taken[i].time_share for i in tenants)
        limit = 1.0 if len(tenants) == 1 else 0.95
        assert memory <= limit + 1e-9
        assert time <= limit + 1e-9
        assert len({*tenants}) == len(tenants)
        stands.update(dict.fromkeys(tenants, count))
    assert [stands[i] for i in range(len(models))] == [o.cards for o in taken]


@given(MODELS)
def test_no_arrangement_has_fewer_cards(models: list[list[Option]]) -> None:
    assert found(models).count == fewest(models)


@given(MODELS)
def test_a_model_more_never_takes_fewer_cards(models: list[list[Option]]) -> None:
    for left_out in range(len(models)):
        fewer = [*models[:left_out], *models[left_out + 1 :]]
        assert not fewer or found(fewer).count <= found(models).count


@given(MODELS)
def test_the_same_models_in_another_order_take_as_many(models: list[list[Option]]) -> None:
    assert found(models) == found(models)
    assert found(models[::-1]).count == found(models).count


def test_by_hand() -> None:
    chat, embeddings, ranking = Option(2, 0.6, 0.5), Option(1, 0.2, 0.4), Option(1, 0.3, 0.4)
    # each of the two cards of the chat has room for one of the others: 0.6 + 0.3 and 0.6 + 0.2 of memory
    assert found([[chat], [embeddings], [ranking]]).cards == {(0, 1): 1, (0, 2): 1}
    assert arrange_models([[chat], []], ROOM) is None


def test_heaps_are_taken_in_every_way() -> None:
    assert list(split_counts(2, [1, 2])) == [(1, 1), (1, 0), (0, 2), (0, 1), (0, 0)]
