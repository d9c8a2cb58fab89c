"""Combined performance of two pools at every load, from the simulation of each pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from app.sizing.answer.simulated import arrival_process
from app.sizing.columns import Column
from app.sizing.pools.balance import split_in_flight, throughput_curve
from app.sizing.result import Performance
from app.sizing.values.latencies import LoadCurve, LoadPoint, Percentiles, Simulation
from app.sizing.values.pools import Transfer
from app.sizing.workload import InferenceWorkload, Load

MIN_WAIT_S = 1e-9  # minimum wait, so that its logarithm exists


def add_waits(*waits: Percentiles | None) -> Percentiles | None:
    """Sum of consecutive waits; percentiles are added, as if the waits were fully correlated."""
    names = ("mean_s", "p50_s", "p95_s", "p99_s")
    if any(wait is None for wait in waits):
        return None
    found = [[getattr(wait, name) for wait in waits] for name in names]
    return Percentiles(*(None if None in values else float(sum(values)) for values in found))


def combined_simulation(
    workload: InferenceWorkload, reads: Simulation | None, writes: Simulation | None, requests_per_s: float
) -> Simulation | None:
    """Combined simulation: queue waits and preemptions of both pools, other values from the decode pool.

    A request meets its limits if it does so in both pools; the two events are treated as independent.
    """
    if reads is None or writes is None:
        return None
    share, queue = reads.goodput_share * writes.goodput_share, add_waits(reads.queue, writes.queue)
    assert queue is not None
    return Simulation(
        requests=min(reads.requests, writes.requests),
        seed=writes.seed,
        arrivals=arrival_process(workload),
        policy=writes.policy,
        inter_token=writes.inter_token,
        queue=queue,
        mean_batch=writes.mean_batch,
        cache_occupancy=writes.cache_occupancy,
        preemptions_per_request=reads.preemptions_per_request + writes.preemptions_per_request,
        goodput_per_s=share * requests_per_s,
        goodput_share=share,
    )


@dataclass(frozen=True, slots=True)
class SharedLoad:
    """A load of both pools together and the part of each, in requests/s or in flight."""

    load: float  # load of both pools, in requests/s or in flight
    reading: float  # load of the prefill pool
    writing: float  # load of the decode pool
    answered_per_s: float  # completed requests per second


def combined_load_curve(
    workload: InferenceWorkload, reads: Performance, writes: Performance, transfer: Transfer
) -> LoadCurve | None:
    """Load curve of both pools, from light load up to the capacity of the first bottleneck; None for finite runs."""
    if reads.load_curve is None or writes.load_curve is None:
        return None
    shared = shared_rates(reads, writes, transfer)
    if workload.load is Load.CLOSED:
        shared = shared_concurrencies(workload, reads, writes, transfer)
    pools = reads.load_curve.points, writes.load_curve.points
    points = tuple(combined_point(workload, pools, at_load, transfer.seconds) for at_load in shared)
    return LoadCurve(points, knee_per_s(points)) if points else None


def shared_rates(reads: Performance, writes: Performance, transfer: Transfer) -> Iterator[SharedLoad]:
    """Simulated request rates of the pool with the lower stability limit, up to the capacity of the transfer."""
    most, least = min(((p.unstable_above_requests_per_s or np.inf, p) for p in (reads, writes)), key=itemgetter(0))
    assert least.load_curve is not None
    for point in least.load_curve.points:
        rate = point.requests_per_s
        if rate <= transfer.requests_per_s_capacity:
            yield SharedLoad(rate, rate, rate, min(rate, most))


def shared_concurrencies(
    workload: InferenceWorkload, reads: Performance, writes: Performance, transfer: Transfer
) -> Iterator[SharedLoad]:
    """Powers of two and the requested number of requests in flight, within the simulated range of each pool."""
    reading, writing = throughput_curve(reads), throughput_curve(writes)
    most = reading[0][-1] + writing[0][-1]
    powers = 2.0 ** np.arange(int(np.log2(most)) + 1)
    for count in sorted({*powers.tolist(), workload.in_flight}):
        first, second = split_in_flight(count, reading, writing, transfer.seconds)
        if first <= reading[0][-1] and second <= writing[0][-1]:
            yield SharedLoad(count, first, second, float(np.interp(second, *writing)))


def combined_point(
    workload: InferenceWorkload,
    pools: tuple[Sequence[LoadPoint], Sequence[LoadPoint]],
    shared: SharedLoad,
    transfer_s: float,
) -> LoadPoint:
    """Load point of both pools at a shared load."""
    reads, writes = pools
    closed = workload.load is Load.CLOSED

    def first_s(statistic: str) -> float:
        waits = (
            interpolated_wait_s(reads, shared.reading, f"ttft_{statistic}_s"),
            interpolated_wait_s(writes, shared.writing, f"queue_{statistic}_s"),
        )
        return sum(waits) + transfer_s

    return LoadPoint(
        requests_per_s=shared.answered_per_s if closed else shared.load,
        in_flight=shared.load if closed else None,
        ttft_p50_s=first_s("p50"),
        ttft_p95_s=first_s("p95"),
        tpot_p50_s=interpolated_wait_s(writes, shared.writing, "tpot_p50_s"),
        tpot_p95_s=interpolated_wait_s(writes, shared.writing, "tpot_p95_s"),
        output_tokens_per_s=shared.answered_per_s * workload.output_tokens.mean,
        goodput_share=goodput_at(reads, shared.reading) * goodput_at(writes, shared.writing),
    )


def curve_loads(points: Sequence[LoadPoint]) -> Column:
    """Loads of a curve: requests per second, or requests in flight."""
    return np.array([point.requests_per_s if point.in_flight is None else point.in_flight for point in points])


def goodput_at(points: Sequence[LoadPoint], load: float) -> float:
    """Share of requests within a pool's part of the limits, interpolated linearly."""
    return float(np.interp(load, curve_loads(points), [point.goodput_share for point in points]))


def interpolated_wait_s(points: Sequence[LoadPoint], load: float, name: str) -> float:
    """Wait at a load in seconds, interpolated in logarithms as within each pool."""
    values = np.maximum([getattr(point, name) for point in points], MIN_WAIT_S)
    return float(np.exp(np.interp(np.log(max(load, MIN_WAIT_S)), np.log(curve_loads(points)), np.log(values))))


def knee_per_s(points: Sequence[LoadPoint]) -> float:
    """Requests per second above which the p95 of TTFT grows faster than throughput."""
    slow = np.diff(np.log([point.ttft_p95_s for point in points]))
    more = np.diff(np.log([point.output_tokens_per_s for point in points]))
    growing = np.flatnonzero(slow > more)
    return points[int(growing[0]) if len(growing) else -1].requests_per_s
