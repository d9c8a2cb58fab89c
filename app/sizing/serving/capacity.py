"""Capacity and operating point of one replica: batch and rate within the latency limits.

The steady state of a batch comes from `steady_state`. TTFT counts from sending a request to its first token, queueing
included; TPOT is the mean time of a token after the first. In an open loop, occupancy fluctuates about its mean like a
Poisson count, so the mean batch stays below the batch that meets the limits; the wait for prompts has an exponential
tail.

A session's prefix stays in the cache from its answer to its next request. By Little's law the number of idle sessions
is the request rate times that gap; their prefixes and the running sequences share the KV pool:

    running(rate) * held + idle * own + shared <= pool        idle = rate * gap

The largest rate at which both fit is the capacity with prefix-cache hits. Where a replica has more capacity without
them, it computes every prompt whole and no hits are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import TINY, Column, Columns, Mask
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.serving.continuous_batching import (
    DecodeCadence,
    SchedulingTerms,
    Stream,
    arriving_prompts_per_step,
    build_stream,
    decode_cadence,
    idle_first_token_s,
    running_rate_per_s,
)
from app.sizing.serving.interfaces import (
    BATCH_BISECTIONS,
    QUANTILES,
    OperatingPoint,
    Speed,
    TightestLimits,
    UnloadedLatency,
    bisect_largest,
    limits_with_margins,
    tightest_limits,
)
from app.sizing.serving.margins import RATE_CORRELATIONS, Margins, jointly_confident_per_s
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import PrefillTerms, seconds_per_prompt
from app.sizing.serving.steady_state import (
    SteadyState,
    closed_loop,
    closed_overlap_share,
    open_entry_s,
    open_loop,
    open_rate_per_s,
    queue_free_ttft_s,
    queued_share,
    server_load,
    shared_server_wait_s,
    steady_state,
)
from app.sizing.serving.step import StepTerms
from app.sizing.workload import InferenceWorkload, Lengths, Load, z_score


@formula(unit="s", source="each pipeline stage computes another prompt")
def occupancy_s(prefill_s: Column, pipeline_parallel: Column) -> Column:
    """Time of the replica that one prompt takes away from decoding.

    Parameters:
        prefill_s: time of one prompt in steps filled with prompts, s.
        pipeline_parallel: pipeline stages, each of which computes another prompt.
    Limits: all stages are busy.
    Check:
        >>> one(occupancy_s(col(0.2), col(4)))
        0.05
    """
    return prefill_s / np.maximum(1.0, pipeline_parallel)


@formula(unit="sequences", source="normal approximation of a Poisson count")
def mean_batch(slo_batch: Column, z: float) -> Column:
    """Mean number of running sequences whose z-quantile is the batch within the limits: B + z sqrt(B), solved for B.

    It follows from the limits. The batch at a request rate follows from Little's law, see `batch_rate_per_s`.

    Parameters:
        slo_batch: largest batch that meets the limits, sequences.
        z: standard normal quantile of the percentile at which limits hold.
    Limits: normal approximation of a Poisson count; about ten sequences or more.
    Check:
        >>> round(one(mean_batch(col(100), 1.645)), 2)
        84.85
    """
    return np.maximum(np.minimum(1.0, slo_batch), ((np.sqrt(z * z + 4 * slo_batch) - z) / 2) ** 2)


@formula(unit="s", source="M/M/1 queue for the tail; Kingman 1961 for the mean")
def queue_tail_s(queue_wait_s: Column, waiting_share: Column, percentile: float) -> Column:
    """Percentile of a wait that only some requests have, with an exponential tail.

    Parameters:
        queue_wait_s: mean wait over all requests, s.
        waiting_share: share of requests that wait at all.
        percentile: percentile wanted, 0 to 100.
    Limits: independent arrivals; exact for M/M/1.
    Check:
        >>> round(one(queue_tail_s(col(4.0), col(0.8), 95)), 3)  # M/M/1 at 0.8: ln(0.8 / 0.05) / 0.2
        13.863
    """
    tail = np.log(np.maximum(waiting_share / (1 - percentile / 100), 1.0))
    return np.where(tail > 0, queue_wait_s / np.maximum(waiting_share, TINY) * tail, 0.0)


@formula(unit="s", source="variances of independent parts add")
def tail_ttft_s(
    ttft_s: Column,
    percentile_prompt_extra_s: Column,
    long_queue_extra_s: Column,
    mean_step_s: Column,
    percentile: float,
) -> Column:
    """TTFT at a percentile above the median: a longer prompt, a longer queue, and a step that has just begun.

    Parameters:
        ttft_s: mean TTFT, s.
        percentile_prompt_extra_s: extra time of a prompt at the percentile over the mean prompt, s.
        long_queue_extra_s: extra wait at the percentile over the mean wait, s.
        mean_step_s: mean length of the step that is running when a request arrives, s.
        percentile: percentile wanted, above 50.
    Limits: independent parts; quantiles stand in for standard deviations.
    Check:
        >>> round(one(tail_ttft_s(col(0.2), col(0.03), col(0.04), col(0.0), 95)), 3)  # 0.2 + sqrt(0.03^2 + 0.04^2)
        0.25
    """
    stepping = (percentile / 100 - 0.5) * mean_step_s
    late: Column = ttft_s + np.sqrt(
        np.maximum(percentile_prompt_extra_s, 0.0) ** 2 + np.maximum(long_queue_extra_s, 0.0) ** 2 + stepping**2
    )
    return late


@formula(unit="s", source="sum of the medians of its parts")
def median_ttft_s(ttft_s: Column, percentile_prompt_extra_s: Column, long_queue_extra_s: Column) -> Column:
    """TTFT at the median: the median prompt and the median queue.

    Parameters:
        ttft_s: mean TTFT, s.
        percentile_prompt_extra_s: time of the median prompt minus that of the mean prompt, s.
        long_queue_extra_s: median wait minus mean wait, s.
    Limits: parts of little skew.
    Check:
        >>> round(one(median_ttft_s(col(0.2), col(-0.03), col(-0.02))), 3)
        0.15
    """
    return ttft_s + np.minimum(percentile_prompt_extra_s, 0.0) + np.minimum(long_queue_extra_s, 0.0)


@formula(unit="s/token", source="variance of a compound Poisson count")
def tail_tpot_s(
    crowded_tpot_s: Column,
    z: float,
    prompt_delay_s: Column,
    prompts_per_token: Column,
    later_tokens: Column,
    variation: Column,
) -> Column:
    """TPOT at a percentile: more and longer prompts of other requests than in the mean.

    Parameters:
        crowded_tpot_s: TPOT at the occupancy of the percentile, s.
        z: standard normal quantile of the percentile.
        prompt_delay_s: time that one prompt of another request adds, s.
        prompts_per_token: prompts of other requests that arrive per output token.
        later_tokens: tokens of a request after its first.
        variation: mean of the squared coefficients of variation of arrivals and prompts.
    Limits: normal approximation.
    Check:
        >>> round(one(tail_tpot_s(col(0.02), 2.0, col(0.1), col(0.08), col(100), col(1.0))), 4)
        0.028
    """
    return crowded_tpot_s + z * prompt_delay_s * np.sqrt(2 * variation * prompts_per_token / later_tokens)


def ttft_percentile_s(
    ttft: Column, prompt_extra: Column, queue_extra: Column, mean_step: Column, percentile: float
) -> Column:
    """TTFT at a percentile, s.

    Parameters:
        ttft: mean TTFT, s.
        prompt_extra: extra time of a prompt at the percentile over the mean prompt, s.
        queue_extra: extra wait at the percentile over the mean wait, s.
        mean_step: mean length of the step that is running when a request arrives, s.
        percentile: percentile wanted, 0 to 100.
    """
    if percentile <= 50:
        return median_ttft_s(ttft, prompt_extra, queue_extra)
    return tail_ttft_s(ttft, prompt_extra, queue_extra, mean_step, percentile)


@formula(unit="requests/s", source="minimum of the bounds by batch, prompt time and queue")
def capacity_per_s(
    batch_rate_per_s: Column, occupancy_s: Column, queue_rate_per_s: Column, assumed: Assumptions
) -> Column:
    """Requests per second that one replica serves within the latency limits: the smallest of three bounds.

    Parameters:
        batch_rate_per_s: rate at which the batch meets the limits, requests/s.
        occupancy_s: time of the replica that one prompt takes away from decoding, s.
        queue_rate_per_s: largest rate at which TTFT meets its limit, requests/s.
        assumed: assumptions; `prefill_share_limit` is the share of time that prompts may take.
    Check:
        >>> one(capacity_per_s(col(5.0), col(0.1), col(4.0), row(prefill_share_limit=0.5)))
        4.0
    """
    return np.minimum(np.minimum(batch_rate_per_s, assumed.prefill_share_limit / occupancy_s), queue_rate_per_s)


def traffic_variation(burstiness: float, lengths: Lengths) -> float:
    """Mean of the squared coefficients of variation of arrivals and lengths."""
    return (burstiness**2 + lengths.squared_variation) / 2


@formula(unit="s", source="definition")
def long_prompt_extra_s(long_unloaded_ttft_s: Column, unloaded_ttft_s: Column) -> Column:
    """Extra time of a prompt at a percentile over the mean prompt.

    Parameters:
        long_unloaded_ttft_s: TTFT of the long prompt on an idle replica, s.
        unloaded_ttft_s: TTFT of the mean prompt on an idle replica, s.
    Limits: steps that are not full.
    Check:
        >>> round(one(long_prompt_extra_s(col(0.35), col(0.1))), 3)
        0.25
    """
    return long_unloaded_ttft_s - unloaded_ttft_s


@dataclass(frozen=True, slots=True)
class WithinLimits(Columns):
    """Test whether a batch meets the limits of TPOT and TTFT."""

    stream: Stream  # requests of one kind on the replica
    occupancy_s: Column  # time of the replica that one mean prompt takes away from decoding, s
    long_unloaded_ttft_s: Column  # TTFT of the long prompt on an idle replica, s
    long_prompt_extra_s: Column  # extra time of the long prompt over the mean prompt, s
    tpot_limit_s: Column  # TPOT limit after margins, s
    ttft_limit_s: Column  # TTFT limit after margins, s
    percentile: float  # percentile at which the limits hold
    closed: bool  # whether the load is a closed loop

    def holds(self, batch: Column) -> Mask:
        """Whether both limits hold at this batch."""
        z, stream = max(0.0, z_score(self.percentile)), self.stream
        if self.closed:
            steady = closed_loop(self.stream, batch, batch, passes=1)
            tpot, added, later = (
                steady.tpot_s,
                steady.added_prompt_s,
                queue_tail_s(steady.queue_wait_s, steady.queued_share, self.percentile) - steady.queue_wait_s,
            )
            first = ttft_percentile_s(
                steady.ttft_s, self.long_prompt_extra_s, later, steady.mean_step_s, self.percentile
            )
        else:
            cadence = decode_cadence(self.stream, batch)
            tpot, added, first = cadence.tpot_s, cadence.added_prompt_s, self.long_prompt_ttft_s(cadence, batch)
        others = arriving_prompts_per_step(batch, stream.later_tokens)
        tpot = tail_tpot_s(tpot, z, added, others, stream.later_tokens, stream.variation)
        met: Mask = (tpot <= self.tpot_limit_s) & (first <= self.ttft_limit_s)
        return met

    def long_prompt_ttft_s(self, cadence: DecodeCadence, batch: Column) -> Column:
        """TTFT of the long prompt at this batch without queueing, s."""
        entry = open_entry_s(self.stream.entry_s, cadence.mean_step_s, cadence.scheduler_delay_s)
        return (
            queue_free_ttft_s(self.stream.unloaded_ttft_s, entry, cadence.prefill_own_s, closed_overlap_share(batch))
            + self.long_prompt_extra_s
        )


@dataclass(frozen=True, slots=True)
class UnloadedStream(UnloadedLatency):
    """A stream of tokens on an idle replica, and its latency limits."""

    within: WithinLimits  # test of the latency limits
    prefill: PrefillTerms  # prefill terms of the mean prompt
    fastest_tpot_s: Column  # TPOT of a single sequence, s
    without_hits: UnloadedStream | None = None  # the same without prefix-cache hits, where idle sessions leave prefixes
    tightest: TightestLimits | None = None  # tightest limits of several traffic classes

    @property
    def fastest_ttft_s(self) -> Column:
        return self.within.long_unloaded_ttft_s

    @property
    def tpot_limit_s(self) -> Column:
        return self.within.tpot_limit_s

    @property
    def ttft_limit_s(self) -> Column:
        return self.within.ttft_limit_s


@dataclass(frozen=True, slots=True)
class PrefixReservation(Columns):
    """How the prefixes of idle sessions limit a replica's KV cache."""

    hits_counted: Mask  # whether prefix-cache hits count; else every prompt is computed whole
    limits_capacity: Mask  # whether the cache for prefixes limits the capacity
    sequences: Column  # sequences that can run at the same time next to the idle prefixes


