"""What the first recommendation becomes with another load, redundancy, reserve, volume, batch or cluster size.

Each change is compared with the first recommendation: what its own deployment then costs or takes, and on how many
accelerators. A service of two pools has the same changes, applied to each pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.sizing.answer.money import format_usd, priced_unit
from app.sizing.columns import HOURS_PER_DAY, ROUNDING, SECONDS_PER_DAY, Codes, Mask, at, one
from app.sizing.decisions.cost import can_meet_deadline, kwh_per_million, usd_total
from app.sizing.decisions.placement import replicas_needed
from app.sizing.decisions.ranking import objective_score
from app.sizing.decisions.rejections import NullRejections, Rejections
from app.sizing.decisions.search import Search, Workload
from app.sizing.formula import suspend_recording
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.pools.search import PoolPairs, SimulatedPair, SimulatedPool
from app.sizing.question import Objective, Question
from app.sizing.result import Effect, Estimate, Ranked, ScalingCurve
from app.sizing.serving.finalists import (
    SimulatedReplicas,
    plans_of_types_that_may_win,
    select_finalists,
    with_expected_performance,
)
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.options import (
    Options,
    measures,
    served_per_s,
    throughput_per_s,
    units_per_request,
    within_constraints,
)
from app.sizing.serving.search import evaluate_plans, required_replicas, with_replica_count
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.scaling import same_machine_and_framework
from app.sizing.training.search import CostedRuns, best_runs, smallest_runs
from app.sizing.whatif.change import Change, probe
from app.sizing.whatif.limits import (
    ACCURACY,
    allow_other_prices,
    describe_confirmed,
    find_plans_within_limits,
    narrower_formats,
)
from app.sizing.words import (
    format_count,
    format_duration,
    format_large_number,
    format_name,
    format_number,
    percent,
    product_name,
)
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload
from app.work import is_work_left

CASE_RESERVE = 0.5  # reserve of each replica that one case plans for
BATCH_FACTOR = 4  # factor on the global batch: published batches for models of one size differ by as much
USD_SUFFIX = " USD"
POOL_NAMES = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class State:
    """Figures of a deployment that its description compares."""

    accelerators: int
    replicas: float
    utilization: float  # utilization of the expected capacity at peak, as a share
    usd: float  # cost in USD per hour, or per day where the workload states the hours of a day
    e2e_s: float  # median end-to-end latency, in s
    per_accelerator_per_s: float  # requests/s or samples/s of one accelerator
    kwh_per_million: float  # energy in kWh per million tokens or samples


def find_sensitivity(
    search: Search[InferenceWorkload],
    options: Options,
    simulated: Codes,
    first: Estimate,
    runs: SimulatedReplicas | None,
) -> Iterator[Effect]:
    """Effects of more load, other redundancy or more reserve on the first recommendation; none without its price.

    Parameters:
        simulated: rows of the recommendations in the options, the first one first.
        first: the first recommendation as the answer shows it.
        runs: its simulation, if there is one.
    """
    now, row = current_state(first), int(simulated[0])
    if now is None:
        return
    for change in list_cases(search.workload):
        then = change.apply(search.question)
        again = probe(lambda asked: plans_in_case(asked, options), search.question, change)
        kept = within_constraints(then, again, NullRejections(search.catalog.accelerators))
        state = state_in_case(search.question, then, now, options, again, row, runs)
        effect = describe_effect(then.objective, search.workload, now, state, within_limits=bool(kept[row]))
        yield Effect(change.name, effect + describe_cheaper_option(then, again, kept, simulated, search.catalog))


def list_cases(workload: InferenceWorkload) -> Iterator[Change]:
    """Changes of load, redundancy and reserve; offline work has no load to change."""
    if workload.load is Load.OFFLINE:
        return
    yield _of_workload(
        "twice the peak load" if workload.load is Load.OPEN else "twice the concurrency", lambda w: w.scale_load(2.0)
    )
    spare = 0 if workload.redundancy.label != "none" else 1
    yield _of_workload(
        "redundancy n+1" if spare else "no redundancy",
        lambda w: replace(w, redundancy=w.redundancy.with_spare(spare)),
    )
    if workload.load is Load.OPEN and workload.target_utilization > CASE_RESERVE:
        label = f"with {percent(1 - CASE_RESERVE)} instead of {percent(1 - workload.target_utilization)} reserve"
        yield _of_workload(label, lambda w: replace(w, target_utilization=CASE_RESERVE))


def _of_workload(name: str, apply: Callable[[InferenceWorkload], InferenceWorkload]) -> Change:
    """A change of a service's workload only."""

    def apply_to(question: Question) -> Question:
        assert isinstance(question.workload, InferenceWorkload)
        return replace(question, workload=apply(question.workload))

    return Change(name, apply_to)


