"""How many replicas, spares and machines a load needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import InferenceWorkload, Load, Redundancy

# Keeps a whole number of replicas from becoming one more.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Fleet(Columns):
    """Replicas that carry the load, spares, and the machines that hold them."""

    replicas: Column
    spare_replicas: Column
    nodes: Column
    accelerators: Column  # paid for: whole machines are rented and bought


@formula(unit="replicas")
def replicas_for_rate(peak_per_s: float, capacity_per_s: Column, target_utilization: float) -> Column:
    """Replicas so that each carries at most the target share of its capacity within the SLO.

    Source: definition.
    Limits: requests spread evenly over replicas.
    Check:
        >>> float(replicas_for_rate(10.0, 5.2, 0.7))
        3.0
    """
    needed = peak_per_s / np.maximum(capacity_per_s * target_utilization, LEAST_PER_S)
    return np.maximum(1.0, np.ceil(needed - ROUNDING))


@formula(unit="replicas")
def replicas_for_requests(in_flight: float, slo_batch: Column) -> Column:
    """Replicas that hold a fixed number of requests at once, none more than meets the SLO.

    Source: definition.
    Limits: requests spread evenly over replicas.
    Check:
        >>> float(replicas_for_requests(100.0, 48.0))
        3.0
    """
    return np.maximum(1.0, np.ceil(in_flight / np.maximum(1.0, np.floor(slo_batch))))


def replicas_needed(workload: InferenceWorkload, capacity_per_s: Column, slo_batch: Column) -> Column:
    """Replicas that carry a load: a rate of requests, a number at once, or as fast as one goes."""
    if workload.load is Load.OPEN:
        return replicas_for_rate(workload.peak_per_s, capacity_per_s, workload.target_utilization)
    if workload.load in (Load.CLOSED, Load.BATCH):
        return replicas_for_requests(workload.in_flight, slo_batch)
    return np.ones_like(capacity_per_s)


@formula(unit="replicas")
def spares_by_zone(replicas: Column, zones: float, zones_lost: float) -> Column:
    """Replicas beyond those needed, so that the zones that are left carry the load.

    Source: definition.
    Limits: zones of one size.
    Check:
        >>> float(spares_by_zone(3.0, 2, 1))  # three in each zone
        3.0
    """
    return np.ceil(replicas / (zones - zones_lost)) * zones - replicas


def spare_replicas(redundancy: Redundancy, replicas: Column) -> Column:
    """Replicas kept spare so that the load survives the loss of a failure domain.

    With one zone the domain is a replica; with z zones it is a zone, so z - 1 zones must carry the
    load between them.

    Source: definition.
    Limits: zones of one size.
    Check:
        >>> spare_replicas(Redundancy(spare=1, zones=2), np.array([3.0])).tolist()  # three in each zone
        [3.0]
    """
    if redundancy.double:
        return replicas.copy()
    if redundancy.spare == 0:
        return np.zeros_like(replicas)
    if redundancy.zones > max(1, redundancy.spare):
        return spares_by_zone(replicas, float(redundancy.zones), float(redundancy.spare))
    return np.full_like(replicas, float(redundancy.spare))


@formula(unit="machines")
def nodes_per_replica(accelerators_per_replica: Column, accelerators_per_node: Column) -> Column:
    """Machines one replica spans.

    Source: counted.
    Limits: whole machines.
    Check:
        >>> float(nodes_per_replica(16.0, 8.0))
        2.0
    """
    return np.ceil(accelerators_per_replica / accelerators_per_node)


@formula(unit="replicas")
def replicas_per_node(accelerators_per_replica: Column, accelerators_per_node: Column) -> Column:
    """Replicas one machine holds; 1 where a replica spans several.

    Source: counted.
    Limits: no replica shares an accelerator.
    Check:
        >>> float(replicas_per_node(2.0, 8.0))
        4.0
    """
    return np.maximum(1.0, np.floor(accelerators_per_node / accelerators_per_replica))


@formula(unit="machines")
def nodes(replicas: Column, spare_replicas: Column, nodes_per_replica: Column, replicas_per_node: Column) -> Column:
    """Machines for replicas and spares: packed where several fit, joined where one spans several.

    Source: counted.
    Limits: a machine carries replicas of one deployment only.
    Check:
        >>> float(nodes(5.0, 0.0, 1.0, 4.0))  # five replicas of 2 accelerators in machines of 8
        2.0
    """
    total = replicas + spare_replicas
    return np.where(nodes_per_replica > 1, total * nodes_per_replica, np.ceil(total / replicas_per_node))


def fleet(accelerators_per_replica: Column, accelerators_per_node: Column, replicas: Column, spares: Column) -> Fleet:
    """Machines for replicas and spares, and the accelerators that are paid for with them."""
    needed = nodes(
        replicas,
        spares,
        nodes_per_replica(accelerators_per_replica, accelerators_per_node),
        replicas_per_node(accelerators_per_replica, accelerators_per_node),
    )
    return Fleet(replicas, spares, needed, needed * accelerators_per_node)
