"""What came of an option: it does what was asked, falls short and says by what, or was not found."""

from __future__ import annotations

from app.sizing.comparing.outcomes import Option, evaluate_option
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from tests.sizing.comparing.given import HEAVY, best, four_cards, nothing, on_big, one_card, run
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