def current_state(estimate: Estimate) -> State | None:
    """Figures of the first recommendation as the answer shows them; None if it has no price."""
    d, p, cost = estimate.deployment, estimate.performance, estimate.cost
    if p is None or cost is None or cost.usd_per_hour is None or not d.total_accelerators:
        return None
    whole = None if p.e2e is None else p.e2e.p50_s
    return State(
        accelerators=d.total_accelerators,
        replicas=float(d.replicas or 1),
        utilization=p.utilization_at_peak or 0.0,
        usd=cost.usd_per_hour if cost.usd_per_day is None else cost.usd_per_day,
        e2e_s=np.inf if whole is None else whole,
        per_accelerator_per_s=(p.requests_per_s_capacity or 0.0) / d.total_accelerators,
        kwh_per_million=cost.kwh_per_million or 0.0,
    )


def cost_period(workload: InferenceWorkload) -> str:
    """Period that costs refer to, as it follows "USD"."""
    return " per day" if workload.hourly_shares else "/h"


def plan_cost_usd(workload: InferenceWorkload, options: Options, row: int) -> float:
    """Cost of a plan in that period, in USD."""
    return at(options.daily_usd_per_hour, row) * (HOURS_PER_DAY if workload.hourly_shares else 1.0)


def plans_in_case(question: Question, options: Options) -> Options:
    """Every plan with the replicas, machines and cost that a changed question needs; its capacity stays, but for a
    larger reserve.
    """
    workload = question.workload
    assert isinstance(workload, InferenceWorkload)
    capacity = options.capacity_per_s
    if workload.load is Load.OPEN:
        capacity = np.minimum(capacity, workload.target_utilization * options.stable_per_s)
    replicas = replicas_needed(workload, capacity, options.slo_batch)
    return with_replica_count(question, workload, options, replicas)


def state_in_case(
    question: Question,
    changed: Question,
    now: State,
    options: Options,
    again: Options,
    row: int,
    runs: SimulatedReplicas | None = None,
) -> State:
    """Figures of the same deployment in a case, on more or fewer machines."""
    workload, before = changed.workload, question.workload
    assert isinstance(workload, InferenceWorkload) and isinstance(before, InferenceWorkload)
    load = (
        workload.peak_per_s / before.peak_per_s if workload.load is Load.OPEN else workload.in_flight / before.in_flight
    )
    then = again.take(np.array([row]))
    accelerators, replicas = one(then.fleet.accelerators), one(then.fleet.replicas)
    state = State(
        accelerators=int(accelerators),
        replicas=replicas,
        utilization=now.utilization * load * now.replicas / replicas,
        usd=plan_cost_usd(workload, then, 0),
        e2e_s=now.e2e_s,
        per_accelerator_per_s=now.per_accelerator_per_s * replicas / now.replicas * now.accelerators / accelerators,
        kwh_per_million=now.kwh_per_million * one(then.daily.power_w) / at(options.daily.power_w, row) / load,
    )
    if question.objective is Objective.COST or replicas / load == now.replicas:
        return state
    if runs is None:
        judged = evaluate_plans(replace(question, trace=False), workload, then.plans, then.settings).options
    else:
        judged = with_expected_performance(workload, then, runs)
    served = served_per_s(workload, judged) * units_per_request(workload)
    return replace(
        state,
        e2e_s=one(judged.e2e_p50_s),
        per_accelerator_per_s=one(throughput_per_s(workload, judged)) / accelerators,
        kwh_per_million=one(kwh_per_million(then.daily.power_w, served)),
    )


def ranking_figures(objective: Objective, workload: InferenceWorkload, state: State) -> list[tuple[str, str]]:
    """Figures that the objective ranks by, each as a number and its unit."""
    unit = "samples" if workload.model.sample is not None else "requests"
    money = (format_usd(state.usd).removesuffix(USD_SUFFIX), f"USD{cost_period(workload)}")
    time = (format_number(state.e2e_s * 1e3), f"ms per {unit.removesuffix('s')}")
    if objective is Objective.COST:
        return [money]
    if objective is Objective.LATENCY:
        return [time]
    if objective is Objective.THROUGHPUT:
        return [(format_number(state.per_accelerator_per_s), f"{unit}/s per accelerator")]
    if objective in (Objective.ENERGY, Objective.CARBON):  # of one grid, both change alike
        return [(format_number(state.kwh_per_million), f"kWh per million {priced_unit(workload)}")]
    return [money, time]


