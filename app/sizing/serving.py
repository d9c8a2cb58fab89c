"""A replica under load: batch, capacity within the SLO, and latencies at an operating point.

Continuous batching in the mean: while a sequence gains its o tokens, each of the B - 1 others is
replaced once and its prompt computed in between; its own prompt came before, so

    tpot(B) = step(B) + (B - 1) / o * prefill          rate(B) = B / (prefill + o * tpot(B))

Occupancy fluctuates about its mean like a Poisson count, which gives the percentiles of TPOT;
prompts queue as in M/G/1 with an exponential tail, which gives those of TTFT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.compute import PrefillTerms, StepTerms, decode_step_s
from app.sizing.memory import ServingMemory
from app.sizing.plan import Plans
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


def mixed_tpot_s(step: StepTerms, occupancy_s: Column, output_tokens: float, batch: Column) -> Column:
    """Seconds per output token with the prompts of the other sequences' successors mixed in."""
    return decode_step_s(step, batch) + np.maximum(batch - 1, 0.0) / max(1.0, output_tokens) * occupancy_s


def rate_per_s(batch: Column, output_tokens: float, tpot_s: Column, occupancy_s: Column) -> Column:
    """Requests per second of a replica that keeps `batch` sequences running: its own prompt, then its tokens (Little's law)."""
    return batch / (occupancy_s + max(1.0, output_tokens) * tpot_s)


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


def first_token_s(memory: ServingMemory, prefill: PrefillTerms, decode_s: Column, prompt_tokens: float) -> Column:
    """TTFT without a queue: ingest, the prompt's chunks each beside a decode step, and the first token."""
    chunks = np.maximum(1.0, np.ceil(prompt_tokens / memory.max_batched_tokens))
    return prefill.request_s + prefill.device_s + chunks * decode_s


def variation_of(workload: InferenceWorkload) -> float:
    return (workload.burstiness**2 + workload.input_tokens.squared_variation) / 2


def largest(low: Column, high: Column, meets: Callable[[Column], Mask], *, halvings: int = RATE_BISECTIONS) -> Column:
    """Largest value between `low` and `high` for which the monotone test holds, by bisection."""
    a, b = low.copy(), high.copy()
    ok = meets(b)
    a = np.where(ok, b, a)
    for _ in range(halvings):
        middle = (a + b) / 2
        good = meets(middle)
        a = np.where(good, middle, a)
        b = np.where(good, b, middle)
    return a


def serving_speed(
    workload: InferenceWorkload, plans: Plans, memory: ServingMemory, step: StepTerms, prefill: PrefillTerms, tail: PrefillTerms
) -> Speed:
    """Capacity of every plan within the workload's SLO."""
    slo, out = workload.slo, workload.output_tokens.mean
    cap = memory.sequences
    one = np.ones(len(plans))
    occupancy = prefill.device_s / np.maximum(1.0, plans.pipeline_parallel)
    z = max(0.0, z_score(slo.percentile))
    tail_tokens = workload.input_tokens.quantile(slo.percentile) * (1 - workload.cached_prefix_fraction)
    fastest = mixed_tpot_s(step, occupancy, out, one)
    quickest = first_token_s(memory, tail, decode_step_s(step, one), tail_tokens)
    tpot_limit = np.full(len(plans), np.inf if slo.tpot_s is None else slo.tpot_s)
    ttft_limit = np.full(len(plans), np.inf if slo.ttft_s is None else slo.ttft_s)
    if slo.e2e_s is not None:
        tokens = max(1.0, workload.output_tokens.quantile(slo.percentile))
        tpot_limit = np.minimum(tpot_limit, np.maximum(slo.e2e_s - quickest, 1e-9) / tokens)
        ttft_limit = np.minimum(ttft_limit, slo.e2e_s)

    variation = variation_of(workload)

    def within(b: Column) -> Mask:
        first = first_token_s(memory, tail, decode_step_s(step, b), tail_tokens)
        tpot = mixed_tpot_s(step, occupancy, out, b)
        if workload.load is Load.CLOSED:
            rate = np.where(b > 1, b / (first + max(1.0, out) * tpot), 0.0)
            first = first + queue_quantile_s(rate, occupancy, slo.percentile, variation)
        return (tpot <= tpot_limit) & (first <= ttft_limit)

    peak = np.maximum(1.0, np.floor(largest(one, cap, within, halvings=BATCH_BISECTIONS) + 1e-6))
    open_loop = workload.load is Load.OPEN
    mean = np.maximum(np.minimum(1.0, peak), mean_batch_for(peak, z)) if open_loop else peak
    capacity = rate_per_s(mean, out, mixed_tpot_s(step, occupancy, out, mean), occupancy)
    saturation = rate_per_s(cap, out, mixed_tpot_s(step, occupancy, out, cap), occupancy)
    if open_loop:
        base = first_token_s(memory, tail, decode_step_s(step, peak), tail_tokens)

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


