"""Layouts and sizes that a search of training tries, and the smallest size that holds a run.

Bisection skips sizes, so every layout that may be better is evaluated at the sizes around the best one as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import (
    Codes,
    Column,
    Mask,
    lazy_rows,
    with_rows,
)
from app.sizing.training.activations import MicroBatchMemory, micro_batch_memory
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import (
    LegalDegrees,
    degree_for_accelerators,
    forms_cluster,
    group_rows,
    is_legal_degree,
    is_well_connected,
    least_accelerator_s,
    legal_degrees,
)
from app.sizing.training.memory import (
    TrainingMemory,
    fits_at_confidence,
    training_memory,
    usable_bytes,
    usable_share,
)
from app.sizing.training.plans import (
    RankParams,
    TrainingPlans,
    meets_deadline_at_confidence,
    rank_groups,
    rank_params,
)
from app.sizing.training.run import (
    Run,
    RunParts,
    run_at,
    time_micro_batch,
)
from app.work import add_work

# Sizes to evaluate, relative to the best size: down to the search's next smaller degree, and one step up.
SIZE_RATIOS = np.array([0.84, 0.875, 0.9375, 1.0, 1.125, 1.25])


def sizes_around(accelerators: Column, accelerators_per_node: Column) -> Column:
    """Accelerator counts to evaluate near each size, one row per size.

    A size of several machines gives counts of whole machines. One within a machine gives itself and the machine.
    """
    machines = np.ceil(accelerators[:, None] * SIZE_RATIOS / accelerators_per_node[:, None])
    return np.where(
        (accelerators > accelerators_per_node)[:, None],
        machines * accelerators_per_node[:, None],
        accelerators[:, None],
    )


def degrees_near_size(counts: Counts, plans: TrainingPlans, accelerators: Column) -> tuple[Codes, Column]:
    """Return (row, data-parallel degree) of each layout at each legal size near a given number of accelerators."""
    sizes = sizes_around(accelerators, plans.accelerators_per_node)
    degrees, able = degree_for_accelerators(counts, plans, sizes)
    able &= is_legal_degree(counts, plans, degrees) & forms_cluster(plans, sizes) & is_well_connected(plans, sizes)
    able[:, 1:] &= sizes[:, 1:] != sizes[:, :-1]
    rows, place = np.nonzero(able)
    return rows, degrees[rows, place]


WORK_PER_LAYOUT = 1 / 1500  # milliseconds of CPU time, about
MIN_BATCH_RATIO = 1.5  # micro-batches per step; rounded up to two
EVALUATED_TOGETHER = 2000  # number of runs that one call evaluates in hardly more time than a few
FeasibilityTest = Callable[[Codes, Codes], Mask]  # whether each row is feasible at a position in its list


@dataclass(frozen=True, slots=True)
class Attempts:
    """Layouts with a legal degree, evaluated at their largest, and those that fit and meet the deadline there."""

    layouts: TrainingPlans
    degrees: LegalDegrees  # legal degrees of all layouts
    rows: Codes  # row of each layout in `degrees` and in the original table
    places: Codes  # position of each layout's largest degree
    largest: Column  # largest degree of each layout
    memory: TrainingMemory  # memory at that degree
    fits_at_confidence: Mask  # whether it fits at the requested confidence
    wall_s: Column  # wall time, seconds; infinite if it does not fit
    feasible_rows: Codes  # rows of the feasible layouts
    plans: TrainingPlans  # plans of the feasible layouts
    parts: RunParts  # degree-independent results of the feasible layouts
    no_run: Run  # a table of runs without rows

    @property
    def largest_accelerators(self) -> Column:
        """Accelerators of each layout at its largest degree."""
        return self.layouts.ranks * self.largest


@dataclass(frozen=True, slots=True)
class SizedLayouts:
    """Feasible layouts at the sizes that are worth paying for."""

    rows: Codes  # rows of the attempts: at their smallest degree, then again at the degree that fills a machine
    plans: TrainingPlans  # plan of each row
    data_parallel: Column  # data-parallel degree
    parts: RunParts  # degree-independent results


def attempt_layouts(
    counts: Counts, layouts: TrainingPlans, deadline_s: float, assumed: Assumptions, among: Mask | None = None
) -> Attempts:
    """Evaluate each layout at its largest degree that fits; layouts without a legal degree are dropped.

    `among` restricts the layouts.
    """
    add_work(len(layouts) * WORK_PER_LAYOUT)
    degrees = legal_degrees(counts, layouts)
    rows = np.flatnonzero(degrees.degrees_per_row() if among is None else among & (degrees.degrees_per_row() > 0))
    plans = layouts.take(rows)
    at_largest = _memory_at_largest(counts, plans, degrees, rows, assumed)
    places, memory = at_largest.places, at_largest.memory
    degree = degrees.degree_at(rows, places)
    fitting = np.flatnonzero(at_largest.fits_at_confidence)
    fitting_plans, group = plans.take(fitting), at_largest.group_of_row[fitting]
    parts = RunParts(
        lazy_rows(at_largest.rank, group),
        lazy_rows(at_largest.micro, group),
        time_micro_batch(counts, fitting_plans, assumed),
    )
    largest = run_at(counts, fitting_plans, degree[fitting], assumed, parts, memory.take(fitting))
    wall = np.full(len(plans), np.inf)
    wall[fitting] = largest.wall_s
    timely = meets_deadline_at_confidence(fitting_plans.stack.margins, largest.wall_s, deadline_s)
    next_smaller = degrees.degree_at(rows[fitting], np.maximum(places[fitting] - 1, 0))
    least = _least_degree(counts, fitting_plans, parts, deadline_s)
    late = np.flatnonzero(~timely & (least <= next_smaller))
    if len(late):
        judge = _DegreeJudge(
            counts, fitting_plans.take(late), parts.take(late), degrees, rows[fitting[late]], deadline_s, assumed
        )
        found = judge.find_timely_degrees(places[fitting[late]])
        if found is not None:
            in_time, place, run = found
            timely[late[in_time]] = True
            changed = fitting[late[in_time]]
            wall[changed], places[changed], degree[changed] = run.wall_s, place, run.data_parallel
            memory = with_rows(memory, changed, run.memory)
    return Attempts(
        layouts=plans,
        degrees=degrees,
        rows=rows,
        places=places,
        largest=degree,
        memory=memory,
        fits_at_confidence=at_largest.fits_at_confidence,
        wall_s=wall,
        feasible_rows=fitting[timely],
        plans=fitting_plans.take(timely),
        parts=parts.take(timely),
        no_run=largest.take(np.zeros(0, np.int64)),
    )


@dataclass(frozen=True, slots=True)
class _DegreeJudge:
    """Evaluates layouts at some of their data-parallel degrees."""

    counts: Counts
    plans: TrainingPlans
    parts: RunParts
    degrees: LegalDegrees
    rows: Codes  # row of each layout in `degrees`
    deadline_s: float
    assumed: Assumptions

    def run_rows(self, which: Codes, places: Codes) -> Run:
        """Runs of some rows, each at a position of its degrees."""
        degree = self.degrees.degree_at(self.rows[which], places)
        return run_at(self.counts, self.plans.take(which), degree, self.assumed, self.parts.take(which))

    def meets_limits(self, which: Codes, places: Codes, run: Run | None = None) -> Mask:
        """Whether each row fits and meets the deadline at the requested confidence."""
        near, run = self.plans.take(which), self.run_rows(which, places) if run is None else run
        in_time = meets_deadline_at_confidence(near.stack.margins, run.wall_s, self.deadline_s)
        return fits_at_confidence(near, run.memory) & in_time

    def least_places(self) -> Codes:
        """Position of each row's smallest degree that may meet the deadline; past its last one if none may."""
        least = _least_degree(self.counts, self.plans, self.parts, self.deadline_s)
        places: Codes = (self.degrees.options[self.degrees.row_lists[self.rows]] < least[:, None]).sum(axis=1)
        return places

    def find_timely_degrees(self, largest: Codes) -> tuple[Codes, Codes, Run] | None:
        """Return (rows that meet the deadline below `largest`, position of the largest such degree, the run there), or
        None if there are none.

        Wall time is not monotone in the degree: batches are rounded, and more accelerators fail more often.
        """
        which, places = _places_between(np.minimum(self.least_places(), largest), largest)
        if not len(which):
            return None
        run = self.run_rows(which, places)
        good = np.flatnonzero(self.meets_limits(which, places, run))
        if not len(good):
            return None
        last = good[np.flatnonzero(np.diff(which[good], append=-1))]
        return which[last], places[last], run.take(last)