def describe_effect(
    objective: Objective, workload: InferenceWorkload, now: State, then: State, *, within_limits: bool
) -> str:
    """Effect of a case as text, compared with the first recommendation.

    Parameters:
        within_limits: whether the case stays within the limits of number, cost and power.
    """
    changed: list[str] = []
    still: list[str] = []
    before = ranking_figures(objective, workload, now)
    for (new, unit), (old, _) in zip(ranking_figures(objective, workload, then), before, strict=True):
        if new == old:
            still.append(f"unchanged {new} {unit}")
        else:
            changed.append(f"{new} instead of {old} {unit}")
    if then.accelerators == now.accelerators:
        utilization_now, utilization_then = format_number(now.utilization * 100), format_number(then.utilization * 100)
        if utilization_now == utilization_then:
            return "same hardware, same price"
        return f"same hardware; utilization changes from {utilization_now} % to {utilization_then} %" + (
            f", {', '.join(changed)}" if changed else ""
        )
    count = f"{format_count(then.accelerators, 'accelerator')} instead of {now.accelerators:,}"
    text = ", ".join((*changed, *still, count))
    return text if within_limits else f"{text}, which exceeds your limits"


MIN_TIME_SAVING = 0.1  # share of a request's time from which an option counts as faster


def describe_trade(
    workload: InferenceWorkload, first: Estimate, other: Estimate, times: float, other_times: float
) -> str:
    """What another estimate needs and takes compared with the first one, as text; empty unless it is better in
    hardware, cost, limits or time.

    Parameters:
        times, other_times: multiples of the usual latency limits that each meets.
    """
    now, then = current_state(first), current_state(other)
    if now is None or then is None:
        return ""
    figures, is_better = [], False
    for new, old in ((then.accelerators, now.accelerators), (then.usd, now.usd), (other_times, times)):
        is_better |= new < old * (1 - ROUNDING)
    is_better |= then.e2e_s < now.e2e_s * (1 - MIN_TIME_SAVING)
    if then.accelerators == now.accelerators:
        figures.append("same hardware")
    else:
        figures.append(f"{format_count(then.accelerators, 'accelerator')} instead of {now.accelerators:,}")
    (new_usd, unit), (old_usd, _) = (ranking_figures(Objective.COST, workload, state)[0] for state in (then, now))
    if new_usd != old_usd:
        figures.append(f"{new_usd} instead of {old_usd} {unit}")
    if other_times != times:
        figures.append(f"meets latency limits {other_times:g} instead of {times:g} times as long as usual")
    if np.isfinite(then.e2e_s) and np.isfinite(now.e2e_s):
        figures.append(f"median request {format_number(then.e2e_s)} instead of {format_number(now.e2e_s)} s")
    return ", ".join(figures) if is_better else ""


UNTRIED_PRICES = "prices that are no offers were not examined"


def find_at_usual_limits(asked: Question, answered: Question, catalog: Catalog) -> Iterator[Effect]:
    """The cheapest confirmed option within the usual limits at prices that are no offers, if the request leaves limits
    and kinds of prices open and no option with an offered price meets those limits.

    Parameters:
        asked: the question with the usual limits.
        answered: the question with the limits that the options meet.
    """
    times, limits = answered.workload.assumed_times or 1.0, asked.constraints
    if times <= 1 or limits.price_kinds or not is_work_left(UNTRIED_PRICES):
        return
    change = allow_other_prices(limits)
    changed = change.apply(asked)
    confirmed = describe_confirmed(changed, catalog, find_plans_within_limits(changed, catalog))
    if confirmed:
        yield Effect(change.name, f"{confirmed} meets the usual limits{change.words}")


UNTRIED_FORMATS = "4-bit weights were not compared"


