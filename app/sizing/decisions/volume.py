"""Offline work of a known volume: how long a fleet takes over it, and how many replicas are done in time."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.decisions.placement import ROUNDING
from app.sizing.formula import formula, unrecorded
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import InferenceWorkload


@formula(unit="s", source="size of the weights over the rate they are read at")
def cold_start_s(weights_bytes: Column, nodes_per_replica: Column, assumed: Assumptions) -> Column:
    """Seconds until a fresh replica answers: its machines read the weights, then the engine starts.

    Source: definition; rate and start are assumptions.
    Limits: replicas start at once, and storage feeds all of them.
    Check:
        >>> cold_start_s(140e9, 1.0, Assumptions())  # 70 s at 2 GB/s, and 45 of the engine
        115.0
    """
    return weights_bytes / (assumed.model_load_gb_per_s * 1e9) / nodes_per_replica + assumed.engine_start_s


@formula(unit="s")
def run_s(
    volume_requests: float, replicas: Column, capacity_per_s: Column, slo_batch: Column, cold_start_s: Column
) -> Column:
    """Seconds of a whole volume: engines start, then each replica does its share at its full rate.

    Source: definition.
    Limits: shares are even; a share smaller than a batch takes as long as a full one.
    Check: a million requests over four replicas of 25 per second, a minute after they are started.
        >>> run_s(1e6, 4.0, 25.0, 256.0, 60.0)
        np.float64(10060.0)
    """
    return cold_start_s + np.maximum(volume_requests / replicas, slo_batch) / np.maximum(capacity_per_s, LEAST_PER_S)


@formula(unit="s")
def least_run_s(capacity_per_s: Column, slo_batch: Column, cold_start_s: Column) -> Column:
    """Seconds that no number of replicas goes below: the start, and one full batch.

    Source: definition.
    Limits: as above.
    Check:
        >>> least_run_s(25.0, 250.0, 60.0)
        np.float64(70.0)
    """
    return cold_start_s + slo_batch / np.maximum(capacity_per_s, LEAST_PER_S)


@formula(unit="replicas")
def replicas_in_time(volume_requests: float, deadline_s: float, capacity_per_s: Column, cold_start_s: Column) -> Column:
    """Replicas that do a volume between their start and the deadline.

    Source: definition.
    Limits: of those that may be in time at all.
    Check: two million in sixty hours at 5 per second each.
        >>> float(replicas_in_time(2e6, 216_000.0, 5.0, 60.0))
        2.0
    """
    each = capacity_per_s * np.maximum(deadline_s - cold_start_s, 0.0)
    return np.maximum(1.0, np.ceil(volume_requests / np.maximum(each, LEAST_PER_S) - ROUNDING))


@formula(unit="replicas")
def filled(replicas: Column, replicas_per_node: Column) -> Column:
    """Replicas that fill their machines: the last one is paid for whole, and the work ends sooner.

    Source: counted.
    Limits: offline work, which any number of replicas may share.
    Check:
        >>> float(filled(5.0, 4.0))
        8.0
    """
    return np.ceil(replicas / replicas_per_node) * replicas_per_node


def may_be_in_time(
    workload: InferenceWorkload, capacity_per_s: Column, slo_batch: Column, cold_start_s: Column
) -> Mask:
    """Which plans some number of replicas brings in time."""
    if workload.deadline_s is None:
        return np.ones(len(capacity_per_s), bool)
    with unrecorded():
        found: Mask = least_run_s(capacity_per_s, slo_batch, cold_start_s) <= workload.deadline_s
    return found


def replicas_for_volume(
    workload: InferenceWorkload,
    capacity_per_s: Column,
    slo_batch: Column,
    cold_start_s: Column,
    replicas_per_node: Column,
) -> Column:
    """The fewest machines, filled, that are done in time; one replica's where nothing has to be or none can be."""
    replicas = np.ones_like(capacity_per_s)
    if workload.volume_requests is not None and workload.deadline_s is not None:
        needed = replicas_in_time(workload.volume_requests, workload.deadline_s, capacity_per_s, cold_start_s)
        replicas = np.where(may_be_in_time(workload, capacity_per_s, slo_batch, cold_start_s), needed, replicas)
    return filled(replicas, replicas_per_node)
