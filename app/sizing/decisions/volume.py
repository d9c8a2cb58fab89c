"""Offline jobs of known volume: how long a fleet takes, and how many replicas meet the deadline."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.decisions.placement import ROUNDING
from app.sizing.formula import formula, suspend_recording
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import InferenceWorkload


@formula(unit="s", source="definition; read rate and engine start time are assumptions")
def cold_start_s(weights_bytes: Column, nodes_per_replica: Column, assumed: Assumptions) -> Column:
    """Seconds until a new replica answers: its machines read the weights, then the engine starts.

    Parameters:
        weights_bytes: weights of one replica, bytes.
        nodes_per_replica: machines that one replica spans; they read in parallel.
        assumed: assumptions: read rate and engine start time.
    Limits: all replicas start at the same time, and storage serves each at its full rate.
    Check: 70 s at 2 GB/s, and 45 s for the engine.
        >>> cold_start_s(140e9, 1.0, Assumptions())
        115.0
    """
    return weights_bytes / (assumed.model_load_gb_per_s * 1e9) / nodes_per_replica + assumed.engine_start_s


@formula(unit="s")
def run_s(
    volume_requests: float, replicas: Column, capacity_per_s: Column, slo_batch: Column, cold_start_s: Column
) -> Column:
    """Duration of a job: engines start, then each replica processes its share at its full rate.

    Parameters:
        volume_requests: requests of the job.
        replicas: replicas that share them.
        capacity_per_s: capacity of one replica, requests/s.
        slo_batch: largest batch of one replica that meets the SLO, requests.
        cold_start_s: start time of a replica, s.
    Limits: shares are equal; a share smaller than a batch takes as long as a full batch.
    Check: a million requests on four replicas of 25 requests/s, after a start of one minute.
        >>> run_s(1e6, 4.0, 25.0, 256.0, 60.0)
        np.float64(10060.0)
    """
    return cold_start_s + np.maximum(volume_requests / replicas, slo_batch) / np.maximum(capacity_per_s, LEAST_PER_S)


@formula(unit="s")
def min_run_s(capacity_per_s: Column, slo_batch: Column, cold_start_s: Column) -> Column:
    """Shortest duration of a job with any number of replicas: the start and one full batch.

    Parameters:
        capacity_per_s: capacity of one replica, requests/s.
        slo_batch: largest batch of one replica that meets the SLO, requests.
        cold_start_s: start time of a replica, s.
    Limits: a share smaller than a batch takes as long as a full batch.
    Check:
        >>> min_run_s(25.0, 250.0, 60.0)
        np.float64(70.0)
    """
    return cold_start_s + slo_batch / np.maximum(capacity_per_s, LEAST_PER_S)


@formula(unit="replicas")
def replicas_for_deadline(
    volume_requests: float, deadline_s: float, capacity_per_s: Column, cold_start_s: Column
) -> Column:
    """Replicas that process a job between their start and the deadline.

    Parameters:
        volume_requests: requests of the job.
        deadline_s: time until the deadline, start included, s.
        capacity_per_s: capacity of one replica, requests/s.
        cold_start_s: start time of a replica, s.
    Limits: plans that can meet the deadline with some number of replicas.
    Check: two million requests in sixty hours at 5 requests/s per replica.
        >>> float(replicas_for_deadline(2e6, 216_000.0, 5.0, 60.0))
        2.0
    """
    each = capacity_per_s * np.maximum(deadline_s - cold_start_s, 0.0)
    return np.maximum(1.0, np.ceil(volume_requests / np.maximum(each, LEAST_PER_S) - ROUNDING))


@formula(unit="replicas")
def replicas_filling_machines(replicas: Column, replicas_per_node: Column) -> Column:
    """Replicas that fill their machines: whole machines are billed, and more replicas finish the job sooner.

    Parameters:
        replicas: replicas needed.
        replicas_per_node: replicas that one machine holds.
    Limits: offline jobs, which any number of replicas may share.
    Check:
        >>> float(replicas_filling_machines(5.0, 4.0))
        8.0
    """
    return np.ceil(replicas / replicas_per_node) * replicas_per_node


def can_meet_deadline(
    workload: InferenceWorkload, capacity_per_s: Column, slo_batch: Column, cold_start_s: Column
) -> Mask:
    """Plans that meet the deadline with some number of replicas."""
    if workload.deadline_s is None:
        return np.ones(len(capacity_per_s), bool)
    with suspend_recording():
        found: Mask = min_run_s(capacity_per_s, slo_batch, cold_start_s) <= workload.deadline_s
    return found


def replicas_for_volume(
    workload: InferenceWorkload,
    capacity_per_s: Column,
    slo_batch: Column,
    cold_start_s: Column,
    replicas_per_node: Column,
) -> Column:
    """Replicas of the fewest full machines that meet the deadline; those of one replica without a deadline or if
    none can.
    """
    replicas = np.ones_like(capacity_per_s)
    if workload.volume_requests is not None and workload.deadline_s is not None:
        needed = replicas_for_deadline(workload.volume_requests, workload.deadline_s, capacity_per_s, cold_start_s)
        replicas = np.where(can_meet_deadline(workload, capacity_per_s, slo_batch, cold_start_s), needed, replicas)
    return replicas_filling_machines(replicas, replicas_per_node)
