"""Runs beside the chosen ones: neighbouring layouts on as many accelerators, and one machine's worth.

They are judged together, as one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.formula import unrecorded
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_of, legal
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING, NONE, SELECTIVE
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits, run_at

MOST_ALTERNATIVES = 2


@dataclass(frozen=True, slots=True)
class Alternative:
    """A layout one choice away: how much longer it takes, and what it holds."""

    words: str
    fits: bool
    slower: float  # its duration over the chosen one's, less one
    total_bytes: float


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside every chosen run."""

    alternatives: tuple[tuple[Alternative, ...], ...]
    base: Run  # one machine's worth of the same layout


def neighbours_of(plans: TrainingPlans, row: int) -> Iterator[tuple[str, str, float]]:
    """(in words, what changes, to what) for every layout one choice away from a row."""
    kept = int(plans.activation_checkpointing[row])
    if kept > NONE:
        less = "no" if kept == SELECTIVE else ACTIVATION_CHECKPOINTING[kept - 1]
        yield f"{less} activation checkpointing", "activation_checkpointing", kept - 1
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        degree = float(getattr(plans, name)[row])
        if degree >= 2:
            yield f"{name.replace('_', ' ')} {degree / 2:g}", name, degree / 2
    if plans.zero_stage[row] >= 3:
        yield "states kept whole (ZeRO-0)", "zero_stage", 0.0
    twice = float(plans.micro_batch_sequences[row]) * 2
    yield f"a micro-batch of {twice:g}", "micro_batch_sequences", twice


def beside(counts: Counts, plans: TrainingPlans, run: Run, assumed: Assumptions) -> Beside:
    """Judge neighbours of every row, and one machine's worth of its layout."""
    found = [(row, *choice) for row in range(len(plans)) for choice in neighbours_of(plans, row)]
    chosen = np.arange(len(plans))
    like = np.array([row for row, *_ in found] + [*chosen])
    table = plans.take(like)
    for i, (_, _, name, value) in enumerate(found):
        getattr(table, name)[i] = value
    near, able = degree_of(counts, table, run.accelerators[like])
    degree = np.concatenate([near[: len(found)], one_machine(plans, run)])
    able &= legal(counts, table, np.maximum(1.0, near))
    keep = _first_of_each([row for row, *_ in found], able[: len(found)])
    rows = np.concatenate([keep, np.arange(len(found), len(table))])
    with unrecorded():
        other = run_at(counts, table.take(rows), degree[rows], assumed)
    fitting = fits(table.take(rows), other, assumed)
    told: list[list[Alternative]] = [[] for _ in chosen]
    for i, at in enumerate(keep.tolist()):
        row = found[at][0]
        slower = float(other.wall_s[i]) / float(run.wall_s[row]) - 1
        told[row].append(Alternative(found[at][1], bool(fitting[i]), slower, float(other.memory.total_bytes[i])))
    return Beside(tuple(map(tuple, told)), other.take(np.arange(len(keep), len(rows))))


def _first_of_each(rows: list[int], able: Mask) -> Codes:
    """Places of the first few neighbours of each row that can be laid out."""
    taken: dict[int, int] = {}
    places = []
    for place, row in enumerate(rows):
        if able[place] and taken.get(row, 0) < MOST_ALTERNATIVES:
            taken[row] = taken.get(row, 0) + 1
            places.append(place)
    return np.array(places, dtype=np.int64)


def one_machine(plans: TrainingPlans, run: Run) -> Column:
    """The data-parallel degree that fills one machine with a layout, or the run's own where that is less."""
    count = np.maximum(plans.accelerators_per_node, plans.ranks)
    return np.minimum(np.maximum(1.0, np.floor(count / plans.ranks)), run.data_parallel)
