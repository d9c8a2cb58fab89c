"""A model apart costs what a recommendation of it costs. Cards are filled within their memory and time, on as few
as an exhaustive search finds. The first card is that on which all models cost least, together or apart, within
the limits of all. A share of a card's time is a slower card, and limits hold in it. Models in slices of a card:
each acts as a smaller card, and the driver limits their placement. Models on the same cards: within every card
and every limit, never cheaper for one more, the same every time.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing import packing
from app.sizing.answer.money import format_usd
from app.sizing.answer.summary import cost_words
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, column, concat_tables, lazy_rows, materialize_as, one
from app.sizing.decisions.cost import Cost
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import Slicing, fit_together
from app.sizing.packing import (
    Arrangement,
    CardSearch,
    FeasibleMemberPlans,
    Member,
    Option,
    Room,
    Share,
    add_packing,
    add_separate_companions,
    arrange_models,
    arrange_simulated,
    candidate_time_shares,
    cheaper_choice,
    companions_usd_per_hour,
    describe_member,
    dominates_share,
    expand_memory_shares,
    explain_packing,
    fastest_stacks,
    find_slice_shares,
    infeasible_packing,
    known_usd_per_hour,
    leaves_time_to_others,
    list_placements,
    min_volume,
    packing_over_limits,
    ranks_by_total_cost,
    requested_member,
    required_cards,
    separate_total_usd,
    service_usd_per_hour,
    share_as_estimated,
    size_at_time_share,
    slice_plans,
    slow_down_workload,
    split_counts,
    with_enough_finalists,
    with_simulated_cards,
)
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import DeviceMemory, Packing, Placement
from app.sizing.serving.finalists import simulate_replicas
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.memory import STATIC_RULE
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import evaluate_plans
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo
from app.sizing.workload.inference import Companion
from tests.examples import CHAT, LLAMA_8B, PRETRAIN, present, registered
from tests.sizing.answer.given import COST, estimated
from tests.sizing.hardware.test_parts import SEVENTHS
from tests.sizing.serving.given import on_big, planned
from tests.sizing.small import SMALL


def test_apart_is_the_cheapest_recommendation() -> None:
    best = recommend_hardware(Question(CHAT), SMALL).recommendations[0].estimate
    assert best.cost is not None
    assert service_usd_per_hour(Search.start(Question(CHAT), SMALL).of(CHAT)) == best.cost.usd_per_hour


def test_what_nothing_carries_has_no_price() -> None:
    at_once = replace(CHAT, slo=Slo(1e-6, 1e-6, None, 95))
    assert service_usd_per_hour(Search.start(Question(CHAT), SMALL).of(at_once)) is None
    assert (
        service_usd_per_hour(Search.start(Question(CHAT, Constraints(max_usd_per_hour=1e-6)), SMALL).of(CHAT)) is None
    )


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
    return present(arrange_models(models, ROOM))


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


def test_a_share_of_the_time_is_a_busier_load_with_tighter_limits() -> None:
    half = slow_down_workload(CHAT, 0.5)
    assert half.peak_per_s == 2 * CHAT.peak_per_s
    assert half.slo.ttft_s == 0.5
    assert half.slo.tpot_s == 0.025
    assert half.slo.e2e_s is None
    assert slow_down_workload(CHAT, 1.0) == CHAT


def test_only_what_comes_by_itself_leaves_time_to_others() -> None:
    assert leaves_time_to_others(CHAT)
    assert leaves_time_to_others(replace(CHAT, load=Load.CLOSED, in_flight=8.0))
    assert not leaves_time_to_others(replace(CHAT, load=Load.OFFLINE))
    assert not leaves_time_to_others(replace(CHAT, load=Load.CLOSED, in_flight=8.0, requests=100.0))


SLOW = settings(max_examples=7)
ON_BIG = Deployment("acme-big")
EMBEDDINGS = registered("BAAI/bge-m3")


def chat(peak_per_s: float, prompt: float, output: float, tpot_s: float) -> InferenceWorkload:
    return replace(
        CHAT,
        model=LLAMA_8B,
        peak_per_s=peak_per_s,
        average_per_s=peak_per_s / 2,
        input_tokens=Lengths(prompt),
        output_tokens=Lengths(output),
        max_context_tokens=2 * (prompt + output),
        slo=Slo(2.0, tpot_s, None, 95),
    )


CHATS = st.builds(chat, st.floats(0.05, 20), st.floats(50, 2000), st.floats(10, 300), st.floats(0.03, 0.3))
COMPANIONS = st.lists(CHATS, min_size=1, max_size=3).map(
    lambda loads: tuple(Companion(f"model {i}", load) for i, load in enumerate(loads))
)


def packed(main: InferenceWorkload, companions: tuple[Companion, ...], deployment: Deployment = ON_BIG) -> Packing:
    found = estimate_deployment(Question(main, companions=companions), deployment, SMALL)
    assert found.packing is not None
    return found.packing


def check_no_card_is_promised_twice(packing: Packing) -> None:
    """Every replica stands on a card of its own, and a card is cut or shared within what it has."""
    cards: dict[int, list[Placement]] = {}
    for p in packing.on:
        for card in range(p.card, p.card + p.cards):
            cards.setdefault(card, []).append(p)
    for on in cards.values():
        limit = 1.0 if len(on) == 1 else 0.95
        assert sum(p.share_memory for p in on) <= limit + 1e-9
        assert sum(p.share_time for p in on) <= limit + 1e-9
        assert len({p.name for p in on}) == len(on)
        sliced = [BY_NAME[p.slice] for p in on if p.slice is not None]
        assert len(sliced) in (0, len(on))
        assert not sliced or fit_together(tuple(sorted(sliced)), 8)
    stands = Counter(p.name for on in cards.values() for p in on)
    assert sorted(cards) == list(range(1, (packing.cards or 0) + 1))
    for model in packing.models:
        assert stands[model.name] % model.replicas == 0
        assert stands[model.name] >= model.replicas


def check_every_limit_holds(main: InferenceWorkload, companions: tuple[Companion, ...], expected: Packing) -> None:
    """In the share of each model; the same set is packed the same."""
    promised: list[tuple[Member, Share]] = []
    usual = packing.describe_member

    def noted(member: Member, share: Share, *known: object) -> object:
        promised.append((member, share))
        return usual(member, share, *known)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, usual.__name__, noted)
        assert packed(main, companions) == expected
    question = Question(main)
    for member, share in promised:
        if share.plan is None or share.settings is None:
            continue  # as the estimate judged it
        option = share.option  # the plan of a slice has the memory and the speed of the slice
        memory_share, time_share = (1.0, 1.0) if option.slice else (option.memory_share, option.time_share)
        of_time = slow_down_workload(member.workload, time_share)
        memory = evaluate_plans(question, of_time, share.plan, share.settings).memory
        assert one(memory.needed_bytes) <= one(memory.usable_bytes)
        assert one(memory.usable_bytes) <= memory_share * one(memory.capacity_bytes) * (1 + 1e-9)
        runs = present(simulate_replicas(Search.start(question, SMALL).of(of_time), share.plan, share.settings))
        each = of_time.peak_per_s / share.replicas
        assert each <= one(runs.planned_capacity(of_time)[0]) * (1 + 1e-9)


@pytest.mark.slow
@SLOW
@given(CHATS, COMPANIONS)
def test_a_set_is_packed_within_every_card_and_limit_the_same_each_time_and_one_more_never_costs_less(
    main: InferenceWorkload, companions: tuple[Companion, ...]
) -> None:
    packing = packed(main, companions)
    check_no_card_is_promised_twice(packing)
    check_every_limit_holds(main, companions, packing)
    if len(companions) > 1:
        turned = packed(main, companions[::-1])
        assert (turned.cards, turned.usd_per_hour) == (packing.cards, packing.usd_per_hour)
    for left_out in range(len(companions)):
        fewer = companions[:left_out] + companions[left_out + 1 :]
        if fewer:
            some = packed(main, fewer)
            assert (some.cards or 0) <= (packing.cards or np.inf)
            assert (some.usd_per_hour or 0) <= (packing.usd_per_hour or np.inf)
    alone = estimate_deployment(Question(main), ON_BIG, SMALL)
    assert alone.cost is not None
    assert (alone.cost.usd_per_hour or 0) <= (packing.usd_per_hour or np.inf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SMALL, "slicings", {})
        shared = packed(main, companions)
    assert (packing.cards or 0) <= (shared.cards or np.inf)


def test_two_quiet_models_share_a_card() -> None:
    quiet = chat(0.2, 200, 50, 0.2)
    packing = packed(quiet, (Companion("other", quiet),), replace(ON_BIG, accelerators_per_replica=1, replicas=1))
    assert packing.cards == 1
    assert [(p.card, p.name) for p in packing.on] == [(1, quiet.model.name), (1, "other")]


def test_the_first_rank_is_packed_as_its_deployment_is() -> None:
    quiet = chat(0.2, 200, 50, 0.2)
    question = Question(quiet, companions=(Companion("other", quiet),))
    first, *others = (r.estimate for r in recommend_hardware(question, SMALL).recommendations)
    assert first.packing is not None
    assert first.packing.cheaper == "together"
    assert all(other.packing is not None for other in others)
    assert estimate_deployment(question, first.deployment, SMALL).packing == first.packing


def test_what_does_not_fit_a_card_is_said() -> None:
    at_once = replace(CHAT, slo=Slo(1e-6, 1e-6, None, 95))
    packing = packed(chat(1, 100, 50, 0.1), (Companion("hasty", at_once),))
    assert packing.cards is None
    assert packing.why == "hasty cannot run within its limits on one Acme Big."


def test_a_model_that_answers_in_one_piece_is_packed_too() -> None:
    passages = replace(
        CHAT, model=EMBEDDINGS, output_tokens=Lengths(0.0), input_tokens=Lengths(300), slo=Slo(None, None, 2.0, 95)
    )
    packing = packed(chat(0.5, 200, 50, 0.2), (Companion("passages", passages),))
    assert packing.cards is not None


def test_without_companions_nothing_is_packed() -> None:
    assert estimate_deployment(Question(CHAT), ON_BIG, SMALL).packing is None


QUIET = chat(0.2, 200, 50, 0.2)
HEAVY = chat(3.0, 2000, 300, 0.03)


@pytest.mark.slow
@settings(max_examples=6)
@given(CHATS, COMPANIONS)
def test_what_all_models_cost_ranks_and_posted_back_is_the_same(
    main: InferenceWorkload, companions: tuple[Companion, ...]
) -> None:
    question = Question(main, companions=companions)
    ranked = recommend_hardware(question, SMALL).recommendations
    totals = [present(present(r.estimate.packing).total_usd_per_hour) for r in ranked]
    assert totals == sorted(totals)
    assert [r.score for r in ranked] == pytest.approx([totals[0] / total for total in totals])
    for r in ranked[:1]:
        assert estimate_deployment(question, r.estimate.deployment, SMALL).packing == r.estimate.packing


def test_a_card_that_is_dearer_for_the_first_model_leads_where_it_suits_all() -> None:
    alone, packed = (
        recommend_hardware(Question(QUIET, companions=companions), SMALL).recommendations[0].estimate
        for companions in ((), (Companion("heavy", HEAVY), Companion("another", HEAVY)))
    )
    assert alone.deployment.accelerator == "acme-card"
    assert packed.deployment.accelerator == "acme-big"
    assert packed.packing is not None
    assert packed.packing.cheaper == "together"


def test_the_summary_states_the_cost_that_ranks() -> None:
    """The next best option may cost less for the first model alone."""
    answer = recommend_hardware(Question(QUIET, companions=(Companion("heavy", HEAVY),)), SMALL)
    first, second = answer.recommendations[:2]
    usd = [present(present(r.estimate.packing).total_usd_per_hour) for r in (first, second)]
    assert usd[0] <= usd[1]
    assert all(f"{format_usd(each)}/h for all models" in answer.summary for each in usd)
    text = next(r.text for r in first.estimate.explanation if r.code == "comparison")
    assert f"It {cost_words(usd[1] / usd[0])} for all models" in text


@pytest.mark.parametrize(("companions", "wanted", "tried"), [(1, 3, 3), (3, 3, 3), (4, 3, 2), (8, 3, 1), (1, 50, 6)])
def test_many_companions_are_tried_on_fewer_types(companions: int, wanted: int, tried: int) -> None:
    assumed = replace(Assumptions(), packed_types=wanted)
    question = Question(QUIET, companions=(Companion("other", QUIET),) * companions, limit=1, assumptions=assumed)
    assert with_enough_finalists(question).limit == tried


def test_what_all_take_beyond_a_limit_is_not_promised() -> None:
    loads = tuple(Companion(f"model {i}", HEAVY) for i in range(3))
    free = estimate_deployment(Question(HEAVY, companions=loads), ON_BIG, SMALL)
    assert free.packing is not None
    assert free.packing.usd_per_hour is not None
    most = free.packing.usd_per_hour - 0.01
    held = Question(HEAVY, Constraints(max_usd_per_hour=most), companions=loads)
    tight = present(estimate_deployment(held, ON_BIG, SMALL).packing)
    assert tight.cards is None
    assert "exceeds a limit" in tight.why


BY_NAME = dict(zip(("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"), SEVENTHS, strict=True))
H100 = Slicing(BY_NAME)


@pytest.fixture(autouse=True, scope="module")
def cut_cards() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SMALL, "slicings", {"acme-big": H100})
        yield


def test_where_slices_do_they_are_taken() -> None:
    quiet = chat(0.2, 200, 50, 0.2)
    on_one = replace(ON_BIG, accelerators_per_replica=1, replicas=1)
    packing = packed(quiet, (Companion("other", quiet),), on_one)
    assert packing.cards == 1
    assert all(p.slice is not None for p in packing.on)


def test_slices_are_filled_by_hand() -> None:
    one, three = (Option(1, s.memory / 8, s.compute / 7, s) for s in (H100.slices[0], H100.slices[3]))
    # two slices of three sevenths leave one seventh of the compute, and none of the memory
    arrangement = present(arrange_models([[three], [three], [one]], Room(0.95, 0.95, 8)))
    assert arrangement.count == 2
    # a card is cut or it is shared
    mixed = present(arrange_models([[one], [Option(1, 0.1, 0.1)]], Room(0.95, 0.95, 8)))
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


def test_lazy_rows_of_one_shared_table_are_concatenated_as_rows() -> None:
    shared = Inner(column([5.0, 6.0, 7.0]))
    first, second = (Outer(lazy_rows(shared, np.array(rows))) for rows in ([2, 0], [1]))
    assert concat_tables([first, second]).inner.of.tolist() == [7.0, 5.0, 6.0]
    with pytest.raises(AssertionError):
        concat_tables([first, Outer(lazy_rows(Inner(shared.of), np.array([1])))])


def test_fixed_draws_take_as_few_cards_as_an_exhaustive_search() -> None:
    draw = random.Random(3)
    for _ in range(60):
        models = [
            [
                Option(draw.randint(1, 3), draw.randint(1, 20) / 20, draw.randint(1, 20) / 20)
                for _ in range(draw.randint(1, 3))
            ]
            for _ in range(draw.randint(1, 3))
        ]
        arrangement = found(models)
        assert arrangement.count == fewest(models) == found(models[::-1]).count
        taken = [ways[j] for ways, j in zip(models, arrangement.option_indices, strict=True)]
        assert all(ROOM.can_hold([taken[i] for i in tenants]) for tenants in arrangement.cards)
        placed = [sum(n for t, n in arrangement.cards.items() if i in t) for i in range(len(models))]
        assert placed == [o.cards for o in taken]
        # A bound never exceeds what it bounds, and a model more or a room less never takes fewer cards.
        search = CardSearch(models, ROOM)
        assert search.min_cards(range(len(models)), {}) <= arrangement.count
        tighter = present(arrange_models(models, Room(0.6, 0.6)))
        assert tighter.count >= arrangement.count
        assert found(models[:-1]).count <= arrangement.count if len(models) > 1 else True


def test_a_bound_is_the_load_placed_and_the_least_of_what_remains() -> None:
    half, third = Option(2, 0.475, 0.1), Option(3, 0.19, 0.3)
    search = CardSearch([[half, Option(3, 0.3, 0.1)], [third, Option(1, 0.95, 0.95)]], ROOM)
    # Memory 0.9 and 0.57 or 0.95, time 0.2 and 0.9: two cards of 0.95 hold it, and the first needs two cards.
    assert search.min_cards((0, 1), {}) == 2
    assert search.min_cards((1,), {}) == 1 and search.min_cards((), {}) == 0
    search.placed_options[0] = half
    assert search.min_cards((1,), {(0,): 2}) == 2
    assert search.min_cards((), {(0,): 5}) == 5
    alone = CardSearch([[Option(4, 1.0, 1.0)]], ROOM)
    assert alone.min_cards((0,), {}) == 4
    many = CardSearch([[Option(1, 0.5, 0.1)]] * 5, ROOM)
    assert many.min_cards(range(5), {}) == 3  # 2.5 of memory on cards of 0.95
    sliced = CardSearch([[Option(1, 0.5, 0.1)]] * 5, Room(0.95, 0.95, parts=8))
    assert sliced.min_cards(range(5), {}) == 3  # on whole cards
    assert CardSearch([[Option(1, 0.5, 0.1)]] * 4, Room(0.95, 0.95, parts=8)).min_cards(range(4), {}) == 2
    # The volume of a model is that of its smallest way, in the resource of which it takes more.
    assert min_volume([Option(2, 0.19, 0.38), Option(3, 0.95, 0.1)], Room(0.95, 0.76)) == pytest.approx(1.0)
    assert min_volume([Option(2, 0.38, 0.19)], Room(0.76, 0.95)) == pytest.approx(1.0)


def test_a_card_has_room_for_the_sums_of_its_models_and_for_all_of_one() -> None:
    assert ROOM.can_hold([Option(1, 1.0, 1.0)])
    assert not ROOM.can_hold([Option(1, 1.01, 0.5)]) and not ROOM.can_hold([Option(1, 0.5, 1.01)])
    pair = Option(1, 0.5, 0.475), Option(1, 0.45, 0.475)
    assert ROOM.can_hold(pair)
    for more in (Option(1, 0.46, 0.475), Option(1, 0.45, 0.48)):
        assert not ROOM.can_hold([pair[0], more])
    narrow = Room(0.9, 0.5)
    assert narrow.can_hold([Option(1, 0.45, 0.25)] * 2) and not narrow.can_hold([Option(1, 0.25, 0.45)] * 2)
    sliced, whole = Option(1, 0.125, 1 / 7, SEVENTHS[0]), Option(1, 0.1, 0.1)
    parts = Room(0.95, 0.95, 8)
    assert parts.can_hold([sliced] * 2) and not parts.can_hold([sliced, whole])


def test_shares_of_time_are_multiples_of_a_step_up_to_what_is_packed() -> None:
    assumed = replace(Assumptions(), packing_step_share=0.25, packed_time_share=0.75)
    question = Question(CHAT, assumptions=assumed)
    assert candidate_time_shares(question, whole=False) == [0.75, 0.5, 0.25]
    assert candidate_time_shares(question, whole=True) == [1.0, 0.75, 0.5, 0.25]
    slower = slow_down_workload(replace(CHAT, slo=Slo(1.0, 0.1, None, 95), turn_gap_s=8.0), 0.25)
    assert (slower.peak_per_s, slower.average_per_s) == (4 * CHAT.peak_per_s, 4 * CHAT.average_per_s)
    assert (slower.slo.ttft_s, slower.slo.tpot_s, slower.slo.e2e_s, slower.turn_gap_s) == (0.25, 0.025, None, 2.0)


def share_of(cards: int, memory: float, time: float) -> Share:
    return Share(Option(cards, memory, time), cards, CHAT, None, None)


def test_a_share_is_dominated_by_one_that_takes_no_more_of_anything() -> None:
    base = share_of(2, 0.5, 0.5)
    for less in (share_of(1, 0.5, 0.5), share_of(2, 0.4, 0.5), share_of(2, 0.5, 0.4)):
        assert dominates_share(less, base, before=False) and not dominates_share(base, less, before=True)
    for other in (share_of(1, 0.6, 0.5), share_of(2, 0.4, 0.6), share_of(3, 0.4, 0.4)):
        assert not dominates_share(other, base, before=True) and not dominates_share(base, other, before=True)
    assert dominates_share(base, base, before=True) and not dominates_share(base, base, before=False)


def test_the_deployment_itself_takes_its_cards_whole_and_the_memory_of_its_engine() -> None:
    memory = DeviceMemory(40e9, 20e9, 0.0, 0.0, 0.0, 0.0, 80e9, 72e9)
    judged = replace(estimated(), memory=memory)
    share = share_as_estimated(judged, CHAT)
    # Three replicas and one spare of two cards each.
    assert share.option == Option(8, 0.9, 1.0) and share.replicas == 4 and share.simulated
    assert share.workload == CHAT and share.plan is None
    assert share_as_estimated(replace(judged, memory=None), CHAT).option == Option(8, 1.0, 1.0)
    full = replace(judged, memory=replace(memory, usable_bytes=90e9))
    assert share_as_estimated(full, CHAT).option.memory_share == 1.0
    bare = replace(judged, deployment=Deployment("acme-big"))
    assert share_as_estimated(bare, CHAT).option == Option(1, 0.9, 1.0)


def test_placements_count_cards_in_a_row_and_name_every_model_on_them() -> None:
    members = [Member(name, CHAT, None, None, None) for name in ("a", "b", "c")]  # type: ignore[arg-type]
    ways = [share_of(3, 0.5, 0.4), share_of(2, 0.3, 0.2), share_of(1, 0.2, 0.6)]
    arrangement = Arrangement((0, 0, 0), {(1, 0): 2, (0, 2): 1})
    placed = list_placements(arrangement, members, ways, None)
    assert [(p.card, p.cards, p.name, p.share_memory, p.share_time) for p in placed] == [
        (1, 1, "a", 0.5, 0.4),
        (1, 1, "c", 0.2, 0.6),
        (2, 2, "a", 0.5, 0.4),
        (2, 2, "b", 0.3, 0.2),
    ]
    assert arrangement.count == 3
    named = describe_member(replace(members[0], deployment=None), ways[0], estimated(), SMALL)
    assert (named.engine, named.weight_format, named.replicas) == ("vllm", "bf16", 3)
    unknown = estimated(engine=None, weight_format=None)
    assert describe_member(members[0], ways[0], unknown, SMALL).engine == ""


def test_together_is_chosen_where_it_costs_no_more_or_is_the_only_one_with_a_price() -> None:
    for packed_usd, separate_usd, chosen in (
        (1.0, 2.0, "together"),
        (2.0, 2.0, "together"),
        (2.1, 2.0, "apart"),
        (None, 2.0, "apart"),
        (2.0, None, "together"),
        (None, None, None),
    ):
        assert cheaper_choice(packed_usd, separate_usd) == chosen
    for usd in (5.0, None):
        for failed in (infeasible_packing("Card", ("a",), usd), packing_over_limits("Card", 1200, 3, usd)):
            assert failed.apart_usd_per_hour == usd and failed.cheaper == ("apart" if usd else None)
            assert failed.cards is None and failed.usd_per_hour is None
    assert "its limits" in infeasible_packing("Card", ("a",), None).why
    assert "a and b cannot" in infeasible_packing("Card", ("a", "b"), None).why
    assert "their limits" in infeasible_packing("Card", ("a", "b"), None).why
    assert "1,200 × Card" in packing_over_limits("Card", 1200, 3, None).why
    both = explain_packing("Card", 1200, 3, 250.0, 300.0)
    assert "3 models share 1,200 × Card for 250 USD/h" in both and "300 USD/h" in both
    for known in ((None, 300.0), (250.0, None)):
        assert "USD" not in explain_packing("Card", 1200, 3, *known)


def test_a_total_is_the_least_of_what_is_known() -> None:
    def packed(usd: float | None, separate_usd: float | None) -> float | None:
        return Packing(1, 1, usd, (), (), separate_usd, None, "").total_usd_per_hour

    assert packed(3.0, 2.0) == packed(2.0, 3.0) == packed(None, 2.0) == packed(2.0, None) == 2.0
    assert packed(None, None) is None
    assert separate_total_usd(estimated(), 5.0) == 45.0
    assert separate_total_usd(estimated(), None) is None and separate_total_usd(estimated(cost=None), 5.0) is None
    assert separate_total_usd(estimated(cost=replace(COST, usd_per_hour=None)), 5.0) is None
    nothing = Cost(*(np.array([np.nan]) for _ in range(6)))
    assert known_usd_per_hour(nothing) is None
    assert known_usd_per_hour(replace(nothing, usd_per_hour=np.array([4.0]))) == 4.0


def test_only_the_cost_of_a_peak_ranks_by_all_models() -> None:
    companion = Companion("other", CHAT)
    asked = Question(CHAT, companions=(companion,))
    assert ranks_by_total_cost(asked)
    for other in (
        replace(asked, companions=()),
        replace(asked, objective=Objective.ENERGY),
        replace(asked, workload=replace(CHAT, hourly_shares=(1.0,) * 24)),
    ):
        assert not ranks_by_total_cost(other) and with_enough_finalists(other) == other
    assert ranks_by_total_cost(replace(asked, workload=PRETRAIN))
    few = replace(asked, limit=1)
    assert with_enough_finalists(few).limit == int(few.assumptions.packed_types)
    assert with_enough_finalists(replace(asked, limit=99)).limit == 99


def test_companions_cost_the_sum_of_their_own_machines() -> None:
    companion = Companion("other", CHAT)
    asked = Question(CHAT, companions=(companion, companion))
    own = present(service_usd_per_hour(Search.start(asked, SMALL).of(CHAT)))
    assert companions_usd_per_hour(Search.start(asked, SMALL)) == pytest.approx(2 * own)
    impossible = Companion("fast", replace(CHAT, slo=Slo(1e-6, 1e-6, None, 95)))
    assert companions_usd_per_hour(Search.start(replace(asked, companions=(companion, impossible)), SMALL)) is None
    assert companions_usd_per_hour(Search.start(Question(CHAT), SMALL)) == 0
    apart = present(add_separate_companions(Search.start(asked, SMALL), estimated()).packing)
    assert apart.apart_usd_per_hour == pytest.approx(40 + 2 * own) and apart.cheaper == "apart"
    lonely = present(
        add_separate_companions(Search.start(replace(asked, companions=(impossible,)), SMALL), estimated()).packing
    )
    assert lonely.apart_usd_per_hour is None and lonely.cheaper is None
    for judged in (estimated(cost=None), replace(estimated(), fits=False)):
        assert add_separate_companions(Search.start(asked, SMALL), judged) == judged
        assert add_packing(Search.start(asked, SMALL).of(CHAT), judged, None) == judged  # type: ignore[arg-type]
    assert add_separate_companions(Search.start(Question(CHAT), SMALL), estimated()) == estimated()


SEARCH = Search.start(Question(CHAT), SMALL)


def member_on(plans: Plans, *, placed: int | None = None, workload: InferenceWorkload = CHAT) -> Member:
    return Member("model", workload, plans, Settings(), plans, None, placed)


def test_cards_are_those_of_replicas_and_spares_and_no_more_than_a_deployment_has() -> None:
    """Replicas of two cards: three of them take six, and twelve where a machine of eight may be lost."""
    plans = on_big(tensor_parallel=2)
    safe = replace(CHAT, redundancy=Redundancy(spare=1))
    for workload, needed in ((CHAT, 6), (safe, 12)):
        assert required_cards(member_on(plans), plans, workload, column([3.0])).tolist() == [needed]
        for placed, cards in ((needed // 2, needed), (8, 16), (needed // 2 - 1, math.inf)):
            assert required_cards(member_on(plans, placed=placed), plans, workload, column([3.0])).tolist() == [cards]


def feasible(plans: Plans, cards: list[float], rows: list[int] | None = None) -> FeasibleMemberPlans:
    """Plans of which each takes a given number of cards."""
    settings = Settings(memory_fraction=column([0.1 * i for i in range(len(cards))]))
    of = np.arange(len(cards)) if rows is None else np.array(rows)
    return FeasibleMemberPlans(member_on(plans), CHAT, of, plans, settings, column(cards))


def test_each_number_of_cards_takes_the_least_memory_and_whole_cards_also_the_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = on_big(tensor_parallel=2).take(np.zeros(5, np.int64))
    cards, memory = [4.0, 2.0, 2.0, 4.0, math.inf], column([0.9, 0.3, 0.4, 0.2, 0.1, 0.05])
    rows = [1, 2, 3, 4, 5]  # the first plan does not meet the limits: memory is that of the other rows
    monkeypatch.setattr(packing, "size_member_plans", lambda *_: feasible(plans, cards, rows))

    def ways(share: float) -> list[tuple[int, float, float, int]]:
        found = size_at_time_share(SEARCH, member_on(plans), memory, share)
        return [(s.option.cards, s.option.memory_share, s.option.time_share, s.replicas) for s in found]

    # rows of four cards take 0.3 and 0.1 of memory, those of two cards 0.4 and 0.2
    assert ways(0.5) == [(2, 0.2, 0.5, 1), (4, 0.1, 0.5, 2)]
    assert ways(1.0) == [*((*w[:2], 1.0, w[3]) for w in ways(0.5)), (2, 0.4, 1.0, 1)]
    monkeypatch.setattr(packing, "size_member_plans", lambda *_: feasible(plans, [math.inf] * 5, rows))
    assert ways(1.0) == []


def test_a_simulation_adds_cards_and_never_takes_any_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten requests a second at 1.4 each take eight replicas, of two cards each."""
    busy, plan = replace(CHAT, peak_per_s=10.0), on_big(tensor_parallel=2)
    share = Share(Option(2, 0.5, 0.5), 1, busy, plan, Settings())
    capacity = 1.4
    runs: Any = SimpleNamespace(planned_capacity=lambda _: (column([capacity]), column([8.0])))
    monkeypatch.setattr(packing, "simulate_replicas", lambda *_: runs)
    found = present(with_simulated_cards(SEARCH, member_on(plan), share))
    assert found.simulated
    assert (found.option, found.replicas) == (Option(16, 0.5, 0.5), 8)
    large = replace(share, option=Option(20, 0.5, 0.5), replicas=10)
    kept = present(with_simulated_cards(SEARCH, member_on(plan), large))
    assert (kept.option.cards, kept.replicas) == (20, 10)
    assert with_simulated_cards(SEARCH, member_on(plan, placed=7), share) is None  # it has seven replicas
    whole = present(with_simulated_cards(SEARCH, member_on(plan, placed=9), share))
    assert (whole.option.cards, whole.replicas) == (18, 9)
    capacity = 0.0
    assert with_simulated_cards(SEARCH, member_on(plan), share) is None
    monkeypatch.setattr(packing, "simulate_replicas", lambda *_: None)
    for unknown in (share, replace(share, plan=None)):
        assert with_simulated_cards(SEARCH, member_on(plan), unknown) == replace(unknown, simulated=True)


