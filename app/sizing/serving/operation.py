"""Operating point of a replica that serves a stream of tokens: batch, throughput and latency percentiles at its
load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Column, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.serving.flow import SteadyState, open_loop, steady_state
from app.sizing.serving.load import StreamSpeed, queue_tail_s, tail_tpot_s, ttft_percentile_s
from app.sizing.serving.measured import QUANTILES, OperatingPoint
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.pace import decode_cadence
from app.sizing.workload import InferenceWorkload, Load, z_score


@dataclass(frozen=True, slots=True)
class StreamOperatingPoint(OperatingPoint):
    """Operating point of a stream of tokens: latencies in the mean and at percentiles."""

    ttft_mean_s: Column
    ttft_p50_s: Column
    ttft_p95_s: Column
    ttft_p99_s: Column
    tpot_mean_s: Column
    tpot_p50_s: Column
    tpot_p95_s: Column
    tpot_p99_s: Column
    idle_sessions: Column | None = None  # idle sessions of one replica whose prefixes stay in the cache
    prefix_bytes: Column | None = None  # KV cache that their prefixes take on one device, bytes

    def scale_to_ranks(self, ranks: Column) -> StreamOperatingPoint:
        """Operating point of `ranks` ranks together."""
        idle = None if self.idle_sessions is None else self.idle_sessions * ranks
        return replace(self, batch=self.batch * ranks, rate_per_s=self.rate_per_s * ranks, idle_sessions=idle)


@formula(unit="requests/s", source="peak load, evenly balanced")
def replica_rate_per_s(peak_per_s: float, replicas: Column) -> Column:
    """Request rate of one replica.

    Parameters:
        peak_per_s: peak request rate of the workload, requests/s.
        replicas: replicas that share it.
    Limits: evenly balanced load.
    Check:
        >>> one(replica_rate_per_s(10.0, col(4)))
        2.5
    """
    return peak_per_s / replicas


@formula(unit="sequences", source="a request is served by a running sequence")
def running_sequences(batch: Column) -> Column:
    """Sequences that run while a request is served, at least one.

    Parameters:
        batch: mean sequences running.
    Check:
        >>> one(running_sequences(col(0.2)))
        1.0
    """
    return np.maximum(batch, 1.0)


@formula(unit="1", source="definition")
def utilization(replica_rate_per_s: Column, expected_capacity_per_s: Column) -> Column:
    """Share of its capacity within the limits that a replica's load takes.

    Parameters:
        replica_rate_per_s: request rate of one replica, requests/s.
        expected_capacity_per_s: predicted capacity of one replica within the limits, requests/s.
    Check:
        >>> one(utilization(col(2.5), col(5.0)))
        0.5
    """
    return replica_rate_per_s / np.maximum(expected_capacity_per_s, 1e-12)


@formula(unit="sequences", source="normal approximation of a Poisson count")
def crowded_batch(batch: Column, z: float, max_running_sequences: Column) -> Column:
    """Sequences that run at a percentile of time.

    Parameters:
        batch: mean sequences running.
        z: standard normal quantile of the percentile.
        max_running_sequences: sequences that can run at the same time.
    Limits: normal approximation of a Poisson count.
    Check:
        >>> one(crowded_batch(col(100), 1.645, col(256)))
        116.45
    """
    return np.maximum(np.minimum(np.maximum(batch, 1.0) + z * np.sqrt(batch), max_running_sequences), 1.0)


@formula(unit="sequences", source="arrival theorem; normal approximation of a Poisson count")
def sequences_met(batch: Column, z: float, max_running_sequences: Column) -> Column:
    """Sequences that a request sees at a percentile, itself included.

    Parameters:
        batch: mean sequences running.
        z: standard normal quantile of the percentile.
        max_running_sequences: sequences that can run at the same time.
    Limits: normal approximation of a Poisson count.
    Check:
        >>> one(sequences_met(col(100), 1.645, col(256)))
        117.45
    """
    return np.maximum(np.minimum(batch + 1 + z * np.sqrt(batch), max_running_sequences), 1.0)


@formula(unit="s", source="prefill time proportional to prompt length")
def percentile_prompt_extra_s(longer_share: float, occupancy_s: Column, pipeline_parallel: Column) -> Column:
    """Extra time of a prompt at a percentile over the mean prompt.

    Parameters:
        longer_share: extra length of the prompt as a share of the mean length.
        occupancy_s: time of the replica that one mean prompt takes away from decoding, s.
        pipeline_parallel: pipeline stages.
    Limits: prompts fill the device, so time grows with length.
    Check:
        >>> round(one(percentile_prompt_extra_s(1.5, col(0.05), col(2))), 3)
        0.15
    """
    return longer_share * occupancy_s * np.maximum(pipeline_parallel, 1.0)


@formula(unit="s", source="definition: infinite above saturation")
def ttft_s(first_s: Column, overloaded: Mask) -> Column:
    """TTFT, infinite where the load exceeds saturation.

    Parameters:
        first_s: TTFT below saturation, s.
        overloaded: whether the queue grows without bound.
    Check:
        >>> one(ttft_s(col(0.3), col(0) > 0))
        0.3
    """
    return np.where(overloaded, np.inf, first_s)


@formula(unit="s/token", source="definition: infinite above saturation")
def tpot_s(each_s: Column, overloaded: Mask) -> Column:
    """TPOT, infinite where the load exceeds saturation.

    Parameters:
        each_s: TPOT below saturation, s/token.
        overloaded: whether the queue grows without bound.
    Check:
        >>> one(tpot_s(col(0.02), col(0) > 0))
        0.02
    """
    return np.where(overloaded, np.inf, each_s)


@formula(unit="s", source="definition: first token, then each later token")
def e2e_s(ttft_s: Column, tokens_after_first: float, tpot_s: Column) -> Column:
    """End-to-end latency of a request: the first token, then each of the others.

    Parameters:
        ttft_s: TTFT, s.
        tokens_after_first: tokens of the answer after its first.
        tpot_s: TPOT, s/token.
    Limits: percentiles are added, which overestimates the percentile of the sum.
    Check:
        >>> round(one(e2e_s(col(0.3), 255.0, col(0.02))), 3)
        5.4
    """
    return ttft_s + tokens_after_first * tpot_s if tokens_after_first else ttft_s


def stream_operating_point(
    workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, replicas: Column
) -> StreamOperatingPoint:
    """Operating point of one replica when `replicas` replicas share the workload's load."""
    if workload.load is Load.OPEN:
        rate = replica_rate_per_s(workload.peak_per_s, replicas)
        steady = open_loop(speed.stream, rate, memory.sequences, speed.saturation_per_s)
        overloaded = rate > speed.saturation_per_s
        used = utilization(rate, speed.capacity_per_s)
    else:
        offline = workload.load is Load.OFFLINE
        in_flight = memory.sequences if offline else np.ceil(workload.in_flight / replicas)
        steady = steady_state(workload.load, speed.stream, in_flight, memory.sequences)
        overloaded = np.zeros(len(replicas), bool)
        used = np.ones(len(replicas)) if offline else in_flight / np.maximum(speed.slo_batch, 1.0)
    with trace_label("mean"):
        values = mean_latencies(workload, steady, overloaded)
    for q in QUANTILES:
        with trace_label(f"p{q:.0f}"):
            values |= percentile_latencies(workload, memory, speed, steady, overloaded, q)
    return StreamOperatingPoint(batch=steady.batch, rate_per_s=steady.rate_per_s, utilization=used, **values)


