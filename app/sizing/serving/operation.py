"""What a stream's replica does at its share of the load: batch, throughput and percentiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Column, Mask
from app.sizing.formula import formula, told_as
from app.sizing.serving.flow import Flow, open_turn, steady_flow
from app.sizing.serving.load import StreamSpeed, late_tpot_s, queue_tail_s, ttft_at_s
from app.sizing.serving.measured import QUANTILES, Operation
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.pace import pace
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

    def times(self, ranks: Column) -> StreamOperation:
        """The same of so many ranks together."""
        idle = None if self.idle_sessions is None else self.idle_sessions * ranks
        return replace(self, batch=self.batch * ranks, rate_per_s=self.rate_per_s * ranks, idle_sessions=idle)


@formula(unit="requests/s", source="the peak, shared evenly")
def replica_rate_per_s(peak_per_s: float, replicas: Column) -> Column:
    """Requests per second of one replica. Source: counted. Limits: an even balance of load."""
    return peak_per_s / replicas


@formula(unit="sequences", source="at least one while a request is served")
def running(batch: Column) -> Column:
    """Sequences that a request meets. Source: counted. Limits: none."""
    return np.maximum(batch, 1.0)


@formula(unit="1", source="definition")
def utilization(replica_rate_per_s: Column, expected_capacity_per_s: Column) -> Column:
    """Share of its capacity within the limits that a replica carries. Source: definition. Limits: none."""
    return replica_rate_per_s / np.maximum(expected_capacity_per_s, 1e-12)


@formula(unit="sequences", source="occupancy fluctuates like a Poisson count")
def crowd(batch: Column, z: float, sequences: Column) -> Column:
    """Sequences that run at a percentile of time. Source: normal approximation. Limits: no more than fit."""
    return np.maximum(np.minimum(np.maximum(batch, 1.0) + z * np.sqrt(batch), sequences), 1.0)


@formula(unit="sequences", source="the arrival theorem; occupancy fluctuates like a Poisson count")
def met(batch: Column, z: float, sequences: Column) -> Column:
    """Sequences that a request meets at a percentile, itself included. Source: normal approximation of a Poisson count.

    Limits: no more than fit.
    """
    return np.maximum(np.minimum(batch + 1 + z * np.sqrt(batch), sequences), 1.0)


@formula(unit="s", source="a longer prompt than the mean by a share of it")
def longer_s(longer_prompt: float, occupancy_s: Column, pipeline_parallel: Column) -> Column:
    """What a prompt at a percentile takes beyond the mean one. Source: counted. Limits: prompts fill the device."""
    return longer_prompt * occupancy_s * np.maximum(pipeline_parallel, 1.0)


@formula(unit="s", source="infinite beyond saturation")
def ttft_s(first_s: Column, overloaded: Mask) -> Column:
    """TTFT where the queue empties. Source: definition. Limits: none."""
    return np.where(overloaded, np.inf, first_s)


@formula(unit="s/token", source="infinite beyond saturation")
def tpot_s(each_s: Column, overloaded: Mask) -> Column:
    """TPOT where the queue empties. Source: definition. Limits: none."""
    return np.where(overloaded, np.inf, each_s)


@formula(unit="s", source="the first token, then each of the others")
def e2e_s(ttft_s: Column, tokens_after_first: float, tpot_s: Column) -> Column:
    """Percentile of a whole request. Source: definition. Limits: percentiles are added, which errs on the safe side."""
    return ttft_s + tokens_after_first * tpot_s if tokens_after_first else ttft_s


def operate_stream(
    workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, replicas: Column
) -> StreamOperation:
    """Batch, throughput and percentiles of one replica when `replicas` share the workload's load."""
    if workload.load is Load.OPEN:
        rate = replica_rate_per_s(workload.peak_per_s, replicas)
        flow = open_turn(speed.stream, rate, memory.sequences, speed.saturation_per_s)
        overloaded = rate > speed.saturation_per_s
        used = utilization(rate, speed.capacity_per_s)
    else:
        offline = workload.load is Load.OFFLINE
        in_flight = memory.sequences if offline else np.ceil(workload.in_flight / replicas)
        flow = steady_flow(workload.load, speed.stream, in_flight, memory.sequences)
        overloaded = np.zeros(len(replicas), bool)
        used = np.ones(len(replicas)) if offline else in_flight / np.maximum(speed.slo_batch, 1.0)
    with told_as("mean"):
        values = means(workload, flow, overloaded)
    for q in QUANTILES:
        with told_as(f"p{q:.0f}"):
            values |= percentiles(workload, memory, speed, flow, overloaded, q)
    return StreamOperation(batch=flow.batch, rate_per_s=flow.rate_per_s, utilization=used, **values)


def means(workload: InferenceWorkload, flow: Flow, overloaded: Mask) -> dict[str, Column]:
    """Latencies in the mean, by the names of an operation's columns."""
    ttft, tpot = ttft_s(flow.ttft_s, overloaded), tpot_s(flow.tpot_s, overloaded)
    whole = e2e_s(ttft, max(0.0, workload.output_tokens.mean - 1), tpot)
    return {"ttft_mean_s": ttft, "tpot_mean_s": tpot, "e2e_mean_s": whole}


def percentiles(
    workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, flow: Flow, overloaded: Mask, q: float
) -> dict[str, Column]:
    """Latencies at one percentile, by the names of an operation's columns."""
    prompt, output, stream = workload.input_tokens, workload.output_tokens, speed.stream
    z = max(0.0, z_score(q))
    longer = longer_s(
        workload.long_prompt(q) / max(prompt.mean, 1.0) - 1.0, speed.occupancy_s, stream.step.pipeline_parallel
    )
    tpot, ttft = flow.tpot_s, flow.ttft_s
    if workload.load in (Load.OPEN, Load.CLOSED):
        with np.errstate(invalid="ignore"):
            later = queue_tail_s(flow.queue_s, flow.waits, q) - flow.queue_s
            if workload.load is Load.OPEN:
                with told_as("a place"):
                    later = later + queue_tail_s(flow.place_s, flow.full, q) - flow.place_s
            ttft = ttft_at_s(ttft, longer, later, flow.beat_s, q)
    if workload.load is Load.OPEN:
        tpot = pace(stream, met(flow.batch, z, memory.sequences)).tpot_s
    if workload.load is not Load.BATCH:
        tpot = late_tpot_s(tpot, z, flow.prompt_s, flow.per_token, stream.later_tokens, stream.variation)
    ttft, tpot = ttft_s(ttft, overloaded), tpot_s(tpot, overloaded)
    whole = e2e_s(ttft, max(0.0, (workload.long_answer(q) if q > 50 else output.mean) - 1), tpot)
    return {f"ttft_p{q:.0f}_s": ttft, f"tpot_p{q:.0f}_s": tpot, f"e2e_p{q:.0f}_s": whole}
