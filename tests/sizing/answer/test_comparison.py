"""The comparison of each recommendation with the best one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.comparison import (
    add_comparisons,
    compare_with_best,
    duration_s,
    find_near_ties,
    limiting_resource,
    ratio_or_none,
    spent_usd,
)
from app.sizing.question import Objective, Question
from app.sizing.result import Assurance, Level, Ranked, RunnerUp
from app.sizing.values.latencies import Percentiles
from tests.examples import CHAT
from tests.sizing.answer.given import COST, RUN, SPEED, estimated, ranked
from tests.sizing.small import BIG, CARD, RARE

LEAD = "Compared with the best option, {name}"


def cost(usd_per_hour: float | None) -> Any:
    return replace(COST, usd_per_hour=usd_per_hour)


def speed(e2e_s: float) -> Any:
    return replace(SPEED, e2e=Percentiles(e2e_s, e2e_s, 2 * e2e_s, 3 * e2e_s))


@pytest.mark.parametrize(
    ("usd_per_hour", "e2e_s", "words", "money"),
    [
        (60.0, 3.0, "costs 50 % more and takes 1.5 times as long per request", 1.5),
        (30.0, 1.0, "costs 25 % less and takes 50 % less time per request", 0.75),
        (40.1, 2.05, "costs the same and is equally fast", 1.0025),
        (40.4, 2.2, "costs 1 % more and takes 1.1 times as long per request", 1.01),
        (None, 4.0, "takes 2 times as long per request", 0.0),
    ],
)
def test_a_comparison_with_the_best_states_both_ratios(
    usd_per_hour: float | None, e2e_s: float, words: str, money: float
) -> None:
    other = ranked(2, CARD, cost=cost(usd_per_hour), performance=speed(e2e_s), total_accelerators=24)
    found = compare_with_best(other, ranked(), lead=LEAD)
    assert found.text.startswith(f"Compared with the best option, Acme Card {words}. It uses 24 accelerators with ")
    assert found.value == pytest.approx(money)


def test_where_neither_money_nor_time_is_known_the_price_is_said_to_be_missing() -> None:
    found = compare_with_best(ranked(2, CARD, cost=None, performance=None), ranked(), lead=LEAD)
    assert "Acme Card has no known price. " in found.text


@pytest.mark.parametrize(
    ("bottleneck", "words"),
    [
        ("compute", "1,000 TFLOP/s of 16-bit compute"),
        ("memory_capacity", "80 GiB of memory"),
        ("interconnect", "450 GB/s of link bandwidth"),
        ("memory_bandwidth", "3.2 TB/s of memory bandwidth"),
        (None, "3.2 TB/s of memory bandwidth"),
        ("host", ""),
    ],
)
def test_the_limiting_resource_is_shown_in_its_own_unit(bottleneck: str | None, words: str) -> None:
    assert limiting_resource(bottleneck, BIG) == words


def test_the_limit_is_the_other_plans_own_and_counts_are_of_accelerators() -> None:
    other = ranked(2, CARD, bottleneck="memory_capacity", total_accelerators=24)
    assert compare_with_best(other, ranked(), lead=LEAD).text.endswith(
        ". It uses 24 accelerators with 24 GiB of memory each; the best option uses 8 with 80 GiB each."
    )


def test_where_hosts_limit_only_accelerators_are_counted() -> None:
    other = ranked(2, CARD, bottleneck="host", total_accelerators=24)
    assert compare_with_best(other, ranked(), lead=LEAD).text.endswith(
        ". It uses 24 accelerators; the best option uses 8."
    )


def test_the_best_says_why_it_leads_and_the_others_what_they_lack() -> None:
    places = (ranked(), ranked(2, CARD, cost=cost(50.0)), ranked(3, RARE, cost=cost(80.0)))
    first, second, third = (r.estimate.explanation for r in add_comparisons(places, Question(CHAT), 7))
    assert [r.code for r in first] == ["choice", "comparison"]
    assert first[0].text == (
        "Of the 7 accelerator types that meet the limits, this one has the lowest cost: "
        "8 × Acme Big from sky (us-1, on demand), 40.00 USD/h, 0.25 USD per million tokens."
    )
    assert first[1].text.startswith("Next best: Acme Card. It costs 25 % more")
    assert [(r.code, r.value) for r in second] == [("comparison", 1.25)]
    assert [(r.code, r.value) for r in third] == [("comparison", 2.0)]


def test_the_only_type_and_an_empty_ranking() -> None:
    (only,) = add_comparisons((ranked(),), Question(CHAT), 1)
    assert [r.text for r in only.estimate.explanation] == ["This is the only accelerator type that meets the limits."]
    assert add_comparisons((), Question(CHAT), 0) == ()


def test_a_run_is_compared_by_its_money_and_days_a_service_by_its_hour_and_request() -> None:
    run = estimated(cost=replace(COST, usd_total=4800.0), performance=RUN)
    assert (spent_usd(run), duration_s(run)) == (4800.0, 5 * 86400.0)
    assert (spent_usd(estimated()), duration_s(estimated())) == (40.0, 2.0)
    assert (spent_usd(estimated(cost=None)), duration_s(estimated(performance=None))) == (None, None)

    def sure(accelerators: int, usd: float) -> Ranked:
        place = ranked(cost=replace(COST, usd_total=4800.0), performance=RUN, total_accelerators=accelerators)
        level = Level(0.8, accelerators, usd_total=usd)
        return replace(place, estimate=replace(place.estimate, assurance=Assurance(0.8, 1.0, None, 0.9, (level,))))

    assert (
        "costs 50 % more" in compare_with_best(sure(16, 9000.0), sure(8, 6000.0), lead=LEAD).text
    )  # by what they are ranked by
    assert (ratio_or_none(3.0, 2.0), ratio_or_none(None, 2.0), ratio_or_none(3.0, 0.0)) == (1.5, None, None)


def near(worse: float | None, stored: str | None = "fp8", **place: Any) -> Ranked:
    """A place with another engine so much worse on its accelerator."""
    rival = None if worse is None else RunnerUp("sglang", stored, worse)
    return replace(ranked(), runner_up=rival, **place)


SECOND = replace(ranked(2, CARD), score=1 / 1.02)


@pytest.mark.parametrize(
    ("places", "named", "difference"),
    [
        ((near(0.02),), "SGLang in FP8 (2 % more expensive)", 0.02),
        ((near(0.05, None),), "SGLang (5 % more expensive)", 0.05),
        ((near(0.004), ranked(2)), "SGLang in FP8", 0.004),
        ((near(0.051), SECOND), "Acme Card (2 % more expensive)", 0.02),
        ((near(0.03), SECOND), "SGLang in FP8 (3 % more expensive) and Acme Card (2 % more expensive)", 0.02),
    ],
)
def test_what_comes_near_to_a_plan_is_named(places: tuple[Ranked, ...], named: str, difference: float) -> None:
    (reason,) = find_near_ties(places, Objective.COST, 0.05)
    assert reason.code == "near_tie"
    assert reason.value == pytest.approx(difference)
    costs = "cost" if " and " in named else "costs"
    choice = "choose by availability" if "Acme Card" in named else "use whichever you know"
    assert reason.text == f"{named} {costs} about the same; {choice}."


def test_nothing_is_named_where_nothing_comes_near() -> None:
    for places in ((near(None),), (near(0.06), ranked(2))):
        assert find_near_ties(places, Objective.COST, 0.05) == ()


def test_each_recommendation_names_its_own_near_tie_the_first_also_the_next_type() -> None:
    places = (near(0.01), replace(SECOND, runner_up=RunnerUp("vllm", "int8", 0.0)))
    question = Question(CHAT, objective=Objective.ENERGY)
    first, second = (
        [r.text for r in place.estimate.explanation if r.code == "near_tie"]
        for place in add_comparisons(places, question, 2)
    )
    assert first == [
        "SGLang in FP8 (1 % worse) and Acme Card (2 % worse) use about as much energy; choose by availability."
    ]
    assert second == ["vLLM in INT8 uses about as much energy; use whichever you know."]
