"""Size and cost that a run needs at each confidence level.

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

from app.sizing.columns import Codes, Column, Columns, at
from app.sizing.decisions.cost import usd_total
from app.sizing.question import CONFIDENCE_LEVELS, Question
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import legal_degrees
from app.sizing.training.doubt import fit_probability, memory_factor
from app.sizing.training.layouts import COMPILER_ZERO_STAGES, FULL, ZERO_STAGES
from app.sizing.training.margins import deadline_probability
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits_memory, host_fits_memory, run_at, run_cost


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


def assess_assurance(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    deadline_s: float,
    question: Question,
) -> RunAssurance:
    """Return the probabilities of each run, and the size and cost that each confidence level requires."""
    margins, memory, assumed = plans.stack.margins, run.memory, question.assumptions
    levels = tuple(sorted({*CONFIDENCE_LEVELS, margins.asked}))
    accelerators, usd = _needs_per_level(counts, plans, run, levels, deadline_s, question)
    host_fits = host_fits_memory(plans, memory, assumed)
    return RunAssurance(
        levels=levels,
        meets_deadline=deadline_probability(margins, run.wall_s, deadline_s),
        fits=np.where(host_fits, fit_probability(plans, memory), 0.0),
        wall_s=run.wall_s * margins.time_factor,
        accelerators=accelerators,
        usd_total=usd,
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


def _needs_per_level(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    levels: tuple[float, ...],
    deadline_s: float,
    question: Question,
) -> tuple[Column, Column]:
    """Return (accelerators paid for, USD) per run and confidence level.

    At the requested level and above, the run keeps its own size while that size is feasible. Otherwise the cheapest
    feasible size counts.
    """
    rows, candidates, degree = _candidate_sizes(counts, plans, run)
    assumed, economics = question.assumptions, question.economics
    sizes, margins = run_at(counts, candidates, degree, assumed), candidates.stack.margins
    paid, fitting = sizes.nodes * candidates.accelerators_per_node, fits_memory(candidates, sizes, assumed)
    usd_per_hour = run_cost(candidates, sizes, assumed, economics).usd_per_hour
    other = np.where(np.arange(len(rows)) < len(plans), 0.0, 1.0)
    total, capacity = sizes.memory.total_bytes, sizes.memory.capacity_bytes
    accelerators, usd = (np.full((len(plans), len(levels)), np.nan) for _ in range(2))
    for i, level in enumerate(levels):
        wall = sizes.wall_s * margins.time.error_factor(level, margins.time_scale)
        needed_bytes = total * memory_factor(candidates, sizes.memory, level)
        feasible = np.flatnonzero(fitting & (needed_bytes <= capacity) & (wall <= deadline_s))
        cost = usd_total(usd_per_hour, wall)
        own_first = other[feasible] * (level >= margins.asked)
        order = feasible[np.lexsort((paid[feasible], np.nan_to_num(cost[feasible]), own_first, rows[feasible]))]
        run_row, first = np.unique(rows[order], return_index=True)
        accelerators[run_row, i], usd[run_row, i] = paid[order[first]], cost[order[first]]
    return accelerators, usd
