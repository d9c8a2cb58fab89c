"""Runs that are shown: judged once more as one table, with their neighbours, their figures and their arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.columns import Column, Mask
from app.sizing.decisions.bill import bills
from app.sizing.decisions.cost import Cost
from app.sizing.formula import Trace, recording, unrecorded
from app.sizing.question import Question
from app.sizing.result import Part
from app.sizing.training.alternatives import Beside, beside
from app.sizing.training.assurance import Assured, assured
from app.sizing.training.counts import Counts
from app.sizing.training.memory import memory_of
from app.sizing.training.moments import HeldBytes
from app.sizing.training.outcome import Outcome, outcome_of
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import virtual_pipeline
from app.sizing.training.run import Run, fits, run_at, run_cost


@dataclass(frozen=True, slots=True)
class Finalists:
    """Runs that are shown, judged as one table, with everything an answer says of them."""

    plans: TrainingPlans
    run: Run
    held: HeldBytes
    cost: Cost
    fits: Mask
    outcome: Outcome
    beside: Beside
    assured: Assured
    virtual_pipeline: Column
    trace: Trace
    bills: tuple[tuple[Part, ...], ...]

    def __len__(self) -> int:
        return len(self.plans)


def judge(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    deadline_s: float,
    question: Question,
) -> Finalists:
    """Everything an answer says of these runs; they are run once more where the arithmetic is wanted, to note it."""
    assumed, economics = question.assumptions, question.economics
    with recording(wanted=question.trace) as noted:
        if question.trace:
            run = run_at(counts, plans, run.data_parallel, assumed)
        cost = run_cost(plans, run, assumed, economics)
        with unrecorded():
            others = beside(counts, plans, run, assumed)
            sure = assured(counts, plans, run, deadline_s, question)
            held, _ = memory_of(counts, plans, run.data_parallel, assumed)
        outcome = outcome_of(counts, plans, run, cost, others.base, assumed, economics)
        fitting = fits(plans, run, assumed)
    chunks = virtual_pipeline(counts, plans)
    host = run.memory.host_bytes
    billed = bills(plans.offered, run.nodes, run.nodes, assumed, economics, host_bytes=host)
    return Finalists(plans, run, held, cost, fitting, outcome, others, sure, chunks, noted, billed)
