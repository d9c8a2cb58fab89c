"""Sizes around the best of each type: there every layout that may do better is tried, where bisection took steps."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_of, joined, legal
from app.sizing.training.plans import TrainingPlans

# Shares of the best size that are tried: down to the next smaller of a search's degrees, and one step up.
SHARES = np.array([0.84, 0.89, 0.95, 1.0, 1.125, 1.25])


def sizes_around(accelerators: Column, accelerators_per_node: Column) -> Column:
    """A row of sizes for each: whole machines near a size of several, the size itself and the whole machine else."""
    machines = np.ceil(accelerators[:, None] * SHARES / accelerators_per_node[:, None])
    return np.where(
        (accelerators > accelerators_per_node)[:, None],
        machines * accelerators_per_node[:, None],
        accelerators[:, None],
    )


def around(counts: Counts, plans: TrainingPlans, accelerators: Column) -> tuple[Codes, Column]:
    """(row, data-parallel degree) of every layout at the sizes around one."""
    sizes = sizes_around(accelerators, plans.accelerators_per_node)
    degrees, able = degree_of(counts, plans, sizes)
    able &= legal(counts, plans, degrees) & joined(plans, sizes)
    able[:, 1:] &= sizes[:, 1:] != sizes[:, :-1]
    rows, place = np.nonzero(able)
    return rows, degrees[rows, place]
