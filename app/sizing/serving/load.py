"""Capacity of one replica: the batch and the request rate that the latency limits allow.

The steady state of a batch comes from `flow`. TTFT counts from sending a request to its first token, queueing included;
TPOT is the mean time of a token after the first. In an open loop, occupancy fluctuates about its mean like a Poisson
count, so the mean batch stays below the batch that meets the limits; the wait for prompts has an exponential tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.serving.flow import (
    closed_loop,
    closed_overlap_share,
    open_entry_s,
    open_rate_per_s,
    queue_free_ttft_s,
    server_load,
    shared_server_wait_s,
    steady_state,
)
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import BATCH_BISECTIONS, Speed, UnloadedLatency, bisect_largest
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.pace import (
    DecodeCadence,
    SchedulingTerms,
    Stream,
    arriving_prompts_per_step,
    build_stream,
    decode_cadence,
    idle_first_token_s,
)
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import PrefillTerms, seconds_per_prompt
from app.sizing.serving.step import StepTerms
from app.sizing.serving.tightest import TightestLimits, limits_with_margins, tightest_limits
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
    """Mean occupancy whose z-quantile is the batch that meets the limits: B + z sqrt(B), solved for B.

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
def queue_tail_s(queue_wait_s: Column, queued_share: Column, percentile: float) -> Column:
    """Percentile of a wait that only some requests have, with an exponential tail.

    Parameters:
        queue_wait_s: mean wait over all requests, s.
        queued_share: share of requests that wait at all.
        percentile: percentile wanted, 0 to 100.
    Limits: independent arrivals; exact for M/M/1.
    Check:
        >>> round(one(queue_tail_s(col(4.0), col(0.8), 95)), 3)  # M/M/1 at 0.8: ln(0.8 / 0.05) / 0.2
        13.863
    """
    tail = np.log(np.maximum(queued_share / (1 - percentile / 100), 1.0))
    return np.where(tail > 0, queue_wait_s / np.maximum(queued_share, 1e-12) * tail, 0.0)


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
    """Request rate within the limits: the smallest of three bounds.

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

    def scale_to_ranks(self, ranks: Column) -> StreamSpeed:
        """Speed of `ranks` ranks together."""
        return replace(
            self,
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
    percentile: float  # percentile at which the limit holds

    def holds(self, rate: Column) -> Mask:
        """Whether TTFT meets its limit at this rate."""
        load = server_load(rate, self.prompt_service_s)
        wait = shared_server_wait_s(load, load, self.prompt_service_s, self.prompts_per_full_step, self.variation)
        met: Mask = (
            self.long_prompt_ttft_s + queue_tail_s(wait, np.minimum(load, 1.0), self.percentile) <= self.ttft_limit_s
        )
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
    within = unloaded.within
    with suspend_recording():
        found = bisect_largest(np.ones(len(memory)), memory.sequences, within, halvings=BATCH_BISECTIONS)
    peak = np.maximum(1.0, np.floor(found + 1e-6))
    with trace_label("all sequences running"):
        full = closed_loop(within.stream, memory.sequences, memory.sequences, queued=True)
    return StreamSpeed(
        unloaded=unloaded,
        slo_batch=peak,
        capacity_per_s=capacity_within_limits(workload, within, peak, assumed) / unloaded.margins.rate,
        saturation_per_s=full.rate_per_s,
    )


def capacity_within_limits(
    workload: InferenceWorkload, within: WithinLimits, peak: Column, assumed: Assumptions
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
    waits = QueueWithinLimit(
        first, at.prompt_service_s, at.prompts_per_full_step, stream.variation, within.ttft_limit_s, percentile
    )
    most = np.minimum(by_batch, assumed.prefill_share_limit / within.occupancy_s)
    with suspend_recording():
        by_queue = bisect_largest(np.zeros(len(peak)), most, waits)
    return capacity_per_s(by_batch, within.occupancy_s, by_queue, assumed)
