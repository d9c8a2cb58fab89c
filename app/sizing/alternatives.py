"""Why a layout and not its neighbours: each is judged on the same devices, and either does not fit or is slower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, stacked
from app.sizing.market import Market
from app.sizing.trace import one
from app.sizing.training import Run, fits, legal, run_at
from app.sizing.training_plan import CHECKPOINTING, TrainingPlans
from app.sizing.units import GIB
from app.sizing.workload import TrainingWorkload


def neighbours_of(plans: TrainingPlans) -> Iterator[tuple[str, TrainingPlans]]:
    """(in words, the layout) one choice away from a one-row table."""

    def half(name: str, column: Column) -> Iterator[tuple[str, TrainingPlans]]:
        if one(column) >= 2:
            yield f"{name.replace('_', ' ')} {one(column) / 2:g}", replace(plans, **{name: column / 2})  # type: ignore[arg-type]

    kept = int(plans.checkpointing[0])
    if kept > 0:
        yield (
            f"{'no' if kept == 1 else CHECKPOINTING[kept - 1]} activation checkpointing",
            replace(plans, checkpointing=plans.checkpointing - 1),
        )
    yield from half("tensor_parallel", plans.tensor_parallel)
    yield from half("pipeline_parallel", plans.pipeline_parallel)
    yield from half("context_parallel", plans.context_parallel)
    if one(plans.zero_stage) >= 3:
        yield "states kept whole (ZeRO-0)", replace(plans, zero_stage=np.zeros(1))
    yield f"micro-batches of {one(plans.micro_batch) * 2:g}", replace(plans, micro_batch=plans.micro_batch * 2)


def alternatives(workload: TrainingWorkload, plans: TrainingPlans, run: Run, market: Market, assumed: Assumptions, *, most: int = 2) -> str:
    """Neighbouring layouts on as many devices, in words; empty where none can be laid out."""
    found = list(neighbours_of(plans))
    table = stacked([p for _, p in found])
    degree = one(run.devices) / table.ranks
    good = (np.mod(degree, 1) == 0) & (degree >= 1) & legal(workload, table, np.maximum(1.0, np.round(degree)))
    rows = np.flatnonzero(good)
    if not len(rows):
        return ""
    table, degree = table.take(rows), degree[rows]
    other = run_at(workload, table, degree, market, assumed)
    fitting = fits(table, other)
    words = []
    for i, row in enumerate(rows.tolist()[:most]):
        change = float(other.step.step_s[i]) / one(run.step.step_s) - 1
        needed = f"needs {float(other.memory.total_bytes[i]) / GIB:.0f} GiB"
        speed = f"is {abs(change):.0%} {'slower' if change >= 0 else 'faster'}"
        words.append(f"{found[row][0]} {speed if fitting[i] else needed}")
    return "; ".join(words)