def test_a_slice_has_its_part_of_memory_bandwidth_and_compute() -> None:
    plans = on_big().take(np.zeros(2, np.int64))
    sliced, slices = slice_plans(plans, H100, Assumptions())
    assert slices == [*H100.slices, *H100.slices] and len(sliced) == len(slices)
    assumed = Assumptions()
    for row, part in enumerate(slices):
        memory, compute = part.memory / 8, part.compute / 7 * assumed.slice_compute_fraction
        assert sliced.bytes_per_s[row] == pytest.approx(plans.bytes_per_s[0] * memory)
        assert sliced.linear_flops_per_s[row] == pytest.approx(plans.linear_flops_per_s[0] * compute)
        assert sliced.bit16_flops_per_s[row] == pytest.approx(plans.bit16_flops_per_s[0] * compute)
        kept = plans.memory_bytes[0] * memory * assumed.slice_memory_fraction
        assert sliced.memory_bytes[row] == pytest.approx(kept)


def test_of_each_slice_the_plan_with_the_fewest_cards_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two plans on six slices: rows of the second, third and last slice, of which some need fewer cards."""
    plans = on_big().take(np.zeros(2, np.int64))
    rows, cards = [1, 2, 5, 7, 8, 11], [5.0, 3.0, math.inf, 4.0, 3.0, math.inf]
    of = on_big().take(np.zeros(6, np.int64))
    monkeypatch.setattr(packing, "size_member_plans", lambda *_: feasible(of, cards, rows))
    found = find_slice_shares(SEARCH, member_on(plans), H100)
    second, third = H100.slices[1], H100.slices[2]
    by_slice = {s.option.slice: s for s in found}
    assert [s.option.slice for s in found] == sorted([second, third])
    for part, count, row in ((second, 4, 3), (third, 3, 1)):  # of equal plans the first
        share = by_slice[part]
        assert share.option == Option(count, part.memory / 8, part.compute / 7, part)
        assert share.replicas == count
        assert share.settings is not None and share.settings.memory_fraction is not None
        assert share.settings.memory_fraction.tolist() == pytest.approx([0.1 * row])
    assert find_slice_shares(SEARCH, member_on(on_big(tensor_parallel=2)), H100) == []


def test_every_share_of_memory_below_that_of_the_engine_is_tried_and_that_share() -> None:
    plans = on_big().take(np.zeros(2, np.int64))  # vLLM takes 0.92
    for step, shares in (
        (0.25, [0.25, 0.5, 0.75, 0.92]),
        (0.46, [0.46, 0.92]),
        (0.5, [0.5, 0.92]),
        (0.23, [0.23, 0.46, 0.69, 0.92]),
    ):
        question = Question(CHAT, assumptions=replace(Assumptions(), packing_step_share=step))
        for tokens in (None, column([2048.0])):
            found, settings = expand_memory_shares(question, CHAT, plans, Settings(max_batched_tokens=tokens))
            assert len(found) == 2 * len(shares)
            assert settings.memory_fraction is not None
            assert settings.memory_fraction.tolist() == pytest.approx(shares * 2)
            repeated = None if settings.max_batched_tokens is None else settings.max_batched_tokens.tolist()
            assert repeated == (None if tokens is None else [2048.0] * len(found))


def test_the_requested_model_keeps_its_replicas_spares_and_token_budget() -> None:
    plan = on_big()
    for replicas, spares, placed in ((3, 2, 5), (None, None, 1), (2, None, 2), (None, 1, 2)):
        judged = estimated(replicas=replicas, spare_replicas=spares, max_batched_tokens=4096)
        member = requested_member(Question(CHAT), CHAT, judged, plan)
        assert member.placed_replicas == placed
        assert member.settings.max_batched_tokens is not None
        assert set(member.settings.max_batched_tokens.tolist()) == {4096.0}
        assert len(member.plans) > 1 and member.whole_card_plans is plan
    free = requested_member(Question(CHAT), CHAT, estimated(max_batched_tokens=None), plan)
    assert free.settings.max_batched_tokens is None
    # an engine whose share counts what loading left cannot be limited to a share of the card
    rules = SimpleNamespace(rule=np.full(1, STATIC_RULE))
    for small, shares in ((False, 0), (True, len(free.plans))):
        static: Any = SharedPlan(plan, rules, np.array([small]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packing, "expand_memory_shares", lambda _q, _w, plans, given: (plans, given))
            found = requested_member(Question(CHAT), CHAT, estimated(), static)
        assert (len(found.plans) == 0) == (shares == 0)


@dataclass(frozen=True)
class SharedPlan:
    """A plan under another rule of memory."""

    plan: Plans
    memory_rules: Any
    small_engine: Mask

    @property
    def offloads_weights(self) -> Mask:
        return self.plan.offloads_weights

    def take(self, rows: Codes) -> Plans:
        return self.plan.take(rows)

    def __len__(self) -> int:
        return len(self.plan)


def test_of_each_weight_format_the_fastest_plan_that_fits_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = planned(constraints=Constraints(accelerators=("acme-big",)))
    capacity = np.random.default_rng(5).permutation(len(plans)).astype(float) + 1
    fits = np.random.default_rng(6).random(len(plans)) < 0.7
    judged: Any = SimpleNamespace(memory=SimpleNamespace(fits=fits), options=SimpleNamespace(capacity_per_s=capacity))
    monkeypatch.setattr(packing, "evaluate_plans", lambda *_: judged)
    found = fastest_stacks(Question(CHAT), CHAT, plans)
    best = {
        stored: max(
            (c if fit else 0.0) for c, fit, f in zip(capacity, fits, plans.weight_format, strict=True) if f == stored
        )
        for stored in set(plans.weight_format.tolist())
    }
    assert len(best) > 1
    assert found.weight_format.tolist() == sorted(best, key=lambda stored: -best[stored])
    names = [row_of(plans, i) for i in range(len(plans))]
    of = [capacity[[name == row_of(found, k) for name in names]].max() for k in range(len(found))]
    assert of == sorted(best.values(), reverse=True)
    none = plans.take(np.zeros(0, np.int64))
    assert len(fastest_stacks(Question(CHAT), CHAT, none)) == 0


def row_of(plans: Plans, row: int) -> tuple[float, ...]:
    """What distinguishes a plan."""
    columns = plans.weight_format, plans.kv, plans.engine, plans.tensor_parallel, plans.pipeline_parallel
    return (*(float(c[row]) for c in columns), float(plans.stacks.rows[row]), float(plans.machines.rows[row]))


def test_ways_that_a_simulation_refuses_or_enlarges_are_left_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three ways the first fails and the second takes three cards instead of one: the third, of two, is left."""
    ways = [share_of(1, 0.3, 0.3), share_of(1, 0.4, 0.4), share_of(2, 0.5, 0.5)]
    other = [share_of(1, 0.2, 0.2)]
    simulated: list[Share] = []

    def simulate(_search: object, _member: object, share: Share) -> Share | None:
        simulated.append(share)
        if share is ways[0]:
            return None
        cards = 3 if share.option.memory_share == 0.4 else share.option.cards
        return replace(share, option=replace(share.option, cards=cards), simulated=True)

    monkeypatch.setattr(packing, "with_simulated_cards", simulate)
    result = present(arrange_simulated(SEARCH, [member_on(on_big())] * 2, [[*ways], [*other]], None))
    arrangement, taken = result
    assert [s.option for s in taken] == [ways[2].option, other[0].option]
    assert arrangement.count == 2 and all(s.simulated for s in taken)
    assert len(simulated) == 4  # every way once
    monkeypatch.setattr(packing, "with_simulated_cards", lambda *_: None)
    assert arrange_simulated(SEARCH, [member_on(on_big())], [[*ways]], None) is None


def test_a_bound_counts_cards_by_what_each_may_hold() -> None:
    """A whole of 1.0 in memory takes two cards of which each may hold a half, whatever may be held of their time."""
    for room in (Room(0.5, 0.95), Room(0.95, 0.5)):
        quarter = Option(1, 0.25, 0.05) if room.memory_share == 0.5 else Option(1, 0.05, 0.25)
        models = [[quarter]] * 4
        search = CardSearch(models, room)
        assert search.min_cards(range(4), {}) == 2
        arrangement = present(arrange_models(models, room))
        assert arrangement.count == 2
