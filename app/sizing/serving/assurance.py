"""How sure services are to do what was asked, and what other confidences would take: all of them in one table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.sizing.columns import Codes, Column, stacked
from app.sizing.decisions.cost import deployment_cost, usd_total
from app.sizing.decisions.placement import fleet
from app.sizing.decisions.volume import may_be_in_time, run_s
from app.sizing.formula import unrecorded
from app.sizing.question import CONFIDENCE_LEVELS, Question, Speculative
from app.sizing.result import Assurance, Level
from app.sizing.serving.kinds import able, kind_of
from app.sizing.serving.margins import Margins, margins_at
from app.sizing.serving.measured import Memory, Settings, Speed
from app.sizing.serving.options import Judged, Options
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import replicas_of
from app.sizing.uncertainty import MOST_SURE, NORMAL, Around, Spreads
from app.sizing.workload import InferenceWorkload, Load

# Where it is looked whether a deployment does what was asked; straight lines between and beyond.
TRIED = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)
# Beyond a factor of e nothing is nearer to what was asked than anything else.
FAR_OFF = 1.0
LEAST_SHARE = 1e-12
# Beyond so many times the replicas of the confidence asked for, another layout or another machine is what it takes.
MOST_TIMES = 8.0


@dataclass(frozen=True, slots=True)
class ByMargins:
    """Deployments one under another: as predicted, then by the margins of each level, then of each that is tried."""

    count: int
    levels: list[float]
    tried: Column  # standings in a normal distribution
    margins: Margins

    @property
    def rows(self) -> Codes:
        """Which deployment every row is."""
        return np.tile(np.arange(self.count), len(self.margins) // self.count)

    @property
    def predicted(self) -> Codes:
        """Rows by no margin."""
        return np.arange(self.count)

    def at(self, level: float) -> slice:
        """Rows of one level."""
        start = self.count * (1 + self.levels.index(level))
        return slice(start, start + self.count)

    @property
    def at_level(self) -> slice:
        """Rows of the levels."""
        return slice(self.count, self.count * (1 + len(self.levels)))


def by_margins(question: Question, workload: InferenceWorkload, around: Around, spreads: Spreads) -> ByMargins:
    """What deployments are judged by, of what was published around each."""
    asked, count = question.constraints.confidence, len(around)
    levels, tried = sorted({*CONFIDENCE_LEVELS, asked}), sorted({*TRIED, asked})
    standing = np.array([NORMAL.inv_cdf(c) for c in (*levels, *tried)])
    around = around.take(np.tile(np.arange(count), len(standing)))
    margins = margins_at(np.repeat(standing, count), workload, around, spreads, question.assumptions)
    return ByMargins(count, levels, standing[len(levels) :], stacked([Margins.none(count), margins]))


def measured_by(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    settings: Settings,
    by: ByMargins,
    *,
    speculative: Speculative | None = None,
) -> tuple[Any, Any]:
    """Memory and speed of deployments by all margins. Their largest batch is chosen again for each level; as predicted
    and for what is tried it is as it was set.
    """
    assert settings.max_sequences is not None
    kind, assumed, rows = kind_of(workload), question.assumptions, by.rows
    most = settings.max_sequences[rows]
    most[by.at_level] = np.nan
    memory = kind.memory(
        workload, plans.take(rows), assumed, replace(settings.take(rows), max_sequences=most), by.margins
    )
    alone = kind.alone(workload, plans, memory.take(by.predicted), assumed, speculative)
    return memory, kind.speed(workload, memory, kind.by(workload, alone.take(rows), by.margins), assumed)


def assured(
    question: Question,
    workload: InferenceWorkload,
    judged: Judged[Any, Any, Any],
    by: ByMargins,
    memory: Memory,
    speed: Speed,
    within: Column | None = None,
) -> tuple[Assurance, ...]:
    """Of every deployment how sure it is as it stands, and what its machine, engine and layout take at each level, of
    its memory and speed by all margins. `within`: where it was simulated, how many times its latency at the lightest
    load would be allowed.
    """
    rows, at_level, count = by.rows, by.at_level, by.count
    capacity, batch, start = speed.capacity_per_s, speed.slo_batch, judged.options.cold_start_s[rows]
    needed = replicas_of(question, workload, judged.plans.take(rows), capacity, batch, Settings())
    serves = able(workload, memory, speed) if within is None else memory.fits & speed.serves
    holds = serves & may_be_in_time(workload, capacity, batch, start)
    needed = np.where(holds, needed, np.inf)[at_level].reshape(-1, count)
    of_levels = speed.take(np.arange(at_level.start, at_level.stop))
    by_level = levels_of(question, workload, by.levels, judged.options, needed, of_levels)
    room = (memory.usable_bytes - memory.needed_bytes) / memory.capacity_bytes
    slack = np.minimum(slack_of(workload, speed, judged.fleet.replicas[rows], start, within), room)
    fits, meets = (sureness(by.tried, left[at_level.stop :].reshape(-1, count)) for left in (room, slack))
    bounded, in_time = limited(workload), workload.deadline_s is not None
    return tuple(
        Assurance(
            question.constraints.confidence,
            fits[i],
            meets[i] if bounded else None,
            meets[i] if in_time else None,
            by_level[i],
        )
        for i in range(count)
    )


def surely_s(
    question: Question,
    workload: InferenceWorkload,
    expected_s: Column,
    options: Options,
    around: Around,
    spreads: Spreads,
) -> Column:
    """Seconds in which volumes are done with the confidence asked: their start, and their work by its margin."""
    standing = NORMAL.inv_cdf(question.constraints.confidence)
    with unrecorded():
        slower = margins_at(standing, workload, around, spreads, question.assumptions).rate
    return options.cold_start_s + (expected_s - options.cold_start_s) * slower


def limited(workload: InferenceWorkload) -> bool:
    """Whether anything was asked for that speed decides: a rate, or limits of latency."""
    slo = workload.slo
    limits = slo.ttft_s is not None or slo.tpot_s is not None or slo.e2e_s is not None
    return workload.load is Load.OPEN or (limits and workload.load is not Load.OFFLINE)


def levels_of(
    question: Question,
    workload: InferenceWorkload,
    levels: list[float],
    options: Options,
    needed: Column,
    speed: Speed,
) -> list[tuple[Level, ...]]:
    """What every deployment takes at each level, of the replicas `needed`: a row for each level, infinite where none
    are enough; `speed` is of each level, one after another.

    What holds with a higher confidence holds with a lower one. A layout whose replicas may do next to nothing within
    the limits is not made sure by their number: many times what is asked for is no answer.
    """
    plans = options.plans
    needed = np.minimum.accumulate(needed[::-1])[::-1]
    sized = needed[levels.index(question.constraints.confidence)]
    never = np.isinf(needed) | (needed > MOST_TIMES * sized)
    replicas = np.where(never, 1.0, needed)
    placed = fleet(workload.redundancy, plans.accelerators_per_replica, plans.accelerators_per_node, replicas)
    bought, host = (plans.offered, placed.nodes, plans.linked_nodes), plans.host_bytes
    cost = deployment_cost(*bought, question.assumptions, question.economics, host_bytes=host)
    usd, paid = cost.usd_per_hour, "usd_per_hour"
    if workload.volume_requests is not None:
        capacity, batch = (values.reshape(replicas.shape) for values in (speed.capacity_per_s, speed.slo_batch))
        lasts = run_s(workload.volume_requests, replicas, capacity, batch, options.cold_start_s)
        usd, paid = usd_total(usd, lasts), "usd_total"
    columns = (values.T.tolist() for values in (placed.accelerators, usd, never))
    return [
        tuple(
            Level(c, None) if gone else Level(c, int(n), **{paid: None if np.isnan(spent) else spent})
            for c, n, spent, gone in zip(levels, *of_plan, strict=True)
        )
        for of_plan in zip(*columns, strict=True)
    ]


def slack_of(
    workload: InferenceWorkload, speed: Speed, replicas: Column, cold_start_s: Column, within: Column | None = None
) -> Column:
    """Logarithm of how many times what was asked is done, by whatever falls shortest; rows by their margins. `within`:
    how many times the latency of a request alone would be allowed, where that was simulated.
    """
    kind = kind_of(workload)
    if workload.load is Load.OPEN:
        shares = [replicas * speed.capacity_per_s / max(workload.peak_per_s, LEAST_SHARE)]
    elif workload.load is Load.OFFLINE:
        shares = [time_share(workload, speed, replicas, cold_start_s)]
    else:
        each = np.ceil(workload.in_flight / replicas)
        shares = [np.where(each > 1, speed.slo_batch / np.maximum(each, 1.0), np.inf)]  # one alone meets its limits
    if within is not None:
        shares.append(within)
    else:
        shares += [limit.available_s / np.maximum(limit.needed_s, LEAST_SHARE) for limit in kind.limits(speed.alone)]
    found: Column = np.log(np.maximum(np.min(shares, axis=0), LEAST_SHARE))
    return found


def time_share(workload: InferenceWorkload, speed: Speed, replicas: Column, cold_start_s: Column) -> Column:
    """How many times a volume could be worked off between the start and its deadline; 1 where there is none."""
    if workload.volume_requests is None or workload.deadline_s is None:
        return np.ones(len(replicas))
    busy = run_s(workload.volume_requests, replicas, speed.capacity_per_s, speed.slo_batch, cold_start_s) - cold_start_s
    left: Column = np.maximum(workload.deadline_s - cold_start_s, 0.0)
    return left / busy


def sureness(standing: Column, slack: Column) -> list[float]:
    """Probability up to which slack is left, a column each; a row for each standing in a normal distribution.

    What runs out at a lower confidence stays out at higher ones.
    """
    left = np.minimum.accumulate(np.clip(slack, -FAR_OFF, FAR_OFF))
    last, columns = len(standing) - 1, np.arange(left.shape[1])
    base = np.clip((left >= 0).sum(axis=0) - 1, 0, last)
    before = np.minimum(base, last - 1)
    lost = np.maximum(left[before, columns] - left[before + 1, columns], LEAST_SHARE)
    found = standing[base] + left[base, columns] * (standing[before + 1] - standing[before]) / lost
    return [NORMAL.cdf(min(max(z, -MOST_SURE), MOST_SURE)) for z in found.tolist()]
