"""The first card is that on which all models cost least, together or apart, within the limits of all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from app.sizing.estimate import estimate_deployment
from app.sizing.packing.ranked import with_enough_finalists
from app.sizing.packing.together import cheapest_total_usd
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.workload import InferenceWorkload
from app.sizing.workload.companions import Companion
from tests.sizing.packing.test_together import CHATS, COMPANIONS, ON_BIG, chat
from tests.sizing.small import SMALL

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
