"""The runs that an answer shows: one table with their neighbors, figures, cost and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.columns import Column, Mask
from app.sizing.decisions.bill import itemize_costs
from app.sizing.decisions.cost import Cost
from app.sizing.formula import Trace, record_trace, suspend_recording
from app.sizing.question import Question
from app.sizing.result import Part
from app.sizing.training.alternatives import ComparisonRuns, compare_with_neighbors
from app.sizing.training.assurance import RunAssurance, assess_assurance
from app.sizing.training.counts import Counts
from app.sizing.training.memory import estimate_training_memory
from app.sizing.training.moments import MemoryParts
from app.sizing.training.outcome import Outcome, run_outcome
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import virtual_pipeline
from app.sizing.training.run import Run, fits_memory, run_at, run_cost


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

    def __len__(self) -> int:
        return len(self.plans)


def assess_finalists(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    deadline_s: float,
    question: Question,
) -> Finalists:
    """Return all figures that an answer reports for these runs.

    If the question requests a trace, the runs are evaluated again with recording on.
    """
    assumed, economics = question.assumptions, question.economics
    with record_trace(wanted=question.trace) as trace:
        if question.trace:
            run = run_at(counts, plans, run.data_parallel, assumed)
        cost = run_cost(plans, run, assumed, economics)
        with suspend_recording():
            comparisons = compare_with_neighbors(counts, plans, run, assumed)
            assurance = assess_assurance(counts, plans, run, deadline_s, question)
            held, _ = estimate_training_memory(counts, plans, run.data_parallel, assumed)
        outcome = run_outcome(counts, plans, run, cost, comparisons.one_machine_run, assumed, economics)
        fits_median = fits_memory(plans, run, assumed)
    chunks = virtual_pipeline(counts, plans)
    host = run.memory.host_bytes
    cost_items = itemize_costs(plans.offered, run.nodes, run.nodes, assumed, economics, host_bytes=host)
    return Finalists(plans, run, held, cost, fits_median, outcome, comparisons, assurance, chunks, trace, cost_items)
