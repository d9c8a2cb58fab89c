"""The runs that an answer shows, their neighbors for comparison, and the size that each confidence needs.

All comparison runs are evaluated together, as one table.

For each level, this module finds the cheapest size that fits and meets the deadline at that confidence. The machine,
the framework and the parallel split do not change. The size may change, and a device may keep less: more
recomputation, more sharding or smaller micro-batches. Cost never falls as confidence rises. The number of
accelerators may fall, if a few accelerators with recomputation cost more than many without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, at, concat_tables
from app.sizing.decisions.acquisition import itemize_costs
from app.sizing.decisions.cost import Cost, accelerators_in_stock, usd_total
from app.sizing.formula import Trace, record_trace, suspend_recording
from app.sizing.question import CONFIDENCE_LEVELS, Question
from app.sizing.result import Part, ScalingCurve
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_for_accelerators, is_legal_degree, legal_degrees
from app.sizing.training.layouts import (
    ACTIVATION_CHECKPOINTING,
    COMPILER_ZERO_STAGES,
    FULL,
    NONE,
    OFFLOAD_COLUMNS,
    SELECTIVE,
    ZERO_STAGES,
)
from app.sizing.training.memory import MemoryParts, fit_probability, memory_factor
from app.sizing.training.plans import TrainingPlans, deadline_probability, virtual_pipeline
from app.sizing.training.run import (
    Outcome,
    Run,
    fits_memory,
    host_fits_memory,
    run_at,
    run_cost,
    run_outcome,
    run_with_memory_parts,
)
from app.sizing.training.scaling import find_curve_layouts, scaling_curve
from app.sizing.uncertainty import outcome_levels

MAX_ALTERNATIVES = 2


@dataclass(frozen=True, slots=True)
class Alternative:
    """A layout that differs from the chosen one in a single choice: its relative duration and its memory."""

    description: str  # description of the layout
    fits: bool  # whether it fits, by the median prediction
    slowdown: float  # its duration relative to the chosen layout's, minus 1
    total_bytes: float  # memory per device, bytes
    probability: float  # probability that it fits


@dataclass(frozen=True, slots=True)
class ComparisonRuns:
    """Runs to compare with each chosen run."""

    alternatives: tuple[tuple[Alternative, ...], ...]  # neighboring layouts of each chosen run
    one_machine_run: Run  # the chosen layout on one machine


@dataclass(frozen=True, slots=True)
class _Neighbors:
    """Neighboring layouts of the chosen runs, then the layout of each chosen run on one machine."""

    described: tuple[tuple[int, str], ...]  # chosen run and description of each neighbor
    plans: TrainingPlans
    data_parallel: Column  # data-parallel degree


WITHOUT_OFFLOAD = "no offload"  # description of the same layout without anything in host memory


def neighboring_layouts(plans: TrainingPlans, row: int, data_parallel: float) -> Iterator[tuple[str, str, float]]:
    """Yield (description, column to change, new value) of each layout that differs from a row in one choice.

    Everything in host memory moves back as one choice, whose column is empty. A single replica shards nothing.
    """
    if plans.optimizer_offload[row] or plans.last_resort[row]:
        yield WITHOUT_OFFLOAD, "", 0.0
    checkpointing = int(plans.activation_checkpointing[row])
    if checkpointing > NONE:
        less = "no" if checkpointing == SELECTIVE else ACTIVATION_CHECKPOINTING[checkpointing - 1]
        yield f"{less} activation checkpointing", "activation_checkpointing", checkpointing - 1
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        degree = float(getattr(plans, name)[row])
        if degree >= 2:
            yield f"{name.replace('_', ' ')} {degree / 2:g}", name, degree / 2
    if plans.zero_stage[row] >= 3 and data_parallel > 1:
        yield "unsharded states (ZeRO-0)", "zero_stage", 0.0
    twice = float(plans.micro_batch_sequences[row]) * 2
    yield f"a micro-batch of {twice:g}", "micro_batch_sequences", twice


def find_neighbors(counts: Counts, plans: TrainingPlans, run: Run) -> _Neighbors:
    """Find the neighboring layouts of each row, and each row's layout on one machine."""
    degrees = enumerate(run.data_parallel.tolist())
    neighbors = [(row, *choice) for row, degree in degrees for choice in neighboring_layouts(plans, row, degree)]
    like = np.array([row for row, *_ in neighbors] + [*range(len(plans))])
    table = plans.take(like)
    for i, (_, _, name, value) in enumerate(neighbors):
        for changed in (name,) if name else OFFLOAD_COLUMNS:
            getattr(table, changed)[i] = value
    near, able = degree_for_accelerators(counts, table, run.accelerators[like])
    degree = np.concatenate([near[: len(neighbors)], one_machine_degree(plans, run)])
    able &= is_legal_degree(counts, table, np.maximum(1.0, near))
    keep = _first_feasible_neighbors([row for row, *_ in neighbors], able[: len(neighbors)])
    rows = np.concatenate([keep, np.arange(len(neighbors), len(table))])
    return _Neighbors(tuple(neighbors[i][:2] for i in keep.tolist()), table.take(rows), degree[rows])