def few_bits_trade(
    asked: Question,
    answered: Question,
    ranked: Sequence[Ranked],
    catalog: Catalog,
    find: Callable[[Question, Catalog], tuple[Search[Workload], Rejections, Any]],
) -> Iterator[Effect]:
    """What the fastest option with 4-bit weights would change on owned hardware, where the first of all options misses
    the usual limits or takes all of that hardware, and has wider weights. Of equally many accelerators, only the same
    degree of parallelism is compared: the rest of the gain would be that of the layout.

    A request without weight formats does not consider them. Formats with a matrix rate of their own, such as NVFP4, are
    compared only where the accelerator has it.

    Parameters:
        answered: the question with the latency limits that the first option meets.
        find: the search for the options of a question, within longer limits if need be.
    """
    workload, limits = asked.workload, asked.constraints
    if not ranked or not isinstance(workload, InferenceWorkload) or workload.is_finite:
        return
    if asked.companions or limits.weight_formats or not limits.stock:
        return
    first, times, part = ranked[0].estimate, answered.workload.assumed_times or 1.0, ranked[0].accelerator
    narrow = () if workload.single_pass else narrower_formats(workload)
    narrow = tuple(name for name in narrow if WEIGHT_FORMATS[name].rate in (None, *part.flops_per_s))
    held, most = first.deployment.weight_format, dict(limits.stock).get(catalog.accelerator_index[part.slug])
    if not narrow or held is None or WEIGHT_FORMATS[held].nominal_bits <= 4:
        return
    if times <= 1 and first.deployment.total_accelerators != most:
        return
    if not is_work_left(UNTRIED_FORMATS):
        return
    bits = replace(limits, weight_formats=narrow)
    changed = replace(asked, constraints=bits, objective=Objective.LATENCY, first_only=True)
    with suspend_recording():
        search, _, result = find(changed, catalog)
    for other in result.estimates[:1]:
        trade = describe_trade(workload, first, other, times, search.question.workload.assumed_times or 1.0)
        d, now = other.deployment, first.deployment
        is_split = d.total_accelerators == now.total_accelerators and d.replicas != now.replicas
        if trade and d.weight_format and d.engine and not is_split:
            stack = f"{format_name(d.weight_format)} weights with {product_name(d.engine)}"
            yield Effect(stack, f"{trade}{ACCURACY}")


def describe_cheaper_option(
    question: Question, again: Options, within_limits: Mask, simulated: Codes, catalog: Catalog
) -> str:
    """The option that is cheaper than the first recommendation by more than a near tie in a changed question, as text.

    Parameters:
        again: all options as the changed question sizes them.
        simulated: rows of the recommendations, the first one first; their sizes are those of the simulation.
    """
    workload, row = question.workload, int(simulated[0])
    if question.objective is not Objective.COST or not isinstance(workload, InferenceWorkload):
        return ""
    if not within_limits.any():
        return "; no other option stays within your limits"
    own = at(again.daily_usd_per_hour, row) if within_limits[row] else np.inf
    most = own / (1 + question.assumptions.near_tie_share)
    asked = Search.start(replace(question, limit=1, trace=False, companions=()), catalog).of(workload)
    best = best_cheaper_option(asked, again, within_limits, simulated, most)
    if best is None:
        return ""
    count, name = one(best.fleet.accelerators), catalog.accelerators[int(best.accelerator[0])].name
    what = f"{count:,.0f} × {name}"
    if best.accelerator[0] == again.accelerator[row]:
        replicas = format_count(one(best.fleet.replicas + best.fleet.spare_replicas), "replica")
        size = one(best.plans.accelerators_per_replica)
        spread = "" if replicas == "1 replica" else f" with {size:,.0f} each"
        engine, stored = catalog.engines[int(best.plans.engine[0])], catalog.formats[int(best.plans.weight_format[0])]
        what = (
            f"{format_count(count, 'accelerator')} of the same type, run as {replicas}{spread} "
            f"({product_name(engine)}, {format_name(stored)})"
        )
    return f"; best option then: {what}, at {format_usd(plan_cost_usd(workload, best, 0))}{cost_period(workload)}"


def best_cheaper_option(
    search: Search[InferenceWorkload], again: Options, within_limits: Mask, simulated: Codes, most_usd: float
) -> Options | None:
    """The cheapest option below `most_usd` per hour; None if there is none.

    Options that the formulas find cheaper than every recommendation are simulated before one is named.
    """
    hourly = again.daily_usd_per_hour
    known = simulated[within_limits[simulated] & (hourly[simulated] < most_usd)]
    best = again.take(known[[np.argmin(hourly[known])]]) if len(known) else None
    to_beat = most_usd if best is None else one(best.daily_usd_per_hour)
    others = within_limits & (hourly < to_beat)
    others[simulated] = False
    if others.any():
        finalists, _ = select_finalists(search, plans_of_types_that_may_win(search, again.take(others), to_beat))
        found = finalists.chosen_options
        if len(found) and one(found.daily_usd_per_hour) < to_beat:
            return found
    return best


