"""Cluster sizes near the best run of each accelerator type.

Bisection skips sizes, so every layout that may be better is evaluated at these sizes as well.
"""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import degree_for_accelerators, forms_cluster, is_legal_degree
from app.sizing.training.plans import TrainingPlans

# Sizes to evaluate, relative to the best size: down to the search's next smaller degree, and one step up.
SIZE_RATIOS = np.array([0.84, 0.89, 0.95, 1.0, 1.125, 1.25])


def sizes_around(accelerators: Column, accelerators_per_node: Column) -> Column:
    """Accelerator counts to evaluate near each size, one row per size.

    A size of several machines gives counts of whole machines. A size within one machine gives itself and the whole
    machine.
    """
    machines = np.ceil(accelerators[:, None] * SIZE_RATIOS / accelerators_per_node[:, None])
    return np.where(
        (accelerators > accelerators_per_node)[:, None],
        machines * accelerators_per_node[:, None],
        accelerators[:, None],
    )


def degrees_near_size(counts: Counts, plans: TrainingPlans, accelerators: Column) -> tuple[Codes, Column]:
    """Return (row, data-parallel degree) of each layout at each legal size near a given number of accelerators."""
    sizes = sizes_around(accelerators, plans.accelerators_per_node)
    degrees, able = degree_for_accelerators(counts, plans, sizes)
    able &= is_legal_degree(counts, plans, degrees) & forms_cluster(plans, sizes)
    able[:, 1:] &= sizes[:, 1:] != sizes[:, :-1]
    rows, place = np.nonzero(able)
    return rows, degrees[rows, place]
