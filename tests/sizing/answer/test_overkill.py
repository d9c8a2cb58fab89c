"""Warnings of mostly idle hardware if less is enough, and an explanation if it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.answer.overkill import CheapestOption, describe_low_use, explain_idle_hardware, overkill_warning
from app.sizing.hardware.parts import KINDS
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import FilterStage, Rejection
from app.sizing.snapshot import Catalog
from app.sizing.whatif.prices import CHEAPER_TYPES, cheaper_types
from app.sizing.workload import Load
from tests.examples import CHAT, PRETRAIN, present
from tests.sizing.answer.given import SPEED, ranked
from tests.sizing.small import BIG, CARD, SMALL

ASKED = Question(CHAT)
LESS, AS_MUCH = CheapestOption("Acme Card", 1, 0.8), CheapestOption("Acme Big", 8, 40.0)


def used(share: float) -> dict[str, object]:
    return {"performance": replace(SPEED, utilization_at_peak=share)}


def miss(reached: FilterStage) -> Rejection:
    return Rejection("acme-card", "Acme Card", "code", "", 2.0, 1.0, "gib", 1.0, reached)


def test_less_that_would_do_is_named() -> None:
    notice = present(overkill_warning(ASKED, ranked(1, CARD, **used(0.0123)), LESS))
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
    # a near tie is cheaper than the first option (40 USD/h), which leads by published use
    slightly = CheapestOption("Acme Card", 8, 39.0)
    (explained,) = explain_idle_hardware(ASKED, (first,), slightly, [])
    assert explained.estimate.explanation[-1].text == (
        "Acme Big is only 1 % utilized at peak, but no option that costs over 5 % less is enough: it is among the "
        "smallest configurations on sale."
    )
    assert explain_idle_hardware(ASKED, (), None, []) == ()


def test_a_given_deployment_is_pointed_to_the_search() -> None:
    notice = present(overkill_warning(ASKED, ranked(1, BIG, **used(0.01)), None))
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


TRICKLE = replace(CHAT, peak_per_s=0.01, average_per_s=0.005)


def test_hardware_that_the_request_names_is_compared_with_hardware_that_it_does_not(catalog: Catalog) -> None:
    longer = replace(CHAT.slo, assumed_times=2.0)  # limits for which another warning compares them too
    alone = replace(CHAT, load=Load.CLOSED, peak_per_s=0.0, in_flight=1.0, most_personal_in_flight=8.0, slo=longer)
    named = Constraints(accelerators=("nvidia-h100-sxm5-80gb",))
    answer = recommend_hardware(Question(alone, named, limit=1), catalog)
    (text,) = (w.text for w in answer.warnings if "Without the limit" in w.text)
    assert not any(reason.code == "mostly_idle" for reason in answer.recommendations[0].estimate.explanation)
    other = next(a for a in catalog.accelerators if f"1 × {a.name} is enough" in text)
    again = recommend_hardware(Question(alone, Constraints(accelerators=(other.slug,)), limit=1), catalog)
    mine, less = (found.recommendations[0].estimate.cost for found in (answer, again))
    assert mine is not None and less is not None and mine.usd_per_hour is not None
    assert less.usd_per_hour is not None and less.usd_per_hour * 1.05 < mine.usd_per_hour


def test_no_cheaper_type_is_claimed_where_none_is_on_sale() -> None:
    cheapest = recommend_hardware(Question(TRICKLE), SMALL).recommendations[0].accelerator
    alone = recommend_hardware(Question(TRICKLE, Constraints(accelerators=(cheapest.slug,))), SMALL)
    assert not any(w.code == "training_class_overkill" for w in alone.warnings)
    (idle,) = (r.text for r in alone.recommendations[0].estimate.explanation if r.code == "mostly_idle")
    assert "no cheaper option that was compared is enough" in idle


def test_cheaper_types_hold_the_weights_and_cost_less(catalog: Catalog) -> None:
    question = Question(TRICKLE, limit=1)
    first = recommend_hardware(question, catalog).recommendations[0].estimate
    assert first.memory is not None
    types = cheaper_types(question, catalog, first, 1.0)
    assert len(types) == CHEAPER_TYPES
    memory = [catalog.accelerators[catalog.accelerator_index[slug]].memory_bytes or 0.0 for slug in types]
    assert min(memory) > first.memory.weights_bytes
    assert cheaper_types(question, catalog, first, 0.0) == ()


@pytest.mark.parametrize(("types", "warned"), [(("acme-card",), True), (("acme-big",), False), ((), False)])
def test_an_infeasible_run_says_that_its_accelerators_are_not_built_for_training(
    types: tuple[str, ...], warned: bool
) -> None:
    late = replace(PRETRAIN, units=1e15)
    answer = recommend_hardware(Question(late, Constraints(accelerators=types)), SMALL)
    assert not answer.recommendations
    assert any(w.code == "inference_hardware_for_training" for w in answer.warnings) == warned
