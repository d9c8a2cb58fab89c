"""Runs of a requested deployment; the search chooses the parts of the layout that the request leaves open."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.decisions.ranking import ranking_key
from app.sizing.decisions.rejections import NullRejections
from app.sizing.question import Deployment, Question
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_for_accelerators, fills_machines, has_interconnect
from app.sizing.training.doubt import allowed_bytes
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits_memory, run_at, run_cost, run_fits_at_confidence
from app.sizing.training.search import CostedRuns, best_runs, comparison_score, smallest_runs, stable_run_key
from app.sizing.training.smallest import attempt_layouts
from app.sizing.workload import TrainingWorkload


def requested_accelerators(deployment: Deployment) -> int | None:
    """Number of accelerators that the request fixes; None if it fixes none."""
    return deployment.accelerators_per_replica or deployment.total_accelerators


def best_requested_run(
    workload: TrainingWorkload, counts: Counts, layouts: TrainingPlans, deployment: Deployment, question: Question
) -> CostedRuns | None:
    """Return the compared runs on the requested accelerators, best for the objective first.

    If the request fixes no number of accelerators, the result holds the runs that a search finds, or else the
    nearest misses. None if no layout is possible.
    """
    if requested_accelerators(deployment) is None and deployment.data_parallel is None:
        runs = smallest_runs(workload, counts, layouts, question, NullRejections(()))
        if len(runs):
            best, _ = best_runs(counts, runs, question)
            return runs.take(np.concatenate([best, np.setdiff1d(np.arange(len(runs)), best)]))
        attempts = attempt_layouts(counts, layouts, workload.deadline_s, question.assumptions)
        rows, plans, degrees = attempts.rows, attempts.layouts, attempts.largest
    else:
        degrees, rows = layouts_at_size(counts, layouts, deployment)
        plans = layouts.take(rows)
    if not len(plans):
        return None
    run = run_at(counts, plans, degrees, question.assumptions)
    cost = run_cost(plans, run, question.assumptions, question.economics)
    costed = CostedRuns(rows, plans, run, cost)
    return costed.take(rank_requested_runs(workload, counts, costed, question))


def rank_requested_runs(workload: TrainingWorkload, counts: Counts, costed: CostedRuns, question: Question) -> Codes:
    """Return the rows in order of preference.

    Runs rank by fit, fit at the requested confidence, absence of last-resort offload, distance to the requested
    batch, deadline and then the objective. Late runs rank by their duration.
    """
    plans, run, assumed = costed.plans, costed.run, question.assumptions
    margins, memory = plans.stack.margins, run.memory
    unfit, doubtful = ~fits_memory(plans, run, assumed), ~run_fits_at_confidence(plans, run, assumed)
    allowed = allowed_bytes(plans, memory)
    short = np.where(doubtful, memory.total_bytes / allowed, 0.0)
    wall = run.wall_s * margins.time_factor
    late = wall > workload.deadline_s
    figure = np.where(late, wall, comparison_score(counts, costed, question))
    ties = stable_run_key(costed), ranking_key(costed.cost.usd_per_hour)
    batch_excess = batch_deviation(counts, run)
    return np.lexsort((*ties, ranking_key(figure), late, batch_excess, plans.last_resort, short, unfit))


def batch_deviation(counts: Counts, run: Run) -> Column:
    """Relative distance of each step's batch from the requested one; 0 within the tolerated share."""
    off = np.abs(run.batch / counts.global_batch - 1)
    return np.where(off <= counts.near_batch_share, 0.0, off)


def any_layout_fits(counts: Counts, layouts: TrainingPlans, deployment: Deployment, assumed: Assumptions) -> bool:
    """Whether any layout on the requested accelerators fits at the requested confidence.

    Last-resort layouts count only if no other layout is possible.
    """
    usual = np.flatnonzero(~layouts.last_resort)
    layouts = layouts.take(usual) if len(usual) else layouts
    degrees, rows = layouts_at_size(counts, layouts, deployment)
    plans = layouts.take(rows)
    return bool(run_fits_at_confidence(plans, run_at(counts, plans, degrees, assumed), assumed).any())


def target_accelerators(layouts: TrainingPlans, deployment: Deployment) -> Column:
    """Number of accelerators that each layout must use."""
    if deployment.data_parallel is not None:
        return layouts.ranks * float(deployment.data_parallel)
    return np.full(len(layouts), float(requested_accelerators(deployment) or 1))


def layouts_at_size(counts: Counts, layouts: TrainingPlans, deployment: Deployment) -> tuple[Column, Codes]:
    """Return (data-parallel degree, row) of the layouts that use the requested accelerators.

    Clusters of whole machines with a known network come first, then whole machines with an assumed network, then any
    layout.
    """
    target, size = target_accelerators(layouts, deployment), requested_accelerators(deployment)
    degree, keep = degree_for_accelerators(counts, layouts, target)
    if size is not None:  # part of a single machine may stay idle
        idle = (
            (deployment.accelerators_per_replica is None) & (target <= size) & (layouts.accelerators_per_node == size)
        )
        keep &= (target == size) | idle
    whole = fills_machines(layouts, target)
    for better in (whole & has_interconnect(layouts, target), whole):
        preferred: Mask = keep & better
        if preferred.any():
            keep = preferred
            break
    rows = np.flatnonzero(keep)
    return degree[rows], rows
