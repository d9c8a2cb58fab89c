"""Latencies at a load, and the performance of a replica from light load to overload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Mean and percentiles in seconds; None if the queue never empties."""

    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class ClassLatencies:
    """Latencies of one traffic class on a shared service."""

    name: str
    ttft: Percentiles
    tpot: Percentiles
    e2e: Percentiles
    limits_met: bool
    within_per_s: float  # total rate of all classes that one replica serves within the limits of this class


@dataclass(frozen=True, slots=True)
class Simulation:
    """Results of simulating one replica's scheduler at the load; rates are for the whole deployment."""

    requests: int  # requests simulated at each load
    seed: int
    arrivals: str
    policy: str
    inter_token: Percentiles
    queue: Percentiles  # time from arrival to the start of prefill
    mean_batch: float  # mean batch size of a replica
    cache_occupancy: float  # share of the KV cache in use
    preemptions_per_request: float
    goodput_per_s: float  # rate of requests answered within the limits
    goodput_share: float  # share of requests answered within the limits


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Performance of a deployment at one load: a request rate or a number of requests in flight."""

    requests_per_s: float
    in_flight: float | None  # requests in flight of closed load; None for open load
    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    output_tokens_per_s: float
    goodput_share: float
    queue_p50_s: float = 0.0  # part of the TTFT before prefill starts
    queue_p95_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Performance from light load to overload. Above the knee, p95 latency grows faster than throughput."""

    points: tuple[LoadPoint, ...]
    knee_per_s: float  # load at the knee, requests/s