@dataclass(frozen=True, slots=True)
class StreamSpeed(Speed):
    """How one replica serves a stream of tokens."""

    unloaded: UnloadedStream  # the stream on an idle replica, and its limits
    expected_batch: Column | None = None  # largest batch that meets the limits as the median prediction, if it differs
    prefix_reservation: PrefixReservation | None = None  # how idle prefixes limit the cache

    @property
    def stream(self) -> Stream:
        return self.unloaded.within.stream

    @property
    def step(self) -> StepTerms:
        return self.stream.step

    @property
    def prefill(self) -> PrefillTerms:
        return self.unloaded.prefill

    @property
    def data_parallel(self) -> Column:
        return self.step.data_parallel

    @property
    def sequence_limit(self) -> Column:
        """Sequences that one data-parallel rank is configured to run at once (`max_num_seqs`).

        The batch that meets the limits as the median prediction: with the smaller one that meets them at a confidence,
        requests would wait for a sequence slot although the engine is rarely that slow. Idle prefixes that fill the
        cache leave room only for the smaller one.
        """
        if self.expected_batch is None:
            return self.rank_batch
        batch = np.maximum(self.expected_batch, self.slo_batch) / self.data_parallel
        reserved = self.prefix_reservation
        return batch if reserved is None else np.where(reserved.limits_capacity, self.rank_batch, batch)

    def scale_to_ranks(self, ranks: Column) -> StreamSpeed:
        """Speed of `ranks` ranks together."""
        return replace(
            self,
            expected_batch=None if self.expected_batch is None else self.expected_batch * ranks,
            slo_batch=self.slo_batch * ranks,
            capacity_per_s=self.capacity_per_s * ranks,
            saturation_per_s=self.saturation_per_s * ranks,
        )

    @property
    def occupancy_s(self) -> Column:
        """Time of the replica that one mean prompt takes away from decoding, s."""
        return self.unloaded.within.occupancy_s


