"""Probability that services meet their requirements, and the resources needed at other confidence levels, in one
table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.sizing.columns import ROUNDING, Codes, Column, concat_tables
from app.sizing.decisions.cost import accelerators_in_stock, can_meet_deadline, deployment_cost, run_s, usd_total
from app.sizing.decisions.placement import plan_fleet
from app.sizing.formula import suspend_recording
from app.sizing.question import CONFIDENCE_GRID, CONFIDENCE_LEVELS, Question
from app.sizing.result import Assurance, Level, Unreachable
from app.sizing.serving.interfaces import LEAST_CAPACITY_PER_S, Memory, Settings, Speed
from app.sizing.serving.kinds import meets_unloaded_limits, serving_backend
from app.sizing.serving.margins import Margins, margins_at
from app.sizing.serving.options import Options, PlanEvaluations, daily_usd_per_hour_by_level
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import required_replicas
from app.sizing.uncertainty import MAX_Z_SCORE, NORMAL, Neighborhood, Spreads, outcome_levels
from app.sizing.words import format_number
from app.sizing.workload import InferenceWorkload, Load

# Slack is clipped to a factor of e: larger deviations are treated as equal.
MAX_LOG_SLACK = 1.0
MIN_RATIO = 1e-12
# Maximum multiple of the replicas at the requested confidence. Beyond it, another layout or machine is needed instead.
MOST_TIMES = 8.0


@dataclass(frozen=True, slots=True)
class MarginLevels:
    """Deployments repeated per margin: the median prediction, then each confidence level, then the confidence grid."""

    count: int  # number of deployments
    levels: list[float]  # confidence levels, ascending, with those that stand for outcomes of a benchmark
    grid_z_scores: Column  # z-scores of the confidence grid
    margins: Margins  # margins of every row

    @property
    def deployment_rows(self) -> Codes:
        """Deployment index of every row."""
        return np.tile(np.arange(self.count), len(self.margins) // self.count)

    @property
    def median_rows(self) -> Codes:
        """Rows of the median prediction."""
        return np.arange(self.count)

    def level_rows(self, level: float) -> slice:
        """Rows of one confidence level."""
        start = self.count * (1 + self.levels.index(level))
        return slice(start, start + self.count)

    def rows_of_levels(self, deployment: int) -> Codes:
        """Rows of one deployment at all confidence levels."""
        return np.arange(self.count + deployment, self.all_level_rows.stop, self.count)

    def speed_at(self, level: float, speed: Any) -> Any:
        """Speed at one confidence level, from that of all rows."""
        return speed.take(np.arange(len(speed))[self.level_rows(level)])

    @property
    def all_level_rows(self) -> slice:
        """Rows of all confidence levels."""
        return slice(self.count, self.count * (1 + len(self.levels)))


def build_margin_levels(
    question: Question, workload: InferenceWorkload, around: Neighborhood, spreads: Spreads
) -> MarginLevels:
    """Margins for all confidence levels and the confidence grid, from the evidence around each deployment."""
    asked, count = question.constraints.confidence, len(around)
    levels = sorted({*CONFIDENCE_LEVELS, asked, *outcome_levels(asked)})
    tried = sorted({*CONFIDENCE_GRID, asked})
    z_scores = np.array([NORMAL.inv_cdf(c) for c in (*levels, *tried)])
    around = around.take(np.tile(np.arange(count), len(z_scores)))
    margins = margins_at(np.repeat(z_scores, count), workload, around, spreads, question.assumptions)
    return MarginLevels(count, levels, z_scores[len(levels) :], concat_tables([Margins.without_margin(count), margins]))


def measure_at_margins(
    question: Question, workload: InferenceWorkload, plans: Plans, settings: Settings, by: MarginLevels
) -> tuple[Any, Any]:
    """Memory and speed of deployments at all margins.

    The largest batch is chosen again for each confidence level. The median prediction and the grid use the
    configured batch.
    """
    assert settings.max_sequences is not None
    kind, assumed, rows = serving_backend(workload), question.assumptions, by.deployment_rows
    most = settings.max_sequences[rows]
    most[by.all_level_rows] = np.nan
    memory = kind.estimate_memory(
        workload, plans.take(rows), assumed, replace(settings.take(rows), max_sequences=most), by.margins
    )
    alone = kind.unloaded_latency(workload, plans, memory.take(by.median_rows), assumed)
    return memory, kind.estimate_speed(
        workload, memory, kind.with_margins(workload, alone.take(rows), by.margins), assumed
    )


def estimate_assurance(
    question: Question,
    workload: InferenceWorkload,
    judged: PlanEvaluations[Any, Any, Any],
    by: MarginLevels,
    memory: Memory,
    speed: Speed,
    within: Column | None = None,
    confirm: Callable[[Column], Column] | None = None,
    closed_form: Speed | None = None,
) -> tuple[Assurance, ...]:
    """Assurance of every deployment: its probability to meet the requirements, and the resources needed at each level.

    Machine, engine and layout stay the same.

    Parameters:
        within: ratio of latency limit to simulated latency at the lightest load, where a simulation exists.
        confirm: replicas that simulations of their own confirm, from those that the pool of the requested confidence
            suggests, one row per level; NaN where a level is not shown.
        closed_form: speed by the formulas, where `speed` is simulated.
    """
    rows, at_level, count = by.deployment_rows, by.all_level_rows, by.count
    capacity, batch, start = speed.capacity_per_s, speed.slo_batch, judged.options.cold_start_s[rows]
    planned = speed.planned_capacity_per_s(workload)
    needed = required_replicas(question, workload, judged.plans.take(rows), planned, batch, Settings())
    serves = meets_unloaded_limits(workload, memory, speed) if within is None else memory.fits & speed.has_capacity
    holds = serves & can_meet_deadline(workload, capacity, batch, start)
    needed = np.where(holds, needed, np.inf)[at_level].reshape(-1, count)
    if closed_form is not None:
        fewer = replicas_at_lower_levels(question, workload, judged.plans, by, speed, closed_form)
        needed = np.where(np.isinf(needed), needed, np.minimum(needed, fewer))
    needed = needed if confirm is None else confirm(needed)
    known = ~np.isnan(needed)
    needed = np.where(known, needed, np.inf)
    of_levels = speed.take(np.arange(at_level.start, at_level.stop))
    reached = None if within is None else within[at_level].reshape(-1, count)
    by_level = resources_by_level(question, workload, by.levels, judged.options, needed, of_levels, reached)
    room = (memory.usable_bytes - memory.needed_bytes) / memory.capacity_bytes
    slack = np.minimum(log_slack(workload, speed, judged.fleet.replicas[rows], start, within), room)
    fits, meets = (
        success_probability(by.grid_z_scores, left[at_level.stop :].reshape(-1, count)) for left in (room, slack)
    )
    bounded, in_time = has_speed_limits(workload), workload.deadline_s is not None
    asked = question.constraints.confidence
    shown, after = {*CONFIDENCE_LEVELS, asked}, outcome_levels(asked)
    stock = accelerators_in_stock(question.constraints, judged.options.plans.accelerator).tolist()
    by_level = [tuple(level.within_stock(most) for level in own) for most, own in zip(stock, by_level, strict=True)]
    return tuple(
        Assurance(
            asked,
            fits[i],
            meets[i] if bounded else None,
            meets[i] if in_time else None,
            tuple(
                level
                for level, is_known in zip(by_level[i], known[:, i], strict=True)
                if is_known and level.confidence in shown
            ),
            tuple(by_level[i][by.levels.index(level)] for level in after),
        )
        for i in range(count)
    )


def replicas_at_lower_levels(
    question: Question, workload: InferenceWorkload, plans: Plans, by: MarginLevels, speed: Speed, closed_form: Speed
) -> Column:
    """Replicas below the requested confidence, one row per level; infinite at the other levels.

    Fewer replicas than the simulated pool share a queue. Those of a closed loop also run a larger batch than the
    simulated one of the requested confidence: their capacity is scaled by the ratio that the formulas give.
    """
    asked, rows = by.level_rows(question.constraints.confidence), by.all_level_rows

    def scaled(simulated: Column, formula: Column) -> Column:
        known = formula[asked] > LEAST_CAPACITY_PER_S
        ratio = np.where(known, formula[rows].reshape(-1, by.count) / np.where(known, formula[asked], 1.0), 0.0)
        return (simulated[asked] * ratio).ravel()

    capacity, batch = speed.planned_capacity_per_s(workload)[rows], speed.slo_batch[rows]
    if workload.load is not Load.OPEN:
        capacity = scaled(speed.planned_capacity_per_s(workload), closed_form.planned_capacity_per_s(workload))
        batch = np.floor(scaled(speed.slo_batch, closed_form.slo_batch) + ROUNDING)
    alike = plans.take(by.deployment_rows[rows])
    needed = required_replicas(question, workload, alike, capacity, batch, Settings()).reshape(-1, by.count)
    lower = np.array(by.levels)[:, None] < question.constraints.confidence
    return np.where(lower, needed, np.inf)


def duration_at_confidence_s(
    question: Question,
    workload: InferenceWorkload,
    expected_s: Column,
    options: Options,
    around: Neighborhood,
    spreads: Spreads,
) -> Column:
    """Seconds until volumes finish at the requested confidence: the cold start, plus the work with its margin."""
    standing = NORMAL.inv_cdf(question.constraints.confidence)
    with suspend_recording():
        slower = margins_at(standing, workload, around, spreads, question.assumptions).rate
    return options.cold_start_s + (expected_s - options.cold_start_s) * slower


def has_speed_limits(workload: InferenceWorkload) -> bool:
    """Whether the request sets a requirement on speed: a request rate or latency limits."""
    slo = workload.slo
    limits = slo.ttft_s is not None or slo.tpot_s is not None or slo.e2e_s is not None
    return workload.load is Load.OPEN or (limits and workload.load is not Load.OFFLINE)


def resources_by_level(
    question: Question,
    workload: InferenceWorkload,
    levels: list[float],
    options: Options,
    needed: Column,
    speed: Speed,
    within: Column | None = None,
) -> list[tuple[Level, ...]]:
    """Resources of every deployment at each confidence level.

    Parameters:
        needed: replicas, one row per level; infinite where no number is enough.
        speed: speed of all levels, one after another.
        within: ratio of latency limit to latency on an idle replica, one row per level, where it was simulated.

    A higher confidence never needs fewer replicas than a lower one. Layouts with almost no capacity within the
    limits get no result: a large multiple of the requested replicas is not useful advice.
    """
    plans = options.plans
    needed = np.minimum.accumulate(needed[::-1])[::-1]
    requested_replicas = needed[levels.index(question.constraints.confidence)]
    never = np.isinf(needed) | (needed > MOST_TIMES * requested_replicas)
    replicas = np.where(never, 1.0, needed)
    placed = plan_fleet(workload.redundancy, plans.accelerators_per_replica, plans.accelerators_per_node, replicas)
    bought, host = (plans.offered, placed.nodes, plans.linked_nodes), plans.host_bytes
    cost = deployment_cost(*bought, question.assumptions, question.economics, host_bytes=host)
    planned = speed.planned_capacity_per_s(workload)
    capacity, batch = (values.reshape(replicas.shape) for values in (planned, speed.slo_batch))
    usd = daily_usd_per_hour_by_level(question, workload, plans, placed, cost, capacity)
    paid = "usd_per_hour"
    if workload.volume_requests is not None:
        lasts = run_s(workload.volume_requests, replicas, capacity, batch, options.cold_start_s)
        usd, paid = usd_total(usd, lasts), "usd_total"
    reached = np.full(replicas.shape, np.nan) if within is None else within
    columns = (values.T.tolist() for values in (placed.accelerators, usd, never, reached))
    return [
        tuple(
            Level(c, None, unreachable=unreachable_level(ratio))
            if gone
            else Level(c, int(n), **{paid: None if np.isnan(spent) else spent})
            for c, n, spent, gone, ratio in zip(levels, *of_plan, strict=True)
        )
        for of_plan in zip(*columns, strict=True)
    ]


def unreachable_level(within: float) -> Unreachable:
    """Why no number of accelerators reaches a level.

    Parameters:
        within: ratio of latency limit to latency on an idle replica; NaN if unknown.
    """
    if within < 1:
        return Unreachable(
            "At this confidence, a latency on an idle replica may exceed its limit by "
            f"{format_number(100 * (1 / within - 1))} %.",
            "A looser limit, a faster type or layout, or the benchmark in `verification` would reach it.",
        )
    return Unreachable(
        f"It takes more than {MOST_TIMES:g} times the replicas of the requested confidence: the limits leave a replica "
        "almost no time for a queue.",
        "A looser limit, another type or layout, or the benchmark in `verification` would reach it.",
    )


def log_slack(
    workload: InferenceWorkload, speed: Speed, replicas: Column, cold_start_s: Column, within: Column | None = None
) -> Column:
    """Logarithm of the ratio between capability and requirement, for the tightest requirement; one row per margin.

    `within` is the ratio of latency limit to unloaded latency, where a simulation exists.
    """
    kind = serving_backend(workload)
    if workload.load is Load.OPEN:
        shares = [replicas * speed.capacity_per_s / max(workload.peak_per_s, MIN_RATIO)]
    elif workload.load is Load.OFFLINE:
        shares = [deadline_ratio(workload, speed, replicas, cold_start_s)]
    else:
        each = np.ceil(workload.in_flight / replicas)
        shares = [np.where(each > 1, speed.slo_batch / np.maximum(each, 1.0), np.inf)]  # one request meets its limits
    if within is not None:
        shares.append(within)
    else:
        shares += [
            limit.available_s / np.maximum(limit.needed_s, MIN_RATIO)
            for limit in kind.latency_limits(speed.unloaded, workload.slo)
        ]
    slack: Column = np.log(np.maximum(np.min(shares, axis=0), MIN_RATIO))
    return slack


def deadline_ratio(workload: InferenceWorkload, speed: Speed, replicas: Column, cold_start_s: Column) -> Column:
    """Ratio of the time until the deadline to the run time, without the cold start; 1 where there is no volume or
    deadline.
    """
    if workload.volume_requests is None or workload.deadline_s is None:
        return np.ones(len(replicas))
    busy = run_s(workload.volume_requests, replicas, speed.capacity_per_s, speed.slo_batch, cold_start_s) - cold_start_s
    available_s: Column = np.maximum(workload.deadline_s - cold_start_s, 0.0)
    return available_s / busy


def success_probability(standing: Column, slack: Column) -> list[float]:
    """Highest probability with nonnegative slack, one value per column; one row per z-score.

    Once slack is negative at a confidence, it counts as negative at all higher ones.
    """
    remaining_slack = np.minimum.accumulate(np.clip(slack, -MAX_LOG_SLACK, MAX_LOG_SLACK))
    last, columns = len(standing) - 1, np.arange(remaining_slack.shape[1])
    base = np.clip((remaining_slack >= 0).sum(axis=0) - 1, 0, last)
    before = np.minimum(base, last - 1)
    slope = np.maximum(remaining_slack[before, columns] - remaining_slack[before + 1, columns], MIN_RATIO)
    z_scores = standing[base] + remaining_slack[base, columns] * (standing[before + 1] - standing[before]) / slope
    return [NORMAL.cdf(min(max(z, -MAX_Z_SCORE), MAX_Z_SCORE)) for z in z_scores.tolist()]
