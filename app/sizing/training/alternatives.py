"""Why a layout and not its neighbours: each is judged on the same devices, and either does not fit or is slower."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import one
from app.sizing.snapshot import Market
from app.sizing.training.plans import CHECKPOINTING, NONE, SELECTIVE, TrainingPlans
from app.sizing.training.run import Run, degree_of, fits, run_at
from app.sizing.units import GIB
from app.sizing.workload import TrainingWorkload


def neighbours_of(plans: TrainingPlans) -> Iterator[tuple[str, str, float]]:
    """(in words, what changes, to what) for every layout one choice away from a one-row table."""
    kept = int(plans.checkpointing[0])
    if kept > NONE:
        yield (
            f"{'no' if kept == SELECTIVE else CHECKPOINTING[kept - 1]} activation checkpointing",
            "checkpointing",
            kept - 1,
        )
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        degree = one(getattr(plans, name))
        if degree >= 2:
            yield f"{name.replace('_', ' ')} {degree / 2:g}", name, degree / 2
    if one(plans.zero_stage) >= 3:
        yield "states kept whole (ZeRO-0)", "zero_stage", 0.0
    yield f"micro-batches of {one(plans.micro_batch) * 2:g}", "micro_batch", one(plans.micro_batch) * 2


def alternatives(
    workload: TrainingWorkload, plans: TrainingPlans, run: Run, market: Market, assumed: Assumptions, *, most: int = 2
) -> str:
    """Neighbouring layouts on as many devices, in words; empty where none can be laid out."""
    found = list(neighbours_of(plans))
    table = plans.take(np.zeros(len(found), dtype=np.int64))
    for row, (_, name, value) in enumerate(found):
        getattr(table, name)[row] = value
    degree, good = degree_of(workload, table, np.full(len(table), one(run.devices)))
    rows = np.flatnonzero(good)[:most]
    if not len(rows):
        return ""
    table, degree = table.take(rows), degree[rows]
    other = run_at(workload, table, degree, market, assumed)
    fitting = fits(table, other)
    words = []
    for i, row in enumerate(rows.tolist()):
        change = float(other.step.step_s[i]) / one(run.step.step_s) - 1
        needed = f"needs {float(other.memory.total_bytes[i]) / GIB:.0f} GiB"
        speed = f"is {abs(change):.0%} {'slower' if change >= 0 else 'faster'}"
        words.append(f"{found[row][0]} {speed if fitting[i] else needed}")
    return "; ".join(words)