@dataclass(frozen=True, slots=True)
class QueueWithinLimit(Columns):
    """Test whether the wait at a request rate leaves TTFT within its limit."""

    long_prompt_ttft_s: Column  # TTFT of the long prompt without queueing, s
    prompt_service_s: Column  # time of the replica per prompt, s
    prompts_per_full_step: Column  # prompts that fill one step
    variation: Column  # mean of the squared coefficients of variation of arrivals and prompts
    ttft_limit_s: Column  # TTFT limit after margins, s
    rate_margin: Column  # factor by which the rate may be lower than predicted
    workload: InferenceWorkload  # its peak and router tell how many replicas have one queue
    percentile: float  # percentile at which the limit holds

    def holds(self, rate: Column) -> Mask:
        """Whether TTFT meets its limit at this rate, and with as many replicas as it takes for the peak."""
        load, at_once = server_load(rate, self.prompt_service_s), self.prompts_per_full_step
        pooled = self.workload.pool_size(rate / self.rate_margin)
        wait = shared_server_wait_s(load, load, self.prompt_service_s, at_once, self.variation, pooled)
        tail = queue_tail_s(wait, queued_share(load, at_once, pooled), self.percentile)
        met: Mask = self.long_prompt_ttft_s + tail <= self.ttft_limit_s
        return met


