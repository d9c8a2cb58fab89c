"""How much the batch decides: the same run on the same machines with a larger one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.decisions.rejections import Unread
from app.sizing.question import Question
from app.sizing.training.counts import counts_of
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.scaling import alike
from app.sizing.training.search import Judged, best_runs, smallest_runs
from app.sizing.workload import TrainingWorkload

# A batch that another team might have chosen: published ones of one size of model lie as far apart.
TIMES = 4


def with_larger_batch(
    workload: TrainingWorkload, layouts: TrainingPlans, chosen: Judged, question: Question
) -> Judged | None:
    """The best run with a batch four times as large, of the machine and framework chosen first, as a table of one row;
    None where no size would do.
    """
    larger = replace(workload, global_batch=TIMES * workload.global_batch)
    counts = counts_of(larger)
    runs = smallest_runs(larger, counts, alike(layouts, chosen.plans), replace(question, workload=larger), Unread(()))
    if not len(runs):
        return None
    best, _ = best_runs(counts, runs, question)
    return runs.take(np.array(best[:1]))