def split_changes(search: Search[InferenceWorkload], answer: Estimate, pair: SimulatedPair) -> Iterator[Effect]:
    """Effects of the same cases on a split; `answer` is the estimate that the user sees."""
    now, before = current_state(answer), (pair.reads, pair.writes)
    if now is None:
        return
    for change in list_cases(search.workload):
        after = pool_in_case(search.question, change, pair.reads), pool_in_case(search.question, change, pair.writes)
        whole = change.apply(search.question).workload
        assert isinstance(whole, InferenceWorkload)
        then = scale_state(now, combined_state(search.workload, before), combined_state(whole, after))
        kept = single_pair(*after).within_constraints(search)
        text = describe_effect(search.question.objective, search.workload, now, then, within_limits=bool(kept[0]))
        yield Effect(change.name, f"{text}{describe_replicas(before, after)}")


def pool_in_case(question: Question, change: Change, pool: SimulatedPool) -> SimulatedPool:
    """A pool with the replicas that a change of its part of the workload needs."""
    changed = change.apply(replace(question, workload=pool.workload))
    assert isinstance(changed.workload, InferenceWorkload)
    return replace(pool, workload=changed.workload, options=plans_in_case(changed, pool.options))


def single_pair(reads: SimulatedPool, writes: SimulatedPool) -> PoolPairs:
    """Two pools as a table with one pair."""
    first = np.zeros(1, np.int64)
    return PoolPairs(reads.options, writes.options, (first, first))


def combined_state(workload: InferenceWorkload, pools: tuple[SimulatedPool, SimulatedPool]) -> State:
    """Expected state of two pools together; the utilization is that of the fuller pool."""
    expected = [with_expected_performance(pool.workload, pool.options, pool.simulated) for pool in pools]
    accelerators = sum(one(pool.fleet.accelerators) for pool in expected)
    capacity = min(one(pool.fleet.replicas * pool.capacity_per_s) for pool in expected)
    served = min(one(served_per_s(pool.workload, each)) for pool, each in zip(pools, expected, strict=True))
    power, units = sum(one(pool.daily.power_w) for pool in expected), served * units_per_request(workload)
    return State(
        accelerators=int(accelerators),
        replicas=sum(one(pool.fleet.replicas) for pool in expected),
        utilization=workload.peak_per_s / capacity,
        usd=sum(plan_cost_usd(workload, pool, 0) for pool in expected),
        e2e_s=sum(one(pool.e2e_p50_s) for pool in expected),
        per_accelerator_per_s=capacity / accelerators,
        kwh_per_million=one(kwh_per_million(np.array([power]), np.array([units]))),
    )


def scale_state(shown: State, now: State, then: State) -> State:
    """State of a changed case: the shown state, scaled by the change of the expected state."""
    return replace(
        then,
        utilization=shown.utilization * then.utilization / now.utilization,
        usd=shown.usd * then.usd / now.usd,
        e2e_s=shown.e2e_s + then.e2e_s - now.e2e_s,
        per_accelerator_per_s=shown.per_accelerator_per_s * then.per_accelerator_per_s / now.per_accelerator_per_s,
        kwh_per_million=shown.kwh_per_million * then.kwh_per_million / now.kwh_per_million,
    )


def describe_replicas(before: tuple[SimulatedPool, SimulatedPool], after: tuple[SimulatedPool, SimulatedPool]) -> str:
    """Replicas of each pool before and after, where they change; otherwise empty."""
    counts = [[one(pool.options.fleet.replicas) for pool in pools] for pools in (before, after)]
    if counts[0] == counts[1]:
        return ""
    changed = (f"{name} {now:.0f} -> {then:.0f}" for name, now, then in zip(POOL_NAMES, *counts, strict=True))
    return f" (replicas: {', '.join(changed)})"


def volume_changes(search: Search[InferenceWorkload], options: Options) -> Iterator[Effect]:
    """Cost and duration of the best plan with twice the volume, and with half the time."""
    question, volume = search.question, search.workload.volume_requests
    now = find_best_plan(question, search.workload, options)
    if volume is None or now is None:
        return
    limit_s, sooner = search.workload.deadline_s, "half the deadline"
    if limit_s is None:
        limit_s, sooner = now[1], "half the time"
    for change in (
        _of_workload("twice the volume", lambda w: replace(w, volume_requests=2 * volume)),
        _of_workload(sooner, lambda w: replace(w, deadline_s=limit_s / 2)),
    ):
        asked = change.apply(question).workload
        assert isinstance(asked, InferenceWorkload)
        yield Effect(change.name, describe_plan_change(question, now, find_best_plan(question, asked, options)))