def unloaded_stream(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    step: StepTerms,
    prefill: PrefillTerms,
    tails: Sequence[PrefillTerms],
    margins: Margins | None = None,
) -> UnloadedStream:
    """A stream of tokens on an idle replica of every plan, with the workload's limits less the margins.

    Parameters:
        tails: prefill terms of the long prompt, or one entry per traffic class.
        margins: factors by which limits are tightened; omitted: median prediction.
    """
    margins = Margins.without_margin(len(plans)) if margins is None else margins
    stream = build_stream(
        step,
        prefill,
        SchedulingTerms.from_rules(plans.scheduling_rules, memory.max_batched_tokens),
        output_tokens=workload.output_tokens.mean,
        variation=traffic_variation(workload.burstiness, workload.input_tokens),
        output_variation=traffic_variation(workload.burstiness, workload.output_tokens),
        ranks_in_step=workload.stays_in_step and not step.drafted_tokens,
    )
    with trace_label("steps filled with prompts"):
        prompt = seconds_per_prompt(prefill, memory.max_batched_tokens, None)
    with trace_label("long prompt"):
        long_ttft_s = [idle_first_token_s(tail, memory.max_batched_tokens) for tail in tails]
    tightest = tightest_limits(workload, long_ttft_s)
    quickest = long_ttft_s[0] if tightest is None else tightest.unloaded_ttft_s
    tpot_limit, ttft_limit = limits_with_margins(workload, tightest, quickest, margins)
    within = WithinLimits(
        stream=stream,
        occupancy_s=occupancy_s(prompt, plans.pipeline_parallel),
        long_unloaded_ttft_s=quickest,
        long_prompt_extra_s=long_prompt_extra_s(quickest, stream.unloaded_ttft_s),
        tpot_limit_s=tpot_limit,
        ttft_limit_s=ttft_limit,
        percentile=workload.slo.percentile,
        closed=workload.load is Load.CLOSED,
    )
    with suspend_recording():
        fastest = decode_cadence(stream, np.ones(len(plans))).tpot_s
    return UnloadedStream(margins, within, prefill, fastest, tightest=tightest)


