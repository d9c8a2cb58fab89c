"""What would change with one thing changed, in what the answer ranks by: load, redundancy, room kept free, rent or buy.

Each is held against the first recommendation: what its own deployment would come to, on how many accelerators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.money import million_of, usd
from app.sizing.columns import Codes, Mask, at, one
from app.sizing.decisions.cost import kwh_per_million, usd_per_million
from app.sizing.decisions.placement import replicas_needed
from app.sizing.decisions.ranking import score_of
from app.sizing.decisions.rejections import Unread
from app.sizing.question import Objective, Question
from app.sizing.result import Change, Estimate
from app.sizing.serving.finalists import AsRun, expected_at, finalists_of
from app.sizing.serving.options import Options, allowed, measures, served_per_s, throughput_per_s, units_per_request
from app.sizing.serving.search import judge, resized
from app.sizing.snapshot import Snapshot
from app.sizing.units import HOURS_PER_DAY
from app.sizing.words import counted, figure
from app.sizing.workload import InferenceWorkload, Load

ROOM_KEPT_FREE = 0.5
USD = " USD"
RENT_OR_BUY = "rent or buy"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing changed; `load` is how many times the load it is."""

    label: str
    workload: InferenceWorkload
    load: float = 1.0


@dataclass(frozen=True, slots=True)
class State:
    """What is told of a deployment."""

    accelerators: int
    replicas: float
    used: float  # share of its expected capacity at peak
    usd: float  # per hour, or per day where the hours of one are told
    e2e_s: float
    each_per_s: float  # requests or samples of one accelerator
    kwh_per_million: float


def sensitivity(
    question: Question,
    workload: InferenceWorkload,
    options: Options,
    row: int,
    first: Estimate,
    market: Snapshot,
    runs: AsRun | None = None,
) -> tuple[Change, ...]:
    """What the first recommendation, row `row` of the options, would come to with more load, another redundancy or more
    room kept free; and what renting or buying costs. `runs`: as it was simulated.
    """
    now = state_of(first)
    if now is None:
        return rent_or_buy(workload, as_good(question, workload, options))

    def told(case: Case, now: State) -> str:
        again = placed(question, case, options)
        then = changed(question, case, now, options, again, row, runs)
        kept = allowed(question, again, Unread(market.accelerators))
        return words(question.objective, workload, now, then, kept=bool(kept[row])) + better(
            question, case.workload, again, kept, row, market
        )

    changes = (Change(case.label, told(case, now)) for case in cases(workload))
    return (*changes, *rent_or_buy(workload, as_good(question, workload, options)))


def cases(workload: InferenceWorkload) -> Iterator[Case]:
    """What is asked again with one thing changed; work without a rate or a number at once has no load to change."""
    if workload.load is Load.OPEN:
        yield Case("twice the peak load", workload.busier(2.0), load=2.0)
    elif workload.load is not Load.OFFLINE:
        yield Case("twice as many requests at once", workload.busier(2.0), load=2.0)
    if workload.load is Load.OFFLINE:
        return
    redundancy = workload.redundancy
    if redundancy.label != "none":
        yield Case("no redundancy", replace(workload, redundancy=redundancy.with_spare(0)))
    else:
        yield Case("redundancy n+1", replace(workload, redundancy=redundancy.with_spare(1)))
    if workload.load is Load.OPEN and workload.target_utilization > ROOM_KEPT_FREE:
        label = f"half of each replica kept free (target utilisation {ROOM_KEPT_FREE:g})"
        yield Case(label, replace(workload, target_utilization=ROOM_KEPT_FREE))


def state_of(estimate: Estimate) -> State | None:
    """The first recommendation as it is shown; None where it has no price."""
    d, p, cost = estimate.deployment, estimate.performance, estimate.cost
    if p is None or cost is None or cost.usd_per_hour is None or not d.total_accelerators:
        return None
    whole = None if p.e2e is None else p.e2e.p50_s
    return State(
        accelerators=d.total_accelerators,
        replicas=float(d.replicas or 1),
        used=p.utilization_at_peak or 0.0,
        usd=cost.usd_per_hour if cost.usd_per_day is None else cost.usd_per_day,
        e2e_s=np.inf if whole is None else whole,
        each_per_s=(p.requests_per_s_capacity or 0.0) / d.total_accelerators,
        kwh_per_million=cost.kwh_per_million or 0.0,
    )


def per_of(workload: InferenceWorkload) -> str:
    """Of what time money is told."""
    return "per day" if workload.hourly_shares else "per hour"


def money_of(workload: InferenceWorkload, options: Options, row: int) -> float:
    """What a plan costs in that time."""
    return at(options.daily_usd_per_hour, row) * (HOURS_PER_DAY if workload.hourly_shares else 1.0)


def placed(question: Question, case: Case, options: Options) -> Options:
    """Every plan with the replicas, machines and cost of a case."""
    replicas = replicas_needed(case.workload, options.capacity_per_s, options.slo_batch)
    return resized(question, case.workload, options, replicas)


