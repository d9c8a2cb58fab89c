"""A replica under load: batch, capacity within the SLO, and latencies at an operating point.

Continuous batching in the mean: while a sequence gains its o tokens, each of the B - 1 others is
replaced once and its prompt computed. A share q of those prompts arrives together with the sequence's
own, which waits behind them; the others come in between its tokens:

    ttft(B) = request + own prompt + q (B - 1) * prefill       tpot(B) = step(B) + (1 - q) (B - 1) / (o - 1) * prefill

Both add up to one turn, so what a client sees moves between TTFT and TPOT while throughput does not:
rate(B) = B / (B * prefill + (o - 1) * step(B)).

TTFT counts from sending a request to its first token, queueing included; TPOT is the mean time of a token
after the first. For a request rate, occupancy fluctuates about its mean like a Poisson count, which gives
the percentiles of TPOT; prompts queue as in M/G/1 with an exponential tail, which gives those of TTFT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import PrefillTerms, prefill_s
from app.sizing.serving.step import StepTerms, decode_step_s
from app.sizing.workload import InferenceWorkload, Load, z_score

# Halvings that find a batch to within one of 8192 sequences, and a rate to within 10^-5.
BATCH_BISECTIONS = 13
RATE_BISECTIONS = 18
QUANTILES = (50.0, 95.0, 99.0)


@dataclass(frozen=True, slots=True)
class Speed(Columns):
    """How one replica serves a workload."""

    step: StepTerms
    prefill: PrefillTerms  # at the mean prompt
    tail_prefill: PrefillTerms  # at the prompt of the SLO's percentile
    occupancy_s: Column  # replica time one mean prompt takes from decoding
    max_batch: Column  # sequences that fit
    slo_batch: Column  # largest batch that meets the TPOT limit
    fastest_tpot_s: Column
    fastest_ttft_s: Column
    tpot_limit_s: Column
    ttft_limit_s: Column
    capacity_per_s: Column  # requests per second within the SLO
    saturation_per_s: Column  # requests per second at which the queue grows without bound


def later_tokens(output_tokens: Column | float) -> Column:
    """Tokens of a request after its first, each of which takes a decode step."""
    return np.maximum(np.asarray(output_tokens, dtype=np.float64) - 1.0, 1.0)


def mixed_tpot_s(step: StepTerms, interleaved_s: Column, output_tokens: Column | float, batch: Column) -> Column:
    """Seconds per output token; each of the other sequences takes `interleaved_s` for its successor's prompt."""
    return decode_step_s(step, batch) + np.maximum(batch - 1, 0.0) / later_tokens(output_tokens) * interleaved_s


def rate_per_s(
    step: StepTerms, occupancy_s: Column, output_tokens: Column | float, batch: Column, *, idle_s: Column | float = 0.0
) -> Column:
    """Requests per second of a replica that keeps `batch` sequences running (Little's law); a slot stays empty for
    `idle_s` a turn.
    """
    return batch / (
        idle_s + np.maximum(batch, 1.0) * occupancy_s + later_tokens(output_tokens) * decode_step_s(step, batch)
    )


def queued_s(prefill: PrefillTerms, occupancy_s: Column, batch: Column, percentile: float) -> Column:
    """Percentile of the wait behind prompts of a closed loop: uniform with the fitted mean, at most all the others'
    prompts.
    """
    return np.minimum(2 * percentile / 100 * prefill.queued_share, 1.0) * np.maximum(batch - 1, 0.0) * occupancy_s


def mean_batch_for(batch: Column, z: float) -> Column:
    """Mean occupancy whose z-quantile is `batch`: B + z sqrt(B) = batch, solved for B.

    Check: 100 at z = 1.645 is 84.9.
    """
    if z <= 0:
        return batch
    return ((np.sqrt(z * z + 4 * batch) - z) / 2) ** 2


def queue_quantile_s(rate: Column, service_s: Column, percentile: float, variation: float) -> Column:
    """Percentile of the wait for the replica's prefill slot, M/G/1 with an exponential tail.

    `variation` is (ca^2 + cs^2) / 2. Infinite at or beyond saturation.
    Source: Kingman 1961 for the mean; the tail is exact for M/M/1.
    """
    load = rate * service_s
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = load / (1 - load) * service_s * variation
        tail = np.log(np.maximum(load / (1 - percentile / 100), 1.0))
        wait = np.where(load > 0, mean / np.maximum(load, 1e-12) * tail, 0.0)
    return np.where(load >= 1, np.inf, wait)


def alone_s(prefill: PrefillTerms, chunk_tokens: Column) -> Column:
    """TTFT on an idle replica: ingest and the prompt's own steps."""
    return prefill.request_s + prefill_s(prefill, chunk_tokens, np.ones_like(prefill.new_tokens))


