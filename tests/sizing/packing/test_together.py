"""Models on the same cards: within every card and every limit, never cheaper for one more, the same every time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.columns import one
from app.sizing.estimate import estimate_deployment
from app.sizing.packing import together
from app.sizing.packing.shares import Member, Share, slow_down_workload
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.finalists import simulate_replicas
from app.sizing.serving.search import evaluate_plans
from app.sizing.values.packing import Packing
from app.sizing.workload import InferenceWorkload, Lengths, Slo
from app.sizing.workload.companions import Companion
from tests.examples import CHAT, LLAMA_8B, registered
from tests.sizing.small import SMALL

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
    usual = together.describe_member

    def noted(member: Member, share: Share, *known: object) -> object:
        promised.append((member, share))
        return usual(member, share, *known)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, usual.__name__, noted)
        packed(main, companions)
    question = Question(main)
    for member, share in promised:
        if share.plan is None or share.settings is None:
            continue  # as the estimate judged it
        of_time = slow_down_workload(member.workload, share.option.time_share)
        memory = evaluate_plans(question, of_time, share.plan, share.settings).memory
        assert one(memory.needed_bytes) <= one(memory.usable_bytes)
        assert one(memory.usable_bytes) <= share.option.memory_share * one(memory.capacity_bytes) * (1 + 1e-9)
        runs = simulate_replicas(question, of_time, share.plan, share.settings, SMALL)
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
