"""How long users wait at a load, and what a replica does at loads from light to too much: plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds; None where the queue never empties."""

    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class ClassWaits:
    """What one of several classes waits for where they share a service."""

    name: str
    ttft: Percentiles
    tpot: Percentiles
    e2e: Percentiles
    limits_met: bool
    within_per_s: float  # of all classes together, what one replica carries within this one's limits


@dataclass(frozen=True, slots=True)
class Simulation:
    """What one replica's scheduler did at the load, whole deployment where it is a rate."""

    requests: int  # that were simulated at each load
    seed: int
    arrivals: str
    policy: str
    inter_token: Percentiles
    queue: Percentiles  # from arrival until a prompt is begun
    mean_batch: float  # of a replica
    cache_occupancy: float
    preemptions_per_request: float
    goodput_per_s: float  # requests answered within the limits
    goodput_share: float


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """What a deployment does at a load: a rate of requests, or so many in flight."""

    requests_per_s: float
    in_flight: float | None  # of work that keeps a number in flight
    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    output_tokens_per_s: float
    goodput_share: float
    queue_p50_s: float = 0.0  # until its prompt is begun, of a first token's wait
    queue_p95_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """From light load to collapse. The knee is the load from which p95 grows faster than throughput."""

    points: tuple[LoadPoint, ...]
    knee_per_s: float
