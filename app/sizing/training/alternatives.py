"""Runs to compare with the chosen ones: neighboring layouts on the same accelerators, and one machine's worth.

All comparison runs are evaluated together, as one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.formula import suspend_recording
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_for_accelerators, is_legal_degree
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING, NONE, SELECTIVE
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits_memory, run_at

MAX_ALTERNATIVES = 2


@dataclass(frozen=True, slots=True)
class Alternative:
    """A layout that differs from the chosen one in a single choice: its relative duration and its memory."""

    description: str  # description of the layout
    fits: bool  # whether it fits, by the median prediction
    slowdown: float  # its duration relative to the chosen layout's, minus 1
    total_bytes: float  # memory per device, bytes


@dataclass(frozen=True, slots=True)
class ComparisonRuns:
    """Runs to compare with each chosen run."""

    alternatives: tuple[tuple[Alternative, ...], ...]  # neighboring layouts of each chosen run
    one_machine_run: Run  # the chosen layout on one machine


def neighboring_layouts(plans: TrainingPlans, row: int) -> Iterator[tuple[str, str, float]]:
    """Yield (description, column to change, new value) of each layout that differs from a row in one choice."""
    checkpointing = int(plans.activation_checkpointing[row])
    if checkpointing > NONE:
        less = "no" if checkpointing == SELECTIVE else ACTIVATION_CHECKPOINTING[checkpointing - 1]
        yield f"{less} activation checkpointing", "activation_checkpointing", checkpointing - 1
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        degree = float(getattr(plans, name)[row])
        if degree >= 2:
            yield f"{name.replace('_', ' ')} {degree / 2:g}", name, degree / 2
    if plans.zero_stage[row] >= 3:
        yield "unsharded states (ZeRO-0)", "zero_stage", 0.0
    twice = float(plans.micro_batch_sequences[row]) * 2
    yield f"a micro-batch of {twice:g}", "micro_batch_sequences", twice


def compare_with_neighbors(counts: Counts, plans: TrainingPlans, run: Run, assumed: Assumptions) -> ComparisonRuns:
    """Evaluate the neighboring layouts of each row, and each row's layout on one machine."""
    neighbors = [(row, *choice) for row in range(len(plans)) for choice in neighboring_layouts(plans, row)]
    chosen = np.arange(len(plans))
    like = np.array([row for row, *_ in neighbors] + [*chosen])
    table = plans.take(like)
    for i, (_, _, name, value) in enumerate(neighbors):
        getattr(table, name)[i] = value
    near, able = degree_for_accelerators(counts, table, run.accelerators[like])
    degree = np.concatenate([near[: len(neighbors)], one_machine_degree(plans, run)])
    able &= is_legal_degree(counts, table, np.maximum(1.0, near))
    keep = _first_feasible_neighbors([row for row, *_ in neighbors], able[: len(neighbors)])
    rows = np.concatenate([keep, np.arange(len(neighbors), len(table))])
    with suspend_recording():
        other = run_at(counts, table.take(rows), degree[rows], assumed)
    fitting = fits_memory(table.take(rows), other, assumed)
    alternatives: list[list[Alternative]] = [[] for _ in chosen]
    for i, at in enumerate(keep.tolist()):
        row = neighbors[at][0]
        slower = float(other.wall_s[i]) / float(run.wall_s[row]) - 1
        total_bytes = float(other.memory.total_bytes[i])
        alternatives[row].append(Alternative(neighbors[at][1], bool(fitting[i]), slower, total_bytes))
    return ComparisonRuns(tuple(map(tuple, alternatives)), other.take(np.arange(len(keep), len(rows))))


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