def with_stream_margins(workload: InferenceWorkload, unloaded: UnloadedStream, margins: Margins) -> UnloadedStream:
    """The same stream with limits less other margins."""
    tpot_limit, ttft_limit = limits_with_margins(workload, unloaded.tightest, unloaded.fastest_ttft_s, margins)
    within = replace(unloaded.within, tpot_limit_s=tpot_limit, ttft_limit_s=ttft_limit)
    cold = None if unloaded.without_hits is None else with_stream_margins(workload, unloaded.without_hits, margins)
    return replace(unloaded, margins=margins, within=within, without_hits=cold)


def stream_speed(
    workload: InferenceWorkload, memory: ServingMemory, unloaded: UnloadedStream, assumed: Assumptions
) -> StreamSpeed:
    """Capacity of every plan within the workload's latency limits."""
    limits, margins, none = [unloaded.within], unloaded.margins, Margins.without_margin(len(memory))
    if workload.load is Load.OPEN and (margins.rate != 1).any():
        limits.append(with_stream_margins(workload, unloaded, none).within)
    peak, *expected = largest_batches(limits, memory)
    with trace_label("all sequences running"):
        full = closed_loop(unloaded.within.stream, memory.sequences, memory.sequences, queued=True)
    capacity = capacity_within_limits(workload, unloaded.within, peak, margins.rate, assumed)
    if not expected:
        return StreamSpeed(unloaded, peak, capacity / margins.rate, full.rate_per_s)
    with trace_label("as predicted"):
        likely = capacity_within_limits(workload, limits[1], expected[0], none.rate, assumed)
    capacity = jointly_confident_per_s(likely, capacity, margins.rate, RATE_CORRELATIONS["ttft"])
    return StreamSpeed(unloaded, peak, capacity, full.rate_per_s, expected[0])


def largest_batches(limits: Sequence[WithinLimits], memory: ServingMemory) -> list[Column]:
    """Largest number of sequences at a time, at least one, that meets each of several limits on the same streams."""
    rows = np.tile(np.arange(len(memory)), len(limits))
    tpot_s, ttft_s = np.concatenate([(each.tpot_limit_s, each.ttft_limit_s) for each in limits], axis=1)
    within = replace(limits[0].take(rows), tpot_limit_s=tpot_s, ttft_limit_s=ttft_s)
    with suspend_recording():
        found = bisect_largest(np.ones(len(rows)), memory.sequences[rows], within, halvings=BATCH_BISECTIONS)
    return np.split(np.maximum(1.0, np.floor(found + 1e-6)), len(limits))


