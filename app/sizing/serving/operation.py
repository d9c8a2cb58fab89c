"""What a stream's replica does at its share of the load: batch, throughput and percentiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as, unrecorded
from app.sizing.serving.load import (
    StreamSpeed,
    beside_s,
    first_token_s,
    idle_first_token_s,
    interleaved_s,
    later_tokens,
    mean_wait_s,
    queue_wait_s,
    queued_s,
    rate_per_s,
    tpot_s,
    variation_of,
)
from app.sizing.serving.measured import QUANTILES, Operation, largest
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.prefill import PrefillTerms, prompt_s
from app.sizing.serving.step import StepTerms, step_s
from app.sizing.workload import InferenceWorkload, Load, z_score


@dataclass(frozen=True, slots=True)
class StreamOperation(Operation):
    """Latencies of a stream of tokens, at the mean and at percentiles."""

    ttft_mean_s: Column
    ttft_p50_s: Column
    ttft_p95_s: Column
    ttft_p99_s: Column
    tpot_mean_s: Column
    tpot_p50_s: Column
    tpot_p95_s: Column
    tpot_p99_s: Column
    idle_sessions: Column | None = None  # of one replica, whose prefixes wait in the cache
    prefix_bytes: Column | None = None  # that they take on one device


@dataclass(frozen=True, slots=True)
class Flow(Columns):
    """The steady state of one replica, means."""

    batch: Column
    tpot_s: Column
    ttft_s: Column
    rate_per_s: Column


@dataclass(frozen=True, slots=True)
class Arriving(Columns):
    """Whether so many running sequences finish no faster than requests arrive."""

    step: StepTerms
    occupancy_s: Column
    rate_per_s: Column
    later_tokens: float

    def holds(self, batch: Column) -> Mask:
        """At this batch."""
        met: Mask = rate_per_s(batch, self.occupancy_s, self.later_tokens, step_s(self.step, batch)) <= self.rate_per_s
        return met


@formula(unit="requests/s", source="the peak, shared evenly")
def replica_rate_per_s(peak_per_s: float, replicas: Column) -> Column:
    """Requests per second of one replica. Source: counted. Limits: an even balance of load."""
    return peak_per_s / replicas


@formula(unit="sequences", source="at least one while a request is served")
def running(batch: Column) -> Column:
    """Sequences that a request meets. Source: counted. Limits: none."""
    return np.maximum(batch, 1.0)


@formula(unit="sequences", source="as many as are in flight, up to what fits")
def steady_batch(in_flight: Column, sequences: Column) -> Column:
    """Sequences that run in a steady state. Source: counted. Limits: at least one."""
    return np.maximum(np.minimum(in_flight, sequences), 1.0)


@formula(unit="s", source="a static batch starts together")
def static_ttft_s(request_s: Column, batch: Column, prefill_s: Column) -> Column:
    """TTFT of a static batch: every prompt is computed before the first token of any counts.

    Source: definition of the benchmark. Limits: no request joins later.
    """
    return request_s + batch * prefill_s


@formula(unit="requests/s", source="Little's law")
def static_rate_per_s(batch: Column, static_ttft_s: Column, later_tokens: Column, decode_step_s: Column) -> Column:
    """Requests per second of static batches one after another. Source: counted. Limits: equal lengths."""
    return batch / (static_ttft_s + later_tokens * decode_step_s)


@formula(unit="s", source="what a turn takes beyond the replica's work")
def slot_pause_s(alone_s: Column, occupancy_s: Column) -> Column:
    """A slot's pause in a closed loop: ingest, and a lone prompt's unshared steps. Source: counted. Limits: none."""
    return alone_s - occupancy_s


@formula(unit="s", source="requests beyond what runs at once wait for a place")
def mean_ttft_s(first_token_s: Column, in_flight: Column, sequences: Column, rate_per_s: Column) -> Column:
    """TTFT in the mean. Source: Little 1961. Limits: first come, first served."""
    return first_token_s + np.maximum(in_flight - sequences, 0.0) / rate_per_s


def steady_flow(
    load: Load,
    step: StepTerms,
    prefill: PrefillTerms,
    occupied: Column,
    *,
    max_batched_tokens: Column,
    output_tokens: Column | float,
    in_flight: Column,
    sequences: Column,
) -> Flow:
    """What a replica does with so many requests in flight of which `sequences` run at once."""
    batch = steady_batch(in_flight, sequences)
    decode, later = step_s(step, batch), later_tokens(output_tokens)
    if load is Load.BATCH:
        with told_as("static batch"):
            prompt = prompt_s(prefill, max_batched_tokens, batch)
        first = static_ttft_s(prefill.request_s, batch, prompt)
        rate, tpot = static_rate_per_s(batch, first, later, decode), decode
    else:
        with told_as("alone"):
            alone = idle_first_token_s(prefill, max_batched_tokens)
        beside = beside_s(prefill.new_tokens, max_batched_tokens, decode, batch)
        first = first_token_s(alone, beside, queued_s(prefill.queued_share, occupied, batch, 50))
        tpot = tpot_s(decode, batch, later, interleaved_s(occupied, prefill.queued_share))
        idle = slot_pause_s(alone, occupied) if load is Load.CLOSED else 0.0
        rate = rate_per_s(batch, occupied, later, decode, idle)
    return Flow(batch, tpot, mean_ttft_s(first, in_flight, sequences, rate), rate)


def open_flow(workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, replicas: Column) -> Flow:
    """What a replica does with its share of a request rate."""
    step, prefill, occupied = speed.step, speed.prefill, speed.occupancy_s
    later = float(later_tokens(workload.output_tokens.mean))
    rate = replica_rate_per_s(workload.peak_per_s, replicas)
    with unrecorded():
        arriving = Arriving(step, occupied, rate, later)
        batch = largest(np.zeros(len(rate)), memory.sequences, arriving)
    met = running(batch)
    decode = step_s(step, met)
    with told_as("alone"):
        alone = idle_first_token_s(prefill, memory.max_batched_tokens)
    first = first_token_s(alone, beside_s(prefill.new_tokens, memory.max_batched_tokens, decode, met))
    return Flow(batch, tpot_s(decode, met, later, occupied), first, rate)


@formula(unit="1", source="definition")
def utilization(replica_rate_per_s: Column, expected_capacity_per_s: Column) -> Column:
    """Share of its capacity within the limits that a replica carries. Source: definition. Limits: none."""
    return replica_rate_per_s / np.maximum(expected_capacity_per_s, 1e-12)


@formula(unit="sequences", source="occupancy fluctuates like a Poisson count")
def crowd(batch: Column, z: float, sequences: Column) -> Column:
    """Sequences that run at a percentile of time. Source: normal approximation. Limits: no more than fit."""
    return np.maximum(np.minimum(np.maximum(batch, 1.0) + z * np.sqrt(batch), sequences), 1.0)


@formula(unit="s", source="sum of the parts; infinite beyond saturation")
def ttft_s(
    mean_ttft_s: Column,
    longer_prompt: float,
    occupancy_s: Column,
    wait_s: Column | float,
    overloaded: Mask,
) -> Column:
    """Percentile of TTFT: a longer prompt than the mean by a share, and a longer wait.

    Source: sum of the parts. Limits: percentiles of length and wait are added, which errs on the safe side.
    """
    return np.where(overloaded, np.inf, mean_ttft_s + longer_prompt * occupancy_s + wait_s)


@formula(unit="s", source="definition")
def longer_queue_s(queued_s: Column, median_queued_s: Column) -> Column:
    """Wait behind prompts at a percentile, beyond that in the mean. Source: definition. Limits: closed loops."""
    return queued_s - median_queued_s


@formula(unit="s", source="the first token, then each of the others")
def e2e_s(ttft_s: Column, tokens_after_first: float, tpot_s: Column) -> Column:
    """Percentile of a whole request. Source: definition. Limits: percentiles are added, which errs on the safe side."""
    return ttft_s + tokens_after_first * tpot_s


def operate_stream(
    workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, replicas: Column
) -> StreamOperation:
    """Batch, throughput and percentiles of one replica when `replicas` share the workload's load."""
    if workload.load is Load.OPEN:
        flow = open_flow(workload, memory, speed, replicas)
        overloaded = flow.rate_per_s > speed.saturation_per_s
        used = utilization(flow.rate_per_s, speed.capacity_per_s)
    else:
        offline = workload.load is Load.OFFLINE
        in_flight = memory.sequences if offline else np.ceil(workload.in_flight / replicas)
        flow = steady_flow(
            workload.load,
            speed.step,
            speed.prefill,
            speed.occupancy_s,
            max_batched_tokens=memory.max_batched_tokens,
            output_tokens=workload.output_tokens.mean,
            in_flight=in_flight,
            sequences=memory.sequences,
        )
        overloaded = np.zeros(len(replicas), bool)
        used = np.ones(len(replicas)) if offline else in_flight / np.maximum(speed.slo_batch, 1.0)
    with told_as("mean"):
        values = means(workload, speed, flow, overloaded)
    for q in QUANTILES:
        with told_as(f"p{q:.0f}"):
            values |= percentiles(workload, memory, speed, flow, overloaded, q)
    return StreamOperation(batch=flow.batch, rate_per_s=flow.rate_per_s, utilization=used, **values)


