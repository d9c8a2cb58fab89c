"""The smallest run of every layout that fits and is in time, surely enough: bisection over data-parallel degrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask, stacked
from app.sizing.training.activations import MicroBatchMemory, micro_batch_memory
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import Degrees, degrees_of
from app.sizing.training.doubt import surely_held
from app.sizing.training.least import least_accelerator_s
from app.sizing.training.margins import surely_in_time
from app.sizing.training.memory import TrainingMemory, training_memory
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import RankParams, rank_params, spread_of
from app.sizing.training.run import Parts, micro_batch_time_of, run_at

AT_LEAST_TWO = 1.5  # micro-batches are rounded


@dataclass(frozen=True, slots=True)
class Attempts:
    """Layouts that have a legal degree, at their largest, and those that surely fit and are in time there."""

    layouts: TrainingPlans
    degrees: Degrees
    rows: Codes  # of each layout in the degrees, and in the table they are of
    places: Codes  # of its largest degree among them
    largest: Column
    memory: TrainingMemory
    wall_s: Column  # infinite where memory does not do
    able: Codes  # layouts that surely fit and are in time
    plans: TrainingPlans  # of those
    parts: Parts  # of those

    @property
    def accelerators(self) -> Column:
        """Of each layout at its largest."""
        return self.layouts.ranks * self.largest


@dataclass(frozen=True, slots=True)
class Sized:
    """Layouts that surely fit and are in time at the sizes worth paying for."""

    rows: Codes  # of the attempts: at their smallest degree, then those again that fill a machine that is paid whole
    plans: TrainingPlans
    data_parallel: Column
    parts: Parts


def attempted(
    counts: Counts, layouts: TrainingPlans, deadline_s: float, assumed: Assumptions, among: Mask | None = None
) -> Attempts:
    """Each layout, or each among some, at its largest degree that holds; those without a legal degree are dropped."""
    degrees = degrees_of(counts, layouts)
    rows = np.flatnonzero(degrees.counts() if among is None else among & (degrees.counts() > 0))
    plans = layouts.take(rows)
    places, memory, rank, held = _held_at_most(counts, plans, degrees, rows, assumed)
    degree = degrees.at(rows, places)
    holds = np.flatnonzero(surely_held(plans, memory))
    near = plans.take(holds)
    parts = Parts(rank.take(holds), held.take(holds), micro_batch_time_of(counts, near, assumed))
    largest = run_at(counts, near, degree[holds], assumed, parts, memory.take(holds))
    wall = np.full(len(plans), np.inf)
    wall[holds] = largest.wall_s
    timely = np.flatnonzero(surely_in_time(near.stack.margins, largest.wall_s, deadline_s))
    able = holds[timely]
    return Attempts(plans, degrees, rows, places, degree, memory, wall, able, near.take(timely), parts.take(timely))


def _held_at_most(
    counts: Counts, plans: TrainingPlans, degrees: Degrees, rows: Codes, assumed: Assumptions
) -> tuple[Codes, TrainingMemory, RankParams, MicroBatchMemory]:
    """(place of the largest degree of each row, its memory, what is the same at every degree). A pipeline with a single
    micro-batch has its loss beside what it keeps: what does not fit for that is tried with two.
    """
    rank, held = rank_params(counts, plans), micro_batch_memory(counts, plans, assumed)

    def memory_at(which: Codes, degree: Column) -> TrainingMemory:
        of, ranks = plans.take(which), rank.take(which)
        return training_memory(counts, of, ranks, spread_of(counts, of, ranks, degree), held.take(which), assumed)

    places = degrees.counts()[rows] - 1
    memory = memory_at(np.arange(len(rows)), degrees.at(rows, places))
    states = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
    again = np.flatnonzero(~surely_held(plans, memory) & (states <= memory.usable_bytes))
    two = counts.global_batch / (AT_LEAST_TWO * plans.micro_batch_sequences[again])
    smaller = (degrees.options[degrees.of[rows[again]]] <= two[:, None]).sum(axis=1) - 1
    able = (smaller >= 0) & (smaller < places[again])
    again, smaller = again[able], smaller[able]
    less = memory_at(again, degrees.at(rows[again], smaller))
    holds = surely_held(plans.take(again), less)
    which = np.arange(len(rows))
    which[again[holds]] = len(rows) + np.flatnonzero(holds)
    places[again[holds]] = smaller[holds]
    return places, stacked([memory, less]).take(which), rank, held


def sized(counts: Counts, tried: Attempts, chosen: Codes, deadline_s: float, assumed: Assumptions) -> Sized:
    """Some of the attempts that do, each at its smallest degree that fits memory and meets the deadline with the
    confidence asked.
    """
    able, plans, parts, degrees = tried.able[chosen], tried.plans.take(chosen), tried.parts.take(chosen), tried.degrees
    rows = tried.rows[able]
    places = _smallest(counts, plans, parts, degrees, rows, tried.places[able], deadline_s, assumed)
    more, fuller = _filling(plans, degrees, rows, places)
    both = np.concatenate([np.arange(len(able)), more])
    data_parallel = np.concatenate([degrees.at(rows, places), degrees.at(rows[more], fuller)])
    return Sized(able[both], plans.take(both), data_parallel, parts.take(both))


def _filling(plans: TrainingPlans, degrees: Degrees, rows: Codes, places: Codes) -> tuple[Codes, Codes]:
    """(rows whose smallest degree leaves accelerators of its only machine idle, place of the degree that uses most)."""
    count = plans.accelerators_per_node
    idle = np.flatnonzero(plans.ranks * degrees.at(rows, places) < count)
    options = degrees.options[degrees.of[rows[idle]]]
    most = (options * plans.ranks[idle, None] <= count[idle, None]).sum(axis=1) - 1
    more = most > places[idle]
    return idle[more], most[more]


def _smallest(
    counts: Counts,
    plans: TrainingPlans,
    parts: Parts,
    degrees: Degrees,
    rows: Codes,
    largest: Codes,
    deadline_s: float,
    assumed: Assumptions,
) -> Codes:
    """Place of the smallest degree of each row that fits and is in time, by bisection; its largest is known to do.

    The very smallest that may be in time is tried first: one replica exchanges nothing, so it may do where two are
    late.
    """
    high = largest.copy()
    busy_s = least_accelerator_s(
        counts, plans.micro_batch_sequences, plans.ranks, parts.time.compute_s + parts.time.exposed_s
    )
    least = busy_s * plans.stack.margins.time_factor / (plans.ranks * deadline_s)
    low = np.minimum((degrees.options[degrees.of[rows]] < least[:, None]).sum(axis=1), high)
    at, tried = np.arange(len(rows)), low
    while True:
        still = np.flatnonzero(low[at] < high[at])
        if not len(still):
            return high
        if len(still) < len(at):
            at, plans, parts, tried = at[still], plans.take(still), parts.take(still), tried[still]
        run = run_at(counts, plans, degrees.at(rows[at], tried), assumed, parts)
        good = surely_held(plans, run.memory) & surely_in_time(plans.stack.margins, run.wall_s, deadline_s)
        high[at] = np.where(good, tried, high[at])
        low[at] = np.where(good, low[at], tried + 1)
        tried = (low[at] + high[at]) // 2
