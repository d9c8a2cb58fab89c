"""The deployment asked for: what it leaves open of its layout is chosen as a search would."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.decisions.ranking import rounded
from app.sizing.decisions.rejections import Unread
from app.sizing.question import Deployment, Question
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_of, filled, wired
from app.sizing.training.doubt import allowed_bytes
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits, run_at, run_cost, surely_fits
from app.sizing.training.search import Judged, best_runs, compared_by, smallest_runs, stable_run_key
from app.sizing.training.smallest import attempted
from app.sizing.workload import TrainingWorkload


def size_asked(deployment: Deployment) -> int | None:
    """Accelerators that the caller fixed."""
    return deployment.accelerators_per_replica or deployment.total_accelerators


def chosen_run(
    workload: TrainingWorkload, counts: Counts, layouts: TrainingPlans, deployment: Deployment, question: Question
) -> Judged | None:
    """The best run for the objective on the accelerators asked for, first, and all others that were compared; of any
    number of them what a search finds, or the nearest to it. None where nothing can be laid out.
    """
    if size_asked(deployment) is None and deployment.data_parallel is None:
        found = smallest_runs(workload, counts, layouts, question, Unread(()))
        if len(found):
            best, _ = best_runs(counts, found, question)
            return found.take(np.concatenate([best, np.setdiff1d(np.arange(len(found)), best)]))
        tried = attempted(counts, layouts, workload.deadline_s, question.assumptions)
        rows, plans, degrees = tried.rows, tried.layouts, tried.largest
    else:
        degrees, rows = laid_out(counts, layouts, deployment)
        plans = layouts.take(rows)
    if not len(plans):
        return None
    run = run_at(counts, plans, degrees, question.assumptions)
    cost = run_cost(plans, run, question.assumptions, question.economics)
    judged = Judged(rows, plans, run, cost)
    return judged.take(in_order(workload, counts, judged, question))


def in_order(workload: TrainingWorkload, counts: Counts, judged: Judged, question: Question) -> Codes:
    """Rows by what counts: they fit, surely, without a last resort, with a batch near the one asked, in time, and then
    by the objective. What is late, by how late.
    """
    plans, run, assumed = judged.plans, judged.run, question.assumptions
    margins, memory = plans.stack.margins, run.memory
    unfit, doubtful = ~fits(plans, run, assumed), ~surely_fits(plans, run, assumed)
    allowed = allowed_bytes(plans, memory)
    short = np.where(doubtful, memory.total_bytes / allowed, 0.0)
    wall = run.wall_s * margins.time_factor
    late = wall > workload.deadline_s
    figure = np.where(late, wall, compared_by(counts, judged, question))
    ties = stable_run_key(judged), rounded(judged.cost.usd_per_hour)
    near = beyond_near(counts, run)
    return np.lexsort((*ties, rounded(figure), late, near, plans.last_resort, short, unfit))


def beyond_near(counts: Counts, run: Run) -> Column:
    """How far a step's batch is from the one asked; nothing where it is near."""
    off = np.abs(run.batch / counts.global_batch - 1)
    return np.where(off <= counts.near_batch_share, 0.0, off)


def any_fits(counts: Counts, layouts: TrainingPlans, deployment: Deployment, assumed: Assumptions) -> bool:
    """Whether any layout on the accelerators asked for fits, with the confidence asked; a last resort where it alone is
    asked for.
    """
    usual = np.flatnonzero(~layouts.last_resort)
    layouts = layouts.take(usual) if len(usual) else layouts
    degrees, rows = laid_out(counts, layouts, deployment)
    plans = layouts.take(rows)
    return bool(surely_fits(plans, run_at(counts, plans, degrees, assumed), assumed).any())


def wanted_by(layouts: TrainingPlans, deployment: Deployment) -> Column:
    """Accelerators that each layout is to make up."""
    if deployment.data_parallel is not None:
        return layouts.ranks * float(deployment.data_parallel)
    return np.full(len(layouts), float(size_asked(deployment) or 1))


def laid_out(counts: Counts, layouts: TrainingPlans, deployment: Deployment) -> tuple[Column, Codes]:
    """(data-parallel degree, row) of the layouts that make up the accelerators asked for. A cluster fills whole
    machines, with a known network where one is on sale; else a usual one is assumed.
    """
    wanted, size = wanted_by(layouts, deployment), size_asked(deployment)
    degree, keep = degree_of(counts, layouts, wanted)
    if size is not None:  # some of a single machine may stay idle
        idle = (
            (deployment.accelerators_per_replica is None) & (wanted <= size) & (layouts.accelerators_per_node == size)
        )
        keep &= (wanted == size) | idle
    whole = filled(layouts, wanted)
    for better in (whole & wired(layouts, wanted), whole):
        found: Mask = keep & better
        if found.any():
            keep = found
            break
    rows = np.flatnonzero(keep)
    return degree[rows], rows
