"""The smallest run of every layout that fits and is in time, surely enough: bisection over data-parallel degrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask, late, with_rows
from app.sizing.training.activations import MicroBatchMemory, micro_batch_memory
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import Degrees, degrees_of, kinds
from app.sizing.training.doubt import surely_held
from app.sizing.training.least import least_accelerator_s
from app.sizing.training.margins import surely_in_time
from app.sizing.training.memory import TrainingMemory, training_memory, usable_bytes, usable_share
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import RankParams, rank_params, spread_of
from app.sizing.training.run import Parts, micro_batch_time_of, run_at

AT_LEAST_TWO = 1.5  # micro-batches are rounded
AT_ONCE = 2000  # runs that are judged in hardly more time than a few are

Does = Callable[[Codes, Codes], Mask]  # whether rows do at a place of each


@dataclass(frozen=True, slots=True)
class Attempts:
    """Layouts that have a legal degree, at their largest, and those that surely fit and are in time there."""

    layouts: TrainingPlans
    degrees: Degrees
    rows: Codes  # of each layout in the degrees, and in the table they are of
    places: Codes  # of its largest degree among them
    largest: Column
    memory: TrainingMemory
    held: Mask  # whether memory surely does
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
    held = _held_at_most(counts, plans, degrees, rows, assumed)
    places, memory = held.places, held.memory
    degree = degrees.at(rows, places)
    holds = np.flatnonzero(held.surely)
    near, of = plans.take(holds), held.of[holds]
    parts = Parts(late(held.rank, of), late(held.micro, of), micro_batch_time_of(counts, near, assumed))
    largest = run_at(counts, near, degree[holds], assumed, parts, memory.take(holds))
    wall = np.full(len(plans), np.inf)
    wall[holds] = largest.wall_s
    timely = surely_in_time(near.stack.margins, largest.wall_s, deadline_s)
    return Attempts(
        layouts=plans,
        degrees=degrees,
        rows=rows,
        places=places,
        largest=degree,
        memory=memory,
        held=held.surely,
        wall_s=wall,
        able=holds[timely],
        plans=near.take(timely),
        parts=parts.take(timely),
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """Layouts at the largest degree that holds. Those of one framework on machines of one shape are counted once."""

    places: Codes  # of the degree of each row
    memory: TrainingMemory
    surely: Mask  # whether it does with the confidence asked
    of: Codes  # which of those counted each row is
    rank: RankParams  # of those counted, the same at every degree
    micro: MicroBatchMemory


def _held_at_most(counts: Counts, plans: TrainingPlans, degrees: Degrees, rows: Codes, assumed: Assumptions) -> _Held:
    """Each row at its largest degree. A pipeline with a single micro-batch has its loss beside what it keeps: what does
    not fit for that is tried with two.
    """
    example, of = kinds(kinds(plans.stack_row, plans.layout_row)[1], plans.machine.shape)
    few, lists = plans.take(example), rows[example]
    rank, micro = rank_params(counts, few), micro_batch_memory(counts, few, assumed)

    def memory_at(which: Codes, degree: Column) -> TrainingMemory:
        alike, ranks = few.take(which), rank.take(which)
        return training_memory(
            counts, alike, ranks, spread_of(counts, alike, ranks, degree), micro.take(which), assumed
        )

    largest = degrees.counts()[lists] - 1
    memory = _on(plans, memory_at(np.arange(len(few)), degrees.at(lists, largest)).take(of), assumed)
    states = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
    surely = surely_held(plans, memory)
    again = np.flatnonzero(~surely & (states <= memory.usable_bytes))
    kind = np.unique(of[again])
    two = counts.global_batch / (AT_LEAST_TWO * few.micro_batch_sequences[kind])
    smaller = (degrees.options[degrees.of[lists[kind]]] <= two[:, None]).sum(axis=1) - 1
    able = (smaller >= 0) & (smaller < largest[kind])
    kind, smaller = kind[able], smaller[able]
    at = np.full(len(few), -1)
    at[kind] = np.arange(len(kind))
    again = again[at[of[again]] >= 0]
    tried, places = at[of[again]], largest[of]
    if not len(again):
        return _Held(places, memory, surely, of, rank, micro)
    near = plans.take(again)
    less = _on(near, memory_at(kind, degrees.at(lists[kind], smaller)).take(tried), assumed)
    holds = np.flatnonzero(surely_held(near, less))
    more = again[holds]
    places[more] = smaller[tried[holds]]
    surely[more] = True
    return _Held(places, with_rows(memory, more, less.take(holds)), surely, of, rank, micro)


def _on(plans: TrainingPlans, memory: TrainingMemory, assumed: Assumptions) -> TrainingMemory:
    """What was counted once, on each row's own accelerator."""
    capacity = plans.node.memory_bytes
    return replace(memory, capacity_bytes=capacity, usable_bytes=usable_bytes(capacity, usable_share(plans, assumed)))


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
    busy_s = least_accelerator_s(
        counts, plans.micro_batch_sequences, plans.ranks, parts.time.compute_s + parts.time.exposed_s
    )
    least = busy_s * plans.stack.margins.time_factor / (plans.ranks * deadline_s)
    low = np.minimum((degrees.options[degrees.of[rows]] < least[:, None]).sum(axis=1), largest)

    def does(which: Codes, tried: Codes) -> Mask:
        near = plans.take(which)
        run = run_at(counts, near, degrees.at(rows[which], tried), assumed, parts.take(which))
        return surely_held(near, run.memory) & surely_in_time(near.stack.margins, run.wall_s, deadline_s)

    return bisected(low, largest, does)


def bisected(low: Codes, high: Codes, does: Does) -> Codes:
    """The least place of each row that does, where the highest is known to: by bisection from the lowest. When few
    places are left all of them are tried together, and the bisection goes on among these.
    """
    tried, judge = low, does
    while True:
        at = np.flatnonzero(low < high)
        if not len(at):
            return high
        if judge is does and (high - low).sum() <= AT_ONCE:
            judge = _known(low, high, does)
        good = np.zeros(len(low), dtype=bool)
        good[at] = judge(at, tried[at])
        high, low = np.where(good, tried, high), np.where(good | (low >= high), low, tried + 1)
        tried = (low + high) // 2


def _known(low: Codes, high: Codes, does: Does) -> Does:
    """Which places from low to high do, tried once."""
    count = high - low
    start = np.cumsum(count) - count - low
    which = np.repeat(np.arange(len(low)), count)
    known = does(which, np.arange(len(which)) - start[which])

    def found(at: Codes, tried: Codes) -> Mask:
        good: Mask = known[start[at] + tried]
        return good

    return found