def mean_latencies(workload: InferenceWorkload, steady: SteadyState, overloaded: Mask) -> dict[str, Column]:
    """Mean latencies by field name of the operating point, s."""
    ttft, tpot = ttft_s(steady.ttft_s, overloaded), tpot_s(steady.tpot_s, overloaded)
    whole = e2e_s(ttft, max(0.0, workload.output_tokens.mean - 1), tpot)
    return {"ttft_mean_s": ttft, "tpot_mean_s": tpot, "e2e_mean_s": whole}


def percentile_latencies(
    workload: InferenceWorkload,
    memory: ServingMemory,
    speed: StreamSpeed,
    steady: SteadyState,
    overloaded: Mask,
    q: float,
) -> dict[str, Column]:
    """Latencies at percentile `q` by field name of the operating point, s."""
    prompt, output, stream = workload.input_tokens, workload.output_tokens, speed.stream
    z = max(0.0, z_score(q))
    longer = percentile_prompt_extra_s(
        workload.long_prompt(q) / max(prompt.mean, 1.0) - 1.0, speed.occupancy_s, stream.step.pipeline_parallel
    )
    tpot, ttft = steady.tpot_s, steady.ttft_s
    if workload.load in (Load.OPEN, Load.CLOSED):
        with np.errstate(invalid="ignore"):
            later = queue_tail_s(steady.queue_wait_s, steady.queued_share, q) - steady.queue_wait_s
            if workload.load is Load.OPEN:
                with trace_label("sequence slot"):
                    later = later + queue_tail_s(steady.slot_wait_s, steady.slots_full_share, q) - steady.slot_wait_s
            ttft = ttft_percentile_s(ttft, longer, later, steady.mean_step_s, q)
    if workload.load is Load.OPEN:
        tpot = decode_cadence(stream, sequences_met(steady.batch, z, memory.sequences)).tpot_s
    if workload.load is not Load.BATCH:
        tpot = tail_tpot_s(
            tpot, z, steady.added_prompt_s, steady.prompts_per_token, stream.later_tokens, stream.variation
        )
    ttft, tpot = ttft_s(ttft, overloaded), tpot_s(tpot, overloaded)
    whole = e2e_s(ttft, max(0.0, (workload.long_answer(q) if q > 50 else output.mean) - 1), tpot)
    return {f"ttft_p{q:.0f}_s": ttft, f"tpot_p{q:.0f}_s": tpot, f"e2e_p{q:.0f}_s": whole}