def beside_s(prefill: PrefillTerms, chunk_tokens: Column, step_s: Column, batch: Column) -> Column:
    """What a running batch adds to TTFT: each chunk of the prompt is computed beside a step of the others."""
    return np.ceil(prefill.new_tokens / chunk_tokens) * step_s * (1 - 1 / np.maximum(batch, 1.0))


def first_token_s(prefill: PrefillTerms, chunk_tokens: Column, step_s: Column, batch: Column) -> Column:
    """TTFT without a queue."""
    return alone_s(prefill, chunk_tokens) + beside_s(prefill, chunk_tokens, step_s, batch)


def turn_gap_s(prefill: PrefillTerms, chunk_tokens: Column, occupancy_s: Column) -> Column:
    """What a turn of a closed loop takes beyond the replica's work: ingest, and a lone prompt's unshared steps."""
    return alone_s(prefill, chunk_tokens) - occupancy_s


def variation_of(workload: InferenceWorkload) -> float:
    return (workload.burstiness**2 + workload.input_tokens.squared_variation) / 2


def largest(low: Column, high: Column, meets: Callable[[Column], Mask], *, halvings: int = RATE_BISECTIONS) -> Column:
    """Largest value between `low` and `high` for which the monotone test holds, by bisection."""
    a, b = low.copy(), high.copy()
    ok = meets(b)
    if ok.all():
        return b
    a = np.where(ok, b, a)
    for _ in range(halvings):
        middle = (a + b) / 2
        good = meets(middle)
        a = np.where(good, middle, a)
        b = np.where(good, b, middle)
    return a


def serving_speed(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    step: StepTerms,
    prefill: PrefillTerms,
    tail: PrefillTerms,
) -> Speed:
    """Capacity of every plan within the workload's SLO."""
    slo, out, chunk = workload.slo, workload.output_tokens.mean, memory.max_batched_tokens
    cap = memory.sequences
    one = np.ones(len(plans))
    occupancy = prefill_s(prefill, chunk, np.full(len(plans), np.inf)) / np.maximum(1.0, plans.pipeline_parallel)
    z = max(0.0, z_score(slo.percentile))
    closed = workload.load is Load.CLOSED
    interleaved = occupancy * (1 - prefill.queued_share) if closed else occupancy
    fastest = mixed_tpot_s(step, interleaved, out, one)
    alone = quickest = alone_s(tail, chunk)
    tpot_limit = np.full(len(plans), np.inf if slo.tpot_s is None else slo.tpot_s)
    ttft_limit = np.full(len(plans), np.inf if slo.ttft_s is None else slo.ttft_s)
    if slo.e2e_s is not None:
        tokens = max(1.0, workload.output_tokens.quantile(slo.percentile))
        tpot_limit = np.minimum(tpot_limit, np.maximum(slo.e2e_s - quickest, 1e-9) / tokens)
        ttft_limit = np.minimum(ttft_limit, slo.e2e_s)

    variation = variation_of(workload)

    def within(b: Column) -> Mask:
        step_s = decode_step_s(step, b)
        first = alone + beside_s(tail, chunk, step_s, b)
        if closed:
            first = first + queued_s(prefill, occupancy, b, slo.percentile)
        tpot = step_s + np.maximum(b - 1, 0.0) / later_tokens(out) * interleaved
        return (tpot <= tpot_limit) & (first <= ttft_limit)

    peak = np.maximum(1.0, np.floor(largest(one, cap, within, halvings=BATCH_BISECTIONS) + 1e-6))
    open_loop = workload.load is Load.OPEN
    mean = np.maximum(np.minimum(1.0, peak), mean_batch_for(peak, z)) if open_loop else peak
    capacity = rate_per_s(step, occupancy, out, mean)
    saturation = rate_per_s(step, occupancy, out, cap)
    if open_loop:
        base = alone + beside_s(tail, chunk, decode_step_s(step, peak), peak)

        def meets(rate: Column) -> Mask:
            return base + queue_quantile_s(rate, occupancy, slo.percentile, variation) <= ttft_limit

        capacity = largest(np.zeros(len(plans)), np.minimum(capacity, 0.98 / occupancy), meets)
    return Speed(
        step=step,
        prefill=prefill,
        tail_prefill=tail,
        occupancy_s=occupancy,
        max_batch=cap,
        slo_batch=peak,
        fastest_tpot_s=fastest,
        fastest_ttft_s=quickest,
        tpot_limit_s=tpot_limit,
        ttft_limit_s=ttft_limit,
        capacity_per_s=capacity,
        saturation_per_s=saturation,
    )


@dataclass(frozen=True, slots=True)
class Flow(Columns):
    """The steady state of one replica, means."""

    batch: Column
    tpot_s: Column
    ttft_s: Column
    rate_per_s: Column


