"""Work in two pools that ends: a run from a standing start, a batch that starts together, a volume in a queue."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.volume import Ending, with_ending
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

DRAWN = 1000  # waits of either kind, evenly of their distribution, that percentiles of both are read from


@formula(unit="s", source="the first wave, then the rest as fast as both pools answer")
def waves_s(read_s: Column, handed_s: Column, written_s: Column, later_requests: Column, rate_per_s: Column) -> Column:
    """Seconds of a run that ends: all that start at once are read, the last of them is handed over and written, and
    every other request begins when one is done.

    Source: counted.
    Limits: a pool that writes at the pace of a long run.
    Check: 8 at once are read in 2 s and written in 10; 16 more at one in 2 s.
        >>> one(waves_s(col(2), col(0.1), col(10), col(16), col(0.5)))
        44.1
    """
    return read_s + handed_s + written_s + later_requests / rate_per_s


@dataclass(frozen=True, slots=True)
class Run:
    """A run that ends: how long all of it takes, and which part of it came at once and waited for one another."""

    seconds: float
    first_share: float
    first: Percentiles  # waits of these for their first token, in the pool that reads


def alone(value: float) -> Column:
    """A column of one row."""
    return np.array([value])


def rate_of(workload: InferenceWorkload, reads: Performance, writes: Performance, transfer: Transfer) -> float | None:
    """Requests per second of work that nothing paces: what the slowest of the three does of a queue; of a batch that
    starts together as many as it is, in the time of all of it. None of other work.
    """
    if workload.load is Load.OFFLINE:
        rates = (p.requests_per_s_capacity or 0.0 for p in (reads, writes))
        return min(*rates, transfer.requests_per_s_capacity)
    if workload.load is Load.BATCH and reads.ttft and writes.e2e and writes.ttft:
        read, whole, first = (waits.mean_s or 0.0 for waits in (reads.ttft, writes.e2e, writes.ttft))
        return workload.in_flight / (read + transfer.seconds + whole - first)
    return None


def first_wave(workload: InferenceWorkload) -> InferenceWorkload:
    """What starts at once, as a run of its own."""
    count = min(workload.in_flight, workload.requests or workload.in_flight)
    return replace(workload, in_flight=count, requests=count)


def run_of(
    workload: InferenceWorkload, burst: Performance, writes: Performance, transfer_s: float, rate_per_s: float
) -> Run:
    """The whole run: `burst` is the first wave as it is read, `rate_per_s` what both answer in a long run."""
    assert workload.requests is not None and burst.days is not None and burst.ttft is not None
    assert writes.e2e is not None and writes.ttft is not None and writes.simulation is not None
    count = first_wave(workload).in_flight
    waits = writes.e2e.mean_s, writes.ttft.mean_s, writes.simulation.queue.mean_s
    whole, first, queue = (wait or 0.0 for wait in waits)
    read = alone(burst.days * SECONDS_PER_DAY)
    lasts = one(
        waves_s(
            read, alone(transfer_s), alone(queue + whole - first), alone(workload.requests - count), alone(rate_per_s)
        )
    )
    return Run(lasts, count / workload.requests, burst.ttft)


def with_first_wave(found: Estimate, run: Run) -> Estimate:
    """The pool that reads with the waits of those that came at once among the others."""
    p = found.performance
    assert p is not None and p.ttft is not None
    ttft = mixed(run.first, p.ttft, run.first_share)

    def moved(interval: Interval) -> Interval:
        before, after = (getattr(waits, f"{interval.statistic}_s") for waits in (p.ttft, ttft))
        if interval.quantity != "ttft_s" or not before:
            return interval
        return replace(interval, low=interval.low * after / before, high=interval.high * after / before)

    return replace(found, performance=replace(p, ttft=ttft, intervals=tuple(map(moved, p.intervals)), load_curve=None))


def mixed(first: Percentiles, later: Percentiles, share: float) -> Percentiles:
    """Waits of which a share is of the first kind."""
    places = (np.arange(DRAWN) + 0.5) / DRAWN
    waits = np.concatenate([np.interp(places, *distribution(p)) for p in (first, later)])
    weights = np.repeat([share, 1 - share], DRAWN)
    order = np.argsort(waits, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    told = [float(waits[order][np.searchsorted(reached, q - 1e-9)]) for q in (0.5, 0.95, 0.99)]
    return Percentiles(share * (first.mean_s or 0.0) + (1 - share) * (later.mean_s or 0.0), *told)


def distribution(waits: Percentiles) -> tuple[Column, Column]:
    """What is known of a distribution: shares, and waits that so many do not exceed; straight between them, and below
    the median as steep as above it.
    """
    p50, p95, p99 = (wait or 0.0 for wait in (waits.p50_s, waits.p95_s, waits.p99_s))
    shares, reached = (0.0, 0.5, 0.95, 0.99, 1.0), (max(2 * p50 - p95, 0.0), p50, p95, p99, p99)
    return np.array(shares), np.array(reached)


def duration_s(workload: InferenceWorkload, capacity_per_s: float, batch: float, start_s: float) -> float:
    """Seconds of a volume from the start of both pools."""
    return one(run_s(workload.volume_requests or 0.0, alone(1), alone(capacity_per_s), alone(batch), alone(start_s)))


def with_volume(
    question: Question, workload: InferenceWorkload, found: Estimate, pools: tuple[Estimate, Estimate]
) -> Estimate:
    """An estimate of both with the time and money of all the work; as sure as the pool that may be slower."""
    p = found.performance
    if workload.volume_requests is None or p is None or p.days is None:
        return found
    start_s, lasts_s = p.cold_start_s or 0.0, p.days * SECONDS_PER_DAY
    slower = max(slower_of(pool.performance) for pool in pools)
    hourly = np.nan if found.cost is None or found.cost.usd_per_hour is None else found.cost.usd_per_hour
    ending = Ending(
        expected_s=alone(lasts_s),
        surely_s=alone(start_s + (lasts_s - start_s) * slower),
        start_s=alone(start_s),
        usd=usd_total(alone(hourly), alone(lasts_s)),
    )
    return with_ending(question, workload, found, ending, 0)


def slower_of(p: Performance | None) -> float:
    """How many times as long as expected a pool takes with the confidence asked, its start apart."""
    if p is None or p.days is None or p.surely_days is None:
        return 1.0
    start = (p.cold_start_s or 0.0) / SECONDS_PER_DAY
    return (p.surely_days - start) / max(p.days - start, 1e-12)
