"""A model apart costs what a recommendation of it costs. Cards are filled within their memory and time, on as few
as an exhaustive search finds. The first card is that on which all models cost least, together or apart, within
the limits of all. A share of a card's time is a slower card, and limits hold in it. Models in slices of a card:
each acts as a smaller card, and the driver limits their placement. Models on the same cards: within every card
and every limit, never cheaper for one more, the same every time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing import packing
from app.sizing.columns import Column, Columns, column, lazy_rows, materialize_as, one
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import Slicing, fit_together
from app.sizing.packing import (
    Arrangement,
    Member,
    Option,
    Room,
    Share,
    arrange_models,
    cheapest_total_usd,
    leaves_time_to_others,
    service_usd_per_hour,
    slow_down_workload,
    split_counts,
    with_enough_finalists,
)
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Packing
from app.sizing.serving.finalists import simulate_replicas
from app.sizing.serving.search import evaluate_plans
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from app.sizing.workload.inference import Companion
from tests.examples import CHAT, LLAMA_8B, registered
from tests.sizing.hardware.test_parts import SEVENTHS
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


SLOW = settings(max_examples=12)
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


@pytest.mark.slow
@SLOW
@given(CHATS, COMPANIONS)
def test_no_card_is_promised_twice(main: InferenceWorkload, companions: tuple[Companion, ...]) -> None:
    packing = packed(main, companions)
    cards: dict[int, list[tuple[str, float, float]]] = {}
    for p in packing.on:
        for card in range(p.card, p.card + p.cards):
            cards.setdefault(card, []).append((p.name, p.share_memory, p.share_time))
    for shares in cards.values():
        limit = 1.0 if len(shares) == 1 else 0.95
        assert sum(memory for _, memory, _ in shares) <= limit + 1e-9
        assert sum(time for _, _, time in shares) <= limit + 1e-9
        assert len({name for name, _, _ in shares}) == len(shares)
    stands = Counter(name for shares in cards.values() for name, _, _ in shares)
    assert sorted(cards) == list(range(1, (packing.cards or 0) + 1))
    for model in packing.models:
        assert stands[model.name] % model.replicas == 0
        assert stands[model.name] >= model.replicas


@pytest.mark.slow
@SLOW
@given(CHATS, COMPANIONS)
def test_every_limit_holds_in_its_share(main: InferenceWorkload, companions: tuple[Companion, ...]) -> None:
    promised: list[tuple[Member, Share]] = []
    usual = packing.describe_member

    def noted(member: Member, share: Share, *known: object) -> object:
        promised.append((member, share))
        return usual(member, share, *known)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, usual.__name__, noted)
        packed(main, companions)
    question = Question(main)
    for member, share in promised:
        if share.plan is None or share.settings is None:
            continue  # as the estimate judged it
        of_time = slow_down_workload(member.workload, share.option.time_share)
        memory = evaluate_plans(question, of_time, share.plan, share.settings).memory
        assert one(memory.needed_bytes) <= one(memory.usable_bytes)
        assert one(memory.usable_bytes) <= share.option.memory_share * one(memory.capacity_bytes) * (1 + 1e-9)
        runs = simulate_replicas(Search.start(question, SMALL).of(of_time), share.plan, share.settings)
        assert runs is not None
        each = of_time.peak_per_s / share.replicas
        assert each <= one(runs.capacity_at_confidence(of_time)[0]) * of_time.target_utilization * (1 + 1e-9)


@pytest.mark.slow
@SLOW
@given(CHATS, COMPANIONS)
def test_a_companion_more_never_costs_less(main: InferenceWorkload, companions: tuple[Companion, ...]) -> None:
    every = packed(main, companions)
    for left_out in range(len(companions)):
        fewer = companions[:left_out] + companions[left_out + 1 :]
        if fewer:
            some = packed(main, fewer)
            assert (some.cards or 0) <= (every.cards or np.inf)
            assert (some.usd_per_hour or 0) <= (every.usd_per_hour or np.inf)
    alone = estimate_deployment(Question(main), ON_BIG, SMALL)
    assert alone.cost is not None
    assert (alone.cost.usd_per_hour or 0) <= (every.usd_per_hour or np.inf)


@pytest.mark.slow
@SLOW
@given(CHATS, COMPANIONS)
def test_the_same_set_is_packed_the_same(main: InferenceWorkload, companions: tuple[Companion, ...]) -> None:
    once = packed(main, companions)
    assert once == packed(main, companions)
    turned = packed(main, companions[::-1])
    assert (turned.cards, turned.usd_per_hour) == (once.cards, once.usd_per_hour)


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
    totals = [cheapest_total_usd(r.estimate) for r in ranked]
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


def test_only_where_money_decides_are_more_types_sought() -> None:
    question = Question(QUIET, companions=(Companion("other", QUIET),), limit=1)
    assert with_enough_finalists(question).limit == int(question.assumptions.packed_types)
    assert with_enough_finalists(replace(question, objective=Objective.LATENCY)).limit == 1
    assert with_enough_finalists(replace(question, companions=())).limit == 1


def test_what_all_take_beyond_a_limit_is_not_promised() -> None:
    loads = tuple(Companion(f"model {i}", HEAVY) for i in range(3))
    free = estimate_deployment(Question(HEAVY, companions=loads), ON_BIG, SMALL)
    assert free.packing is not None
    assert free.packing.usd_per_hour is not None
    most = free.packing.usd_per_hour - 0.01
    held = Question(HEAVY, Constraints(max_usd_per_hour=most), companions=loads)
    tight = estimate_deployment(held, ON_BIG, SMALL).packing
    assert tight is not None
    assert tight.cards is None
    assert "exceeds a limit" in tight.why


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