def means(workload: InferenceWorkload, speed: StreamSpeed, flow: Flow, overloaded: Mask) -> dict[str, Column]:
    """Latencies in the mean, by the names of an operation's columns; a closed loop's wait is in its first token."""
    wait: Column | float = 0.0
    if workload.load is Load.OPEN:
        wait = mean_wait_s(flow.rate_per_s, speed.occupancy_s, variation_of(workload))
    ttft = ttft_s(flow.ttft_s, 0.0, speed.occupancy_s, wait, overloaded)
    whole = e2e_s(ttft, max(0.0, workload.output_tokens.mean - 1), flow.tpot_s)
    return {"ttft_mean_s": ttft, "tpot_mean_s": np.where(overloaded, np.inf, flow.tpot_s), "e2e_mean_s": whole}


def percentiles(
    workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, flow: Flow, overloaded: Mask, q: float
) -> dict[str, Column]:
    """Latencies at one percentile, by the names of an operation's columns."""
    prompt, output, occupied = workload.input_tokens, workload.output_tokens, speed.occupancy_s
    longer = max(0.0, workload.long_prompt(q) / max(prompt.mean, 1.0) - 1.0) if q > 50 else 0.0
    wait: Column | float = 0.0
    tpot = flow.tpot_s
    if workload.load is Load.OPEN:
        met = crowd(flow.batch, max(0.0, z_score(q)), memory.sequences)
        tpot = tpot_s(step_s(speed.step, met), met, later_tokens(output.mean), occupied)
        wait = queue_wait_s(flow.rate_per_s, occupied, q, variation_of(workload))
    elif workload.load is Load.CLOSED:
        share = speed.prefill.queued_share
        with unrecorded():
            median = queued_s(share, occupied, flow.batch, 50)
        wait = longer_queue_s(queued_s(share, occupied, flow.batch, q), median)
    ttft = ttft_s(flow.ttft_s, longer, occupied, wait, overloaded)
    tokens = max(0.0, (workload.long_answer(q) if q > 50 else output.mean) - 1)
    whole = e2e_s(ttft, tokens, tpot)
    return {f"ttft_p{q:.0f}_s": ttft, f"tpot_p{q:.0f}_s": np.where(overloaded, np.inf, tpot), f"e2e_p{q:.0f}_s": whole}