def find_best_plan(
    question: Question, workload: InferenceWorkload, options: Options
) -> tuple[float, float, float] | None:
    """(USD, seconds, accelerators) of the best plan for this workload, at the requested confidence.

    None if no plan finishes in time within the limits.
    """
    plans, batch, capacity = options.plans, options.slo_batch, options.capacity_per_s
    replicas = required_replicas(question, workload, plans, capacity, batch, Settings())
    sized = with_replica_count(question, workload, options, replicas)
    able = can_meet_deadline(workload, capacity, batch, options.cold_start_s)
    sized = sized.take(able & within_constraints(question, sized, NullRejections(())))
    if not len(sized):
        return None
    figures_by_plan = measures(workload, sized)
    row = int(np.argmin(objective_score(question.objective, figures_by_plan)))
    return at(figures_by_plan.usd, row), at(figures_by_plan.latency_s, row), at(sized.fleet.accelerators, row)


def describe_plan_change(
    question: Question, now: tuple[float, float, float], then: tuple[float, float, float] | None
) -> str:
    """How the best plan changes, as text."""
    if then is None:
        return "no plan finishes in time within the limits"
    before, after = (
        f"{format_usd(spent)} in {format_duration(seconds / SECONDS_PER_DAY)} on {format_count(count, 'accelerator')}"
        for spent, seconds, count in (now, then)
    )
    sure = f"({percent(question.constraints.confidence)} confidence)"
    if before == after:
        return f"no change: {after} {sure}"
    return f"{after} instead of {before} {sure}"


def best_run_with_larger_batch(
    workload: TrainingWorkload, layouts: TrainingPlans, chosen: CostedRuns, question: Question
) -> CostedRuns | None:
    """The best run with a global batch BATCH_FACTOR times as large, as a one-row table; None if no size is feasible.

    The run uses the machine and the framework of the first chosen run.
    """
    larger = replace(workload, global_batch=BATCH_FACTOR * workload.global_batch)
    counts, rejections = counts_of(larger), NullRejections(())
    same = same_machine_and_framework(layouts, chosen.plans)
    runs = smallest_runs(larger, counts, same, replace(question, workload=larger), rejections)
    if not len(runs):
        return None
    best, _ = best_runs(counts, runs, question)
    return runs.take(np.array(best[:1]))


def doubled_accelerators_change(first: Estimate, curve: ScalingCurve | None) -> tuple[Effect, ...]:
    """Duration and cost of the first recommendation with twice as many accelerators, in their best layout."""
    p, cost = first.performance, first.cost
    if curve is None or p is None or p.days is None:
        return ()
    if curve.twice is None:
        return (Effect("twice the accelerators", f"no layout can use them; the limit is {curve.ends}"),)
    text = f"the run is {p.days / curve.twice.days:.2f} times as fast"
    if cost is not None and cost.usd_total and curve.twice.usd_total is not None:
        text += f" and costs {curve.twice.usd_total / cost.usd_total:.2f} times as much"
    return (Effect("twice the accelerators", text),)


MIN_SHOWN_CHANGE = 0.01  # smallest relative change of the cost that a larger batch is shown for


def larger_batch_change(workload: TrainingWorkload, first: Estimate, larger: CostedRuns | None) -> tuple[Effect, ...]:
    """Effect of a larger global batch on cost and duration, if it changes the cost by 1 % or more. It applies only to
    runs that left the batch open.
    """
    if larger is None or first.cost is None or first.cost.usd_total is None:
        return ()
    total = at(usd_total(larger.cost.usd_per_hour, larger.run.wall_s), 0)
    if not np.isfinite(total) or abs(total / first.cost.usd_total - 1) < MIN_SHOWN_CHANGE:
        return ()
    unit = "samples" if workload.in_samples else "tokens"
    size = format_large_number(at(larger.run.batch, 0) * workload.units_per_sequence)
    usual = format_large_number(workload.global_batch * workload.units_per_sequence)
    size_words = format_count(at(larger.run.accelerators, 0), "accelerator")
    text = (
        f"the run costs {format_usd(total)} and takes {format_duration(at(larger.run.wall_s, 0) / SECONDS_PER_DAY)} "
        f"on {size_words}; "
        f"with the default of {usual} it costs {format_usd(first.cost.usd_total)}"
    )
    return (Effect(f"a batch of {size} {unit}", text),)
