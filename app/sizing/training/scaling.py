"""Scaling curve: days and cost against accelerators, the largest size that pays off, and the limiting part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, concat_tables
from app.sizing.decisions.cost import usd_total
from app.sizing.question import Question
from app.sizing.result import ScalingCurve, ScalingPoint
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_for_accelerators, forms_cluster, is_legal_degree
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, days, fits_memory, run_cost, run_fits_at_confidence, units_per_s
from app.sizing.training.search import pipeline_handicap

# Largest size of the curve's grid, in accelerators.
LARGEST_CURVE_SIZE = 16384
LIMITING_PARTS = {
    "compute": "small micro-batches and kernel launches (too little work per accelerator)",
    "exposed_communication": "communication that no longer overlaps with computation",
    "pipeline_bubble": "the pipeline bubble (too few micro-batches per replica)",
    "optimizer": "the optimizer step",
    "input": "the fixed time per step",
}


def curve_sizes(plans: TrainingPlans, accelerators: float) -> Column:
    """Accelerator counts of the scaling curve.

    The counts are powers of two within a machine, then powers of two of machines (one machine for inference-class
    hardware), the chosen size and twice that size.
    """
    count = float(plans.accelerators_per_node[0])
    inside = 2.0 ** np.arange(np.floor(np.log2(count)) + 1)
    most = np.floor(np.log2(LARGEST_CURVE_SIZE / count))
    machines = 2.0 ** np.arange(most + 1) if plans.machine.training_class[0] else np.ones(1)
    return np.union1d(np.union1d(inside, machines * count), [accelerators, 2 * accelerators])


def same_machine_and_framework(layouts: TrainingPlans, chosen: TrainingPlans) -> TrainingPlans:
    """Return the layouts with the machine, the price and the framework of the first chosen run."""
    same = (
        (layouts.offered.listing == chosen.offered.listing[0])
        & (layouts.offered.machine == chosen.offered.machine[0])
        & (layouts.framework == chosen.framework[0])
    )
    return layouts.take(np.flatnonzero(same))


@dataclass(frozen=True, slots=True)
class CurveLayouts:
    """Layouts at the sizes of the scaling curve of one run, other than its own size."""

    plans: TrainingPlans
    data_parallel: Column  # data-parallel degree


def find_curve_layouts(counts: Counts, layouts: TrainingPlans, chosen: TrainingPlans, own: float) -> CurveLayouts:
    """Find the layouts with the machine and the framework of the first chosen run at the sizes of its scaling curve.

    The global batch stays as close as possible to the requested one, so every layout runs out of micro-batches at some
    size.

    Parameters:
        own: accelerators of the first chosen run.
    """
    layouts = same_machine_and_framework(layouts, chosen)
    sizes_judged = curve_sizes(layouts, own)
    sizes = np.broadcast_to(sizes_judged, (len(layouts), len(sizes_judged)))
    degrees, possible = degree_for_accelerators(counts, layouts, sizes)
    possible &= (
        forms_cluster(layouts, sizes) & is_legal_degree(counts, layouts, np.maximum(1.0, degrees)) & (sizes != own)
    )
    rows, at = np.nonzero(possible)
    return CurveLayouts(layouts.take(rows), degrees[rows, at])


def scaling_curve(
    counts: Counts, plans: TrainingPlans, run: Run, first_plans: TrainingPlans, first: Run, question: Question
) -> ScalingCurve | None:
    """Return the scaling curve of a run, or None if no size is feasible.

    The curve holds the fastest layout at each size that fits at the requested confidence. The run itself stands for its
    own size.

    Parameters:
        plans, run: layouts of the curve and their runs.
        first_plans, first: the run itself.
    """
    assumed = question.assumptions
    feasible = np.flatnonzero(run_fits_at_confidence(plans, run, assumed))
    compared = run.wall_s * pipeline_handicap(plans.pipeline_parallel, assumed)
    order = feasible[np.lexsort((compared[feasible], run.accelerators[feasible]))]
    best = run.take(order[np.unique(run.accelerators[order], return_index=True)[1]])
    points = concat_tables([best, first]) if fits_memory(first_plans, first, assumed).all() else best
    if not len(points):
        return None
    own = float(first.accelerators[0])
    return _build_curve(counts, first_plans, points.take(np.argsort(points.accelerators)), own, question)


def _build_curve(counts: Counts, plans: TrainingPlans, run: Run, own: float, question: Question) -> ScalingCurve:
    """Build the curve through the best run of each size.

    The knee is the last size at which each step up returned at least the assumed share of the accelerators it added.
    Efficiency is relative to the best smaller size, so a size that gains from larger memory counts as no loss.
    """
    assumed = question.assumptions
    machines = plans.take(np.zeros(len(run), dtype=np.int64))
    usd = usd_total(run_cost(machines, run, assumed, question.economics).usd_per_hour, run.wall_s)
    rate = units_per_s(counts, run.batch, run.step.step_s)
    each = rate / run.accelerators
    efficiency = np.minimum.accumulate(each / np.maximum.accumulate(each))
    points = tuple(
        ScalingPoint(int(n), float(w), float(u) if np.isfinite(u) else None, float(r), float(e))
        for n, w, u, r, e in zip(run.accelerators, days(run.wall_s), usd, rate, efficiency, strict=True)
    )
    knee = 0
    for i in range(1, len(points)):
        speedup = points[i - 1].days / points[i].days - 1
        if speedup < assumed.scaling_knee * (points[i].accelerators / points[i - 1].accelerators - 1):
            break
        knee = i
    ends = _why_curve_ends(plans)
    binds = ends if knee + 1 == len(points) else _limiting_part(run, knee)
    twice = next((p for p in points if p.accelerators == 2 * own), None)
    return ScalingCurve(points, points[knee].accelerators, points[0].accelerators, binds, twice, ends)


def _why_curve_ends(plans: TrainingPlans) -> str:
    if not plans.machine.training_class[0]:
        return "the size of one machine (machines of this class are not connected into clusters)"
    if np.isnan(plans.node.network_bytes_per_s[0]):
        return "the network between machines, which the listing does not state"
    return "the global batch (it cannot be divided over more accelerators)"


def _limiting_part(run: Run, knee: int) -> str:
    """Return the part of a step that shrinks least from the knee to the next size."""
    share = run.accelerators[knee + 1] / run.accelerators[knee]
    grown = {
        name: float(getattr(run.step, f"{name}_s")[knee + 1] - getattr(run.step, f"{name}_s")[knee] / share)
        for name in LIMITING_PARTS
    }
    return LIMITING_PARTS[max(grown, key=lambda n: (grown[n], n))]
