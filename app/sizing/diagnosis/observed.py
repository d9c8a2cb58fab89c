"""Observations of a service, of a training run and of their accelerators. None means unknown.

Times are in seconds, sizes in bytes and shares from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadObservation:
    """Latencies observed at one load of the whole deployment."""

    requests_per_s: float
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class ServiceObservation:
    """Observations of a service. All cover the whole deployment, except `running` and `waiting`, which are per
    replica.
    """

    requests_per_s: float | None = None
    peak_requests_per_s: float | None = None  # rate in the busiest ten seconds
    output_tokens_per_s: float | None = None
    input_tokens_mean: float | None = None
    output_tokens_mean: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None
    inter_token_p50_s: float | None = None
    inter_token_p99_s: float | None = None
    queue_p50_s: float | None = None
    running: float | None = None  # running requests of one replica
    waiting: float | None = None  # waiting requests of one replica
    cache_usage: float | None = None  # share of the KV cache in use
    preemptions_per_request: float | None = None
    prefix_hit_share: float | None = None  # share of prompt tokens found in the prefix cache
    acceptance_rate: float | None = None  # probability that a draft token is accepted
    error_share: float | None = None  # share of requests that fail
    busiest_replica_share: float | None = None  # load of the busiest replica over the mean load
    cold_start_s: float | None = None
    restarts_per_day: float | None = None
    by_load: tuple[LoadObservation, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """Speed of a training run on a number of accelerators."""

    accelerators: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class TrainingObservation:
    """Observations of a training run. Parts of a step are in seconds; the rest of the step is unknown."""

    step_time_s: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    compute_s: float | None = None
    communication_s: float | None = None  # communication not overlapped with computation
    input_s: float | None = None  # waiting for data
    synchronisation_s: float | None = None  # waiting for other ranks
    outside_kernels_s: float | None = None  # time in which no kernel runs
    optimizer_s: float | None = None
    bubble_s: float | None = None  # empty pipeline stages
    slowest_rank_s: float | None = None  # step time of the slowest rank, without waiting for others
    median_rank_s: float | None = None
    memory_peak_bytes: float | None = None  # peak use of the fullest accelerator
    allocator_retries_per_step: float | None = None
    checkpoint_s: float | None = None  # time for which a checkpoint stops the run
    checkpoint_interval_s: float | None = None  # time between two checkpoints
    restarts_per_day: float | None = None
    warmup_s: float | None = None  # time at each start until steps reach full speed
    evaluation_share: float | None = None  # share of the time spent on evaluation
    scales: tuple[ScalePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class DevicesObservation:
    """Observations of the accelerators: means, except for counts."""

    utilization: float | None = None  # share of the time in which kernels run
    clock_share: float | None = None  # clock over the rated clock
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    memory_used_bytes: float | None = None  # use of the fullest accelerator
    link_width_share: float | None = None  # PCIe lanes in use over those of the slot
    errors_per_day: float | None = None  # Xid errors and uncorrectable ECC errors
    slowest_clock_share: float | None = None  # clock of the slowest accelerator over the mean clock


@dataclass(frozen=True, slots=True)
class Observations:
    """All observations of a running deployment."""

    service: ServiceObservation = ServiceObservation()
    training: TrainingObservation = TrainingObservation()
    devices: DevicesObservation = DevicesObservation()
