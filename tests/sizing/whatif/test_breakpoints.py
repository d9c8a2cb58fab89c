"""Closed forms guide and recommendations decide: every stated value was computed, and only few values are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import Unanswerable
from app.sizing.columns import at
from app.sizing.decisions.search import Search
from app.sizing.question import Constraints, Economics, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.serving.options import layout_keys
from app.sizing.whatif import breakpoints
from app.sizing.whatif.breakpoints import (
    MAX_CORRECTIONS,
    NO_OPTION,
    ClosedForms,
    RequestProbe,
    Sensitivity,
    Thresholds,
    TopOption,
    describe_change,
    describe_top,
    find_breakpoints,
    rank_savings,
)
from app.sizing.whatif.change import Stage
from app.sizing.whatif.parameters import Parameter, Part, Pattern
from app.sizing.workload import InferenceWorkload, Load, Slo
from tests.examples import CHAT, LLAMA_8B, PRETRAIN
from tests.sizing.small import SMALL

LOAD = Parameter("load", "load", "requests/s", 10.0, ((5.0, 2.5), (20.0, 40.0)), lambda v: {"load": v})


class Recommendations(RequestProbe):
    """Recommendations whose first type depends on one number, with the values that were computed."""

    def __init__(self, first_at: Callable[[float], str]) -> None:
        super().__init__(lambda _: Question(CHAT), lambda _: pytest.fail("not asked"))
        self.first_at, self.computed = first_at, list[float]()

    def top_option(self, patch: Part, _: tuple[str, ...] = ()) -> TopOption:
        value = patch.get("load", LOAD.now)
        if value not in self.computed:
            self.computed.append(value)
        name = self.first_at(value)
        return TopOption(name, name.upper(), "a price")


def thresholds(by_formulas: Callable[[float], str], first_at: Callable[[float], str]) -> Thresholds:
    class Guided(Thresholds):
        def first_by_formulas(self, _: Parameter, value: float, __: tuple[str, ...] = ()) -> tuple[str, ...]:
            return (by_formulas(value),)

    return Guided(Recommendations(first_at), ClosedForms.__new__(ClosedForms), TopOption("old", "OLD", "a price"))


def turning(at: float, *, down: float = 0.0) -> Callable[[float], str]:
    """Another first type from one value on, or below another one."""
    return lambda value: "new" if value >= at or value < down else "old"


def computed(found: Thresholds) -> list[float]:
    assert isinstance(found.probe, Recommendations)
    return [value for value in found.probe.computed if value != LOAD.now]


def test_where_formulas_are_right_only_the_two_ends_are_computed() -> None:
    of = thresholds(turning(13.0), turning(13.0))
    (flip,), stable = of.nearest_changes(LOAD)
    assert stable is None and flip.value is not None and flip.unchanged is not None
    assert flip.unchanged < 13.0 <= flip.value <= flip.unchanged * 1.05
    assert len(computed(of)) == 2 and flip.request == {"load": pytest.approx(flip.value, rel=1e-3)}
    assert flip.text == (
        f"Load at {flip.value:.1f} requests/s instead of 10 requests/s: NEW ranks first at a price. "
        "As requested, OLD ranks first at a price."
    )


@pytest.mark.parametrize("real", [11.0, 12.0, 14.0, 17.0])
def test_where_formulas_are_wrong_the_interval_that_is_left_is_stated(real: float) -> None:
    of = thresholds(turning(13.0), turning(real))
    (flip,), _ = of.nearest_changes(LOAD)
    assert flip.value is not None and flip.unchanged is not None
    assert flip.unchanged < real <= flip.value
    assert {flip.value, flip.unchanged} <= {float(f"{v:.4g}") for v in (*computed(of), LOAD.now)}
    assert len(computed(of)) <= 2 + MAX_CORRECTIONS
    wide = flip.value / flip.unchanged > 1.05
    assert wide == (f"The change lies between {LOAD.format_value(flip.unchanged)} and" in flip.text)


def test_a_threshold_that_no_recommendation_confirms_is_not_stated() -> None:
    of = thresholds(turning(13.0), turning(100.0))
    flips, stable = of.nearest_changes(LOAD)
    assert flips == [] and stable is not None and (stable.low, stable.high) == (2.5, 40.0)
    assert stable.text == "Load from 2.5 requests/s to 40 requests/s: OLD still ranks first."
    assert {2.5, 40.0} <= set(computed(of))


def test_a_range_is_stable_only_as_far_as_it_was_computed() -> None:
    of = thresholds(turning(100.0), turning(30.0))
    (flip,), stable = of.nearest_changes(LOAD)
    assert stable is None and flip.unchanged is not None and flip.value is not None
    assert flip.unchanged < 30.0 <= flip.value and "The change lies between" in flip.text
    quiet = thresholds(turning(100.0), turning(100.0))
    assert quiet.nearest_changes(LOAD)[1] is not None and sorted(computed(quiet)) == [2.5, 40.0]


def test_both_directions_are_searched() -> None:
    of = thresholds(turning(13.0, down=6.0), turning(13.0, down=6.0))
    below, above = of.nearest_changes(LOAD)[0]
    assert below.value is not None and below.value < 6.0 <= (below.unchanged or 0.0)
    assert above.value is not None and above.value >= 13.0


def test_kept_options_are_not_computed_again_and_an_invalid_patch_has_none() -> None:
    asked: list[Question] = []

    def recommend(question: Question) -> Answer:
        asked.append(question)
        return recommend_hardware(question, SMALL)

    def read(patch: Part) -> Question:
        if "wrong" in patch:
            raise Unanswerable("no such field")
        return Question(replace(CHAT, peak_per_s=patch.get("peak", CHAT.peak_per_s)))

    probe = RequestProbe(read, recommend)
    now, more = probe.top_option({}), probe.top_option({"peak": 100.0})
    assert now.usd is not None and more.usd is not None and now.usd < more.usd
    assert probe.top_option({}) == now and len(asked) == 2 and all(q.first_only for q in asked)
    assert probe.top_option({"wrong": 1}).type == NO_OPTION and len(asked) == 2
    again = RequestProbe(read, lambda _: pytest.fail("computed again"), probe.found)
    assert again.top_option({"peak": 100.0}) == more


PATIENT = replace(CHAT, model=LLAMA_8B, peak_per_s=40.0, average_per_s=20.0, slo=Slo(20.0, 2.0, None, 95.0))


def closed_forms(workload: InferenceWorkload) -> ClosedForms:
    return ClosedForms.calibrate(Search.start(Question(workload), SMALL).of(workload))


def test_closed_forms_rank_as_the_recommendation_of_the_same_question_does() -> None:
    compared = 0
    for peak in (5.0, 40.0, 400.0):
        workload = replace(PATIENT, peak_per_s=peak, average_per_s=peak / 2)
        forms, question = closed_forms(workload), Question(workload)
        first = recommend_hardware(question, SMALL).recommendations[0]
        assert forms.ranked_types(question, Stage.FLEET) == forms.ranked_types(question)
        if first.estimate.deployment.pools is None:
            assert forms.ranked_types(question)[0] == first.accelerator.slug
            compared += 1
    assert compared


def test_a_change_of_load_or_price_repeats_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    forms, question = closed_forms(PATIENT), Question(PATIENT)
    more = Question(replace(PATIENT, peak_per_s=400.0, average_per_s=200.0))
    whole = forms.ranked_types(more)
    first, second = forms.ranked_types(question, Stage.PRICE)[:2]
    monkeypatch.setattr(breakpoints, "search_plans", lambda *_, **__: pytest.fail("searched again"))
    assert forms.ranked_types(more, Stage.FLEET)[0] == whole[0]
    off = replace(question, economics=Economics(discounts=((second, 0.9),)))
    assert forms.ranked_types(off, Stage.PRICE)[:2] == (second, first)
    least, own = (forms.scores[SMALL.accelerator_index[slug]] for slug in (first, second))
    for change, order in ((-1e-6, (first, second)), (1e-6, (second, first))):
        off = replace(question, economics=Economics(discounts=((second, 1 - least / own + change),)))
        assert forms.ranked_types(off, Stage.PRICE)[:2] == order
    for changed, stage in (
        (question, Stage.SEARCH),
        (replace(more, constraints=Constraints(max_accelerators=4)), Stage.FLEET),
        (replace(question, economics=Economics(discounts=(("bolt-rare", 0.5),))), Stage.PRICE),
    ):
        with pytest.raises(pytest.fail.Exception):
            forms.ranked_types(changed, stage)


def test_a_pattern_that_the_closed_forms_expect_to_cost_as_much_is_not_computed() -> None:
    heavy = PATIENT.scale_load(25.0)

    def read(patch: Part) -> Question:
        if "wrong" in patch:
            raise Unanswerable("no such field")
        return Question(heavy.scale_load(patch.get("times", 1.0)))

    probe = RequestProbe(read, lambda _: pytest.fail("computed"))
    of = Thresholds(probe, closed_forms(heavy), TopOption("old", "OLD", "a price"))
    assert [of.may_save({"times": times}) for times in (0.25, 1.0, 8.0)] == [True, False, False]
    assert of.may_save({"wrong": 1})
    assert replace_closed_forms(of).may_save({"times": 8.0})


def replace_closed_forms(of: Thresholds) -> Thresholds:
    """The same for work without closed forms of its own."""
    return Thresholds(of.probe, None, of.now)


def test_a_run_has_no_other_closed_form_than_its_recommendation() -> None:
    def read(patch: Part) -> Question:
        days = patch.get("workload", {}).get("deadline_days", PRETRAIN.deadline_s / 86400)
        return Question(replace(PRETRAIN, deadline_s=days * 86400), limit=1)

    probe = RequestProbe(read, lambda question: recommend_hardware(question, SMALL))
    body: dict[str, Any] = {"workload": {"phase": "training", "deadline_days": PRETRAIN.deadline_s / 86400}}
    found = find_breakpoints(probe, body, SMALL, [], lambda _: None)
    assert found.first == probe.top_option({}) and found.questions == len(probe.used)
    assert {b.parameter for b in found.breakpoints} | {s.parameter for s in found.stable_ranges} >= {"deadline_days"}
    for flip in found.breakpoints:
        assert probe.top_option(flip.request).type == flip.first != found.first.type

    kept: dict[str, TopOption] = {}
    calls, paused = [Sensitivity(found.first, (), (), (), 0, next=0)], 0
    while (start := calls[-1].next) is not None:  # one recommendation per call
        slow = RequestProbe(read, lambda question: recommend_hardware(question, SMALL), kept, may_go_on=lambda: False)
        calls.append(find_breakpoints(slow, body, SMALL, [], lambda _: None, start=start))
        assert len(slow.new) <= 1
        paused += calls[-1].next == start
    assert paused > 0 and sum((call.breakpoints for call in calls), ()) == found.breakpoints
    assert sum((call.stable_ranges for call in calls), ()) == found.stable_ranges


def test_savings_beat_a_near_tie_and_the_largest_comes_first() -> None:
    costs = {"much": 40.0, "little": 80.0, "tie": 96.0, "more": 120.0, "none": None}

    def top(patch: Part) -> TopOption:
        return TopOption(patch["name"], "", "", patch["name"], costs[patch["name"]])

    patterns = [Pattern(name, name, "care", {"name": name}) for name in ("little", "tie", "much", "more", "none")]
    much, little = rank_savings(patterns, 100.0, top, 0.05)
    assert (much.first, little.first) == ("much", "little")
    assert (much.saves_share, little.saves_share) == pytest.approx((0.6, 0.2))
    assert rank_savings(patterns, None, top, 0.05) == []


def test_the_first_option_is_named_with_its_price_or_as_nothing() -> None:
    run = describe_top(recommend_hardware(Question(PRETRAIN), SMALL))
    answer = recommend_hardware(Question(PRETRAIN), SMALL).recommendations[0]
    assert answer.estimate.cost is not None
    assert (run.slug, run.usd) == (answer.accelerator.slug, answer.estimate.cost.usd_total)
    day = replace(CHAT, hourly_shares=tuple([1.0] * 12 + [0.2] * 12))
    service = recommend_hardware(Question(day, objective=Objective.COST), SMALL)
    cost = service.recommendations[0].estimate.cost
    assert cost is not None and cost.usd_per_day is not None
    assert describe_top(service).usd == pytest.approx(cost.usd_per_day / 24)
    nothing = recommend_hardware(Question(replace(CHAT, load=Load.OPEN), Constraints(max_usd_per_hour=1e-6)), SMALL)
    assert describe_top(nothing) == TopOption(NO_OPTION, NO_OPTION, "")


def test_a_change_is_one_sentence_whatever_meets_the_limits() -> None:
    nothing, old, new = (
        TopOption(NO_OPTION, NO_OPTION, ""),
        TopOption("o", "Old", "2 USD"),
        TopOption("n", "New", "1 USD"),
    )
    assert describe_change("load at 9", nothing, old) == "Load at 9: no option meets the limits."
    assert describe_change("load at 9", new, nothing) == "Load at 9: New meets the limits at 1 USD."
    assert describe_change("load at 9", new, old) == (
        "Load at 9: New ranks first at 1 USD. As requested, Old ranks first at 2 USD."
    )


def test_calls_that_stop_early_add_up_to_the_whole_and_a_later_call_answers_the_same() -> None:
    body: dict[str, Any] = {"workload": {"phase": "training", "deadline_days": 14}}
    probe = RequestProbe(lambda _: Question(PRETRAIN), lambda question: recommend_hardware(question, SMALL))

    def find(**part: Any) -> Sensitivity:
        return find_breakpoints(replace(probe, used=set()), body, SMALL, [], lambda _: None, **part)

    whole, parts = find(), [find(start=0, most=1)]
    while parts[-1].next is not None:
        parts.append(find(start=parts[-1].next, most=1))
    assert len(parts) > 1 and whole.next is None and whole.stable_ranges
    assert all(part.questions < whole.questions == len(probe.found) for part in parts)
    for name in ("breakpoints", "stable_ranges", "savings"):
        assert tuple(found for part in parts for found in getattr(part, name)) == getattr(whole, name)
    assert find(start=0, most=1) == parts[0]


def test_nothing_saves_where_nothing_is_feasible() -> None:
    impossible = Question(CHAT, Constraints(max_usd_per_hour=1e-6))
    probe = RequestProbe(lambda _: impossible, lambda question: recommend_hardware(question, SMALL))
    found = find_breakpoints(probe, {"workload": {}}, SMALL, [], lambda _: None)
    assert found.first.type == NO_OPTION and found.savings == ()
    assert not any("pricing_models" in change for change in probe.found), "no cost to save on"


@pytest.mark.parametrize("in_flight", [4.0, 600.0])
def test_closed_loops_are_sized_by_their_batch(in_flight: float) -> None:
    workload = replace(PATIENT, load=Load.CLOSED, in_flight=in_flight, peak_per_s=0.0, average_per_s=0.0)
    forms, question = closed_forms(workload), Question(workload)
    best = forms.best_options(question)
    first = recommend_hardware(question, SMALL).recommendations[0].estimate.deployment
    assert forms.ranked_types(question)[0] == first.accelerator
    assert float(best.fleet.replicas[0]) == pytest.approx(first.replicas, abs=1)


def test_corrected_options_stay_within_the_limits() -> None:
    heavy = PATIENT.scale_load(25.0)
    forms = closed_forms(heavy)
    free = forms.best_options(Question(heavy))
    most = int(free.fleet.accelerators.min() * 1.2)
    limited = Question(heavy, Constraints(max_accelerators=most))
    slower = replace(forms, capacity_ratio=forms.capacity_ratio / 4)
    assert (forms.best_options(limited).fleet.accelerators <= most).all() and len(forms.best_options(limited))
    assert len(slower.best_options(limited, forms.options)) == 0
    assert slower.expected_usd(Question(heavy)) > forms.expected_usd(Question(heavy))
    assert slower.expected_usd(limited) == np.inf


def test_of_a_simulated_type_only_the_layout_that_was_simulated_competes() -> None:
    """Formulas are too favorable to layouts that a simulation rejects, and no other one is corrected."""
    forms = closed_forms(PATIENT)
    kind = next(iter(forms.scores))
    own = forms.options.take(forms.options.accelerator == kind)
    assert len(set(layout_keys(own.plans).tolist())) > 1, "other layouts are feasible by formulas"
    kept = forms.sized(Search.start(Question(PATIENT), SMALL).of(PATIENT), forms.options)
    assert set(layout_keys(kept.take(kept.accelerator == kind).plans).tolist()) == {int(forms.layout[kind])}
    others = own.take(layout_keys(own.plans) != forms.layout[kind])
    alone = forms.sized(Search.start(Question(PATIENT), SMALL).of(PATIENT), others)
    assert set(layout_keys(alone.plans).tolist()) == set(layout_keys(others.plans).tolist())
    free = replace(forms, layout=np.full(len(forms.layout), -1))
    assert len(free.sized(Search.start(Question(PATIENT), SMALL).of(PATIENT), forms.options)) > len(kept)
    (best,) = (at(forms.best_options(Question(PATIENT)).daily_usd_per_hour, 0),)
    cost = recommend_hardware(Question(PATIENT), SMALL).recommendations[0].estimate.cost
    assert cost is not None and best == pytest.approx(cost.usd_per_hour)
