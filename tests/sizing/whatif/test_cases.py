"""What would change with one thing changed, held against the first recommendation."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search
from app.sizing.finalists import IN_ONE_POOL
from app.sizing.pools.search import SimulatedPair, better_split
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Effect, Estimate, Percentiles
from app.sizing.serving.search import enumerate_allowed_plans, search_plans
from app.sizing.training.counts import counts_of
from app.sizing.training.search import best_runs, smallest_runs
from app.sizing.whatif import cases
from app.sizing.whatif.cases import (
    BATCH_FACTOR,
    State,
    best_run_with_larger_batch,
    combined_state,
    current_state,
    describe_cheaper_option,
    describe_effect,
    describe_plan_change,
    doubled_accelerators_change,
    find_best_plan,
    larger_batch_change,
    list_cases,
    pool_in_case,
    ranking_figures,
    scale_state,
    split_changes,
    volume_changes,
)
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, PRETRAIN, col, row
from tests.sizing.answer.given import COST, SPEED, estimated
from tests.sizing.pools.given import at_rate
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of

ON_BIG = Constraints(accelerators=("acme-big",), providers=("sky",))
BUSY = replace(CHAT, peak_per_s=400.0, average_per_s=200.0)
ROOM = "with 50 % instead of 30 % reserve"


def changed_by(workload: InferenceWorkload, label: str) -> dict[str, Any]:
    """What a change of that label asks for."""
    twice = {"peak_per_s": 2 * workload.peak_per_s, "average_per_s": 2 * workload.average_per_s}
    changes: dict[str, dict[str, Any]] = {
        "twice the peak load": twice,
        "redundancy n+1": {"redundancy": Redundancy(spare=1)},
        ROOM: {"target_utilization": 0.5},
    }
    return changes[label]


def effects(
    workload: InferenceWorkload, constraints: Constraints = ON_BIG, objective: Objective = Objective.COST
) -> dict[str, str]:
    question = Question(workload, constraints, objective=objective)
    found = recommend_hardware(question, SMALL).sensitivity
    return {c.change.removeprefix(IN_ONE_POOL): c.effect.partition(" (replicas: ")[0] for c in found}


def pair(effect: str) -> tuple[float, float]:
    """(changed, now) of the first two numbers that are held against one another."""
    found = re.search(r"([\d,.]+) instead of ([\d,.]+)", effect)
    assert found, effect
    changed, now = (float(number.replace(",", "")) for number in found.groups())
    return changed, now


def first(
    workload: InferenceWorkload, constraints: Constraints = ON_BIG, objective: Objective = Objective.COST
) -> Estimate:
    """The first recommendation, to which the suggested changes apply."""
    return recommend_hardware(Question(workload, constraints, objective=objective), SMALL).recommendations[0].estimate


def hourly(estimate: Estimate) -> float:
    assert estimate.cost is not None
    assert estimate.cost.usd_per_hour is not None
    return estimate.cost.usd_per_hour


def test_every_change_says_what_asking_for_it_would_answer() -> None:
    found = effects(BUSY)
    for label in ("twice the peak load", "redundancy n+1", ROOM):
        changes = changed_by(BUSY, label)
        changed = now = hourly(first(BUSY))
        if "same hardware" not in found[label]:
            changed, now = pair(found[label])
        assert now == pytest.approx(hourly(first(BUSY)), abs=1)
        assert changed == pytest.approx(hourly(first(replace(BUSY, **changes))), abs=1), label
    # twice the load is nearly twice the machines; a machine of eight costs the same full or not
    changed, now = pair(found["twice the peak load"])
    assert 1.5 * now <= changed <= 2 * now


@pytest.mark.parametrize(
    ("objective", "says"),
    [
        (Objective.COST, "USD/h"),
        (Objective.LATENCY, "ms per request"),
        (Objective.THROUGHPUT, "requests/s per accelerator"),
        (Objective.ENERGY, "kWh per million input and output tokens"),
        (Objective.BALANCED, "ms per request"),
    ],
)
def test_what_an_answer_ranks_by_is_what_it_tells(objective: Objective, says: str) -> None:
    found = effects(replace(BUSY, redundancy=Redundancy(double=True)), objective=objective)
    assert says in found["no redundancy"]
    if objective is Objective.BALANCED:
        assert "USD/h" in found["no redundancy"]


@pytest.mark.parametrize("objective", [o for o in Objective if o is not Objective.CARBON])  # SMALL has no countries
def test_a_change_of_load_is_what_the_same_deployment_would_do(objective: Objective) -> None:
    """If the changed request keeps the layout and the number of accelerators, its figure equals the suggested one."""
    twice = replace(BUSY, **changed_by(BUSY, "twice the peak load"))
    effect, now, then = (
        effects(BUSY, objective=objective)["twice the peak load"],
        first(BUSY, objective=objective),
        first(twice, objective=objective),
    )
    assert f"{then.deployment.total_accelerators} accelerators instead of {now.deployment.total_accelerators}" in effect
    alike = ("tensor_parallel", "pipeline_parallel", "weight_format", "engine", "offer")
    kinds = [deployment.pools is None for deployment in (now.deployment, then.deployment)]
    if kinds[0] == kinds[1] and all(getattr(now.deployment, n, 0) == getattr(then.deployment, n, 0) for n in alike):
        states = current_state(now), current_state(then)
        assert all(states)
        assert describe_effect(objective, BUSY, *states, within_limits=True) == effect  # type: ignore[arg-type]


def test_a_request_with_a_spare_shows_the_savings_without_it() -> None:
    found = effects(replace(BUSY, redundancy=Redundancy(double=True)))
    changed, now = pair(found["no redundancy"])
    assert changed < now
    assert "redundancy n+1" not in found


def test_an_existing_reserve_of_one_half_is_not_suggested() -> None:
    assert not any("reserve" in change for change in effects(replace(BUSY, target_utilization=0.5)))


def test_a_number_at_once_is_doubled_and_offline_work_has_none() -> None:
    closed = replace(CHAT, load=Load.CLOSED, in_flight=8.0, peak_per_s=0.0)
    assert list(effects(closed)) == ["twice the concurrency", "redundancy n+1", "rent or buy"][: len(effects(closed))]
    assert set(effects(replace(closed, load=Load.OFFLINE))) <= {"rent or buy"}


def test_machines_with_room_carry_more() -> None:
    """A little load on a machine of eight: twice as full, for the same money."""
    effect = effects(replace(CHAT, peak_per_s=1.0, average_per_s=0.5))["twice the peak load"]
    found = re.fullmatch(r"same hardware; utilization changes from ([\d.]+) % to ([\d.]+) %", effect)
    assert found, effect
    assert float(found[2]) == pytest.approx(2 * float(found[1]), rel=0.02)


def test_a_limit_that_is_passed_is_named() -> None:
    most = hourly(first(BUSY))
    effect = effects(BUSY, replace(ON_BIG, max_usd_per_hour=most))["twice the peak load"]
    assert "which exceeds your limits; no other option stays within your limits" in effect


@pytest.mark.parametrize(("peak", "changed_best"), [(20.0, 1), (90.0, 2)])
def test_what_would_then_be_best_is_what_the_changed_question_answers(peak: float, changed_best: int) -> None:
    """One machine of eight costs less than many cards; its best layout shows only as its scheduler runs."""
    workload = replace(CHAT, peak_per_s=peak, average_per_s=peak / 2)
    named = 0
    for label, effect in effects(workload, Constraints()).items():
        best = re.search(r"; best option then: ([\d,]+) .*, at ([\d.,]+) USD/h", effect)
        if best is None:
            continue
        then = first(replace(workload, **changed_by(workload, label)), Constraints())
        count, money = (float(number.replace(",", "")) for number in best.groups())
        assert (then.deployment.total_accelerators, hourly(then)) == pytest.approx((count, money), rel=0.005), label
        named += 1
    assert named == changed_best


NOW = State(8, 2.0, 0.34, 40.0, 0.5, 3.0, 0.2)


@pytest.mark.parametrize(
    ("objective", "then", "text"),
    [
        (Objective.COST, {"utilization": 0.68}, "same hardware; utilization changes from 34 % to 68 %"),
        (Objective.COST, {}, "same hardware, same price"),
        (
            Objective.COST,
            {"accelerators": 16, "usd": 80.0},
            "80.00 instead of 40.00 USD/h, 16 accelerators instead of 8",
        ),
        (Objective.COST, {"accelerators": 1}, "unchanged 40.00 USD/h, 1 accelerator instead of 8"),
        (
            Objective.COST,
            {"utilization": 0.75, "usd": 48.0},
            "same hardware; utilization changes from 34 % to 75 %, 48.00 instead of 40.00 USD/h",
        ),
        (
            Objective.COST,
            {"accelerators": 1200, "usd": 48.0},
            "48.00 instead of 40.00 USD/h, 1,200 accelerators instead of 8",
        ),
        (
            Objective.LATENCY,
            {"utilization": 0.68, "e2e_s": 0.7},
            "same hardware; utilization changes from 34 % to 68 %, 700 instead of 500 ms per request",
        ),
        (
            Objective.BALANCED,
            {"accelerators": 16, "usd": 80.0},
            "80.00 instead of 40.00 USD/h, unchanged 500 ms per request, 16 accelerators instead of 8",
        ),
        (
            Objective.ENERGY,
            {"accelerators": 16, "kwh_per_million": 0.4},
            "0.4 instead of 0.2 kWh per million input and output tokens, 16 accelerators instead of 8",
        ),
        (
            Objective.THROUGHPUT,
            {"accelerators": 16, "per_accelerator_per_s": 1.5},
            "1.5 instead of 3 requests/s per accelerator, 16 accelerators instead of 8",
        ),
    ],
)
def test_a_case_in_words(objective: Objective, then: dict[str, Any], text: str) -> None:
    assert describe_effect(objective, CHAT, NOW, replace(NOW, **then), within_limits=True) == text
    over = describe_effect(objective, CHAT, NOW, replace(NOW, **then), within_limits=False)
    assert over in (text, f"{text}, which exceeds your limits")


def test_without_a_price_there_is_nothing_to_hold_against() -> None:
    assert current_state(estimated(cost=None)) is None
    assert current_state(estimated(performance=None)) is None


SERVICES = st.builds(
    lambda large, load, peak, prompt, output, spare: replace(
        CHAT,
        model=LLAMA_70B if large else LLAMA_8B,
        load=load,
        in_flight=max(1.0, peak),
        peak_per_s=peak,
        average_per_s=peak / 2,
        input_tokens=Lengths(prompt),
        output_tokens=Lengths(output),
        max_context_tokens=prompt + output,
        redundancy=Redundancy(spare=spare),
    ),
    st.booleans(),
    st.sampled_from([Load.OPEN, Load.OPEN, Load.CLOSED, Load.BATCH, Load.OFFLINE]),
    st.floats(0.05, 200),
    st.floats(16, 4000),
    st.floats(2, 500),
    st.sampled_from([0, 0, 1, 2]),
)


@given(SERVICES, st.sampled_from(Objective))
def test_no_change_replaces_a_value_by_itself(workload: InferenceWorkload, objective: Objective) -> None:
    for effect in effects(workload, Constraints(), objective).values():
        for changed, now in re.findall(r"([\d,.]+\d) instead of ([\d,.]+\d)", effect):
            assert changed != now, effect
        assert "nan" not in effect
        assert "inf" not in effect


def changed(workload: InferenceWorkload) -> dict[str, InferenceWorkload]:
    """The workload after each change, by its name."""
    found = {change.name: change.apply(Question(workload)) for change in list_cases(workload)}
    assert all(replace(question, workload=workload) == Question(workload) for question in found.values())
    return {
        name: question.workload for name, question in found.items() if isinstance(question.workload, InferenceWorkload)
    }


def test_cases_change_one_thing_of_the_workload() -> None:
    twice, redundant, reserve = changed(CHAT).values()
    assert list(changed(CHAT)) == ["twice the peak load", "redundancy n+1", ROOM]
    assert twice == CHAT.scale_load(2.0)
    assert replace(redundant, redundancy=CHAT.redundancy) == CHAT and redundant.redundancy.spare == 1
    assert replace(reserve, target_utilization=CHAT.target_utilization) == CHAT and reserve.target_utilization == 0.5
    spared = changed(replace(CHAT, redundancy=Redundancy(spare=1), target_utilization=0.5))
    assert list(spared) == ["twice the peak load", "no redundancy"]
    assert spared["no redundancy"].redundancy.spare == 0
    closed = changed(replace(CHAT, load=Load.CLOSED, in_flight=8.0))
    assert list(closed) == ["twice the concurrency", "redundancy n+1"]
    assert closed["twice the concurrency"].in_flight == 16.0
    assert changed(replace(CHAT, load=Load.OFFLINE)) == {}


def test_the_state_shown_is_that_of_the_answer() -> None:
    speed = replace(SPEED, utilization_at_peak=0.6, requests_per_s_capacity=40.0)
    state = current_state(estimated(performance=speed))
    assert state is not None
    assert (state.accelerators, state.replicas, state.utilization, state.usd) == (8, 3.0, 0.6, 40.0)
    assert (state.e2e_s, state.per_accelerator_per_s, state.kwh_per_million) == (2.0, 5.0, 0.1)
    daily = current_state(estimated(performance=speed, cost=replace(COST, usd_per_day=700.0, kwh_per_million=None)))
    assert daily is not None and (daily.usd, daily.kwh_per_million) == (700.0, 0.0)
    for endless in (replace(speed, e2e=None), replace(speed, e2e=Percentiles(None, None, None, None))):
        found = current_state(estimated(performance=endless))
        assert found is not None and found.e2e_s == np.inf
    bare = current_state(estimated(performance=replace(SPEED, utilization_at_peak=None), replicas=None))
    assert bare is not None and (bare.utilization, bare.replicas, bare.per_accelerator_per_s) == (0.0, 1.0, 0.0)
    for unknown in (
        estimated(cost=None),
        estimated(performance=None),
        estimated(cost=replace(COST, usd_per_hour=None)),
        estimated(total_accelerators=None),
        estimated(total_accelerators=0),
    ):
        assert current_state(unknown) is None


def test_figures_of_a_day_are_per_day_and_of_both_measures_both() -> None:
    by_day = replace(CHAT, hourly_shares=(1.0,) * 24)
    assert ranking_figures(Objective.COST, by_day, NOW) == [("40.00", "USD per day")]
    assert [unit for _, unit in ranking_figures(Objective.BALANCED, CHAT, NOW)] == ["USD/h", "ms per request"]


SPLIT = at_rate(
    1500.0,
    input_tokens=Lengths(2000.0),
    output_tokens=Lengths(100.0),
    max_context_tokens=2100.0,
    slo=Slo(0.5, 0.02, None, 95),
)


def best_of(workload: InferenceWorkload, objective: Objective = Objective.COST) -> tuple[Estimate, SimulatedPair]:
    question = Question(workload, objective=objective)
    plans = enumerate_allowed_plans(Search.start(question, SMALL).of(workload))
    found = better_split(Search.start(question, SMALL).of(workload), plans, np.zeros(0, np.int64))
    assert found is not None
    return found


def changes_of_split(workload: InferenceWorkload, objective: Objective = Objective.COST) -> list[Effect]:
    question = Question(workload, objective=objective)
    answer, pair = best_of(workload, objective)
    return list(split_changes(Search.start(question, SMALL).of(workload), answer, pair))


def replicas(pair: SimulatedPair) -> list[float]:
    return [float(pool.options.fleet.replicas[0]) for pool in (pair.reads, pair.writes)]


def test_twice_the_load_is_shown_in_replicas_and_money_of_both_pools() -> None:
    whole, pair = best_of(SPLIT)
    found = list(split_changes(Search.start(Question(SPLIT), SMALL).of(SPLIT), whole, pair))
    assert [change.change for change in found] == [
        "twice the peak load",
        "redundancy n+1",
        "with 50 % instead of 30 % reserve",
    ]
    reads, writes = replicas(pair)
    assert f"(replicas: prefill {reads:.0f} -> " in found[0].effect
    assert f"decode {writes:.0f} -> " in found[0].effect
    assert "USD/h" in found[0].effect or "same hardware" in found[0].effect
    cases_of_split = [c for c in list_cases(SPLIT) if c.name == "twice the peak load"]
    (twice,) = (pool_in_case(Question(SPLIT), c, pair.writes).options.fleet.replicas for c in cases_of_split)
    assert found[0].effect.endswith(f"decode {writes:.0f} -> {float(twice[0]):.0f})")


def test_half_the_load_asked_about_at_twice_takes_what_the_whole_does() -> None:
    half = replace(SPLIT, peak_per_s=750.0, average_per_s=375.0)
    (_, before), (twice, *_) = best_of(half), changes_of_split(half)
    _, whole = best_of(SPLIT)
    after = [int(part.split(" -> ")[1].rstrip(")")) for part in twice.effect.split("(replicas: ")[1].split(", ")]
    assert all(a >= b for a, b in zip(after, replicas(before), strict=True)) and after != replicas(before)
    sizes = [
        [p.options.plans.accelerators_per_replica[0] for p in (pair.reads, pair.writes)] for pair in (before, whole)
    ]
    assert sizes[0] == sizes[1]
    assert after == pytest.approx(replicas(whole), abs=1)


def test_a_case_of_a_split_with_nothing_changed_is_the_answer() -> None:
    _, pair = best_of(SPLIT)
    same = combined_state(SPLIT, (pair.reads, pair.writes))
    state = State(8, 2.0, 0.5, 10.0, 1.0, 3.0, 0.2)
    scaled = scale_state(state, same, same)
    assert (scaled.utilization, scaled.e2e_s, scaled.per_accelerator_per_s, scaled.kwh_per_million) == pytest.approx(
        (0.5, 1.0, 3.0, 0.2)
    )


@pytest.mark.parametrize("objective", [Objective.ENERGY, Objective.THROUGHPUT])
def test_the_shown_value_is_the_ranked_one(objective: Objective) -> None:
    twice = changes_of_split(SPLIT, objective)[0].effect
    assert {Objective.ENERGY: "kWh", Objective.THROUGHPUT: "per accelerator"}[objective] in twice


VOLUME = replace(CHAT, load=Load.OFFLINE, volume_requests=1e6, deadline_s=36_000.0)


def test_changes_say_what_the_best_then_costs_and_takes() -> None:
    question = Question(VOLUME)
    now = (100.0, 7200.0, 1.0)
    assert describe_plan_change(question, now, (200.0, 7200.0, 2.0)) == (
        "200 USD in 2 hours on 2 accelerators instead of 100 USD in 2 hours on 1 accelerator (80 % confidence)"
    )
    assert describe_plan_change(question, now, (100.0, 7201.0, 1.0)).startswith("no change")
    assert describe_plan_change(question, now, None) == "no plan finishes in time within the limits"
    twice, half = recommend_hardware(question, SMALL).sensitivity
    assert (twice.change, half.change) == ("twice the volume", "half the deadline")
    free = recommend_hardware(Question(replace(VOLUME, deadline_s=None), objective=Objective.ENERGY), SMALL).sensitivity
    assert [change.change for change in free] == ["twice the volume", "half the time"]


def test_a_missed_deadline_suggests_a_longer_one() -> None:
    late = recommend_hardware(Question(replace(VOLUME, deadline_s=40.0)), SMALL)
    assert not late.recommendations
    assert late.rejected[0].code == "too_slow"
    assert "extend the deadline (now 0.667 minutes)" in [change.change for change in late.sensitivity]
    assert late.sensitivity[0].effect.startswith("feasible at ")


def test_a_larger_batch_is_divided_over_more_accelerators_and_never_costs_more() -> None:
    """In a tenth of the time that the largest cluster of a small batch takes nothing is left to divide."""
    question = Question(WORKLOAD, Constraints(confidence=0.5))
    counts = counts_of(WORKLOAD)
    layouts = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron")
    runs = smallest_runs(WORKLOAD, counts, layouts, question, NullRejections(()))
    chosen = runs.take(best_runs(counts, runs, question)[0][:1])
    larger = best_run_with_larger_batch(WORKLOAD, layouts, chosen, question)
    assert larger is not None
    assert abs(larger.run.batch[0] / (BATCH_FACTOR * WORKLOAD.global_batch) - 1) <= counts.near_batch_share
    usd, usd_larger = (float(each.cost.usd_per_hour[0] * each.run.wall_s[0]) for each in (chosen, larger))
    assert usd_larger <= usd * 1.05
    late = replace(WORKLOAD, deadline_s=1.0)
    assert best_run_with_larger_batch(late, layouts, chosen, replace(question, workload=late)) is None


def test_twice_the_accelerators_cost_what_they_do_not_save() -> None:
    first: Any = row(performance=row(days=8.0), cost=row(usd_total=100.0))
    curve: Any = row(twice=row(days=5.0, usd_total=125.0))
    (change,) = doubled_accelerators_change(first, curve)
    assert change.effect == "the run is 1.60 times as fast and costs 1.25 times as much"
    (none,) = doubled_accelerators_change(first, row(twice=None, ends="the global batch"))  # type: ignore[arg-type]
    assert none.effect == "no layout can use them; the limit is the global batch"
    assert doubled_accelerators_change(first, None) == ()


def test_a_derived_batch_is_explained() -> None:
    first: Any = row(cost=row(usd_total=396e6))
    run = row(batch=col(4096), wall_s=col(30 * 86400), accelerators=col(16384))
    larger: Any = row(run=run, cost=row(usd_per_hour=col(270_000)))
    (change,) = larger_batch_change(replace(PRETRAIN, global_batch=512), first, larger)
    assert change.change == "a batch of 16.8 million tokens"
    assert change.effect.startswith(
        "the run costs 194,400,000 USD and takes 30 days on 16,384 accelerators; with the default of 2.1"
    )
    assert larger_batch_change(PRETRAIN, first, None) == ()
    assert larger_batch_change(PRETRAIN, row(cost=row(usd_total=195e6)), larger) == ()  # type: ignore[arg-type]


def test_a_case_of_a_split_moves_the_shown_figures_as_far_as_the_expected_ones() -> None:
    shown = State(8, 2.0, 0.5, 10.0, 1.0, 3.0, 0.2)
    now, then = State(6, 2.0, 0.4, 8.0, 0.9, 2.0, 0.1), State(12, 4.0, 0.6, 20.0, 1.2, 3.0, 0.3)
    scaled = scale_state(shown, now, then)
    assert (scaled.accelerators, scaled.replicas) == (12, 4.0)
    assert (scaled.utilization, scaled.usd, scaled.e2e_s) == pytest.approx((0.75, 25.0, 1.3))
    assert (scaled.per_accelerator_per_s, scaled.kwh_per_million) == pytest.approx((4.5, 0.6))


def test_two_pools_are_added_and_the_fuller_one_limits_both(monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(replicas: float, capacity: float, accelerators: float, power: float, usd: float, e2e_s: float) -> Any:
        options: Any = row(
            fleet=row(replicas=col(replicas), accelerators=col(accelerators)),
            capacity_per_s=col(capacity),
            daily=row(power_w=col(power)),
            daily_usd_per_hour=col(usd),
            e2e_p50_s=col(e2e_s),
        )
        return row(workload=CHAT, options=options, simulated=None)

    monkeypatch.setattr(cases, "with_expected_performance", lambda _, options, __: options)
    workload = replace(CHAT, peak_per_s=6.0, average_per_s=3.0)
    found = combined_state(workload, (pool(2.0, 6.0, 4.0, 1e3, 8.0, 0.5), pool(3.0, 4.0, 12.0, 3e3, 24.0, 1.5)))
    # Capacities of 12 and 12 requests/s on 16 accelerators; the average is that of the pools' own workload.
    assert (found.accelerators, found.replicas, found.usd, found.e2e_s) == (16, 5.0, 32.0, 2.0)
    assert (found.utilization, found.per_accelerator_per_s) == pytest.approx((0.5, 0.75))
    tokens = min(CHAT.average_per_s, 12.0) * workload.tokens_per_request
    assert found.kwh_per_million == pytest.approx(4.0 / 3600 / tokens * 1e6)
    slower = combined_state(workload, (pool(2.0, 6.0, 4.0, 1e3, 8.0, 0.5), pool(1.0, 4.0, 4.0, 1e3, 8.0, 0.5)))
    assert (slower.utilization, slower.per_accelerator_per_s) == pytest.approx((1.5, 0.5))


@pytest.mark.parametrize("deadline_s", [36_000.0, None])
def test_a_volume_is_doubled_and_its_time_halved(monkeypatch: pytest.MonkeyPatch, deadline_s: float | None) -> None:
    workload, asked = replace(VOLUME, deadline_s=deadline_s), list[InferenceWorkload]()

    def best(_: Question, workload: InferenceWorkload, __: object) -> tuple[float, float, float]:
        asked.append(workload)
        return 100.0, 7200.0, 3.0

    monkeypatch.setattr(cases, "find_best_plan", best)
    options: Any = None
    found = list(volume_changes(Search.start(Question(workload), SMALL).of(workload), options))
    now, twice, sooner = asked
    assert now == workload and twice == replace(workload, volume_requests=2e6)
    assert sooner == replace(workload, deadline_s=18_000.0 if deadline_s else 3600.0)
    assert [e.change for e in found] == ["twice the volume", "half the deadline" if deadline_s else "half the time"]
    monkeypatch.setattr(cases, "find_best_plan", lambda *_: None)
    assert list(volume_changes(Search.start(Question(workload), SMALL).of(workload), options)) == []


def test_the_best_plan_of_a_volume_stays_within_the_limits() -> None:
    search = Search.start(Question(VOLUME), SMALL).of(VOLUME)
    options = search_plans(search, enumerate_allowed_plans(search))
    free = find_best_plan(Question(VOLUME), VOLUME, options)
    assert free is not None and free[2] > 1
    limited = Question(VOLUME, Constraints(max_accelerators=int(free[2]) - 1))
    less = find_best_plan(limited, VOLUME, options)
    assert less is None or less[2] < free[2]
    assert find_best_plan(Question(VOLUME), replace(VOLUME, deadline_s=1.0), options) is None


def test_twice_the_accelerators_without_a_price_are_only_faster() -> None:
    twice: Any = row(twice=row(days=5.0, usd_total=125.0))
    for first, of in (
        (row(performance=row(days=8.0), cost=None), twice),
        (row(performance=row(days=8.0), cost=row(usd_total=None)), twice),
        (row(performance=row(days=8.0), cost=row(usd_total=100.0)), row(twice=row(days=5.0, usd_total=None))),
    ):
        (change,) = doubled_accelerators_change(first, of)  # type: ignore[arg-type]
        assert change.effect == "the run is 1.60 times as fast"
    for unknown in (row(performance=None, cost=None), row(performance=row(days=None), cost=None)):
        assert doubled_accelerators_change(unknown, twice) == ()  # type: ignore[arg-type]
    run: Any = row(run=row(wall_s=col(1.0), batch=col(1.0), accelerators=col(1.0)), cost=row(usd_per_hour=col(np.nan)))
    for cost in (None, row(usd_total=None), row(usd_total=1.0)):
        assert larger_batch_change(PRETRAIN, row(cost=cost), run) == ()  # type: ignore[arg-type]


def test_that_nothing_stays_within_the_limits_is_said_only_of_all_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of three costs 12 USD/h; a cheaper one has to cost less than that by more than a near tie."""
    again: Any = row(daily_usd_per_hour=col(12, 9, 8))
    given: list[tuple[Any, float]] = []

    def cheaper(search: Any, *most: Any) -> None:
        given.append((search, most[-1]))

    monkeypatch.setattr(cases, "best_cheaper_option", cheaper)
    question, first_row = Question(CHAT, limit=3, trace=True), np.zeros(1, np.int64)
    for within in ([True, False, False], [False, True, True], [True, True, True]):
        assert describe_cheaper_option(question, again, np.array(within), first_row, SMALL) == ""
        search, most = given[-1]
        # A first option that exceeds the limits is no price to beat.
        own = 12 / (1 + question.assumptions.near_tie_share) if within[0] else np.inf
        assert most == pytest.approx(own)
        assert search.question == replace(question, limit=1, trace=False)
    none = describe_cheaper_option(question, again, np.zeros(3, bool), first_row, SMALL)
    assert none == "; no other option stays within your limits" and len(given) == 3
    for other in (replace(question, objective=Objective.LATENCY), replace(question, workload=PRETRAIN)):
        assert describe_cheaper_option(other, again, np.zeros(3, bool), first_row, SMALL) == ""
