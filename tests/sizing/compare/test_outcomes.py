"""What came of an option: it does what was asked, falls short and says by what, or was not found."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.outcomes import Option, evaluate_option
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Assurance, HostedApi, Level
from app.sizing.workload import Load
from tests.sizing.answer.given import COST, SPEED
from tests.sizing.compare.given import HEAVY, best, four_cards, made, nothing, on_big, one_card, run
from tests.sizing.small import SMALL


def test_a_question_is_answered_as_by_a_recommendation() -> None:
    assert best().estimate == recommend_hardware(Question(HEAVY), SMALL).recommendations[0].estimate
    assert best().meets_requirements and best().why_not is None and best().peak_per_s == 30.0


def test_costs_are_per_hour_or_in_all_where_work_ends() -> None:
    (service, e), (training, r) = ((o, o.estimate) for o in (best(), run()))
    assert e is not None and e.cost is not None and service.usd == e.cost.usd_per_hour
    assert r is not None and r.cost is not None and training.usd == r.cost.usd_total
    assert training.has_an_end and training.peak_per_s is None and not service.has_an_end


def test_what_is_too_small_says_so_and_what_does_not_exist_says_why() -> None:
    assert not one_card().meets_requirements and one_card().fits
    assert one_card().why_not == "It does not carry the load within the limits."
    assert nothing().estimate is None and nothing().usd is None
    assert (nothing().why_not or "").startswith("No deployment meets the requirements. ")


def test_what_does_not_run_together_says_the_rule() -> None:
    found = evaluate_option(
        Option("x", Question(HEAVY), Deployment("acme-card", total_accelerators=1, weight_format="fp32")), SMALL
    )
    assert not found.fits and found.usd is None
    assert (found.why_not or "").startswith("It does not run. ")


def test_a_deployment_with_less_than_is_planned_for_says_what_would_be() -> None:
    assert (
        best().level_with_reserve is None
        and on_big().level_with_reserve is None
        and one_card().level_with_reserve is None
    )
    more = four_cards().level_with_reserve
    e = best().estimate
    assert four_cards().meets_requirements and more is not None and e is not None
    assert more.total_accelerators == e.deployment.total_accelerators
    assert more.usd_per_hour == best().usd


def test_a_cost_belongs_to_what_runs_and_is_a_total_where_work_ends() -> None:
    volume = replace(HEAVY, load=Load.OFFLINE, volume_requests=100.0)
    paid = replace(COST, usd_total=7.0)
    assert made(cost=paid).usd == 40.0 and made(workload=volume, cost=paid).usd == 7.0
    assert made(cost=None).usd is None and made(workload=volume).peak_per_s is None
    assert made(workload=replace(HEAVY, load=Load.CLOSED, in_flight=4.0)).peak_per_s is None
    broken = replace(made(), estimate=replace(made().estimate, fits=False))  # type: ignore[type-var]
    assert not broken.fits and broken.usd is None and not broken.meets_requirements
    assert not made(performance=None).meets_requirements and made(performance=None).fits
    assert not made(performance=replace(SPEED, overloaded=True)).meets_requirements and made().meets_requirements


def test_a_larger_size_is_that_of_the_requested_confidence() -> None:
    levels = (Level(0.5, 4), Level(0.8, 16, 80.0), Level(0.9, None))
    for asked, size in ((0.5, None), (0.8, 16), (0.9, None), (0.7, None)):
        o = made()
        assert o.estimate is not None
        sure = replace(o.estimate, assurance=Assurance(asked, 1.0, 1.0, None, levels))
        level = replace(o, estimate=sure).level_with_reserve
        assert (None if level is None else level.total_accelerators) == size
        late = replace(sure, performance=replace(SPEED, overloaded=True))
        assert replace(o, estimate=late).level_with_reserve is None
    assert made().level_with_reserve is None
    same = replace(made().estimate, assurance=Assurance(0.8, 1.0, 1.0, None, (Level(0.8, 8),)))  # type: ignore[type-var]
    assert replace(made(), estimate=same).level_with_reserve is None


def test_hosts_are_those_of_the_answer_or_of_the_judged_deployment() -> None:
    one, other = HostedApi("one", ()), HostedApi("other", ())
    o = made()
    answer = best().answer
    assert o.estimate is not None and answer is not None
    judged = replace(o, estimate=replace(o.estimate, hosted_api=one))
    assert judged.hosted_api == one and replace(o, estimate=None).hosted_api is None
    assert replace(judged, answer=replace(answer, hosted_api=other)).hosted_api == other