def steady_flow(
    load: Load,
    step: StepTerms,
    prefill: PrefillTerms,
    occupancy_s: Column,
    *,
    chunk_tokens: Column,
    output_tokens: Column | float,
    wanted: Column,
    most: Column,
) -> Flow:
    """What a replica does with `wanted` requests in flight of which `most` run at once.

    A static batch starts together: every prompt is computed before the first token of any counts.
    """
    batch = np.maximum(np.minimum(wanted, most), 1.0)
    step_s, later = decode_step_s(step, batch), later_tokens(output_tokens)
    if load is Load.BATCH:
        ttft = prefill.request_s + batch * prefill_s(prefill, chunk_tokens, batch)
        rate, tpot = batch / (ttft + later * step_s), step_s
    else:
        queued = queued_s(prefill, occupancy_s, batch, 50)
        ttft = first_token_s(prefill, chunk_tokens, step_s, batch) + queued
        tpot = mixed_tpot_s(step, occupancy_s * (1 - prefill.queued_share), output_tokens, batch)
        idle = turn_gap_s(prefill, chunk_tokens, occupancy_s) if load is Load.CLOSED else 0.0
        rate = rate_per_s(step, occupancy_s, output_tokens, batch, idle_s=idle)
    return Flow(batch, tpot, ttft + np.maximum(wanted - most, 0.0) / rate, rate)


@dataclass(frozen=True, slots=True)
class Operation(Columns):
    """One replica at its share of the load. Latencies are infinite where the queue never empties."""

    replicas: Column
    batch: Column  # mean sequences running
    tpot_s: Column  # at the mean
    rate_per_s: Column  # requests per second of one replica
    ttft_p50_s: Column
    ttft_p95_s: Column
    ttft_p99_s: Column
    tpot_p50_s: Column
    tpot_p95_s: Column
    tpot_p99_s: Column
    e2e_p50_s: Column
    e2e_p95_s: Column
    e2e_p99_s: Column
    utilization: Column


def operate(
    workload: InferenceWorkload, plans: Plans, memory: ServingMemory, speed: Speed, replicas: Column
) -> Operation:
    """Batch, throughput and percentiles of one replica when `replicas` share the workload's load."""
    out, chunk = workload.output_tokens.mean, memory.max_batched_tokens
    one = np.ones(len(plans))
    step, prefill, occupancy = speed.step, speed.prefill, speed.occupancy_s
    if workload.load is Load.OPEN:
        rate = workload.peak_per_s / replicas
        batch = largest(np.zeros(len(plans)), speed.max_batch, lambda b: rate_per_s(step, occupancy, out, b) <= rate)
        running = np.maximum(batch, 1.0)
        first = first_token_s(prefill, chunk, decode_step_s(step, running), running)
        flow = Flow(batch, mixed_tpot_s(step, occupancy, out, running), first, rate)
        overloaded = rate > speed.saturation_per_s
        utilization = rate / np.maximum(speed.capacity_per_s, 1e-12)
    else:
        wanted = speed.max_batch if workload.load is Load.OFFLINE else np.ceil(workload.in_flight / replicas)
        flow = steady_flow(
            workload.load,
            step,
            prefill,
            occupancy,
            chunk_tokens=chunk,
            output_tokens=out,
            wanted=wanted,
            most=speed.max_batch,
        )
        overloaded = np.zeros(len(plans), bool)
        utilization = one if workload.load is Load.OFFLINE else wanted / np.maximum(speed.slo_batch, 1.0)
    batch, rate = flow.batch, flow.rate_per_s
    variation = variation_of(workload)
    values: dict[str, Column] = {}
    for q in QUANTILES:
        longer = workload.input_tokens.quantile(q) / max(workload.input_tokens.mean, 1.0) if q > 50 else 1.0
        ttft_q = flow.ttft_s + max(0.0, longer - 1.0) * occupancy
        tpot_q = flow.tpot_s
        if workload.load is Load.OPEN:
            crowd = np.maximum(
                np.minimum(np.maximum(batch, 1.0) + max(0.0, z_score(q)) * np.sqrt(batch), speed.max_batch), 1.0
            )
            tpot_q = mixed_tpot_s(step, occupancy, out, crowd)
            ttft_q = ttft_q + queue_quantile_s(rate, occupancy, q, variation)
        elif workload.load is Load.CLOSED:
            ttft_q = ttft_q - queued_s(prefill, occupancy, batch, 50) + queued_s(prefill, occupancy, batch, q)
        ttft_q = np.where(overloaded, np.inf, ttft_q)
        tpot_q = np.where(overloaded, np.inf, tpot_q)
        tokens = max(0.0, (workload.output_tokens.quantile(q) if q > 50 else out) - 1)
        name = f"p{q:.0f}_s"
        values[f"ttft_{name}"] = ttft_q
        values[f"tpot_{name}"] = tpot_q
        values[f"e2e_{name}"] = ttft_q + tokens * tpot_q
    return Operation(
        replicas=replicas, batch=batch, tpot_s=flow.tpot_s, rate_per_s=rate, utilization=utilization, **values
    )
