"""The summary of a comparison: the cheapest outcome, and why the others cost more or fall short."""

from __future__ import annotations

import re
from dataclasses import replace

from app.sizing.comparing.causes import explain_difference
from app.sizing.comparing.months import spending_by_month
from app.sizing.comparing.outcomes import Option, evaluate_option
from app.sizing.comparing.phases import OtherHardware
from app.sizing.comparing.told import (
    WAYS_IN_WORDS,
    cheapest_outcome,
    format_cost,
    format_hardware,
    summarize_comparison,
    summarize_phases,
)
from app.sizing.question import Deployment, Question
from tests.examples import PRETRAIN
from tests.sizing.comparing.given import best, four_cards, nothing, on_big, one_card, run
from tests.sizing.small import SMALL


def test_the_cheapest_does_what_was_asked_and_keeps_its_reserve() -> None:
    assert cheapest_outcome((one_card(), on_big(), best(), nothing())) is best()
    assert cheapest_outcome((one_card(), nothing())) is None
    able = four_cards()
    assert (able.usd or 0) < (best().usd or 0)
    assert cheapest_outcome((able, best())) is best()
    d = explain_difference(able, best())
    assert d is not None
    assert "less headroom than planned. With the planned headroom, it needs 7 acc" in summarize_comparison(
        (able, best()), (d,), ()
    )


def test_the_summary_names_hardware_money_causes_and_what_is_short() -> None:
    outcomes = (best(), on_big(), one_card())
    differences = [d for d in (explain_difference(o, best()) for o in outcomes[1:]) if d is not None]
    spent = [s for s in (spending_by_month(best()),) if s is not None]
    text = summarize_comparison(outcomes, differences, spent)
    assert text.startswith(f"'best' costs the least: {format_hardware(best())} for {format_cost(best())}.")
    assert "'a card': It does not carry the load within the limits." in text
    assert f"Cheapest over 36 months: {WAYS_IN_WORDS[spent[0].paths[0].way]} (" in text
    assert text.count("mainly because") <= 2
    assert summarize_comparison((nothing(),), (), ()).startswith(
        "None of the options meets the requirements at a known price. 'for a cent': No deployment"
    )


def test_phases_say_what_each_takes_and_what_does_not_go() -> None:
    text = summarize_phases((run(), best()), ())
    assert text.startswith(f"Training needs {format_hardware(run())} for {format_cost(run())}. best needs ")
    other = OtherHardware("training", "best", "acme-card", None, None, "training: no layout fits.")
    assert summarize_phases((run(), best()), (other,)).endswith(" training: no layout fits.")
    assert summarize_phases((best(), best()), ()).endswith("The same accelerator type is best for all phases.")
    assert "for a cent: No deployment" in summarize_phases((nothing(),), ())


def test_a_run_that_misses_its_deadline_says_so() -> None:
    soon = replace(PRETRAIN, deadline_s=PRETRAIN.deadline_s / 50)
    late = evaluate_option(Option("late", Question(soon), Deployment("acme-big", total_accelerators=8)), SMALL)
    d = explain_difference(late, run())
    assert d is not None
    text = summarize_comparison((late, run()), (d,), ())
    assert re.search(r"'late' takes [\d.]+ days, longer than the deadline of [\d.]+ hours\.$", text)
