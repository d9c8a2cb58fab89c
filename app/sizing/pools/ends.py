"""Finite work in two pools: a closed-loop run with a fixed number of requests, a batch, or a volume of offline
requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.volume import VolumeOutcome, with_volume_outcome
from app.sizing.columns import Column, one
from app.sizing.decisions.cost import usd_total
from app.sizing.decisions.volume import run_s
from app.sizing.formula import formula
from app.sizing.question import Question
from app.sizing.result import Estimate, Interval, Performance
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.values.latencies import Percentiles
from app.sizing.values.pools import Transfer
from app.sizing.workload import InferenceWorkload, Load

QUANTILE_COUNT = 1000  # quantiles of each wait distribution, evenly spaced, from which the mixture is computed


@formula(unit="s", source="definition: first wave, then later requests at the joint throughput")
def batch_waves_s(
    read_s: Column, transfer_s: Column, written_s: Column, later_requests: Column, rate_per_s: Column
) -> Column:
    """Duration of a finite run: prefill, transfer and decode of the first wave, then all later requests.

    The first wave is prefilled completely. Its last request is then transferred and decoded. Every later request
    starts when another one completes.

    Parameters:
        read_s: time to prefill all requests of the first wave, in seconds.
        transfer_s: transfer time of one KV cache, in seconds.
        written_s: decode time of one request, including the wait for admission, in seconds.
        later_requests: requests after the first wave.
        rate_per_s: steady throughput of both pools, in requests/s.
    Limits: the decode pool runs at its steady-state speed.
    Check: 8 concurrent requests take 2 s of prefill and 10 s of decode; 16 more follow at 0.5 requests/s.
        >>> one(batch_waves_s(col(2), col(0.1), col(10), col(16), col(0.5)))
        44.1
    """
    return read_s + transfer_s + written_s + later_requests / rate_per_s


@dataclass(frozen=True, slots=True)
class FiniteRun:
    """Finite run: its duration, and its first wave of requests that start together."""

    seconds: float  # duration of the whole run
    first_share: float  # share of requests in the first wave
    first: Percentiles  # TTFT of the first wave in the prefill pool


def single_row(value: float) -> Column:
    """A column with one row."""
    return np.array([value])


def finite_rate_per_s(
    workload: InferenceWorkload, reads: Performance, writes: Performance, transfer: Transfer
) -> float | None:
    """Throughput of offline and batch work, in requests/s; None for other work.

    Offline work runs at the rate of the slowest of prefill, transfer and decode. A batch completes all its requests
    in the sum of their times.
    """
    if workload.load is Load.OFFLINE:
        rates = (p.requests_per_s_capacity or 0.0 for p in (reads, writes))
        return min(*rates, transfer.requests_per_s_capacity)
    if workload.load is Load.BATCH and reads.ttft and writes.e2e and writes.ttft:
        read, whole, first = (waits.mean_s or 0.0 for waits in (reads.ttft, writes.e2e, writes.ttft))
        return workload.in_flight / (read + transfer.seconds + whole - first)
    return None


def first_wave(workload: InferenceWorkload) -> InferenceWorkload:
    """The requests that start together, as a finite run of their own."""
    count = min(workload.in_flight, workload.requests or workload.in_flight)
    return replace(workload, in_flight=count, requests=count)


def finite_run(
    workload: InferenceWorkload, burst: Performance, writes: Performance, transfer_s: float, rate_per_s: float
) -> FiniteRun:
    """Duration and first wave of a finite run.

    `burst` is the prefill performance for the first wave; `rate_per_s` is the steady throughput of both pools.
    """
    assert workload.requests is not None and burst.days is not None and burst.ttft is not None
    assert writes.e2e is not None and writes.ttft is not None and writes.simulation is not None
    count = first_wave(workload).in_flight
    waits = writes.e2e.mean_s, writes.ttft.mean_s, writes.simulation.queue.mean_s
    whole, first, queue = (wait or 0.0 for wait in waits)
    read = single_row(burst.days * SECONDS_PER_DAY)
    lasts = one(
        batch_waves_s(
            read,
            single_row(transfer_s),
            single_row(queue + whole - first),
            single_row(workload.requests - count),
            single_row(rate_per_s),
        )
    )
    return FiniteRun(lasts, count / workload.requests, burst.ttft)


def with_first_wave(estimate: Estimate, run: FiniteRun) -> Estimate:
    """Prefill estimate whose TTFT also includes the first wave."""
    p = estimate.performance
    assert p is not None and p.ttft is not None
    ttft = mix_waits(run.first, p.ttft, run.first_share)

    def rescale_interval(interval: Interval) -> Interval:
        before, after = (getattr(waits, f"{interval.statistic}_s") for waits in (p.ttft, ttft))
        if interval.quantity != "ttft_s" or not before:
            return interval
        return replace(interval, low=interval.low * after / before, high=interval.high * after / before)

    return replace(
        estimate,
        performance=replace(p, ttft=ttft, intervals=tuple(map(rescale_interval, p.intervals)), load_curve=None),
    )


def mix_waits(first: Percentiles, later: Percentiles, share: float) -> Percentiles:
    """Percentiles of a mixture of two wait distributions; `share` is the weight of the first."""
    places = (np.arange(QUANTILE_COUNT) + 0.5) / QUANTILE_COUNT
    waits = np.concatenate([np.interp(places, *wait_distribution(p)) for p in (first, later)])
    weights = np.repeat([share, 1 - share], QUANTILE_COUNT)
    order = np.argsort(waits, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    percentiles = [float(waits[order][np.searchsorted(reached, q - 1e-9)]) for q in (0.5, 0.95, 0.99)]
    return Percentiles(share * (first.mean_s or 0.0) + (1 - share) * (later.mean_s or 0.0), *percentiles)


def wait_distribution(waits: Percentiles) -> tuple[Column, Column]:
    """Cumulative shares and waits of a distribution, for linear interpolation.

    The distance from the minimum to the median equals that from the median to p95.
    """
    p50, p95, p99 = (wait or 0.0 for wait in (waits.p50_s, waits.p95_s, waits.p99_s))
    shares, reached = (0.0, 0.5, 0.95, 0.99, 1.0), (max(2 * p50 - p95, 0.0), p50, p95, p99, p99)
    return np.array(shares), np.array(reached)


def duration_s(workload: InferenceWorkload, capacity_per_s: float, batch: float, start_s: float) -> float:
    """Seconds to finish a volume of requests, including the cold start of both pools."""
    return one(
        run_s(
            workload.volume_requests or 0.0,
            single_row(1),
            single_row(capacity_per_s),
            single_row(batch),
            single_row(start_s),
        )
    )


def with_volume(
    question: Question, workload: InferenceWorkload, found: Estimate, pools: tuple[Estimate, Estimate]
) -> Estimate:
    """Combined estimate with time and cost of the whole volume; its confidence follows the less certain pool."""
    p = found.performance
    if workload.volume_requests is None or p is None or p.days is None:
        return found
    start_s, lasts_s = p.cold_start_s or 0.0, p.days * SECONDS_PER_DAY
    slower = max(slowdown_at_confidence(pool.performance) for pool in pools)
    hourly = np.nan if found.cost is None or found.cost.usd_per_hour is None else found.cost.usd_per_hour
    ending = VolumeOutcome(
        expected_s=single_row(lasts_s),
        confident_s=single_row(start_s + (lasts_s - start_s) * slower),
        startup_s=single_row(start_s),
        usd=usd_total(single_row(hourly), single_row(lasts_s)),
    )
    return with_volume_outcome(question, workload, found, ending, 0)


def slowdown_at_confidence(p: Performance | None) -> float:
    """Ratio of run time at the requested confidence to expected run time, without the cold start."""
    if p is None or p.days is None or p.surely_days is None:
        return 1.0
    start = (p.cold_start_s or 0.0) / SECONDS_PER_DAY
    return (p.surely_days - start) / max(p.days - start, 1e-12)
