"""Performance of two pools at every load, the balance between them, and finite work in two pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from app.sizing.answer.streams import arrival_process
from app.sizing.answer.volume import VolumeOutcome, with_volume_outcome
from app.sizing.columns import ROUNDING, SECONDS_PER_DAY, TINY, Column, one
from app.sizing.decisions.cost import run_s, usd_total
from app.sizing.formula import formula
from app.sizing.question import Question
from app.sizing.result import Estimate, Interval, LoadCurve, LoadPoint, Percentiles, Performance, Simulation, Transfer
from app.sizing.workload import InferenceWorkload, Load

HALVINGS = 40


def balance_pools(
    workload: InferenceWorkload, prefill: Estimate, decode: Estimate, transfer_s: float
) -> tuple[InferenceWorkload, InferenceWorkload, float]:
    """Workloads of the prefill and the decode pool with their requests in flight, and the joint throughput in
    requests/s.
    """
    assert prefill.performance is not None and decode.performance is not None
    reading, writing = throughput_curve(prefill.performance), throughput_curve(decode.performance)
    in_flight_by_pool = split_in_flight(workload.in_flight, reading, writing, transfer_s)
    first, second = (replace(workload, in_flight=count, most_personal_in_flight=0.0) for count in in_flight_by_pool)
    return first, second, float(np.interp(in_flight_by_pool[1], *writing))


def throughput_curve(performance: Performance) -> tuple[Column, Column]:
    """Requests in flight in a pool and its throughput in requests/s at each, starting at zero."""
    assert performance.load_curve is not None
    points = performance.load_curve.points
    loads = [point.in_flight or 0.0 for point in points]
    return np.array([0.0, *loads]), np.array([0.0, *(point.requests_per_s for point in points)])


def split_in_flight(
    in_flight: float, reading: tuple[Column, Column], writing: tuple[Column, Column], transfer_s: float
) -> tuple[float, float]:
    """Requests in flight in the prefill pool and in the decode pool, found by bisection.

    Check: the prefill pool completes 1 request/s per request in flight, the decode pool a third of that; no
    transfer.
        >>> [round(held, 3) for held in split_in_flight(8, (col(0, 9), col(0, 9)), (col(0, 9), col(0, 3)), 0.0)]
        [2.0, 6.0]
    """
    low, high = 0.0, in_flight
    for _ in range(HALVINGS):
        decode_load = (low + high) / 2
        written = float(np.interp(decode_load, *writing))
        prefill_load = max(in_flight - decode_load - written * transfer_s, 0.0)
        low, high = (decode_load, high) if float(np.interp(prefill_load, *reading)) > written else (low, decode_load)
    return in_flight - low - float(np.interp(low, *writing)) * transfer_s, low


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
    percentiles = [float(waits[order][np.searchsorted(reached, q - ROUNDING)]) for q in (0.5, 0.95, 0.99)]
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
    return (p.surely_days - start) / max(p.days - start, TINY)


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