def operate(workload: InferenceWorkload, plans: Plans, memory: ServingMemory, speed: Speed, replicas: Column) -> Operation:
    """Batch, throughput and percentiles of one replica when `replicas` share the workload's load."""
    out = max(1.0, workload.output_tokens.mean)
    one = np.ones(len(plans))
    if workload.load is Load.OPEN:
        rate = workload.peak_per_s / replicas

        def below(b: Column) -> Mask:
            return rate_per_s(b, out, mixed_tpot_s(speed.step, speed.occupancy_s, out, b), speed.occupancy_s) <= rate

        batch = largest(np.zeros(len(plans)), speed.max_batch, below)
        overloaded = rate > speed.saturation_per_s
        utilization = rate / np.maximum(speed.capacity_per_s, 1e-12)
    elif workload.load is Load.OFFLINE:
        batch, overloaded, rate = speed.max_batch, np.zeros(len(plans), bool), speed.saturation_per_s
        utilization = one
    else:
        wanted = np.ceil(workload.in_flight / replicas)
        batch = np.minimum(wanted, speed.max_batch)
        overloaded = np.zeros(len(plans), bool)
        utilization = wanted / np.maximum(speed.slo_batch, 1.0)
        rate = np.zeros(len(plans))
    tpot = mixed_tpot_s(speed.step, speed.occupancy_s, out, np.maximum(batch, 1.0))
    decode = decode_step_s(speed.step, np.maximum(batch, 1.0))
    cached = 1 - workload.cached_prefix_fraction
    base = first_token_s(memory, speed.prefill, decode, workload.input_tokens.mean * cached)
    if workload.load is Load.BATCH:
        base = base + (np.maximum(batch, 1.0) - 1) * speed.prefill.device_s
        tpot = decode
    if workload.load in (Load.CLOSED, Load.BATCH):
        rate = batch / (base + out * tpot)
        waiting = np.maximum(workload.in_flight / replicas - speed.max_batch, 0.0)
        base = base + waiting / np.maximum(rate, 1e-12)
    variation = variation_of(workload)
    values: dict[str, Column] = {}
    for q in QUANTILES:
        z = max(0.0, z_score(q))
        crowd = np.minimum(np.maximum(batch, 1.0) + z * np.sqrt(batch), speed.max_batch)
        crowd = np.maximum(crowd, 1.0) if workload.load is Load.OPEN else np.maximum(batch, 1.0)
        tpot_q = mixed_tpot_s(speed.step, speed.occupancy_s, out, crowd) if workload.load is not Load.BATCH else tpot
        prompt = workload.input_tokens.quantile(q) / max(workload.input_tokens.mean, 1.0) if q > 50 else 1.0
        longer = np.maximum(0.0, prompt - 1.0) * speed.prefill.device_s
        wait = (
            queue_quantile_s(rate, speed.occupancy_s, q, variation) if workload.load in (Load.OPEN, Load.CLOSED) else np.zeros(len(plans))
        )
        wait = np.where(batch > 1, wait, 0.0) if workload.load is Load.CLOSED else wait
        ttft_q = np.where(overloaded, np.inf, base + longer + wait)
        tpot_q = np.where(overloaded, np.inf, tpot_q)
        tokens = max(0.0, (workload.output_tokens.quantile(q) if q > 50 else workload.output_tokens.mean) - 1)
        name = f"p{q:.0f}_s"
        values[f"ttft_{name}"] = ttft_q
        values[f"tpot_{name}"] = tpot_q
        values[f"e2e_{name}"] = ttft_q + tokens * tpot_q
    return Operation(replicas=replicas, batch=batch, tpot_s=tpot, rate_per_s=rate, utilization=utilization, **values)
