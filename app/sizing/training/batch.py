"""Effect of the batch size: the same run on the same machines with a larger global batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.decisions.rejections import NullRejections
from app.sizing.question import Question
from app.sizing.training.counts import counts_of
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.scaling import same_machine_and_framework
from app.sizing.training.search import CostedRuns, best_runs, smallest_runs
from app.sizing.workload import TrainingWorkload

# Factor on the global batch: published batches for models of one size differ by as much.
BATCH_FACTOR = 4


def best_run_with_larger_batch(
    workload: TrainingWorkload, layouts: TrainingPlans, chosen: CostedRuns, question: Question
) -> CostedRuns | None:
    """Return the best run with a global batch four times as large, as a one-row table; None if no size is feasible.

    The run uses the machine and the framework of the first chosen run.
    """
    larger = replace(workload, global_batch=BATCH_FACTOR * workload.global_batch)
    counts = counts_of(larger)
    runs = smallest_runs(
        larger,
        counts,
        same_machine_and_framework(layouts, chosen.plans),
        replace(question, workload=larger),
        NullRejections(()),
    )
    if not len(runs):
        return None
    best, _ = best_runs(counts, runs, question)
    return runs.take(np.array(best[:1]))
