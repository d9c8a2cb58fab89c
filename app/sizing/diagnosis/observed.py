"""What was observed of a service, of a run, of its accelerators: None is not known. Seconds, bytes, shares of 1."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadSeen:
    """Waits that were seen at a load of the whole deployment."""

    requests_per_s: float
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class ServiceObserved:
    """Of the whole deployment, but for `running` and `waiting`, which are of one replica."""

    requests_per_s: float | None = None
    peak_requests_per_s: float | None = None  # in the busiest ten seconds
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
    running: float | None = None
    waiting: float | None = None
    cache_usage: float | None = None
    preemptions_per_request: float | None = None
    prefix_hit_share: float | None = None
    acceptance_rate: float | None = None
    error_share: float | None = None
    busiest_replica_share: float | None = None  # its load over the mean
    cold_start_s: float | None = None
    restarts_per_day: float | None = None
    by_load: tuple[LoadSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """What a run does on so many accelerators."""

    accelerators: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class TrainingObserved:
    """Parts are seconds of a step; what they leave of it is not known."""

    step_time_s: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    compute_s: float | None = None
    communication_s: float | None = None  # that nothing hides
    input_s: float | None = None
    synchronisation_s: float | None = None
    outside_kernels_s: float | None = None
    optimizer_s: float | None = None
    bubble_s: float | None = None
    slowest_rank_s: float | None = None  # a step of the slowest rank alone
    median_rank_s: float | None = None
    memory_peak_bytes: float | None = None  # of the fullest accelerator
    allocator_retries_per_step: float | None = None
    checkpoint_s: float | None = None  # for which the run stands still
    checkpoint_interval_s: float | None = None
    restarts_per_day: float | None = None
    warmup_s: float | None = None  # at each start, until steps have their pace
    evaluation_share: float | None = None
    scales: tuple[ScalePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class DevicesObserved:
    """Of the accelerators, on the mean but for what is counted."""

    utilization: float | None = None
    clock_share: float | None = None  # of the clock that they are sold with
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    memory_used_bytes: float | None = None  # of the fullest
    link_width_share: float | None = None  # lanes of the slot in use, of those there are
    errors_per_day: float | None = None  # Xid, uncorrected ECC
    slowest_clock_share: float | None = None  # of the mean clock, the slowest one's


@dataclass(frozen=True, slots=True)
class Observed:
    """All that is told of what runs."""

    service: ServiceObserved = ServiceObserved()
    training: TrainingObserved = TrainingObserved()
    devices: DevicesObserved = DevicesObserved()
