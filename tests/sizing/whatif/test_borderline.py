"""Borderline plans are offered with their probability, below the cost of the first option, and never ranked."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.sizing.columns import GIB
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import BORDERLINE_PROBABILITY, Answer, Cheaper
from app.sizing.serving import search as serving_search
from app.sizing.serving.options import Options
from app.sizing.serving.search import enumerate_allowed_plans, search_plans
from app.sizing.snapshot import Catalog
from app.sizing.whatif.prices import ranking_cost_usd
from app.sizing.workload import InferenceWorkload, Method, TrainingWorkload
from tests.examples import CHAT, PRETRAIN, answer_of
from tests.sizing.small import ACCELERATORS, CARD, OFFERS, SUPPORT, offer, snapshot
from tests.sizing.test_relations import SLOW

FIT = re.compile(r"a plan that is (\d+) % likely to fit in memory \((.+); it needs ([\d.]+) of ([\d.]+) GiB\)")
SLOW_CHAT = replace(CHAT, peak_per_s=0.05, average_per_s=0.02, slo=replace(CHAT.slo, ttft_s=10.0, tpot_s=0.5))
TUNING = replace(PRETRAIN, phase="fine_tuning", method=Method.LORA, units=1e7, global_batch=16, deadline_s=1e8)
TRAINS = EngineSupport("fsdp", "nvidia_ada", "training", {"bf16": True}, (), "a test")


def with_card(gib: float) -> Catalog:
    """The small catalog, with a card of this memory that also trains, and boards that cost twice as much."""
    card = replace(CARD, memory_bytes=gib * GIB)
    dear = [offer("big-8", 80.0), *(each for each in OFFERS if each.usd_per_hour < 1)]
    parts = [card if each is CARD else each for each in ACCELERATORS]
    return snapshot(accelerators=parts, offers=dear, support=(*SUPPORT, TRAINS))


def ask(workload: InferenceWorkload | TrainingWorkload, gib: float, **limits: Any) -> Answer:
    return recommend_hardware(Question(workload, Constraints(**limits)), with_card(gib))


def offers_of(answer: Answer) -> list[Cheaper]:
    return [each for each in answer.cheaper_if if FIT.match(each.accepting)]


@pytest.mark.parametrize(("workload", "gib", "confidence"), [(SLOW_CHAT, 19.0, 0.8), (TUNING, 12.0, 0.95)])
def test_a_cheaper_borderline_plan_is_offered_with_its_probability_and_near_miss(
    workload: InferenceWorkload | TrainingWorkload, gib: float, confidence: float
) -> None:
    answer = ask(workload, gib, confidence=confidence)
    assert {each.accelerator.slug for each in answer.recommendations} == {"acme-big"}
    (card,) = offers_of(answer)
    assert (card.accelerator, card.total_accelerators, card.usd_per_hour) == ("acme-card", 1, 0.8)
    match = FIT.match(card.accepting)
    assert match is not None
    assert 10 <= int(match[1]) < 80
    assert float(match[3]) > float(match[4])
    assert "read the" in card.risk
    assert (card.usd_total is None) == isinstance(workload, InferenceWorkload)


@pytest.mark.parametrize(("workload", "gib"), [(SLOW_CHAT, 12.0), (SLOW_CHAT, 24.0), (TUNING, 5.0), (TUNING, 39.0)])
def test_without_a_borderline_plan_an_answer_stays_as_it_is(
    workload: InferenceWorkload | TrainingWorkload, gib: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ask(workload, gib)
    monkeypatch.setattr("app.sizing.whatif.borderline.borderline_service", lambda *_: None)
    monkeypatch.setattr("app.sizing.whatif.borderline.borderline_run", lambda *_: None)
    assert answer == ask(workload, gib)


def test_a_search_sizes_borderline_plans_apart_from_those_that_fit() -> None:
    catalog = with_card(19.0)
    question, tables, found = Question(SLOW_CHAT), [None, list[Options](), list[Options]()], []
    for table, brief in zip(tables, (False, False, True), strict=True):
        rejections = Rejections(catalog.accelerators)
        search = Search.start(replace(question, first_only=brief), catalog, rejections).of(SLOW_CHAT)
        options = search_plans(search, enumerate_allowed_plans(search), borderline=table)
        found.append((options.plans.stacks.rows.tolist(), options.fleet.replicas.tolist(), rejections.by_accelerator))
    assert found[0] == found[1] == found[2]
    assert tables[1] and not tables[2]
    (border,) = tables[1]
    assert {catalog.accelerators[i].slug for i in border.accelerator.tolist()} == {"acme-card"}


def test_a_borderline_plan_takes_no_search_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    searched, real = Counter[float](), serving_search.feasible_plans
    for gib in (12.0, 19.0):

        def count(*given: Any, gib: float = gib, **options: Any) -> Any:
            searched[gib] += 1
            return real(*given, **options)

        monkeypatch.setattr(serving_search, "feasible_plans", count)
        assert bool(offers_of(ask(SLOW_CHAT, gib))) == (gib == 19.0)
    assert searched[19.0] == searched[12.0]


@pytest.mark.parametrize(
    ("workload", "gib", "confidence"), [(SLOW_CHAT, 19.0, 0.8), (TUNING, 12.0, 0.95), (TUNING, 18.0, 0.95)]
)
def test_an_offer_is_as_likely_as_the_rejection_of_its_type_says(
    workload: InferenceWorkload | TrainingWorkload, gib: float, confidence: float
) -> None:
    answer = ask(workload, gib, confidence=confidence)
    (card,) = offers_of(answer)
    (rejection,) = [each for each in answer.rejected if each.accelerator == "acme-card"]
    assert card.accepting.startswith(f"a plan that is {rejection.fit_probability * 100:.0f} % likely to fit")


def test_a_run_that_is_less_likely_to_fit_than_the_rejection_says_is_not_offered() -> None:
    answer = ask(TUNING, 12.0)
    (rejection,) = [each for each in answer.rejected if each.accelerator == "acme-card"]
    assert rejection.fit_probability > 0.5
    assert not offers_of(answer)


def test_a_borderline_plan_is_sized_for_the_median_case_in_which_it_fits() -> None:
    """With less room for the KV cache than a card that is large enough, it takes no fewer replicas."""
    busy = replace(SLOW_CHAT, peak_per_s=0.5, average_per_s=0.5)
    (border,) = offers_of(ask(busy, 19.2))
    enough = ask(busy, 24.0).recommendations[0].estimate.deployment
    assert enough.accelerator == "acme-card" and enough.total_accelerators is not None
    assert border.total_accelerators >= enough.total_accelerators


@pytest.mark.parametrize(("workload", "gib"), [(SLOW_CHAT, 19.0), (TUNING, 12.0)])
def test_where_nothing_fits_the_borderline_plan_is_named_last(
    workload: InferenceWorkload | TrainingWorkload, gib: float
) -> None:
    answer = ask(workload, gib, accelerators=("acme-card",), weight_formats=("bf16",))
    assert not answer.recommendations
    effect = answer.sensitivity[-1]
    assert FIT.search(effect.change)
    assert ("in host memory" in effect.change) == (workload is TUNING)
    assert effect.effect.startswith("feasible with 1 × Acme Card at ") and "if it fits" in effect.effect
    assert "likely to fit in memory (" not in answer.summary


@SLOW
@given(
    st.sampled_from([SLOW_CHAT, TUNING]),
    st.floats(6.0, 26.0),
    st.sampled_from([0.5, 0.7, 0.8, 0.95]),
    st.sampled_from([Objective.COST, Objective.LATENCY]),
)
def test_an_offer_is_likely_enough_and_never_dearer_than_the_first_option(
    workload: InferenceWorkload | TrainingWorkload, gib: float, confidence: float, objective: Objective
) -> None:
    question = Question(workload, Constraints(confidence=confidence), objective)
    answer = recommend_hardware(question, with_card(gib))
    found = offers_of(answer)
    assert len(found) <= 1
    for each in found:
        match, first = FIT.match(each.accepting), answer.recommendations[0].estimate
        cost = ranking_cost_usd(first)
        assert match is not None and cost is not None
        assert 100 * BORDERLINE_PROBABILITY <= int(match[1]) <= 100 * confidence
        assert 0 < each.saves_share < 1
        assert (each.usd_total or each.usd_per_hour) < cost


def test_one_desktop_card_may_hold_a_14b_model(client: TestClient) -> None:
    request = {
        "workload": {
            "phase": "inference",
            "model": "Qwen/Qwen2.5-14B-Instruct",
            "traffic": {"peak_requests_per_s": 0.2, "input_tokens": 1000, "output_tokens": 200},
        },
        "constraints": {
            "accelerators": ["nvidia-rtx-5090"],
            "weight_formats": ["bf16"],
            "pricing_models": ["on_demand"],
        },
    }
    answer = answer_of(client.post("/recommend", json=request))
    first = answer["recommendations"][0]
    assert first["deployment"]["total_accelerators"] == 2
    (card,) = [each for each in answer["cheaper_if"] if FIT.match(each["if"])]
    assert (card["accelerator"], card["total_accelerators"]) == ("nvidia-rtx-5090", 1)
    assert card["usd_per_hour"] < first["cost"]["usd_per_hour"]
    brief = answer_of(client.post("/recommend", json={**request, "include": []}))
    assert "cheaper_if" not in brief
