"""The summary of a comparison: the cheapest outcome, and why the others cost more or fall short."""

from __future__ import annotations

import re
from dataclasses import replace

from app.sizing.compare import (
    WAYS_IN_WORDS,
    Cause,
    Difference,
    OtherHardware,
    Spending,
    SpendingPath,
    build_table,
    cheapest_outcome,
    explain_difference,
    format_cost,
    format_hardware,
    spending_by_month,
    summarize_comparison,
    summarize_phases,
)
from app.sizing.outcomes import Option, Outcome, evaluate_option
from app.sizing.question import Deployment, Pools, Question
from app.sizing.result import Assurance, Level
from app.sizing.workload import Load
from tests.examples import PRETRAIN
from tests.sizing.answer.given import COST, RUN, SPEED
from tests.sizing.compare.given import HEAVY, best, four_cards, made, nothing, on_big, one_card, run
from tests.sizing.small import BIG, CARD, SMALL


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
    assert re.search(r"'late': It takes [\d.]+ days, longer than the deadline of [\d.]+ hours\.$", text)
    assert not late.meets_requirements and late.carries_load


def test_what_misses_its_deadline_is_never_the_cheapest_that_meets_the_requirements() -> None:
    """Twice the deadline at half the cost is no bargain, as for a service that does not carry its load."""

    def done(name: str, days: float, usd: float) -> Outcome:
        paid = replace(COST, usd_total=usd)
        return made(name, workload=PRETRAIN, cost=paid, performance=replace(RUN, days=days))

    late, in_time = done("late", 28.0, 1.0), done("in time", 13.0, 9.0)
    assert cheapest_outcome((late, in_time)) is in_time and cheapest_outcome((late,)) is None
    assert (late.meets_requirements, in_time.meets_requirements) == (False, True)
    assert late.why_not == "It takes 28 days, longer than the deadline of 14 days." and in_time.why_not is None
    others = in_time, done("slower", 14.0, 12.0)
    (line,) = (each for each in build_table((late, *others)) if each.quantity == "usd_total")
    assert line.best == "in time" and line.values == (1.0, 9.0, 12.0)
    assert summarize_comparison((late,), (), ()).endswith(
        "'late': It takes 28 days, longer than the deadline of 14 days."
    )
    volume = replace(HEAVY, load=Load.OFFLINE, volume_requests=1e6, deadline_s=3600.0)
    for days, meets in ((0.5 / 24, True), (2 / 24, False)):
        assert made(workload=volume, performance=replace(SPEED, days=days)).meets_requirements == meets


def said_of(ratio: float, other: Outcome, *causes: Cause) -> str:
    """What a summary says of an option by the multiple of its cost over the best one."""
    first = made("first", cost=replace(COST, usd_per_hour=1.0))
    text = summarize_comparison((first, other), (Difference(other.name, "first", "usd_per_hour", ratio, causes),), ())
    return text.removeprefix("'first' costs the least: 8 × Acme Big for 1.00 USD/h. ")


def sized(o: Outcome, accelerators: int | None, usd_per_hour: float | None = None) -> Outcome:
    """The outcome with another size at the requested confidence."""
    assert o.estimate is not None
    level = Level(0.8, accelerators, usd_per_hour=usd_per_hour)
    return replace(o, estimate=replace(o.estimate, assurance=Assurance(0.8, 1.0, 0.5, None, (level,))))


def test_a_difference_is_named_with_the_cause_that_pulls_the_same_way() -> None:
    more, less = Cause("price", 2.0, "MORE"), Cause("speed", 0.5, "LESS")
    other = made("other")
    assert said_of(1.5, other, less, more).startswith("'other' costs 1.5 times as much, mainly because MORE.")
    assert said_of(0.8, other, more, less).startswith("'other' costs 20 % less, mainly because LESS.")
    assert said_of(1.5, other) == "'other' costs 1.5 times as much." and "mainly" not in said_of(1.5, other, less)
    for near in (1.004, 1.0, 0.996):
        assert said_of(near, other, more) == "'other' costs about the same."
    assert "times" in said_of(1.006, other) and "less" in said_of(0.994, other)
    late = made("other", performance=replace(SPEED, overloaded=True))
    assert "does not meet the requirements. " in said_of(0.5, late)