def compare_with_neighbors(neighbors: _Neighbors, run: Run, other: Run, assumed: Assumptions) -> ComparisonRuns:
    """Compare each chosen run with its neighbors.

    Parameters:
        run: the chosen runs.
        other: runs of the neighbors.
    """
    evaluated = neighbors.plans
    fitting = fits_memory(evaluated, other, assumed)
    likely = np.where(host_fits_memory(evaluated, other.memory, assumed), fit_probability(evaluated, other.memory), 0.0)
    alternatives: list[list[Alternative]] = [[] for _ in range(len(run))]
    for i, (row, description) in enumerate(neighbors.described):
        slower = float(other.wall_s[i]) / float(run.wall_s[row]) - 1
        total_bytes = float(other.memory.total_bytes[i])
        alternatives[row].append(Alternative(description, bool(fitting[i]), slower, total_bytes, float(likely[i])))
    one_machine = np.arange(len(neighbors.described), len(evaluated))
    return ComparisonRuns(tuple(map(tuple, alternatives)), other.take(one_machine))


def _first_feasible_neighbors(rows: list[int], able: Mask) -> Codes:
    """Return the positions of the first `MAX_ALTERNATIVES` feasible neighbors of each row."""
    taken: dict[int, int] = {}
    places = []
    for place, row in enumerate(rows):
        if able[place] and taken.get(row, 0) < MAX_ALTERNATIVES:
            taken[row] = taken.get(row, 0) + 1
            places.append(place)
    return np.array(places, dtype=np.int64)


def one_machine_degree(plans: TrainingPlans, run: Run) -> Column:
    """Data-parallel degree that fills one machine with each layout, at most the degree of the run itself."""
    count = np.maximum(plans.accelerators_per_node, plans.ranks)
    return np.minimum(np.maximum(1.0, np.floor(count / plans.ranks)), run.data_parallel)


@dataclass(frozen=True, slots=True)
class RunAssurance(Columns):
    """Probabilities of each run (one row per run) and its needs at each level (one column per level).

    NaN means that no size is feasible at that level or that no price is known.
    """

    levels: tuple[float, ...]  # confidence levels
    meets_deadline: Column  # probability that the run meets the deadline
    fits: Column  # probability that the run fits in memory
    wall_s: Column  # wall time at the requested confidence, seconds
    accelerators: Column  # accelerators paid for, per level
    usd_total: Column  # cost at the duration of the level, USD
    after: tuple[float, ...]  # levels of the outcomes of a benchmark
    accelerators_after: Column  # accelerators paid for after each outcome
    usd_total_after: Column  # cost after each outcome, USD
    owned: Column  # accelerators of the type that the caller owns; infinite for hardware for sale


def assess_assurance(counts: Counts, plans: TrainingPlans, run: Run, sizes: _Sizes, question: Question) -> RunAssurance:
    """Return the probabilities of each run, and the size and cost that each confidence level requires."""
    margins, memory, assumed = plans.stack.margins, run.memory, question.assumptions
    levels = tuple(sorted({*CONFIDENCE_LEVELS, margins.asked}))
    accelerators, usd = _needs_per_level(sizes, levels, margins.asked)
    outcomes = outcome_levels(margins.asked, "samples_per_s" if counts.in_samples else "tokens_per_s")
    bounds = np.nan_to_num(accelerators[:, levels.index(margins.asked)], nan=np.inf)
    accelerators_after, usd_after = _needs_after_benchmark(sizes, bounds, outcomes, margins.asked)
    host_fits = host_fits_memory(plans, memory, assumed)
    return RunAssurance(
        levels=levels,
        meets_deadline=deadline_probability(margins, run.wall_s, sizes.deadline_s),
        fits=np.where(host_fits, fit_probability(plans, memory), 0.0),
        wall_s=run.wall_s * margins.time_factor,
        accelerators=accelerators,
        usd_total=usd,
        after=outcomes,
        accelerators_after=accelerators_after,
        usd_total_after=usd_after,
        owned=accelerators_in_stock(question.constraints, plans.accelerator),
    )


