"""How many replicas, spares and machines a load needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.workload import InferenceWorkload, Load, Redundancy


@dataclass(frozen=True, slots=True)
class Fleet(Columns):
    """Replicas that carry the load, spares, and the machines that hold them."""

    replicas: Column
    spare_replicas: Column
    nodes: Column
    accelerators: Column  # paid for: whole machines are rented and bought


def replicas_needed(workload: InferenceWorkload, capacity_per_s: Column, slo_batch: Column) -> Column:
    """Replicas so that each carries at most the target share of its capacity within the SLO.

    Check: 10 requests/s at 5.2 per replica and 0.7 is ceil(10 / 3.64) = 3.
    """
    if workload.load is Load.OPEN:
        needed = workload.peak_per_s / np.maximum(capacity_per_s * workload.target_utilization, 1e-12)
        return np.maximum(1.0, np.ceil(needed - 1e-9))
    if workload.load in (Load.CLOSED, Load.BATCH):
        return np.maximum(1.0, np.ceil(workload.in_flight / np.maximum(1.0, np.floor(slo_batch))))
    return np.ones_like(capacity_per_s)


def spare_replicas(redundancy: Redundancy, replicas: Column) -> Column:
    """Replicas kept spare so that the load survives the loss of a failure domain.

    With one zone the domain is a replica; with z zones it is a zone, so z - 1 zones must carry the
    load between them. Check: 3 replicas, n+1, 2 zones: 3 in each zone, 3 spare.
    """
    if redundancy.double:
        return replicas.copy()
    if redundancy.spare == 0:
        return np.zeros_like(replicas)
    if redundancy.zones > max(1, redundancy.spare):
        surviving = redundancy.zones - redundancy.spare
        return np.ceil(replicas / surviving) * redundancy.zones - replicas
    return np.full_like(replicas, float(redundancy.spare))


def nodes_per_replica(accelerators_per_replica: Column, machine_accelerators: Column) -> Column:
    """Machines one replica spans."""
    return np.ceil(accelerators_per_replica / machine_accelerators)


def replicas_per_node(accelerators_per_replica: Column, machine_accelerators: Column) -> Column:
    """Replicas one machine holds; 1 where a replica spans several."""
    return np.maximum(1.0, np.floor(machine_accelerators / accelerators_per_replica))


def fleet(accelerators_per_replica: Column, machine_accelerators: Column, replicas: Column, spares: Column) -> Fleet:
    """Machines for replicas and spares: packed where several fit, joined where one spans several.

    Check: 5 replicas of 2 accelerators in machines of 8 fill 2 machines, 16 accelerators.
    """
    total = replicas + spares
    spanned = nodes_per_replica(accelerators_per_replica, machine_accelerators)
    packed = np.ceil(total / replicas_per_node(accelerators_per_replica, machine_accelerators))
    nodes = np.where(spanned > 1, total * spanned, packed)
    return Fleet(replicas, spares, nodes, nodes * machine_accelerators)