def changed(
    question: Question,
    case: Case,
    now: State,
    options: Options,
    again: Options,
    row: int,
    runs: AsRun | None = None,
) -> State:
    """The same deployment in a case: on more or fewer machines, as full as that makes it."""
    then, workload = again.take(np.array([row])), case.workload
    accelerators, replicas = one(then.fleet.accelerators), one(then.fleet.replicas)
    state = State(
        accelerators=int(accelerators),
        replicas=replicas,
        used=now.used * case.load * now.replicas / replicas,
        usd=money_of(workload, then, 0),
        e2e_s=now.e2e_s,
        each_per_s=now.each_per_s * replicas / now.replicas * now.accelerators / accelerators,
        kwh_per_million=now.kwh_per_million * one(then.cost.power_w) / at(options.cost.power_w, row) / case.load,
    )
    if question.objective is Objective.COST or replicas / case.load == now.replicas:
        return state
    if runs is None:
        judged = judge(replace(question, trace=False), workload, then.plans, then.settings).options
    else:
        judged = expected_at(workload, then, runs)
    served = served_per_s(workload, judged) * units_per_request(workload)
    return replace(
        state,
        e2e_s=one(judged.e2e_p50_s),
        each_per_s=one(throughput_per_s(workload, judged)) / accelerators,
        kwh_per_million=one(kwh_per_million(then.cost.power_w, served)),
    )


def figures(objective: Objective, workload: InferenceWorkload, state: State) -> list[tuple[str, str]]:
    """What an answer is ranked by: numbers and their units."""
    unit = "samples" if workload.model.sample is not None else "requests"
    money = (usd(state.usd).removesuffix(USD), f"USD {per_of(workload)}")
    time = (figure(state.e2e_s * 1e3), f"ms for a whole {unit.removesuffix('s')}")
    if objective is Objective.COST:
        return [money]
    if objective is Objective.LATENCY:
        return [time]
    if objective is Objective.THROUGHPUT:
        return [(figure(state.each_per_s), f"{unit}/s per accelerator")]
    if objective is Objective.ENERGY:
        return [(figure(state.kwh_per_million), f"kWh per million {million_of(workload)}")]
    return [money, time]


def words(objective: Objective, workload: InferenceWorkload, now: State, then: State, *, kept: bool) -> str:
    """A case beside the answer. `kept`: it stays within what is allowed."""
    changed: list[str] = []
    still: list[str] = []
    before = figures(objective, workload, now)
    for (new, unit), (old, _) in zip(figures(objective, workload, then), before, strict=True):
        if new == old:
            still.append(f"still {new} {unit}")
        else:
            changed.append(f"{new} instead of {old} {unit}")
    if then.accelerators == now.accelerators:
        full, fuller = figure(now.used * 100), figure(then.used * 100)
        if full == fuller:
            return "the same machines, at the same price"
        return f"the same machines carry it, {full} % -> {fuller} % full" + (
            f": {', '.join(changed)}" if changed else ""
        )
    count = f"{counted(then.accelerators, 'accelerator')} instead of {now.accelerators:,}"
    text = ", ".join((*changed, *still, count))
    return text if kept else f"{text}, which is more than allowed"


def better(
    question: Question, workload: InferenceWorkload, again: Options, kept: Mask, row: int, market: Snapshot
) -> str:
    """What would then cost less than the first recommendation by more than a near tie, in words. What formulas find
    cheaper is sized as its schedulers run before it is told.
    """
    if question.objective is not Objective.COST:
        return ""
    if not kept.any():
        return "; nothing else stays within the limits"
    own = at(again.daily_usd_per_hour, row) if kept[row] else np.inf
    most = own / (1 + question.assumptions.near_tie_share)
    cheaper = again.take(kept & (again.daily_usd_per_hour < most))
    if not len(cheaper):
        return ""
    asked = replace(question, workload=workload, limit=1, trace=False, companions=())
    found, _ = finalists_of(asked, workload, cheaper, market, Unread(market.accelerators))
    best = found.chosen
    if not len(best) or not one(best.daily_usd_per_hour) < most:
        return ""
    count, name = one(best.fleet.accelerators), market.accelerators[int(best.accelerator[0])].name
    what = f"{count:,.0f} x {name}"
    if best.accelerator[0] == again.accelerator[row]:
        what = f"{count:,.0f} of the same on other machines or laid out otherwise"
    return f"; {what} would then be best at {usd(money_of(workload, best, 0))} {per_of(workload)}"


def as_good(question: Question, workload: InferenceWorkload, options: Options) -> Options:
    """Plans among which money may decide: all where it is what is asked for, else those that come near the best."""
    if question.objective is Objective.COST:
        return options
    score = score_of(question.objective, measures(workload, options))
    return options.take(score <= score.min() * (1 + question.assumptions.near_tie_share))


def rent_or_buy(workload: InferenceWorkload, options: Options) -> tuple[Change, ...]:
    """The cheapest way to own what the load needs against the cheapest way to rent it; of work without a rate by what
    a million comes to.
    """
    hourly, owned = options.daily_usd_per_hour, ~np.isnan(options.cost.purchase_usd)
    if owned.all() or not owned.any():
        return ()
    merit, per = hourly, "per hour"
    if workload.hourly_shares:
        merit, per = hourly * HOURS_PER_DAY, per_of(workload)
    if workload.load is Load.OFFLINE:
        units = served_per_s(workload, options) * units_per_request(workload)
        merit, per = usd_per_million(hourly, units), f"per million {million_of(workload)}"

    def least(rows: Codes) -> int:
        return int(rows[np.argmin(merit[rows])])

    buy, rent = least(np.flatnonzero(owned)), least(np.flatnonzero(~owned))
    upfront, own, lease = usd(at(options.cost.purchase_usd, buy)), usd(at(merit, buy)), usd(at(merit, rent))
    text = f"owning costs {upfront} up front and {own} {per} over the horizon, renting {lease} {per}"
    if own == lease:
        text = f"owning costs {upfront} up front and as much as renting over the horizon, {own} {per}"
    return (Change(RENT_OR_BUY, text),)