def _least_degree(counts: Counts, plans: TrainingPlans, parts: RunParts, deadline_s: float) -> Column:
    """Lower bound of the data-parallel degree at which each row may meet the deadline; not rounded."""
    time = parts.time
    busy_s = least_accelerator_s(counts, plans.micro_batch_sequences, plans.ranks, time.compute_s + time.exposed_s)
    least: Column = busy_s * plans.stack.margins.time_factor / (plans.ranks * deadline_s)
    return least


def _places_between(low: Codes, high: Codes) -> tuple[Codes, Codes]:
    """Return (row, position) of every position of each row from `low` up to, not including, `high`."""
    count = high - low
    which = np.repeat(np.arange(len(low)), count)
    return which, np.arange(len(which)) - (np.cumsum(count) - count - low)[which]


@dataclass(frozen=True, slots=True)
class _LargestMemory:
    """Memory of layouts at their largest degree; equal layouts of one framework and machine shape are computed once."""

    places: Codes  # position of each row's degree
    memory: TrainingMemory  # memory at that degree
    fits_at_confidence: Mask  # whether it fits at the requested confidence
    group_of_row: Codes  # computed group of each row
    rank: RankParams  # parameters per rank of each group, the same at every degree
    micro: MicroBatchMemory  # activations per micro-batch of each group


