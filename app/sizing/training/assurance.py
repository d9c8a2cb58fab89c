"""What each confidence takes of a run: the cheapest size that fits and is in time with it.

The machine, the framework and the split stay. The size may change, and a device may hold less: more is recomputed or
sharded, micro-batches are smaller. Money never falls with the confidence; the number of accelerators may, where fewer
that recompute are dearer than more that need not.
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
from app.sizing.training.degrees import degrees_of
from app.sizing.training.doubt import memory_factor, probably_held
from app.sizing.training.layouts import FULL, ZERO_STAGES
from app.sizing.training.margins import in_time
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
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    deadline_s: float,
    question: Question,
) -> Assured:
    """How sure every run is, and what other confidences would take."""
    margins, memory, assumed = plans.stack.margins, run.memory, question.assumptions
    levels = tuple(sorted({*CONFIDENCE_LEVELS, margins.asked}))
    accelerators, usd = _taken(counts, plans, run, levels, deadline_s, question)
    holds = host_holds(plans, memory, assumed)
    return Assured(
        levels=levels,
        meets_deadline=in_time(margins, run.wall_s, deadline_s),
        fits=np.where(holds, probably_held(plans, memory), 0.0),
        wall_s=run.wall_s * margins.time_factor,
        accelerators=accelerators,
        usd_total=usd,
    )


def _holding_less(counts: Counts, plans: TrainingPlans, row: int) -> Iterator[tuple[int, float, float]]:
    """(activation checkpointing, ZeRO stage, micro-batch) of a row, and of layouts that hold less than it."""
    own, stage = int(plans.activation_checkpointing[row]), at(plans.zero_stage, row)
    kept = (own,) if counts.in_samples else range(own, FULL + 1)
    stages = ZERO_STAGES if stage == 0 else (stage,)
    yield from product(kept, stages, {at(plans.micro_batch_sequences, row), 1.0})


def _every_size(counts: Counts, plans: TrainingPlans, run: Run) -> tuple[Codes, TrainingPlans, Column]:
    """(row, layout, data-parallel degree) of everything that a run might be instead, itself first."""
    own = np.arange(len(plans))
    found = [(row, *choice) for row in own.tolist() for choice in _holding_less(counts, plans, row)]
    like, kept, stages, sizes = (np.array(values) for values in zip(*found, strict=True))
    like = np.concatenate([own, like])
    layouts = plans.take(like)
    layouts.activation_checkpointing[len(own) :] = kept
    layouts.zero_stage[len(own) :] = stages
    layouts.micro_batch_sequences[len(own) :] = sizes
    degrees = degrees_of(counts, layouts)
    number = degrees.counts()
    rows = np.repeat(np.arange(len(layouts)), number)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
    rows, degree = np.concatenate([own, rows]), np.concatenate([run.data_parallel, degrees.at(rows, place)])
    return like[rows], layouts.take(rows), degree


def _taken(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    levels: tuple[float, ...],
    deadline_s: float,
    question: Question,
) -> tuple[Column, Column]:
    """(accelerators paid, USD) of every level: the run's own size from the confidence asked for on, as far as it holds,
    else the cheapest.
    """
    rows, tried, degree = _every_size(counts, plans, run)
    assumed, economics = question.assumptions, question.economics
    sizes, margins = run_at(counts, tried, degree, assumed), tried.stack.margins
    paid, holds = sizes.nodes * tried.accelerators_per_node, fits(tried, sizes, assumed)
    usd_per_hour = run_cost(tried, sizes, assumed, economics).usd_per_hour
    other = np.where(np.arange(len(rows)) < len(plans), 0.0, 1.0)
    total, capacity = sizes.memory.total_bytes, sizes.memory.capacity_bytes
    accelerators, usd = (np.full((len(plans), len(levels)), np.nan) for _ in range(2))
    for i, level in enumerate(levels):
        wall = sizes.wall_s * margins.time.factor(level, margins.time_scale)
        held = total * memory_factor(tried, sizes.memory, level)
        good = np.flatnonzero(holds & (held <= capacity) & (wall <= deadline_s))
        cost = usd_total(usd_per_hour, wall)
        own_first = other[good] * (level >= margins.asked)
        order = good[np.lexsort((paid[good], np.nan_to_num(cost[good]), own_first, rows[good]))]
        of, first = np.unique(rows[order], return_index=True)
        accelerators[of, i], usd[of, i] = paid[order[first]], cost[order[first]]
    return accelerators, usd