def capacity_within_limits(
    workload: InferenceWorkload, within: WithinLimits, peak: Column, rate_margin: Column, assumed: Assumptions
) -> Column:
    """Request rate of a replica whose limits allow `peak` sequences at a time, requests/s."""
    percentile, stream = workload.slo.percentile, within.stream
    if workload.load is not Load.OPEN:
        with trace_label("at the limits"):
            return steady_state(workload.load, stream, peak, peak).rate_per_s
    with trace_label("within the limits"):
        by_batch = open_rate_per_s(stream, mean_batch(peak, max(0.0, z_score(percentile))), peak)
    with trace_label("at the limits"):
        at = decode_cadence(stream, peak)
        first = within.long_prompt_ttft_s(at, peak)
        by_batch = np.minimum(by_batch, running_rate_per_s(peak, at.prefill_own_s, at.tpot_s, stream.later_tokens))
    waits = QueueWithinLimit(
        first,
        at.prompt_service_s,
        at.prompts_per_full_step,
        stream.variation,
        within.ttft_limit_s,
        rate_margin,
        workload,
        percentile,
    )
    most = np.minimum(by_batch, assumed.prefill_share_limit / within.occupancy_s)
    with suspend_recording():
        by_queue = bisect_largest(np.zeros(len(peak)), most, waits)
    return capacity_per_s(by_batch, within.occupancy_s, by_queue, assumed)


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
    """Request rate that one replica receives: its even share of the peak, not what it can serve.

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

    It is not the load of a queue: `server_load` is, and reaches 1 at the stability limit, not at a latency limit.

    Parameters:
        replica_rate_per_s: request rate of one replica, requests/s.
        expected_capacity_per_s: predicted capacity of one replica within the limits, requests/s.
    Check:
        >>> one(utilization(col(2.5), col(5.0)))
        0.5
    """
    return replica_rate_per_s / np.maximum(expected_capacity_per_s, TINY)


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
        pooled = workload.pool_size(rate)
        steady = open_loop(speed.stream, rate, memory.sequences, speed.saturation_per_s, pooled)
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


# Weight of computing prompts whole where that exceeds the TTFT limit: chosen only if hits serve nothing.
LAST_RESORT_WEIGHT = 1e-12


@formula(unit="sessions", source="Little's law")
def idle_sessions(replica_rate_per_s: Column, turn_gap_s: float) -> Column:
    """Sessions of a replica that are between an answer and their next request.

    Parameters:
        replica_rate_per_s: request rate of one replica, requests/s.
        turn_gap_s: time from an answer to the session's next request, s.
    Limits: every request is followed by another; all gaps have the same length.
    Check:
        >>> one(idle_sessions(col(2.5), 60.0))
        150.0
    """
    return replica_rate_per_s * turn_gap_s


@formula(unit="B", source="sum of prefixes; a prefix that all sessions share is stored once")
def prefix_bytes(idle_sessions: Column, own_bytes: Column, shared_bytes: Column) -> Column:
    """KV cache of one device that the prefixes of idle sessions fill (prefix caching).

    While no session is idle, the prefix that all requests share belongs to the running sequences.

    Parameters:
        idle_sessions: idle sessions of the replica.
        own_bytes: prefix of one session on one device, bytes.
        shared_bytes: prefix that all sessions share, stored once, bytes.
    Limits: paged attention finds whole blocks again.
    Check:
        >>> one(prefix_bytes(col(150), col(2e8), col(1e9)))  # 150 * 0.2 GB, and 1 GB that all share
        31000000000.0
    """
    return idle_sessions * own_bytes + np.minimum(idle_sessions, 1.0) * shared_bytes


@formula(unit="B", source="sum over sequences")
def running_bytes(running: Column, held_bytes_per_sequence: Column) -> Column:
    """KV cache of one device that running sequences fill.

    Parameters:
        running: sequences running.
        held_bytes_per_sequence: KV cache of one sequence on one device, bytes.
    Limits: each sequence holds its whole prompt.
    Check:
        >>> one(running_bytes(col(64), col(2e8)))
        12800000000.0
    """
    return running * held_bytes_per_sequence


@formula(unit="1", source="definition")
def hits_counted(value_with_hits: Column, value_without_hits: Column) -> Column:
    """1 where a replica serves at least as much with prefix-cache hits as without, else 0.

    Parameters:
        value_with_hits: what the replica serves with hits: requests/s, or 1 / replicas needed in a closed loop.
        value_without_hits: the same where every prompt is computed whole.
    Limits: all hits count, or none.
    Check:
        >>> one(hits_counted(col(3.5), col(3.0)))
        1.0
    """
    return np.where(value_with_hits >= value_without_hits, 1.0, 0.0)
