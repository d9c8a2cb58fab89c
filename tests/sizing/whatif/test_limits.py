"""Where nothing is feasible: what would have to give does, and less of it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.decisions.cost import RESOURCE_LIMITS, Cost
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.finalists import find_finalists
from app.sizing.hardware.parts import SEGMENTS, PricingModel
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Effect, FilterStage, Rejection
from app.sizing.snapshot import Catalog
from app.sizing.whatif import limits as room
from app.sizing.whatif.limits import (
    NOT_FEASIBLE,
    FeasiblePlans,
    cheapest_confirmed,
    closest_option,
    confirm_value,
    decide_for_type,
    empty_plans,
    find_feasible_plans,
    find_plans_within_limits,
    find_relaxations,
    list_alternatives,
    min_feasible_time,
    needs_simulation,
    note_on_closest,
    relax_time_limits,
    requested_time_limits,
    resource_knobs,
    types_helped_by_resources,
    without_latencies,
    without_resource_limits,
)
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, PRETRAIN
from tests.sizing.small import SMALL
from tests.sizing.test_relations import SLOW

SERVICES = st.builds(
    lambda large, load, peak, prompt, tpot, ttft, spare: replace(
        CHAT,
        model=LLAMA_70B if large else LLAMA_8B,
        load=load,
        in_flight=max(1.0, peak),
        peak_per_s=peak,
        average_per_s=peak / 2,
        input_tokens=Lengths(prompt),
        output_tokens=Lengths(200.0),
        max_context_tokens=prompt + 200.0,
        slo=Slo(ttft, tpot, None, 95.0),
        redundancy=Redundancy(spare=spare),
    ),
    st.booleans(),
    st.sampled_from([Load.OPEN, Load.OPEN, Load.CLOSED]),
    st.floats(0.05, 300),
    st.floats(16, 4000),
    st.floats(0.002, 0.1),
    st.floats(0.02, 2),
    st.sampled_from([0, 0, 1]),
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "max_accelerators": st.integers(1, 8),
        "max_usd_per_hour": st.floats(0.05, 30),
        "max_power_w": st.floats(100, 20_000),
        "max_purchase_usd": st.floats(1_000, 200_000),
        "accelerators": st.sampled_from([("acme-big",), ("acme-card",), ("bolt-desk",), ("acme-card", "bolt-desk")]),
        "engines": st.just(("llama.cpp",)),
    },
)
# By the name of a limit: the field of the constraints, and the base unit.
SIZES = {
    "max_accelerators": ("max_accelerators", 1.0),
    "max_usd_per_hour": ("max_usd_per_hour", 1.0),
    "max_purchase_usd": ("max_purchase_usd", 1.0),
    "max_power_kw": ("max_power_w", 1e3),
}


def feasible(question: Question, catalog: Catalog = SMALL) -> bool:
    return bool(find_finalists(Search.start(replace(question, limit=1), catalog)).estimates)


def does_in_one(question: Question, catalog: Catalog = SMALL) -> bool:
    """Whether replicas that prefill and decode are enough: effects are stated for these, two pools may take less."""
    found = find_finalists(Search.start(replace(question, limit=2), catalog)).estimates
    return any(estimate.deployment.pools is None for estimate in found)


def suggested(question: Question, catalog: Catalog = SMALL) -> tuple[Effect, ...]:
    """What would have to give; nothing of a question that has an answer."""
    rejections = Rejections(catalog.accelerators)
    if find_finalists(Search.start(question, catalog, rejections)).estimates:
        return ()
    return find_relaxations(question, catalog, rejections.closest_first())


def with_value(question: Question, label: str, value: float) -> Question:
    """The question with one limit changed, as its label names it."""
    name = label.removeprefix("raise ").split(" ")[0]
    limits, workload = question.constraints, question.workload
    if name in SIZES:
        field, unit = SIZES[name]
        kept: Any = int(value) if field == "max_accelerators" else value * unit
        changed: Any = {field: kept}
        return replace(question, constraints=replace(limits, **changed))
    assert isinstance(workload, InferenceWorkload)
    latency: Any = {f"{name.removesuffix('_ms')}_s": value / 1e3}
    return replace(question, workload=replace(workload, slo=replace(workload.slo, **latency)))


def value_of(effect: str) -> float:
    found = re.search(r"feasible at [A-Za-z -]*([\d,.]+) (accelerators?|USD/h|USD|kW|ms): ", effect)
    assert found, effect
    return float(found[1].replace(",", ""))


def check(question: Question, change: Effect, catalog: Catalog = SMALL) -> None:
    """The stated value of one limit is enough, and a twentieth less is not. Where schedulers are simulated, much less
    is not: values are tried in steps, of the type that formulas say needs least.
    """
    if change.effect == NOT_FEASIBLE or not change.change.startswith("raise ") or "every" in change.change:
        return
    assert ", raise" not in change.change
    value = value_of(change.effect)
    loose = isinstance(question.workload, InferenceWorkload)
    less = value * 0.95
    if "accelerator" in change.change:
        less = value - 1
    if loose:
        less = min(less, value / 1.5)
    assert feasible(with_value(question, change.change, value), catalog), change
    if less >= 1 or "accelerator" not in change.change:
        assert not does_in_one(with_value(question, change.change, less), catalog), change


@pytest.mark.slow
@given(SERVICES, LIMITS)
def test_what_would_do_does_and_less_does_not(workload: InferenceWorkload, limits: dict[str, Any]) -> None:
    question = Question(workload, Constraints(**limits))
    for change in suggested(question):
        if ", raise" not in change.change:
            check(question, change)


@pytest.mark.slow
@given(SERVICES, LIMITS)
def test_every_limit_of_number_cost_and_power_is_suggested(workload: InferenceWorkload, limits: dict[str, Any]) -> None:
    changes = {c.change.split(" (")[0]: c.effect for c in suggested(Question(workload, Constraints(**limits)))}
    for name in limits:
        shown = name.replace("power_w", "power_kw")
        if changes and shown in SIZES:
            assert f"raise {shown}" in changes


def test_two_changes_are_suggested_if_no_single_one_is_enough() -> None:
    """A large model on one small card: more cards alone do not do, nor do other types of which one is allowed."""
    wanted = Constraints(accelerators=("acme-card",), max_accelerators=1)
    changes = {c.change: c.effect for c in suggested(Question(replace(CHAT, model=LLAMA_70B), wanted))}
    assert changes["raise max_accelerators (now 1)"] == NOT_FEASIBLE
    assert changes["allow other accelerators, raise max_accelerators (now 1)"].startswith(
        "feasible at 8 accelerators: 8 ×"
    )


PAIR = re.compile(
    r"feasible at ([\d,.]+) (?:accelerators?|kW|USD(?:/h)?) and ([\d,.]+) (?:accelerators?|kW|USD(?:/h)?): "
)


def check_pair(question: Question, change: Effect) -> None:
    """Both values are enough together, and neither is with the other limit as requested."""
    found = PAIR.match(change.effect)
    assert found, change
    labels, values = change.change.split(", "), [float(text.replace(",", "")) for text in found.groups()]
    assert does_in_one(with_value(with_value(question, labels[0], values[0]), labels[1], values[1])), change
    for label, value in zip(labels, values, strict=True):
        assert not does_in_one(with_value(question, label, value)), change


def test_two_limits_that_bind_together_are_raised_together() -> None:
    busy = replace(CHAT, peak_per_s=200.0, average_per_s=100.0, slo=Slo(None, None, None, 95.0))
    question = Question(busy, Constraints(max_accelerators=2, max_usd_per_hour=2.0))
    changes = suggested(question)
    assert [c.effect for c in changes[:2]] == [NOT_FEASIBLE, NOT_FEASIBLE]
    assert changes[2].change == "raise max_accelerators (now 2), raise max_usd_per_hour (now 2)"
    check_pair(question, changes[2])


@SLOW
@given(SERVICES, st.integers(1, 8), st.floats(0.05, 30), st.floats(100, 20_000))
def test_every_pair_that_is_stated_is_enough(
    workload: InferenceWorkload, count: int, usd: float, power_w: float
) -> None:
    question = Question(workload, Constraints(max_accelerators=count, max_usd_per_hour=usd, max_power_w=power_w))
    for change in suggested(question):
        if change.change.startswith("raise max_") and ", raise max_" in change.change:
            check_pair(question, change)


def test_limits_of_time_and_money_that_only_fall_together() -> None:
    fast = replace(CHAT, slo=Slo(0.001, 0.0001, None, 95.0))
    changes = suggested(Question(fast, Constraints(max_usd_per_hour=0.0001)))
    assert changes[0].effect == NOT_FEASIBLE
    assert changes[-1].change == "remove every latency limit, raise max_usd_per_hour (now 0.0001)"
    assert re.match(r"feasible at [\d.]+ USD/h: \d+ × ", changes[-1].effect)


@pytest.mark.parametrize(
    ("limits", "label"),
    [
        ({"max_accelerators": 1}, "raise max_accelerators (now 1)"),
        ({"max_usd_per_hour": 0.5}, "raise max_usd_per_hour (now 0.5)"),
        ({"max_power_w": 500.0}, "raise max_power_kw (now 0.5)"),
    ],
)
def test_a_run_gets_the_least_sufficient_change(limits: dict[str, Any], label: str) -> None:
    question = Question(PRETRAIN, Constraints(**limits))
    (change,) = [c for c in suggested(question) if c.change == label]
    check(question, change)


def test_a_deadline_that_would_do_does() -> None:
    soon = replace(PRETRAIN, deadline_s=PRETRAIN.deadline_s / 1000)
    (change,) = [c for c in suggested(Question(soon)) if "deadline" in c.change]
    found = re.match(r"feasible at ([\d,.]+) (days|hours): ", change.effect)
    assert found, change
    deadline_s = float(found[1].replace(",", "")) * (86400 if found[2] == "days" else 3600)
    assert feasible(Question(replace(soon, deadline_s=deadline_s * 1.005)))
    assert not feasible(Question(replace(soon, deadline_s=deadline_s * 0.95)))


def test_an_answer_without_a_recommendation_says_them() -> None:
    answer = recommend_hardware(Question(CHAT, Constraints(max_usd_per_hour=0.1)), SMALL)
    assert not answer.recommendations
    assert answer.sensitivity[0].change == "raise max_usd_per_hour (now 0.1)"


SMALL_CHAT = replace(CHAT, model=LLAMA_8B, peak_per_s=40.0, average_per_s=20.0)
DEAR = Question(SMALL_CHAT, Constraints(max_usd_per_hour=0.01))


@SLOW
@given(SERVICES, LIMITS, st.sampled_from([0.5, 0.8, 0.99]))
def test_bounds_rule_out_no_plan_that_meets_all_limits(
    workload: InferenceWorkload, limits: dict[str, Any], confidence: float
) -> None:
    question = Question(workload, Constraints(confidence=confidence, **limits))
    found = find_plans_within_limits(question, SMALL)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(room, "may_be_feasible", lambda _, plans: np.ones(len(plans), bool))
        every = find_plans_within_limits(question, SMALL)
    for name in ("accelerator", "accelerators", "price"):
        assert getattr(found, name).tolist() == getattr(every, name).tolist()


@pytest.mark.parametrize(
    ("limits", "slo"),
    [
        ({"max_usd_per_hour": 0.01}, SMALL_CHAT.slo),
        ({"max_accelerators": 8}, Slo(None, 1e-5, None, 95.0)),
        ({"max_accelerators": 8, "accelerators": ("acme-card",)}, SMALL_CHAT.slo),
    ],
    ids=["price", "reading the weights", "holding the weights"],
)
def test_plans_that_bounds_rule_out_are_not_searched(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], slo: Slo
) -> None:
    monkeypatch.setattr(room, "search_plans", lambda *_, **__: pytest.fail("searched"))
    model = LLAMA_70B if "accelerators" in limits else LLAMA_8B
    question = Question(replace(SMALL_CHAT, slo=slo, model=model), Constraints(**limits))
    assert len(find_plans_within_limits(question, SMALL)) == 0


def confirmed(
    question: Question, times: float = 1.0, types: Callable[[float], tuple[str, ...]] | None = None
) -> tuple[float, FeasiblePlans] | None:
    """The confirmed value of the only resource limit, from a multiple of the least need by formulas."""
    ((limit, knob),) = resource_knobs(question.constraints)
    ways = find_feasible_plans(question, SMALL)
    need = limit.needed(ways.accelerators, ways.cost)
    best = ways.take(np.lexsort((ways.price, need))[:1])
    among = types or (lambda value: ways.take(need <= value).types(SMALL))
    return confirm_value(
        question, SMALL, knob, float(need.min()) * times, best, among, lambda p: limit.needed(p.accelerators, p.cost)
    )


def test_only_streams_of_tokens_are_tried() -> None:
    assert needs_simulation(DEAR)
    run = Question(PRETRAIN, Constraints(max_usd_per_hour=1.0))
    assert not needs_simulation(run)
    ((_, knob),) = resource_knobs(run.constraints)
    found = confirm_value(run, SMALL, knob, 7.3, empty_plans(), lambda _: ())
    assert found is not None and found[0] == 7.3


def test_a_value_is_taken_up_until_the_decision_finds_something() -> None:
    found = confirmed(DEAR, 1 / 1.3)
    assert found is not None
    value, plan = found
    ((_, knob),) = resource_knobs(DEAR.constraints)
    slug = SMALL.accelerators[int(plan.accelerator[0])].slug
    assert float(plan.cost.usd_per_hour[0]) <= value
    assert len(decide_for_type(knob.set_value(DEAR, value), SMALL, slug))
    assert not len(decide_for_type(knob.set_value(DEAR, value / 1.5), SMALL, slug))
    assert confirmed(DEAR, 1 / 10) is None


def test_a_value_that_the_whole_question_refuses_is_not_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """One type alone may pass where the question, which tries the best of several types, finds nothing."""
    first = confirmed(DEAR)
    assert first is not None
    real = room.decide_for_types
    refused: list[float] = []

    def decide(question: Question, catalog: Catalog, types: tuple[str, ...]) -> FeasiblePlans:
        most = question.constraints.max_usd_per_hour or 0.0
        if len(types) > 1 and most < first[0] * 1.09:
            refused.append(most)
            return empty_plans()
        return real(question, catalog, types)

    monkeypatch.setattr(room, real.__name__, decide)
    every = tuple(a.slug for a in SMALL.accelerators)
    later = confirmed(DEAR, types=lambda _: every)
    assert later is not None and refused
    assert later[0] >= first[0] * 1.09 and later[0] not in refused


def test_numbers_stay_whole() -> None:
    found = confirmed(Question(SMALL_CHAT, Constraints(max_accelerators=1)))
    assert found is not None and float(found[0]).is_integer()


def test_the_next_type_is_tried_where_the_cheapest_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    free = Question(replace(SMALL_CHAT, slo=Slo(20.0, 2.0, None, 95.0)))
    ways = find_feasible_plans(free, SMALL)
    best = ways.cheapest()
    first = SMALL.accelerators[int(best.accelerator[0])].slug
    real = room.decide_for_type
    monkeypatch.setattr(room, real.__name__, lambda q, m, slug: empty_plans() if slug == first else real(q, m, slug))
    other = cheapest_confirmed(free, SMALL, ways)
    assert other is not None
    assert int(other.accelerator[0]) != int(best.accelerator[0])
    monkeypatch.setattr(room, real.__name__, lambda *_: empty_plans())
    assert cheapest_confirmed(free, SMALL, ways) is None
    assert cheapest_confirmed(free, SMALL, empty_plans()) is None


def test_a_number_that_one_layout_undercuts_is_stated_only_if_the_question_finds_it() -> None:
    """A simulation may size a fleet smaller than the formulas do, which drop it at a limit of that size."""
    workload = replace(
        SMALL_CHAT,
        peak_per_s=198.65316878692363,
        average_per_s=198.65316878692363 / 2,
        input_tokens=Lengths(21.194959465136847),
        output_tokens=Lengths(200.0),
        max_context_tokens=221.194959465136847,
        slo=Slo(1.606666126802699, 0.06545665026418973, None, 95.0),
        redundancy=Redundancy(spare=1),
    )
    question = Question(workload, Constraints(max_accelerators=5, accelerators=("bolt-desk",)))
    (change,) = [c for c in suggested(question) if c.change == "raise max_accelerators (now 5)"]
    stated = value_of(change.effect)
    assert stated > 5 and feasible(with_value(question, change.change, stated))
    assert not feasible(with_value(question, change.change, stated - 1))


def test_the_closest_option_does_not_suggest_another_value_than_the_confirmed_changes() -> None:
    def missed(code: str, needed: float, unit: str) -> Rejection:
        return Rejection("acme-big", "Acme Big", code, "", needed, 1.0, unit, 8.0, FilterStage.LIMITS)

    number, tokens = missed("too_many_accelerators", 9.0, "accelerators"), missed("too_slow_per_token", 27.14, "ms")
    more = Effect("raise max_accelerators (now 1)", "feasible at 24 accelerators: 16 × Acme Big")
    first = Effect("raise ttft_ms (now 500)", "feasible at TTFT 3,360 ms: 8 × Acme Big")
    none = Effect("raise max_accelerators (now 1)", NOT_FEASIBLE)
    assert note_on_closest(number, [more, first]) == f" Confirmed: {more.change}; {more.effect}."
    assert note_on_closest(number, [replace(more, effect="feasible at 9 accelerators: 8 × Acme Big")]) == ""
    alone = " No value of this limit alone was confirmed to be enough."
    for closest, effects in ((number, [none, first]), (tokens, [first])):
        assert note_on_closest(closest, effects) == f"{alone} Confirmed: {first.change}; {first.effect}."
    for same in ("TPOT 27.1 ms", "TPOT 30 ms"):
        own = Effect("raise chat tpot_ms (now 25)", f"feasible at {same}: 8 × Acme Big")
        assert bool(note_on_closest(tokens, [first, own])) == (same == "TPOT 30 ms")
    # A pair does not confirm one of its limits, nor do changes that are no limits or not enough.
    pair = Effect("allow other engines, raise max_accelerators (now 1)", "feasible at 9 accelerators: 8 × Acme Big")
    assert note_on_closest(number, [pair]).startswith(alone)
    assert note_on_closest(number, [none]) == "" == note_on_closest(number, [])
    assert note_on_closest(missed("out_of_memory", 51.9, "gib"), [first]) == ""
    answer = recommend_hardware(Question(CHAT, Constraints(max_usd_per_hour=0.1)), SMALL)
    assert answer.summary.endswith(
        f"{answer.rejected[0].text}{note_on_closest(answer.rejected[0], answer.sensitivity)}"
    )


def test_the_closest_option_misses_a_limit_that_a_confirmed_change_raises() -> None:
    """A slow type may miss a token limit by little and the first token by far more, which only its text omits."""

    def missed(slug: str, code: str, needed: float, limit: float) -> Rejection:
        return Rejection(slug, slug, code, "", needed, limit, "ms", 8.0, FilterStage.SPEED)

    slow, fast = missed("slow", "too_slow_per_token", 53.0, 50.0), missed("fast", "too_slow_to_first_token", 2e3, 100.0)
    memory = Rejection("small", "small", "out_of_memory", "", 60.0, 40.0, "gib", 1.0, FilterStage.MEMORY)
    raised = Effect("raise ttft_ms (now 100)", "feasible at TTFT 2,760 ms: 8 × fast")
    assert closest_option([slow, fast], [raised]) is fast
    assert closest_option([slow, fast], [replace(raised, effect=NOT_FEASIBLE)]) is slow
    assert closest_option([slow], [raised]) is slow
    assert closest_option([memory, slow, fast], [raised]) is memory
    assert closest_option([], [raised]) is None


def test_the_closest_option_without_a_number_is_a_type_that_a_confirmed_change_uses() -> None:
    """A pattern may match a sold type without a known rate and a faster one without an accepted price."""

    def without_number(name: str, code: str, stage: FilterStage) -> Rejection:
        return Rejection(name.lower(), name, code, f"{name}: {code}.", stage=stage)

    rateless = without_number("Old", "format_unsupported", FilterStage.OFFERS)
    unpriced = without_number("New", "no_firm_price", FilterStage.UNSOLD)
    excluded = without_number("Other", "excluded", FilterStage.EXCLUDED)
    rejected = [rateless, unpriced, excluded]
    prices = Effect("allow estimated prices", "feasible with 8 × New (10 USD/h)")
    others = Effect("allow other accelerators", "feasible with 1 × Other (2 USD/h)")
    assert closest_option(rejected, [others, prices]) is unpriced
    assert note_on_closest(unpriced, [others, prices]) == f" Confirmed: {prices.change}; {prices.effect}."
    for effects in ([], [others], [replace(prices, effect=NOT_FEASIBLE)]):
        assert closest_option(rejected, effects) is rateless
        assert note_on_closest(rateless, effects) == ""


def rejected(
    slug: str, code: str = "too_slow_per_token", stage: FilterStage = FilterStage.SPEED, miss: float = 1.5
) -> Rejection:
    return Rejection(slug, slug, code, "", miss * 10.0, 10.0, "ms", 1.0, stage)


OVER = rejected("over", "over_budget", FilterStage.LIMITS)
NEAR, FAR, FAILED = rejected("near"), rejected("far", miss=3.0), rejected("failed", "no_layout", FilterStage.OFFERS)


def alternatives(
    limits: Constraints, workload: InferenceWorkload = SMALL_CHAT, *judged: Rejection
) -> dict[str, Question]:
    question = Question(workload, limits)
    return {c.name: c.apply(question) for c in list_alternatives(question, judged)}


@pytest.mark.parametrize(("times", "offered"), [(1.0, True), (None, False)])
def test_named_hardware_is_tried_within_longer_limits_than_the_usual_ones(times: float | None, offered: bool) -> None:
    few = replace(CHAT, load=Load.CLOSED, in_flight=4.0, peak_per_s=0.0, average_per_s=0.0)
    asked = Question(replace(few, slo=Slo(1.0, 0.02, None, 95.0, times)), Constraints(accelerators=("acme-card",)))
    effects = {each.change: each.effect for each in suggested(asked)}
    assert "times the usual" not in effects["allow other accelerators"]
    label = "allow consumer and edge hardware"
    assert (label in effects) == offered
    if offered:
        assert effects[label].startswith("feasible with 4 × Acme Card (3.20 USD/h) within 2 times the usual latency")
        wider = replace(asked, constraints=replace(asked.constraints, segments=SEGMENTS))
        answer = recommend_hardware(wider, SMALL)
        assert answer.recommendations[0].estimate.deployment.total_accelerators == 4
        (missed,) = [w.text for w in answer.warnings if w.code == "assumed_limits_missed"]
        assert "limits 2 times as long" in missed


def test_requirements_of_the_request_are_dropped_one_at_a_time() -> None:
    broad = [
        "allow broker, outdated and estimated prices",
        "allow consumer and edge hardware",
        "allow 4-bit weights, broker and estimated prices",
    ]
    assert list(alternatives(Constraints())) == broad
    for limits, name, dropped in (
        (Constraints(accelerators=("acme-big",)), "allow other accelerators", "accelerators"),
        (Constraints(vendors=("acme",)), "allow other accelerators", "vendors"),
        (Constraints(segments=("edge",)), "allow other accelerators", "segments"),
        (Constraints(exclude_accelerators=("acme-big",)), "allow the excluded accelerators", "exclude_accelerators"),
        (Constraints(regions=("eu",)), "allow every environment, provider, region and pricing model", "regions"),
        (Constraints(providers=("sky",)), "allow every environment, provider, region and pricing model", "providers"),
        (Constraints(engines=("vllm",)), "allow other engines", "engines"),
        (Constraints(kv_formats=("fp8",)), "allow other KV cache formats", "kv_formats"),
        (Constraints(price_kinds=("provider",)), "allow prices of every kind and age", None),  # type: ignore[arg-type]
        (Constraints(max_price_age_days=9.0), "allow prices of every kind and age", None),
    ):
        found = alternatives(limits)
        assert name in found
        if dropped is not None:
            assert getattr(found[name].constraints, dropped) == ()
            assert replace(found[name].constraints, **{dropped: getattr(limits, dropped)}) == limits
        else:
            assert found[name].constraints.max_price_age_days is None and len(found[name].constraints.price_kinds) > 3
    named = alternatives(Constraints(segments=("edge",), price_kinds=("provider",)))  # type: ignore[arg-type]
    assert not {*broad} & {*named}
    assert "allow broker and estimated prices" in alternatives(Constraints(max_price_age_days=9.0))


def test_changes_that_help_some_types_are_restricted_to_them() -> None:
    spared = replace(SMALL_CHAT, redundancy=Redundancy(spare=1))
    found = alternatives(Constraints(max_usd_per_hour=1.0), spared, OVER, NEAR, FAR, FAILED)

    def types(name: str) -> tuple[str, ...]:
        return found[name].constraints.accelerators

    assert types("allow spot capacity, which the provider can reclaim") == types("no redundancy") == ("over",)
    assert types("lower the confidence to 50 %") == types("allow an 8-bit KV cache") == ("over", "near")
    assert types("allow 4-bit weights") == ("over", "near", "far", "failed")
    bare = found["no redundancy"].workload
    assert isinstance(bare, InferenceWorkload) and bare.redundancy.spare == 0
    assert found["lower the confidence to 50 %"].constraints.confidence == 0.5
    for without, name in (
        (alternatives(Constraints(), spared, OVER), "allow spot capacity, which the provider can reclaim"),
        (alternatives(Constraints(max_usd_per_hour=1.0), SMALL_CHAT, OVER), "no redundancy"),
        (alternatives(Constraints(max_usd_per_hour=1.0), spared, NEAR), "no redundancy"),
        (alternatives(Constraints(confidence=0.5), spared, NEAR), "lower the confidence to 50 %"),
        (alternatives(Constraints(), spared, FAR), "lower the confidence to 50 %"),
        (alternatives(Constraints(), spared), "allow 4-bit weights"),
    ):
        assert name not in without
    formats = alternatives(Constraints(weight_formats=("fp8",)), spared, NEAR)
    assert "fp8" not in formats["allow other weight formats"].constraints.weight_formats
    assert "allow 4-bit weights" not in formats


@pytest.mark.parametrize(
    ("workload", "limits", "offered"),
    [
        (PRETRAIN, Constraints(), True),
        (PRETRAIN, Constraints(max_purchase_usd=1.0), False),  # purchases count already
        (PRETRAIN, Constraints(pricing_models=(PricingModel.SPOT,)), False),
        (SMALL_CHAT, Constraints(), False),
    ],
)
def test_work_that_ends_may_be_done_on_purchased_machines(workload: Any, limits: Constraints, offered: bool) -> None:
    changed = {c.name: c.apply(Question(workload, limits)) for c in list_alternatives(Question(workload, limits), ())}
    assert ("allow purchase" in changed) == offered
    if offered:
        assert PricingModel.OWNED in changed["allow purchase"].constraints.pricing_models


def test_more_resources_help_types_that_miss_only_them() -> None:
    every = [
        OVER,
        NEAR,
        FAILED,
        rejected("memory", "out_of_memory", FilterStage.MEMORY),
        rejected("unsold", "no_offer", FilterStage.UNSOLD),
    ]
    for limits, helped in (
        (Constraints(max_usd_per_hour=1.0), ("over",)),
        (Constraints(max_accelerators=1), ("over", "near", "failed", "memory")),
        (Constraints(max_purchase_usd=1.0), ("over", "near", "failed", "memory")),
    ):
        assert types_helped_by_resources(limits, every) == helped


@pytest.mark.parametrize(
    ("field", "limit", "name", "value", "kept", "text"),
    [
        ("max_accelerators", 4, "raise max_accelerators (now 4)", 6.0, 6, "6 accelerators"),
        ("max_usd_per_hour", 1.5, "raise max_usd_per_hour (now 1.5)", 2.5, 2.5, "2.5 USD/h"),
        ("max_purchase_usd", 100.5, "raise max_purchase_usd (now 100)", 250.5, 250.5, "251 USD"),
        ("max_power_w", 1500.0, "raise max_power_kw (now 1.5)", 2.5, 2500.0, "2.5 kW"),
    ],
)
def test_a_resource_limit_is_named_and_set_in_units_of_the_request(
    field: str, limit: float, name: str, value: float, kept: float, text: str
) -> None:
    limits = Constraints(**{field: limit})  # type: ignore[arg-type]
    ((_, knob),) = resource_knobs(limits)
    assert (knob.name, knob.format_value(value)) == (name, text)
    changed = knob.set_value(Question(CHAT, limits), value)
    assert getattr(changed.constraints, field) == kept and type(getattr(changed.constraints, field)) is type(kept)
    free = without_resource_limits(Question(CHAT, limits, Objective.LATENCY, trace=True))
    assert getattr(free.constraints, field) == (np.inf if field == "max_purchase_usd" else None)
    assert (free.objective, free.trace) == (Objective.COST, False)
    assert list(resource_knobs(Constraints())) == []


def test_time_limits_are_those_of_the_request_with_the_least_known_need() -> None:
    chat = replace(SMALL_CHAT, slo=Slo(0.5, 0.02, 9.0, 95.0))
    judged = [rejected("a", "too_slow_to_first_token", miss=70.0), NEAR, FAR, OVER]
    found = {time.knob.name: time for time in requested_time_limits(Question(chat), judged)}
    assert list(found) == ["raise ttft_ms (now 500)", "raise tpot_ms (now 20)", "raise e2e_ms (now 9,000)"]
    first, token, whole = found.values()
    assert (first.known_need_s, token.known_need_s, whole.known_need_s) == pytest.approx((0.7, 0.015, np.inf))
    assert (first.types, token.types) == (("a", "over"), ("a", "near", "far", "over"))
    assert token.knob.format_value(0.0251) == "TPOT 25.1 ms"
    changed = token.knob.set_value(Question(chat), 0.04).workload
    assert isinstance(changed, InferenceWorkload) and changed.slo == Slo(0.5, 0.04, 9.0, 95.0)
    bare = without_latencies(Question(chat)).workload
    assert isinstance(bare, InferenceWorkload) and bare.slo == Slo(None, None, None, 95.0)
    (deadline,) = requested_time_limits(Question(PRETRAIN), [rejected("a", "too_slow", miss=2.0)])
    assert deadline.known_need_s == 20 * 86400 and deadline.knob.now == PRETRAIN.deadline_s
    assert deadline.knob.set_value(Question(PRETRAIN), 9.0).workload.deadline_s == 9.0
    assert deadline.knob.format_value(86400 * 3.0) == "3 days"


def plans(*rows: tuple[int, float, float, float, float]) -> FeasiblePlans:
    """Plans by accelerator type, accelerators, USD/h, purchase and rated power."""
    kind, count, hourly, bought, rated = (np.array(column) for column in zip(*rows, strict=True))
    nothing = np.full(len(rows), np.nan)
    return FeasiblePlans(kind, count, Cost(hourly, bought, nothing, rated, nothing, nothing), nothing)


def test_plans_are_compared_with_limits_and_described_by_the_cheapest() -> None:
    ways = plans((0, 8.0, 40.0, np.nan, 9e3), (1, 16.0, 30.0, 5e4, 8e3), (1, 12.0, 30.0, np.nan, 7e3))
    names = [SMALL.accelerators[i].name for i in (0, 1)]
    assert ways.describe(SMALL) == f"12 × {names[1]} (30.00 USD/h)"
    assert ways.take(np.array([1])).describe(SMALL) == f"16 × {names[1]} (30.00 USD/h, 50,000 USD purchase price)"
    ends = replace(ways, usd_total=np.array([100.0, 200.0, 300.0]))
    assert ends.describe(SMALL) == f"8 × {names[0]} (100 USD in total)" and len(ends.cheapest()) == 1
    assert ways.types(SMALL) == tuple(SMALL.accelerators[i].slug for i in (0, 1))
    for limits, kept in (
        (Constraints(max_accelerators=12), [8.0, 12.0]),
        (Constraints(max_usd_per_hour=35.0), [16.0, 12.0]),
        (Constraints(max_purchase_usd=4e4), [8.0, 12.0]),
        (Constraints(max_power_w=7.5e3), [12.0]),
        (Constraints(max_usd_per_hour=35.0, max_purchase_usd=1.0), [12.0]),
        (Constraints(), [8.0, 16.0, 12.0]),
    ):
        assert ways.within(limits).accelerators.tolist() == kept
    other = [limit for limit in RESOURCE_LIMITS if limit.name != "max_usd_per_hour"]
    assert len(ways.within(Constraints(max_usd_per_hour=1.0), other)) == 3


def test_an_amount_of_money_is_tried_with_three_digits_and_a_plan_that_needs_less_is_tried_first() -> None:
    found = confirmed(DEAR)
    assert found is not None
    value, plan = found
    assert value == float(f"{value:.3g}") and not value.is_integer()
    assert value <= float(plan.cost.usd_per_hour[0]) * 1.01
    rest = alternatives(Constraints(weight_formats=("fp8", "bf16")))["allow other weight formats"]
    every = tuple({"fp8", "bf16", *rest.constraints.weight_formats})
    assert "allow other weight formats" not in alternatives(Constraints(weight_formats=every))


def test_a_known_need_that_is_enough_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = replace(SMALL_CHAT, slo=Slo(None, 0.0001, None, 95.0))
    tried: list[float] = []
    real = room.find_plans_within_limits

    def find(question: Question, catalog: Catalog, types: tuple[str, ...] | None = None) -> FeasiblePlans:
        assert isinstance(question.workload, InferenceWorkload)
        tried.append(question.workload.slo.tpot_s or 0.0)
        return real(question, catalog, types)

    monkeypatch.setattr(room, "find_plans_within_limits", find)
    for miss, known in ((500.0, True), (0.011, False)):
        tried.clear()
        (time,) = requested_time_limits(Question(chat), [rejected("acme-big", miss=miss)])
        enough = min_feasible_time(Question(chat), time, ("acme-big",), SMALL)
        if known:
            assert enough is not None and enough[0] == 5.0 and tried == [5.0]
        else:
            assert tried[0] == pytest.approx(0.00011) and len(tried) > 1
    limited = Question(chat, Constraints(max_accelerators=8))
    tried.clear()
    (time,) = requested_time_limits(limited, [rejected("acme-big", miss=500.0)])
    min_feasible_time(limited, time, ("acme-big",), SMALL)
    assert tried[0] == pytest.approx(0.0016), "the need is known without the limit on accelerators only"


def test_types_are_tried_in_the_order_of_their_cheapest_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = plans((0, 2.0, 40.0, np.nan, 1.0), (1, 12.0, 30.0, np.nan, 1.0), (2, 4.0, 35.0, np.nan, 1.0))
    tried: list[str] = []

    def decide(_: Question, __: Catalog, slug: str) -> FeasiblePlans:
        tried.append(slug)
        return empty_plans()

    monkeypatch.setattr(room, "decide_for_type", decide)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        tried.clear()
        assert cheapest_confirmed(Question(SMALL_CHAT), SMALL, ways.take(np.array(order))) is None
        assert tried == [SMALL.accelerators[code].slug for code in (1, 2, 0)]


@pytest.mark.parametrize(("needed", "serves_from", "stated"), [(8.0, 8.0, 8.0), (8.0, 9.0, 10.0), (12.0, 8.0, 10.0)])
def test_a_plan_that_needs_less_than_is_tried_states_what_it_needs_if_that_is_enough(
    monkeypatch: pytest.MonkeyPatch, needed: float, serves_from: float, stated: float
) -> None:
    """At 10 USD/h, as formulas say, a plan is found; the plan itself costs less, or not."""
    ((limit, knob),) = resource_knobs(DEAR.constraints)
    best = plans((0, 2.0, needed, np.nan, 1.0))

    def decide(question: Question, **_: Any) -> FeasiblePlans:
        return best if (question.constraints.max_usd_per_hour or 0.0) >= serves_from else empty_plans()

    monkeypatch.setattr(room, "decide_for_type", decide)
    slug = SMALL.accelerators[0].slug
    for need_of in (lambda found: limit.needed(found.accelerators, found.cost), None):
        found = confirm_value(DEAR, SMALL, knob, 10.0, best, lambda _: (slug,), need_of)
        assert found is not None and found[1] is best
        assert found[0] == (10.0 if need_of is None else stated)


def test_a_smaller_need_is_not_tried_where_formulas_find_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    ((limit, knob),) = resource_knobs(DEAR.constraints)
    best, slug, tried = plans((0, 2.0, 8.0, np.nan, 1.0)), SMALL.accelerators[0].slug, list[float | None]()

    def decide(question: Question, *_: Any, **__: Any) -> FeasiblePlans:
        tried.append(question.constraints.max_usd_per_hour)
        return best

    for name in ("decide_for_type", "decide_for_types"):
        monkeypatch.setattr(room, name, decide)
    types = SMALL.accelerators[1].slug, slug
    confirm_value(
        DEAR,
        SMALL,
        knob,
        10.0,
        best,
        lambda value: types if value >= 10.0 else (),
        lambda plan: limit.needed(plan.accelerators, plan.cost),
    )
    assert set(tried) == {10.0}


@pytest.mark.parametrize(("enough_from", "stated"), [(7.0, 7.0), (9.0, 10.0)])
def test_another_type_that_needs_less_than_the_first_is_stated_if_it_is_confirmed(
    monkeypatch: pytest.MonkeyPatch, enough_from: float, stated: float
) -> None:
    """At 10 USD/h the first type is feasible, but the recommendation there is another type for 7 USD/h."""
    ((limit, knob),) = resource_knobs(DEAR.constraints)
    first, other = plans((0, 2.0, 10.0, np.nan, 1.0)), plans((1, 2.0, 7.0, np.nan, 1.0))

    def decide(question: Question, _: Catalog, types: tuple[str, ...]) -> FeasiblePlans:
        if len(types) == 1:
            return first if (question.constraints.max_usd_per_hour or 0.0) >= 10.0 else empty_plans()
        return other if (question.constraints.max_usd_per_hour or 0.0) >= enough_from else empty_plans()

    monkeypatch.setattr(room, "decide_for_types", decide)
    every = tuple(a.slug for a in SMALL.accelerators)
    found = confirm_value(
        DEAR, SMALL, knob, 10.0, first, lambda _: every, lambda plan: limit.needed(plan.accelerators, plan.cost)
    )
    assert found is not None
    assert (found[0], found[1] is other) == (stated, stated == 7.0)


def test_time_limits_are_relaxed_for_types_that_meet_the_other_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = replace(SMALL_CHAT, slo=Slo(None, 0.001, None, 95.0))
    judged = [rejected(a.slug) for a in SMALL.accelerators]
    tried: list[tuple[str, ...]] = []
    monkeypatch.setattr(room, "relax_time", lambda _, __, types, ___: tried.append(types))
    every, both = tuple(a.slug for a in SMALL.accelerators), ways_at(chat, 0.001 * room.MAX_LIMIT_FACTOR)
    most = float(both.cost.usd_per_hour.min()) * 1.01
    for limits in (Constraints(), Constraints(max_usd_per_hour=most)):
        assert list(relax_time_limits(Question(chat, limits), SMALL, judged)) == []
    assert tried == [every, both.within(limits).types(SMALL)]
    assert 0 < len(tried[1]) < len(every)
    monkeypatch.setattr(room, "find_plans_within_limits", lambda *_: pytest.fail("searched without a limit to meet"))
    assert list(relax_time_limits(Question(chat), SMALL, judged)) == []


def ways_at(workload: InferenceWorkload, tpot_s: float) -> FeasiblePlans:
    """Every plan that meets a TPOT by formulas."""
    return find_feasible_plans(Question(replace(workload, slo=replace(workload.slo, tpot_s=tpot_s))), SMALL)