def _memory_at_largest(
    counts: Counts, plans: TrainingPlans, degrees: LegalDegrees, rows: Codes, assumed: Assumptions
) -> _LargestMemory:
    """Evaluate the memory of each row at its largest degree.

    A pipeline with a single micro-batch keeps the loss and the activations at the same time. Rows that do not fit
    for that reason are evaluated again with two micro-batches.
    """
    example, group_of_row = group_rows(group_rows(plans.stack_row, plans.layout_row)[1], plans.machine.shape)
    examples, lists = plans.take(example), rows[example]
    rank, micro = rank_params(counts, examples), micro_batch_memory(counts, examples, assumed)

    def memory_at(which: Codes, degree: Column) -> TrainingMemory:
        alike, ranks = examples.take(which), rank.take(which)
        return training_memory(
            counts, alike, ranks, rank_groups(counts, alike, ranks, degree), micro.take(which), assumed
        )

    largest = degrees.degrees_per_row()[lists] - 1
    memory = _on_own_accelerator(
        plans, memory_at(np.arange(len(examples)), degrees.degree_at(lists, largest)).take(group_of_row), assumed
    )
    states = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
    surely = fits_at_confidence(plans, memory)
    retried = np.flatnonzero(~surely & (states <= memory.usable_bytes))
    kind = np.unique(group_of_row[retried])
    two = counts.global_batch / (MIN_BATCH_RATIO * examples.micro_batch_sequences[kind])
    smaller = (degrees.options[degrees.row_lists[lists[kind]]] <= two[:, None]).sum(axis=1) - 1
    able = (smaller >= 0) & (smaller < largest[kind])
    kind, smaller = kind[able], smaller[able]
    at = np.full(len(examples), -1)
    at[kind] = np.arange(len(kind))
    retried = retried[at[group_of_row[retried]] >= 0]
    tried, places = at[group_of_row[retried]], largest[group_of_row]
    if not len(retried):
        return _LargestMemory(places, memory, surely, group_of_row, rank, micro)
    retried_plans = plans.take(retried)
    retried_memory = _on_own_accelerator(
        retried_plans, memory_at(kind, degrees.degree_at(lists[kind], smaller)).take(tried), assumed
    )
    fitting = np.flatnonzero(fits_at_confidence(retried_plans, retried_memory))
    more = retried[fitting]
    places[more] = smaller[tried[fitting]]
    surely[more] = True
    return _LargestMemory(
        places, with_rows(memory, more, retried_memory.take(fitting)), surely, group_of_row, rank, micro
    )


