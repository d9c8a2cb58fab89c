"""Filter for machines that cannot hold a model under any split."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.training.plans import TrainingMachines
from app.sizing.training.recipes import recipe_of
from app.sizing.workload import TrainingWorkload


def cluster_memory_bytes(machines: TrainingMachines) -> Column:
    """Accelerator memory that a run can combine, in bytes; infinite for machines that form clusters."""
    node = machines.offered.node
    near = np.where(machines.training_class, machines.scale_up_accelerators, node.accelerators_per_node)
    endless = machines.training_class & ~np.isnan(node.network_bytes_per_s)
    return np.where(endless, np.inf, node.memory_bytes * near)


def machines_able_to_hold(workload: TrainingWorkload, machines: TrainingMachines) -> TrainingMachines:
    """Return the machines that can hold the weights, and the largest machine of every other type.

    The largest machine stays so that its rejection can state the shortfall.
    """
    memory, accelerator = cluster_memory_bytes(machines), machines.offered.node.accelerator
    hopeless = memory < workload.model.total_params * recipe_of(workload).base_bytes_per_param
    if not hopeless.any():
        return machines
    largest: Codes = np.full(int(accelerator.max()) + 1, -1)
    order = np.argsort(memory, kind="stable")
    largest[accelerator[order]] = order  # keeps the last of several machines of a type
    keep = ~hopeless
    keep[largest[largest >= 0]] = True
    return machines.take(np.flatnonzero(keep))
