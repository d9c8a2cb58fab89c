"""What each confidence takes of a run: the cheapest of its layout's sizes that fits and is in time with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns
from app.sizing.question import CONFIDENCE_LEVELS, Economics
from app.sizing.training.assurance import in_time, within
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degrees_of
from app.sizing.training.outcome import usd_total
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits, host_holds, run_at, run_cost


@dataclass(frozen=True, slots=True)
class Assured(Columns):
    """How sure runs are, a row each; what every level takes, a column each. NaN: no size would do, or no price."""

    levels: tuple[float, ...]
    meets_deadline: Column
    fits: Column
    wall_s: Column  # that holds with the confidence asked
    accelerators: Column  # paid
    usd_total: Column  # at the duration that holds with the level


def assured(
    counts: Counts, plans: TrainingPlans, run: Run, deadline_s: float, assumed: Assumptions, economics: Economics
) -> Assured:
    """How sure every run is, and what other confidences would take."""
    margins, memory = plans.stack.margins, run.memory
    levels = tuple(sorted({*CONFIDENCE_LEVELS, margins.asked}))
    accelerators, usd = _taken(counts, plans, run, levels, deadline_s, assumed, economics)
    holds = host_holds(plans, memory, assumed)
    return Assured(
        levels=levels,
        meets_deadline=in_time(margins, run.wall_s, deadline_s),
        fits=np.where(holds, within(margins, memory.total_bytes, memory.capacity_bytes), 0.0),
        wall_s=run.wall_s * margins.time_factor,
        accelerators=accelerators,
        usd_total=usd,
    )


def _every_degree(counts: Counts, plans: TrainingPlans, run: Run) -> tuple[Codes, Column]:
    """(row, data-parallel degree) of every size of every run, its own included."""
    degrees = degrees_of(counts, plans)
    number = degrees.counts()
    rows = np.repeat(np.arange(len(plans)), number)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
    own = np.arange(len(plans))
    return np.concatenate([own, rows]), np.concatenate([run.data_parallel, degrees.at(rows, place)])


def _taken(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    levels: tuple[float, ...],
    deadline_s: float,
    assumed: Assumptions,
    economics: Economics,
) -> tuple[Column, Column]:
    """(accelerators paid, USD) of the cheapest size at every level."""
    rows, degree = _every_degree(counts, plans, run)
    tried = plans.take(rows)
    sizes, margins = run_at(counts, tried, degree, assumed), tried.stack.margins
    paid, holds = sizes.nodes * tried.accelerators_per_node, fits(tried, sizes, assumed)
    usd_per_hour = run_cost(tried, sizes, assumed, economics).usd_per_hour
    total, capacity = sizes.memory.total_bytes, sizes.memory.capacity_bytes
    accelerators, usd = (np.full((len(plans), len(levels)), np.nan) for _ in range(2))
    for i, level in enumerate(levels):
        wall = sizes.wall_s * margins.time.factor(level, margins.time_scale)
        held = total * margins.memory.factor(level, margins.memory_scale)
        good = np.flatnonzero(holds & (held <= capacity) & (wall <= deadline_s))
        cost = usd_total(usd_per_hour, wall)
        order = good[np.lexsort((paid[good], np.nan_to_num(cost[good]), rows[good]))]
        of, first = np.unique(rows[order], return_index=True)
        accelerators[of, i], usd[of, i] = paid[order[first]], cost[order[first]]
    return accelerators, usd