def _on_own_accelerator(plans: TrainingPlans, memory: TrainingMemory, assumed: Assumptions) -> TrainingMemory:
    """Set the capacity and usable memory of each row's own accelerator."""
    capacity = plans.node.memory_bytes
    return replace(memory, capacity_bytes=capacity, usable_bytes=usable_bytes(capacity, usable_share(plans, assumed)))


def size_attempts(
    counts: Counts, attempts: Attempts, chosen: Codes, deadline_s: float, assumed: Assumptions
) -> SizedLayouts:
    """Return chosen feasible attempts, each at its smallest degree that fits and meets the deadline at confidence."""
    feasible, plans, parts, degrees = (
        attempts.feasible_rows[chosen],
        attempts.plans.take(chosen),
        attempts.parts.take(chosen),
        attempts.degrees,
    )
    rows = attempts.rows[feasible]
    places = _smallest_places(counts, plans, parts, degrees, rows, attempts.places[feasible], deadline_s, assumed)
    fillable, fuller = _machine_filling_degrees(plans, degrees, rows, places)
    both = np.concatenate([np.arange(len(feasible)), fillable])
    data_parallel = np.concatenate([degrees.degree_at(rows, places), degrees.degree_at(rows[fillable], fuller)])
    return SizedLayouts(feasible[both], plans.take(both), data_parallel, parts.take(both))


def _machine_filling_degrees(
    plans: TrainingPlans, degrees: LegalDegrees, rows: Codes, places: Codes
) -> tuple[Codes, Codes]:
    """Return (rows that leave part of their only machine idle, position of the degree that uses most of it)."""
    count = plans.accelerators_per_node
    idle = np.flatnonzero(plans.ranks * degrees.degree_at(rows, places) < count)
    options = degrees.options[degrees.row_lists[rows[idle]]]
    most = (options * plans.ranks[idle, None] <= count[idle, None]).sum(axis=1) - 1
    more = most > places[idle]
    return idle[more], most[more]


def _smallest_places(
    counts: Counts,
    plans: TrainingPlans,
    parts: RunParts,
    degrees: LegalDegrees,
    rows: Codes,
    largest: Codes,
    deadline_s: float,
    assumed: Assumptions,
) -> Codes:
    """Return the position of the smallest feasible degree of each row, by bisection. The largest must be feasible.

    The search starts from the lower bound of the degree: a single replica exchanges no gradients, so it may meet the
    deadline where two replicas miss it.
    """
    judge = _DegreeJudge(counts, plans, parts, degrees, rows, deadline_s, assumed)
    return bisect_places(np.minimum(judge.least_places(), largest), largest, judge.meets_limits)


def bisect_places(low: Codes, high: Codes, is_feasible: FeasibilityTest) -> Codes:
    """Return the lowest feasible position of each row, by bisection between `low` and `high`; `high` must be feasible.

    As soon as few positions remain, they are all evaluated together and the bisection continues on the results.
    """
    tried, judge = low, is_feasible
    while True:
        at = np.flatnonzero(low < high)
        if not len(at):
            return high
        if judge is is_feasible and (high - low).sum() <= EVALUATED_TOGETHER:
            judge = _precompute_feasibility(low, high, is_feasible)
        good = np.zeros(len(low), dtype=bool)
        good[at] = judge(at, tried[at])
        high, low = np.where(good, tried, high), np.where(good | (low >= high), low, tried + 1)
        tried = (low + high) // 2


def _precompute_feasibility(low: Codes, high: Codes, is_feasible: FeasibilityTest) -> FeasibilityTest:
    """Evaluate every position from `low` to `high` once, and return a test that looks up the results."""
    which, places = _places_between(low, high)
    known, start = is_feasible(which, places), np.searchsorted(which, np.arange(len(low))) - low

    def look_up(at: Codes, tried: Codes) -> Mask:
        good: Mask = known[start[at] + tried]
        return good

    return look_up
