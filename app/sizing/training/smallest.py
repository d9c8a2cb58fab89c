"""The smallest run of every layout that fits and is in time, found by bisection over its data-parallel degrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column
from app.sizing.training.activations import micro_batch_memory
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import Degrees, degrees_of
from app.sizing.training.memory import TrainingMemory, training_memory
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import rank_params, spread_of
from app.sizing.training.run import Parts, micro_batch_time_of, run_at


@dataclass(frozen=True, slots=True)
class Sized:
    """Layouts at the smallest degree that fits and is in time; the others at their largest, their best attempt."""

    plans: TrainingPlans
    data_parallel: Column
    memory: TrainingMemory  # at the largest degree
    wall_s: Column  # at the largest degree; infinite where memory does not do
    able: Codes  # rows that fit and are in time
    parts: Parts  # of those


def sized(counts: Counts, layouts: TrainingPlans, deadline_s: float, assumed: Assumptions) -> Sized:
    """Each layout at its smallest degree that fits memory and meets the deadline; those without a legal degree are
    dropped.
    """
    degrees = degrees_of(counts, layouts)
    rows = np.flatnonzero(degrees.counts())
    plans, count = layouts.take(rows), degrees.counts()[rows]
    degree = degrees.at(rows, count - 1)
    rank, held = rank_params(counts, plans), micro_batch_memory(counts, plans, assumed)
    memory = training_memory(counts, plans, rank, spread_of(counts, plans, rank, degree), held, assumed)
    holds = np.flatnonzero(memory.fits)
    near = plans.take(holds)
    parts = Parts(rank.take(holds), held.take(holds), micro_batch_time_of(counts, near, assumed))
    largest = run_at(counts, near, degree[holds], assumed, parts, memory.take(holds))
    wall = np.full(len(plans), np.inf)
    wall[holds] = largest.wall_s
    timely = np.flatnonzero(largest.wall_s <= deadline_s)
    able = holds[timely]
    places = _smallest(counts, near.take(timely), parts.take(timely), degrees, rows[able], deadline_s, assumed)
    degree[able] = degrees.at(rows[able], places)
    return Sized(plans, degree, memory, wall, able, parts.take(timely))


def _smallest(
    counts: Counts,
    plans: TrainingPlans,
    parts: Parts,
    degrees: Degrees,
    rows: Codes,
    deadline_s: float,
    assumed: Assumptions,
) -> Codes:
    """Place of the smallest degree of each row that fits and is in time, by bisection; its largest is known to be."""
    high = degrees.counts()[rows] - 1
    low = np.zeros(len(rows), dtype=np.int64)
    at = np.arange(len(rows))
    while True:
        still = np.flatnonzero(low[at] < high[at])
        if not len(still):
            return high
        if len(still) < len(at):
            at, plans, parts = at[still], plans.take(still), parts.take(still)
        middle = (low[at] + high[at]) // 2
        run = run_at(counts, plans, degrees.at(rows[at], middle), assumed, parts)
        good = run.memory.fits & (run.wall_s <= deadline_s)
        high[at] = np.where(good, middle, high[at])
        low[at] = np.where(good, low[at], middle + 1)