def _lower_memory_variants(counts: Counts, plans: TrainingPlans, row: int) -> Iterator[tuple[int, float, float]]:
    """Yield (activation checkpointing, ZeRO stage, micro-batch) of a row's own layout and of layouts with less
    memory.
    """
    own, stage = int(plans.activation_checkpointing[row]), at(plans.zero_stage, row)
    modes = (own,) if counts.in_samples else range(own, FULL + 1)
    offered = (
        COMPILER_ZERO_STAGES if plans.interleaved_pipeline[row] else ZERO_STAGES
    )  # the stages that a search offers
    stages = offered if stage == 0 else (stage,)
    yield from product(modes, stages, {at(plans.micro_batch_sequences, row), 1.0})


def _candidate_sizes(counts: Counts, plans: TrainingPlans, run: Run) -> tuple[Codes, TrainingPlans, Column]:
    """Return (row, layout, data-parallel degree) of every candidate replacement of each run, the run itself first."""
    own = np.arange(len(plans))
    variants = [(row, *choice) for row in own.tolist() for choice in _lower_memory_variants(counts, plans, row)]
    source_row, modes, stages, sizes = (np.array(values) for values in zip(*variants, strict=True))
    source_row = np.concatenate([own, source_row])
    layouts = plans.take(source_row)
    layouts.activation_checkpointing[len(own) :] = modes
    layouts.zero_stage[len(own) :] = stages
    layouts.micro_batch_sequences[len(own) :] = sizes
    degrees = legal_degrees(counts, layouts)
    number = degrees.degrees_per_row()
    rows = np.repeat(np.arange(len(layouts)), number)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
    rows, degree = np.concatenate([own, rows]), np.concatenate([run.data_parallel, degrees.degree_at(rows, place)])
    return source_row[rows], layouts.take(rows), degree


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes that may replace some runs, the runs themselves first."""

    count: int  # runs
    rows: Codes  # run that each size may replace
    plans: TrainingPlans
    run: Run
    fitting: Mask  # whether each size fits, by the median prediction
    paid: Column  # accelerators paid for
    usd_per_hour: Column
    deadline_s: float

    def find_cheapest(
        self, allowed: Mask, time_level: float, memory_level: float, *, own_first: bool
    ) -> tuple[Codes, Column, Column]:
        """Return (run, accelerators paid for, USD) of the cheapest allowed size of each run that has one.

        Parameters:
            time_level: confidence at which a size must meet the deadline.
            memory_level: confidence at which it must fit in memory.
            own_first: whether a run keeps its own size where that is feasible.
        """
        margins, memory = self.plans.stack.margins, self.run.memory
        wall = self.run.wall_s * margins.time.error_factor(time_level, margins.time_scale)
        needed_bytes = memory.total_bytes * memory_factor(self.plans, memory, memory_level)
        within = (needed_bytes <= memory.capacity_bytes) & (wall <= self.deadline_s)
        feasible = np.flatnonzero(self.fitting & within & allowed)
        cost, rows = usd_total(self.usd_per_hour, wall), self.rows[feasible]
        other = feasible >= self.count if own_first else np.zeros(len(feasible))
        order = feasible[np.lexsort((self.paid[feasible], np.nan_to_num(cost[feasible]), other, rows))]
        runs, first = np.unique(self.rows[order], return_index=True)
        return runs, self.paid[order[first]], cost[order[first]]


def _price_sizes(
    rows: Codes, candidates: TrainingPlans, sizes: Run, count: int, deadline_s: float, question: Question
) -> _Sizes:
    """Return the candidate sizes of each of `count` runs with their memory, duration and price."""
    assumed, economics = question.assumptions, question.economics
    paid, fitting = sizes.nodes * candidates.accelerators_per_node, fits_memory(candidates, sizes, assumed)
    usd_per_hour = run_cost(candidates, sizes, assumed, economics).usd_per_hour
    return _Sizes(count, rows, candidates, sizes, fitting, paid, usd_per_hour, deadline_s)


def _needs_per_level(sizes: _Sizes, levels: tuple[float, ...], confidence: float) -> tuple[Column, Column]:
    """Return (accelerators paid for, USD) per run and confidence level.

    At the requested level and above, the run keeps its own size while that size is feasible. Otherwise the cheapest
    feasible size counts that is not smaller than at the level below; under the requested level, not larger than at
    the level above.
    """
    accelerators, usd = (np.full((sizes.count, len(levels)), np.nan) for _ in range(2))
    asked = levels.index(confidence)
    bounds = np.full(sizes.count, -np.inf)
    for i in (*range(asked, len(levels)), *range(asked - 1, -1, -1)):
        level, rising = levels[i], i >= asked
        if i == asked - 1:
            bounds = np.nan_to_num(accelerators[:, asked], nan=np.inf)
        ordered = sizes.paid >= bounds[sizes.rows] if rising else sizes.paid <= bounds[sizes.rows]
        runs, paid, cost = sizes.find_cheapest(ordered, level, level, own_first=level >= confidence)
        accelerators[runs, i], usd[runs, i], bounds[runs] = paid, cost, paid
    return accelerators, usd


def _needs_after_benchmark(
    sizes: _Sizes, bounds: Column, levels: tuple[float, ...], confidence: float
) -> tuple[Column, Column]:
    """Return (accelerators paid for, USD) per run and outcome of its benchmark, each at the requested confidence.

    A slower result takes as many accelerators as before or more, any other as many or fewer. Only the time changes:
    memory counts at the requested confidence.

    Parameters:
        bounds: accelerators at the requested confidence, per run; infinite where no size is enough.
        levels: levels of the outcomes.
    """
    accelerators, usd = (np.full((sizes.count, len(levels)), np.nan) for _ in range(2))
    for i, level in enumerate(levels):
        slower, before = level > confidence, bounds[sizes.rows]
        allowed = sizes.paid >= np.where(np.isinf(before), 0.0, before) if slower else sizes.paid <= before
        runs, paid, cost = sizes.find_cheapest(allowed, level, confidence, own_first=slower)
        accelerators[runs, i], usd[runs, i] = paid, cost
    return accelerators, usd


@dataclass(frozen=True, slots=True)
class Finalists:
    """The runs that an answer shows, with all figures that the answer reports."""

    plans: TrainingPlans
    run: Run
    memory_by_kind: MemoryParts  # memory of each run at its peak, by kind, bytes
    cost: Cost
    fits: Mask  # whether each run fits, by the median prediction
    outcome: Outcome
    comparisons: ComparisonRuns  # runs to compare with
    assurance: RunAssurance  # probabilities, and needs per confidence level
    virtual_pipeline: Column  # model chunks per pipeline stage
    trace: Trace  # recorded arithmetic
    bills: tuple[tuple[Part, ...], ...]  # cost items of each run
    scaling: ScalingCurve | None  # scaling of the first run; None if it is not requested or no size is feasible

    def __len__(self) -> int:
        return len(self.plans)


def assess_finalists(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    deadline_s: float,
    question: Question,
    layouts: TrainingPlans | None = None,
) -> Finalists:
    """Return all figures that an answer reports for these runs.

    If the question requests a trace, the runs are evaluated again with recording on.

    Parameters:
        layouts: layouts for the scaling curve of the first run; None for no curve.
    """
    assumed, economics = question.assumptions, question.economics
    with record_trace(wanted=question.trace) as trace:
        if question.trace:
            run = run_at(counts, plans, run.data_parallel, assumed)
        cost = run_cost(plans, run, assumed, economics)
        with suspend_recording():
            neighbors = find_neighbors(counts, plans, run)
            rows, candidates, degree = _candidate_sizes(counts, plans, run)
            tables, degrees = [neighbors.plans, candidates], [neighbors.data_parallel, degree]
            if layouts is not None:
                curve = find_curve_layouts(counts, layouts, plans, at(run.accelerators, 0))
                tables, degrees = [*tables, curve.plans], [*degrees, curve.data_parallel]
            evaluated, held = run_with_memory_parts(counts, concat_tables(tables), np.concatenate(degrees), assumed)
            ends = np.cumsum([len(table) for table in tables])
            of_neighbors, of_sizes, *of_curves = map(evaluated.take, np.split(np.arange(len(evaluated)), ends[:-1]))
            comparisons = compare_with_neighbors(neighbors, run, of_neighbors, assumed)
            sizes = _price_sizes(rows, candidates, of_sizes, len(plans), deadline_s, question)
            assurance = assess_assurance(counts, plans, run, sizes, question)
            first, scaling = np.zeros(1, dtype=np.int64), None
            for of_curve in of_curves:
                scaling = scaling_curve(counts, tables[-1], of_curve, plans.take(first), run.take(first), question)
        outcome = run_outcome(counts, plans, run, cost, comparisons.one_machine_run, assumed, economics)
        fits_median = fits_memory(plans, run, assumed)
    chunks = virtual_pipeline(counts, plans)
    host, held = run.memory.host_bytes, held.take(ends[0] + np.arange(len(plans)))
    cost_items = itemize_costs(plans.offered, run.nodes, run.nodes, assumed, economics, host_bytes=host)
    return Finalists(
        plans,
        run,
        held,
        cost,
        fits_median,
        outcome,
        comparisons,
        assurance,
        chunks,
        trace,
        cost_items,
        scaling,
    )
