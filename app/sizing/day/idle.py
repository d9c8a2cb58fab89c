"""Machines that an autoscaled fleet releases: the fleet of every minute, and the idle share of its machine-hours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.columns import Column
from app.sizing.day.scaling import Autoscaler, simulate_autoscaling
from app.sizing.decisions.placement import Fleet, plan_fleet
from app.sizing.workload import Redundancy

SAMPLING_MINUTES = 30  # sampling interval for many fleets, minutes
MAX_FLEETS_EVERY_MINUTE = 64  # largest number of fleets that are evaluated every minute


def fleet_per_minute(
    redundancy: Redundancy, peak: Fleet, per_replica: Column, per_node: Column, replicas: Column
) -> tuple[Column, Column]:
    """Replicas with spares, and machines, that hold the given replicas; never more than at the peak.

    Columns have one row per fleet; minutes run along the last axis.
    """
    found = plan_fleet(redundancy, per_replica, per_node, replicas)
    full = replicas >= peak.replicas
    spares = np.where(full, peak.spare_replicas, np.minimum(found.spare_replicas, peak.spare_replicas))
    nodes = np.where(full, peak.nodes, np.minimum(found.nodes, peak.nodes))
    return replicas + spares, nodes


def idle_shares(
    load: Column, autoscaler: Autoscaler, redundancy: Redundancy, peak: Fleet, per_replica: Column, per_node: Column
) -> Column:
    """Share of a day's machine-hours that each fleet saves by following the load."""
    rows = Fleet(*(np.reshape(c, (-1, 1)) for c in (peak.replicas, peak.spare_replicas, peak.nodes, peak.accelerators)))
    by_row = replace(
        autoscaler,
        capacity_per_s=np.reshape(autoscaler.capacity_per_s, (-1, 1)),
        most_replicas=rows.replicas,
        start_s=np.ravel(autoscaler.start_s),
        supply_per_s=np.reshape(autoscaler.supply_per_s, (-1, 1)),
    )
    ordered = simulate_autoscaling(
        load, by_row, 1 if len(rows.replicas) <= MAX_FLEETS_EVERY_MINUTE else SAMPLING_MINUTES
    ).ordered
    _, nodes = fleet_per_minute(
        redundancy, rows, np.reshape(per_replica, (-1, 1)), np.reshape(per_node, (-1, 1)), ordered
    )
    idle: Column = 1 - nodes.mean(axis=1) / peak.nodes
    return idle
