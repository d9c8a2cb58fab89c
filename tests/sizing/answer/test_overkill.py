"""Warnings of mostly idle hardware if less is enough, and an explanation if it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.answer.overkill import CheapestOption, describe_low_use, explain_idle_hardware, overkill_warning
from app.sizing.hardware.parts import KINDS
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import FilterStage, Rejection
from app.sizing.workload import Load
from tests.examples import CHAT
from tests.sizing.answer.given import SPEED, ranked
from tests.sizing.small import BIG, CARD, SMALL

ASKED = Question(CHAT)
LESS, AS_MUCH = CheapestOption("Acme Card", 1, 0.8), CheapestOption("Acme Big", 8, 39.0)


def used(share: float) -> dict[str, object]:
    return {"performance": replace(SPEED, utilization_at_peak=share)}


def miss(reached: FilterStage) -> Rejection:
    return Rejection("acme-card", "Acme Card", "code", "", 2.0, 1.0, "gib", 1.0, reached)


def test_less_that_would_do_is_named() -> None:
    notice = overkill_warning(ASKED, ranked(1, CARD, **used(0.0123)), LESS)
    assert notice is not None
    assert notice.code == "training_class_overkill"
    assert notice.text == "Acme Card is only 1.23 % utilized at peak. 1 × Acme Card is enough for 0.80 USD/h."


@pytest.mark.parametrize("share", [0.05, 0.5, 1.2])
def test_what_is_used_is_no_overkill(share: float) -> None:
    assert overkill_warning(ASKED, ranked(1, BIG, **used(share)), LESS) is None


def test_the_threshold_is_an_assumption() -> None:
    strict = replace(ASKED, assumptions=ASKED.assumptions.with_overrides({"overkill_utilization": 0.2}))
    assert overkill_warning(strict, ranked(1, BIG, **used(0.1)), LESS) is not None


def test_where_nothing_costs_less_there_is_no_warning_but_what_decided() -> None:
    first = ranked(1, BIG, **used(0.01))
    assert overkill_warning(ASKED, first, AS_MUCH) is None
    for reached, decided in (
        ([FilterStage.MEMORY], "memory determines the size, not speed"),
        ([FilterStage.MEMORY, FilterStage.SPEED], "memory and single-request latency determine the size, not the load"),
        ([FilterStage.SPEED], "single-request latency determines the size, not the load"),
        ([FilterStage.OFFERS], "it is the smallest configuration on sale"),
    ):
        (explained,) = explain_idle_hardware(ASKED, (first,), AS_MUCH, [miss(r) for r in reached])
        assert explained.estimate.explanation[-1].value == 0.01
        assert explained.estimate.explanation[-1].text == (
            f"Acme Big is only 1 % utilized at peak, but no cheaper option is enough: {decided}."
        )
    assert explain_idle_hardware(ASKED, (first,), LESS, []) == (first,)
    assert explain_idle_hardware(ASKED, (), None, []) == ()


def test_a_given_deployment_is_pointed_to_the_search() -> None:
    notice = overkill_warning(ASKED, ranked(1, BIG, **used(0.01)), None)
    assert notice is not None
    assert notice.text == "Acme Big is only 1 % utilized at peak. Use POST /recommend to look for a cheaper option."


def test_a_few_users_on_training_class_hardware_and_work_that_fills_it() -> None:
    alone = replace(CHAT, load=Load.CLOSED, peak_per_s=0.0, in_flight=1.0, most_personal_in_flight=8.0)
    assert "training-class" in (describe_low_use(Question(alone), ranked(1, BIG)) or "")
    assert describe_low_use(Question(alone), ranked(1, CARD)) is None
    assert describe_low_use(Question(replace(CHAT, load=Load.OFFLINE)), ranked(1, BIG, **used(0.01))) is None


def test_the_quickest_for_a_trickle_is_warned_of_and_the_cheapest_never() -> None:
    trickle = replace(CHAT, peak_per_s=0.01, average_per_s=0.005)
    for objective, warned in ((Objective.LATENCY, True), (Objective.COST, False)):
        answer = recommend_hardware(Question(trickle, Constraints(price_kinds=KINDS), objective), SMALL)
        assert any(w.code == "training_class_overkill" for w in answer.warnings) == warned
    big = recommend_hardware(Question(trickle, Constraints(accelerators=("acme-big",))), SMALL)
    assert not any(w.code == "training_class_overkill" for w in big.warnings)
    assert any(reason.code == "mostly_idle" for reason in big.recommendations[0].estimate.explanation)