def test_less_headroom_is_said_with_the_size_and_the_price_that_restore_it() -> None:
    plain = made("other")
    assert "headroom" not in said_of(0.5, plain) and "headroom" not in said_of(0.5, sized(plain, 8, 50.0))
    short = said_of(0.5, sized(plain, 1200, 60.0))
    assert "it needs 1,200 accelerators for 60.00 USD/h." in short
    assert said_of(0.5, sized(plain, 1200)).endswith("it needs 1,200 accelerators.")


def test_a_missed_deadline_is_said_once() -> None:
    def done(days: float, accelerators: int) -> Outcome:
        made_run = made(
            "run", workload=PRETRAIN, cost=replace(COST, usd_total=9.0), performance=replace(RUN, days=days)
        )
        return sized(made_run, accelerators)

    for days, missed in ((13.9, False), (14.0, False), (15.0, True)):
        assert ("deadline" in summarize_comparison((done(days, 8),), (), ())) == missed
        assert ("To meet the deadline, it needs 16 accelerators." in said_of(2.0, done(days, 16))) == missed
    text = said_of(2.0, done(28.0, 16))
    assert text.count("deadline of") == 1 and "28 days" in text and "14 days" in text
    unknown = made("run", workload=PRETRAIN, performance=replace(RUN, days=None))
    assert "deadline" not in summarize_comparison((unknown, made("service"), nothing()), (), ())


def test_the_cheapest_way_is_named_with_its_horizon_and_the_next() -> None:
    first = made("first")
    paths = (
        SpendingPath("owned", "maker", (500.0, 500.0, 600.0), 100.0),
        SpendingPath("spot", "sky", (0.0, 1.0, 700.0)),
    )
    for shown, ending in ((paths, "500 USD; next best: spot capacity (sky), 700 USD."), (paths[:1], "500 USD.")):
        text = summarize_comparison((first,), (), (Spending("first", shown, ()),))
        assert "over 2 months: purchase" in text and text.endswith(ending)
        assert "months" not in summarize_comparison((first,), (), (Spending("other", shown, ()),))
    assert "months" not in summarize_comparison((nothing(),), (), (Spending("for a cent", paths, ()),))


def test_hardware_and_costs_are_counted_and_totalled() -> None:
    big = made(total_accelerators=1600)
    assert big.estimate is not None
    assert format_hardware(big) == "1,600 × Acme Big"
    sides = [Deployment(name) for name in (BIG.slug, CARD.slug)]
    for pools, named in ((Pools(sides[0], sides[0]), "Acme Big"), (Pools(*sides), "acme-big and acme-card")):
        assert format_hardware(made(pools=pools)) == f"8 × {named}"
    assert format_hardware(made(total_accelerators=None)).startswith("0 ×")
    assert format_cost(made()) == "40.00 USD/h"
    paid = replace(COST, usd_total=9000.0)
    assert format_cost(made(workload=PRETRAIN, cost=paid)) == "9,000 USD in total"
    bought = made(workload=PRETRAIN, cost=replace(paid, purchase_usd=80_000.0))
    assert "80,000 USD" in format_cost(bought) and "purchase" not in format_cost(made(cost=bought.estimate.cost))  # type: ignore[union-attr]


def test_phases_name_the_dearest_shared_accelerator_or_that_one_is_best() -> None:
    def other(times: float | None) -> OtherHardware:
        return OtherHardware("a", "b", "x", None, times, f"{times} times.")

    pair = made("a"), made("b", accelerator=CARD)
    assert summarize_phases(pair, (other(1.5), other(2.0), other(1.1))).endswith(" 2.0 times.")
    assert summarize_phases(pair, (other(1.5), other(None), other(2.0))).endswith(" None times.")
    alike = made("a"), made("b")
    for times in (0.5, 1.0, 1.005):
        assert not summarize_phases(pair, (other(times),)).endswith("times.")
        assert summarize_phases(alike, (other(times),)).endswith("best for all phases.")
    assert summarize_phases(pair, (other(1.006),)).endswith("1.006 times.")
    assert "no price is known" in summarize_phases((made("a", cost=None),), ())
    late = made("a", performance=replace(SPEED, overloaded=True))
    assert "a: It does not carry the load" in summarize_phases((late,), ())
