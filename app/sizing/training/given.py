"""Runs of a requested deployment: its open layout, and the largest model, sequence or micro-batch that fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.decisions.ranking import familiar_first, ranking_key
from app.sizing.decisions.rejections import NullRejections
from app.sizing.model.counting.registered import assumed_architecture
from app.sizing.question import Deployment, Objective, Question
from app.sizing.result import QUANTITY_UNITS, MaximumThatFits
from app.sizing.training.attempts import attempt_layouts
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import (
    degree_for_accelerators,
    fills_machines,
    has_interconnect,
    is_well_connected,
)
from app.sizing.training.memory import allowed_bytes
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits_memory, run_at, run_cost, run_fits_at_confidence
from app.sizing.training.search import (
    CostedRuns,
    best_runs,
    comparison_score,
    pipeline_handicap,
    run_measures,
    smallest_runs,
    stable_run_key,
)
from app.sizing.workload import TrainingWorkload


def requested_accelerators(deployment: Deployment) -> int | None:
    """Number of accelerators that the request fixes; None if it fixes none."""
    return deployment.accelerators_per_replica or deployment.total_accelerators


def without_unrequested_offload(layouts: TrainingPlans, deployment: Deployment) -> TrainingPlans:
    """Return the layouts that keep in host memory only what the deployment requests or the framework always moves.

    Offloaded trained parameters take their optimizer states along.
    """
    unrequested: Mask = np.zeros(len(layouts), dtype=bool)
    if not deployment.parameter_offload:
        unrequested |= layouts.parameter_offload
        unrequested |= layouts.optimizer_offload & (not deployment.optimizer_offload)
    if not deployment.activation_offload:
        unrequested |= layouts.activation_offload & ~layouts.stack.recipe.offloads_checkpoints
    return layouts.take(~unrequested)


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
    batch, deadline, a machine on which the run is about as fast as on any other, and then the objective. Late runs
    rank by their duration. Of near ties, the framework with more published use comes first, unless carbon decides.
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
    tiers = late, batch_deviation(counts, run), plans.last_resort, short, unfit
    slow = on_slow_machine(plans, wall, tiers, question.assumptions)
    order = np.lexsort((*ties, ranking_key(figure), slow, *tiers))
    (leading,) = np.nonzero(np.all([key[order] == key[order[0]] for key in (slow, *tiers)], axis=0))
    if question.objective is Objective.CARBON:
        return order
    usd, use, rows = run_measures(counts, costed).usd, plans.use_at(run.accelerators), order[leading]
    order[leading] = rows[familiar_first(figure[rows], usd[rows], use.take(rows), assumed)]
    return order


def on_slow_machine(
    plans: TrainingPlans, wall_s: Column, tiers: tuple[Column | Mask, ...], assumed: Assumptions
) -> Mask:
    """Whether a run's machine needs longer than the fastest machine by more than a near tie.

    The layouts of the best tier count, each machine with its fastest one. `tiers` are sort keys, the last one first.
    """
    best = np.lexsort(tiers)[0]
    rows = np.flatnonzero(np.all([key == key[best] for key in tiers], axis=0))
    machine, duration = plans.offered.listing + 1, wall_s * pipeline_handicap(plans.pipeline_parallel, assumed)
    fastest = np.full(int(machine.max()) + 1, np.inf)
    np.minimum.at(fastest, machine[rows], duration[rows])
    slow: Mask = fastest[machine] > fastest.min() * (1 + assumed.near_tie_share)
    return slow


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

    Accelerators that share a scale-up domain come first where a machine on sale holds them all, and never machines
    with one accelerator where others are on sale. Among the rest, clusters of whole machines with a known network come
    first, then whole machines with an assumed network, then any layout.
    """
    target, size = target_accelerators(layouts, deployment), requested_accelerators(deployment)
    degree, keep = degree_for_accelerators(counts, layouts, target)
    if size is not None:  # part of a single machine may stay idle
        idle = (
            (deployment.accelerators_per_replica is None) & (target <= size) & (layouts.accelerators_per_node == size)
        )
        keep &= (target == size) | idle
    connected, whole = keep & is_well_connected(layouts, target), fills_machines(layouts, target)
    keep = connected if connected.any() else keep
    for better in (whole & has_interconnect(layouts, target), whole):
        preferred: Mask = keep & better
        if preferred.any():
            keep = preferred
            break
    rows = np.flatnonzero(keep)
    return degree[rows], rows


QUANTITIES = ("parameters", "sequence_length", "micro_batch")
UPPER_BOUNDS = {"parameters": 2e13, "sequence_length": 1e7, "micro_batch": 65536.0}
LOWER_BOUNDS = {"parameters": 1e6, "sequence_length": 128.0, "micro_batch": 1.0}
SEQUENCE_STEP = 128.0
RELATIVE_TOLERANCE = 1.002  # relative precision of the parameter count: 0.2 %


SizingCase = tuple[TrainingWorkload, Deployment]


def with_quantity(
    workload: TrainingWorkload, deployment: Deployment, quantity: str, value: float, devices: int
) -> SizingCase:
    """Return the same case with another model size, sequence length or micro-batch, on the same number of devices."""
    if quantity == "parameters":
        return replace(workload, model=assumed_architecture(value)), deployment
    if quantity == "sequence_length":
        return replace(workload, units_per_sequence=value), deployment
    # Choose the batch nearest to the requested one that micro-batches of this size divide over the devices.
    share = int(value) * devices
    batch = share * max(1, math.floor(workload.global_batch / share + 0.5))
    return replace(workload, global_batch=batch), replace(deployment, micro_batch_sequences=int(value))


def round_down_to_step(quantity: str, value: float) -> float:
    """Round down to the step of a quantity: 128 tokens or one sequence; parameters are not rounded."""
    if quantity == "parameters":
        return value
    step = SEQUENCE_STEP if quantity == "sequence_length" else 1.0
    return max(LOWER_BOUNDS[quantity], value // step * step)


def find_maximum(
    quantity: str,
    workload: TrainingWorkload,
    deployment: Deployment,
    devices: int,
    fits: Callable[[TrainingWorkload, Deployment], bool],
) -> MaximumThatFits:
    """Find the largest value that fits, by bisection; memory grows monotonically with every quantity.

    Raises Conflict if nothing fits, or if the model does not process tokens.
    """
    if workload.in_samples:
        raise Conflict("maximize supports models that process tokens; this model processes samples.")

    def value_fits(value: float) -> bool:
        return fits(*with_quantity(workload, deployment, quantity, value, devices))

    low, high = LOWER_BOUNDS[quantity], UPPER_BOUNDS[quantity]
    if not value_fits(low):
        raise Conflict(
            f"Nothing fits: even the smallest size, {low:,.0f} {QUANTITY_UNITS[quantity]}, exceeds memory. "
            "Request more accelerators, sharding (zero_stage 3) or offload."
        )
    if value_fits(high):
        return MaximumThatFits(quantity, high, high)
    while not _has_converged(quantity, low, high):
        midpoint = round_down_to_step(quantity, (low * high) ** 0.5)
        if midpoint <= low:
            midpoint = low + (SEQUENCE_STEP if quantity == "sequence_length" else 1.0)
        if value_fits(midpoint):
            low = midpoint
        else:
            high = midpoint
    return MaximumThatFits(quantity, low, high)


def _has_converged(quantity: str, low: float, high: float) -> bool:
    """Whether the bounds are close enough to stop the bisection."""
    if quantity == "parameters":
        return high / low <= RELATIVE_TOLERANCE
    return high - low <= (SEQUENCE_STEP if quantity == "sequence_length" else 1.0)
