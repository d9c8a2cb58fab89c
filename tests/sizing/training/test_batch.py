"""The same run with a larger batch."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.decisions.rejections import NullRejections
from app.sizing.question import Constraints, Question
from app.sizing.training.batch import BATCH_FACTOR, best_run_with_larger_batch
from app.sizing.training.counts import counts_of
from app.sizing.training.search import best_runs, smallest_runs
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of


def test_a_larger_batch_is_divided_over_more_accelerators_and_never_costs_more() -> None:
    """In a tenth of the time that the largest cluster of a small batch takes nothing is left to divide."""
    question = Question(WORKLOAD, Constraints(confidence=0.5))
    counts = counts_of(WORKLOAD)
    layouts = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron")
    runs = smallest_runs(WORKLOAD, counts, layouts, question, NullRejections(()))
    chosen = runs.take(best_runs(counts, runs, question)[0][:1])
    larger = best_run_with_larger_batch(WORKLOAD, layouts, chosen, question)
    assert larger is not None
    assert abs(larger.run.batch[0] / (BATCH_FACTOR * WORKLOAD.global_batch) - 1) <= counts.near_batch_share
    usd, usd_larger = (float(each.cost.usd_per_hour[0] * each.run.wall_s[0]) for each in (chosen, larger))
    assert usd_larger <= usd * 1.05
    late = replace(WORKLOAD, deadline_s=1.0)
    assert best_run_with_larger_batch(late, layouts, chosen, replace(question, workload=late)) is None
