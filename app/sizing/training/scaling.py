"""Days and money against the number of accelerators: where more of them stop paying, and what binds then."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.decisions.cost import usd_total
from app.sizing.question import Economics
from app.sizing.result import Curve, Point
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_of, joined
from app.sizing.training.outcome import days, units_per_s
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, fits, run_at, run_cost

# The grid of the curve ends here, in accelerators.
LARGEST_JUDGED = 16384
BINDS = {
    "compute": "small micro-batches and launches: there is too little work for each accelerator",
    "exposed_communication": "communication that computation no longer hides",
    "pipeline_bubble": "the pipeline's bubble: too few micro-batches are left for each replica",
    "optimizer": "the optimizer's step",
    "input": "fixed time per step",
}


def sizes_for(plans: TrainingPlans) -> Column:
    """Powers of two within a machine, then machines in powers of two, as far as this kind is joined."""
    count = float(plans.accelerators_per_node[0])
    inside = 2.0 ** np.arange(np.floor(np.log2(count)) + 1)
    most = np.floor(np.log2(LARGEST_JUDGED / count))
    machines = 2.0 ** np.arange(most + 1) if plans.machine.training_class[0] else np.ones(1)
    return np.union1d(inside, machines * count)


def alike(layouts: TrainingPlans, chosen: TrainingPlans) -> TrainingPlans:
    """Layouts of the machine, the price and the framework of a table's first row."""
    same = (
        (layouts.offered.listing == chosen.offered.listing[0])
        & (layouts.offered.machine == chosen.offered.machine[0])
        & (layouts.framework == chosen.framework[0])
    )
    return layouts.take(np.flatnonzero(same))


def curve_of(counts: Counts, layouts: TrainingPlans, assumed: Assumptions, economics: Economics) -> Curve | None:
    """The fastest layout at every size; None where none fits at any size. All rows are of one kind of machine.

    The global batch stays as it is, so every layout runs out of micro-batches at some size.
    """
    judged = sizes_for(layouts)
    sizes = np.broadcast_to(judged, (len(layouts), len(judged)))
    degrees, possible = degree_of(counts, layouts, sizes)
    rows, at = np.nonzero(possible & joined(layouts, sizes))
    if not len(rows):
        return None
    plans, size = layouts.take(rows), sizes[rows, at]
    run = run_at(counts, plans, degrees[rows, at], assumed)
    good = np.flatnonzero(fits(plans, run, assumed))
    if not len(good):
        return None
    order = good[np.lexsort((run.wall_s[good], size[good]))]
    best = order[np.unique(size[order], return_index=True)[1]]
    return _drawn(counts, plans.take(best), run.take(best), assumed, economics)


def _drawn(counts: Counts, plans: TrainingPlans, run: Run, assumed: Assumptions, economics: Economics) -> Curve:
    """The curve through the best run of every size. More accelerators still pay while each step up returns its share
    of what it adds.
    """
    usd = usd_total(run_cost(plans, run, assumed, economics).usd_per_hour, run.wall_s)
    rate = units_per_s(counts, run.step.step_s)
    each = rate / run.accelerators
    points = tuple(
        Point(int(d), float(w), float(u) if np.isfinite(u) else None, float(r), float(e))
        for d, w, u, r, e in zip(run.accelerators, days(run.wall_s), usd, rate, each / each[0], strict=True)
    )
    knee = 0
    for i in range(1, len(points)):
        gained = points[i - 1].days / points[i].days - 1
        if gained < assumed.scaling_knee * (points[i].accelerators / points[i - 1].accelerators - 1):
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
    share = run.accelerators[knee + 1] / run.accelerators[knee]
    grown = {
        name: float(getattr(run.step, f"{name}_s")[knee + 1] - getattr(run.step, f"{name}_s")[knee] / share)
        for name in BINDS
    }
    return BINDS[max(grown, key=lambda n: (grown[n], n))]
