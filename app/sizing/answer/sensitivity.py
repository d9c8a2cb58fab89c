"""Sensitivity of the first recommendation to load, redundancy, reserve, and renting or buying.

Each change is compared with the first recommendation: what its own deployment then costs or takes, and on how many
accelerators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.money import format_usd, priced_unit
from app.sizing.columns import HOURS_PER_DAY, Codes, Mask, at, one
from app.sizing.decisions.cost import kwh_per_million, usd_per_million
from app.sizing.decisions.placement import replicas_needed
from app.sizing.decisions.ranking import objective_score
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search
from app.sizing.question import Objective, Question
from app.sizing.result import Change, Estimate
from app.sizing.serving.finalists import (
    SimulatedReplicas,
    plans_of_types_that_may_win,
    select_finalists,
    with_expected_performance,
)
from app.sizing.serving.options import (
    Options,
    measures,
    served_per_s,
    throughput_per_s,
    units_per_request,
    within_constraints,
)
from app.sizing.serving.search import evaluate_plans, with_replica_count
from app.sizing.snapshot import Catalog
from app.sizing.words import format_count, format_name, format_number, percent, product_name
from app.sizing.workload import InferenceWorkload, Load

CASE_RESERVE = 0.5  # reserve of each replica that one case plans for
USD_SUFFIX = " USD"
RENT_OR_BUY = "rent or buy"


@dataclass(frozen=True, slots=True)
class Case:
    """A workload with one thing changed; `load` is the factor by which the load changes."""

    label: str
    workload: InferenceWorkload
    load: float = 1.0


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
    question: Question,
    workload: InferenceWorkload,
    options: Options,
    simulated: Codes,
    first: Estimate,
    catalog: Catalog,
    runs: SimulatedReplicas | None = None,
) -> tuple[Change, ...]:
    """Changes of the first recommendation with more load, other redundancy or more reserve, and renting or buying.

    Parameters:
        simulated: rows of the recommendations in the options, the first one first.
        first: the first recommendation as the answer shows it.
        runs: its simulation, if there is one.
    """
    now, row = current_state(first), int(simulated[0])
    if now is None:
        return compare_rent_and_buy(workload, near_best_plans(question, workload, options))

    def describe_case(case: Case, now: State) -> str:
        again = plans_in_case(question, case, options)
        then = state_in_case(question, case, now, options, again, row, runs)
        kept = within_constraints(question, again, NullRejections(catalog.accelerators))
        return describe_effect(
            question.objective, workload, now, then, within_limits=bool(kept[row])
        ) + describe_cheaper_option(question, case.workload, again, kept, simulated, catalog)

    changes = (Change(case.label, describe_case(case, now)) for case in list_cases(workload))
    return (*changes, *compare_rent_and_buy(workload, near_best_plans(question, workload, options)))


def list_cases(workload: InferenceWorkload) -> Iterator[Case]:
    """Workloads with one thing changed; offline work has no load to change."""
    if workload.load is Load.OPEN:
        yield Case("twice the peak load", workload.scale_load(2.0), load=2.0)
    elif workload.load is not Load.OFFLINE:
        yield Case("twice the concurrency", workload.scale_load(2.0), load=2.0)
    if workload.load is Load.OFFLINE:
        return
    redundancy = workload.redundancy
    if redundancy.label != "none":
        yield Case("no redundancy", replace(workload, redundancy=redundancy.with_spare(0)))
    else:
        yield Case("redundancy n+1", replace(workload, redundancy=redundancy.with_spare(1)))
    if workload.load is Load.OPEN and workload.target_utilization > CASE_RESERVE:
        label = f"with {percent(1 - CASE_RESERVE)} instead of {percent(1 - workload.target_utilization)} reserve"
        yield Case(label, replace(workload, target_utilization=CASE_RESERVE))


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


def plans_in_case(question: Question, case: Case, options: Options) -> Options:
    """Every plan with the replicas, machines and cost that a case needs."""
    replicas = replicas_needed(case.workload, options.capacity_per_s, options.slo_batch)
    return with_replica_count(question, case.workload, options, replicas)


def state_in_case(
    question: Question,
    case: Case,
    now: State,
    options: Options,
    again: Options,
    row: int,
    runs: SimulatedReplicas | None = None,
) -> State:
    """Figures of the same deployment in a case, on more or fewer machines."""
    then, workload = again.take(np.array([row])), case.workload
    accelerators, replicas = one(then.fleet.accelerators), one(then.fleet.replicas)
    state = State(
        accelerators=int(accelerators),
        replicas=replicas,
        utilization=now.utilization * case.load * now.replicas / replicas,
        usd=plan_cost_usd(workload, then, 0),
        e2e_s=now.e2e_s,
        per_accelerator_per_s=now.per_accelerator_per_s * replicas / now.replicas * now.accelerators / accelerators,
        kwh_per_million=now.kwh_per_million * one(then.cost.power_w) / at(options.cost.power_w, row) / case.load,
    )
    if question.objective is Objective.COST or replicas / case.load == now.replicas:
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
        kwh_per_million=one(kwh_per_million(then.cost.power_w, served)),
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
    if objective is Objective.ENERGY:
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


def describe_cheaper_option(
    question: Question,
    workload: InferenceWorkload,
    again: Options,
    within_limits: Mask,
    simulated: Codes,
    catalog: Catalog,
) -> str:
    """The option that is then cheaper than the first recommendation by more than a near tie, as text.

    Parameters:
        again: all options as the case sizes them.
        simulated: rows of the recommendations, the first one first; their sizes are those of the simulation.
    """
    row = int(simulated[0])
    if question.objective is not Objective.COST:
        return ""
    if not within_limits.any():
        return "; no other option stays within your limits"
    own = at(again.daily_usd_per_hour, row) if within_limits[row] else np.inf
    most = own / (1 + question.assumptions.near_tie_share)
    best = best_cheaper_option(question, workload, again, within_limits, simulated, most, catalog)
    if best is None:
        return ""
    count, name = one(best.fleet.accelerators), catalog.accelerators[int(best.accelerator[0])].name
    what = f"{count:,.0f} × {name}"
    if best.accelerator[0] == again.accelerator[row]:
        replicas = format_count(one(best.fleet.replicas + best.fleet.spare_replicas), "replica")
        size = one(best.plans.accelerators_per_replica)
        engine, stored = catalog.engines[int(best.plans.engine[0])], catalog.formats[int(best.plans.weight_format[0])]
        what = (
            f"{format_count(count, 'accelerator')} of the same type, run as {replicas} with {size:,.0f} each "
            f"({product_name(engine)}, {format_name(stored)})"
        )
    return f"; best option then: {what}, at {format_usd(plan_cost_usd(workload, best, 0))}{cost_period(workload)}"


def best_cheaper_option(
    question: Question,
    workload: InferenceWorkload,
    again: Options,
    within_limits: Mask,
    simulated: Codes,
    most_usd: float,
    catalog: Catalog,
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
        case_question = replace(question, workload=workload, limit=1, trace=False, companions=())
        search = Search.start(case_question, catalog).of(workload)
        finalists, _ = select_finalists(search, plans_of_types_that_may_win(search, again.take(others), to_beat))
        found = finalists.chosen_options
        if len(found) and one(found.daily_usd_per_hour) < to_beat:
            return found
    return best


def near_best_plans(question: Question, workload: InferenceWorkload, options: Options) -> Options:
    """Plans among which cost may decide: all for the objective cost, else those close to the best score."""
    if question.objective is Objective.COST:
        return options
    score = objective_score(question.objective, measures(workload, options))
    return options.take(score <= score.min() * (1 + question.assumptions.near_tie_share))


def compare_rent_and_buy(workload: InferenceWorkload, options: Options) -> tuple[Change, ...]:
    """The cheapest plan to buy compared with the cheapest plan to rent.

    Offline work is compared by its cost per million units.
    """
    hourly, owned = options.daily_usd_per_hour, ~np.isnan(options.cost.purchase_usd)
    if owned.all() or not owned.any():
        return ()
    compared_usd, per = hourly, "/h"
    if workload.hourly_shares:
        compared_usd, per = hourly * HOURS_PER_DAY, cost_period(workload)
    if workload.load is Load.OFFLINE:
        units = served_per_s(workload, options) * units_per_request(workload)
        compared_usd, per = usd_per_million(hourly, units), f" per million {priced_unit(workload)}"

    def cheapest_row(rows: Codes) -> int:
        return int(rows[np.argmin(compared_usd[rows])])

    buy, rent = cheapest_row(np.flatnonzero(owned)), cheapest_row(np.flatnonzero(~owned))
    upfront = format_usd(at(options.cost.purchase_usd, buy))
    own, lease = format_usd(at(compared_usd, buy)), format_usd(at(compared_usd, rent))
    text = f"buying costs {upfront} upfront ({own}{per} over the horizon); renting costs {lease}{per}"
    if own == lease:
        text = f"buying costs {upfront} upfront; over the horizon, buying and renting both cost {own}{per}"
    return (Change(RENT_OR_BUY, text),)
