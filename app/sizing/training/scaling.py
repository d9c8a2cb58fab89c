"""Days and money against the number of accelerators: where more of them stop paying, and what binds then."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.question import Economics
from app.sizing.result import Curve, Point
from app.sizing.snapshot import Market
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, degree_of, fits, joined, run_at, run_cost, units_per_s
from app.sizing.workload import TrainingWorkload

LARGEST_JUDGED = 16384
# More accelerators still pay while each step up returns this share of what it adds.
KNEE = 0.7
BINDS = {
    "compute": "small micro-batches and launches: there is too little work for each accelerator",
    "exposed_communication": "communication that computation no longer hides",
    "pipeline_bubble": "the pipeline's bubble: too few micro-batches are left for each replica",
    "optimizer": "the optimizer's step",
    "input": "fixed time per step",
}


def sizes_for(plans: TrainingPlans) -> Column:
    """Powers of two within a machine, then machines in powers of two, as far as this kind is joined."""
    count = float(plans.node.accelerators_per_node[0])
    inside = 2.0 ** np.arange(np.floor(np.log2(count)) + 1)
    machines = 2.0 ** np.arange(np.floor(np.log2(LARGEST_JUDGED / count)) + 1) if plans.clusters[0] else np.ones(1)
    return np.union1d(inside, machines * count)


def alike(layouts: TrainingPlans, chosen: TrainingPlans) -> TrainingPlans:
    """Layouts of the machine, the price and the framework of a one-row table."""
    same = (
        (layouts.offered.listing == chosen.offered.listing)
        & (layouts.offered.machine == chosen.offered.machine)
        & (layouts.framework == chosen.framework)
    )
    return layouts.take(same)


def curve_of(
    workload: TrainingWorkload, layouts: TrainingPlans, market: Market, assumed: Assumptions, economics: Economics
) -> Curve | None:
    """The fastest layout at every size; None where none fits at any size. All rows are of one kind of machine.

    The global batch stays as it is, so every layout runs out of micro-batches at some size.
    """
    sizes = np.broadcast_to(sizes_for(layouts), (len(layouts), len(sizes_for(layouts))))
    degrees, possible = degree_of(workload, layouts, sizes)
    rows, at = np.nonzero(possible & joined(layouts, sizes))
    if not len(rows):
        return None
    plans, size = layouts.take(rows), sizes[rows, at]
    run = run_at(workload, plans, degrees[rows, at], market, assumed)
    good = np.flatnonzero(fits(plans, run))
    if not len(good):
        return None
    order = good[np.lexsort((run.wall_s[good], size[good]))]
    best = order[np.unique(size[order], return_index=True)[1]]
    return _drawn(workload, plans.take(best), run.take(best), assumed, economics)


def _drawn(
    workload: TrainingWorkload, plans: TrainingPlans, run: Run, assumed: Assumptions, economics: Economics
) -> Curve:
    """The curve through the best run of every size."""
    usd = run_cost(plans, run, assumed, economics).usd_per_hour * run.wall_s / 3600
    rate = units_per_s(workload, run)
    each = rate / run.devices
    points = tuple(
        Point(int(d), float(w) / 86400, float(u) if np.isfinite(u) else None, float(r), float(e))
        for d, w, u, r, e in zip(run.devices, run.wall_s, usd, rate, each / each[0], strict=True)
    )
    knee = 0
    for i in range(1, len(points)):
        gained = points[i - 1].days / points[i].days - 1
        if gained < KNEE * (points[i].accelerators / points[i - 1].accelerators - 1):
            break
        knee = i
    return Curve(points, points[knee].accelerators, points[0].accelerators, _binding(run, knee, len(points)))


def _binding(run: Run, knee: int, count: int) -> str:
    """The part of a step that shrinks least from the knee to the next size."""
    if knee + 1 >= count:
        return (
            "the global batch: it cannot be divided over more accelerators"
            if count > 1
            else "nothing larger can be laid out"
        )
    share = run.devices[knee + 1] / run.devices[knee]
    grown = {
        name: float(getattr(run.step, f"{name}_s")[knee + 1] - getattr(run.step, f"{name}_s")[knee] / share)
        for name in BINDS
    }
    return BINDS[max(grown, key=lambda n: (grown[n], n))]
