"""A replica under load: the batch and the rate that its limits allow.

What a batch comes to is the steady state's to say (`flow`). TTFT counts from sending a request to its first token,
queueing included; TPOT is the mean time of a token after the first. For a request rate, occupancy fluctuates about its
mean like a Poisson count, so the mean is held below the batch that meets the limits; the wait for prompts has an
exponential tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as, unrecorded
from app.sizing.serving.flow import (
    accompanied,
    base_s,
    closed_turn,
    load_of,
    open_entry_s,
    open_rate_per_s,
    shared_wait_s,
    steady_flow,
)
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import BATCH_BISECTIONS, Alone, Speed, largest
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.pace import Pace, Scheduled, Stream, idle_first_token_s, pace, per_step, stream_of
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import PrefillTerms, prompt_s
from app.sizing.serving.step import StepTerms
from app.sizing.serving.tightest import Tightest, limits_by, tightest_of
from app.sizing.workload import InferenceWorkload, Lengths, Load, z_score


@formula(unit="s", source="a pipeline computes as many prompts as it has stages")
def occupancy_s(prefill_s: Column, pipeline_parallel: Column) -> Column:
    """Replica time that one prompt takes from decoding. Source: counted. Limits: full stages."""
    return prefill_s / np.maximum(1.0, pipeline_parallel)


@formula(unit="sequences", source="occupancy fluctuates like a Poisson count")
def mean_batch(slo_batch: Column, z: float) -> Column:
    """Mean occupancy whose z-quantile is the batch that meets the limits: B + z sqrt(B), solved for B.

    Source: normal approximation of a Poisson count. Limits: some ten sequences and more.
    Check:
        >>> round(one(mean_batch(col(100), 1.645)), 2)
        84.85
    """
    return np.maximum(np.minimum(1.0, slo_batch), ((np.sqrt(z * z + 4 * slo_batch) - z) / 2) ** 2)


@formula(unit="s", source="Kingman 1961 for the mean; the tail is exact for M/M/1")
def queue_tail_s(queue_s: Column, waits: Column, percentile: float) -> Column:
    """Percentile of a wait with this mean that so many have at all, its tail exponential.

    Source: M/M/1. Limits: independent arrivals.
    Check:
        >>> round(one(queue_tail_s(col(4.0), col(0.8), 95)), 3)  # M/M/1 at 0.8: ln(0.8 / 0.05) / 0.2
        13.863
    """
    tail = np.log(np.maximum(waits / (1 - percentile / 100), 1.0))
    return np.where(tail > 0, queue_s / np.maximum(waits, 1e-12) * tail, 0.0)


@formula(unit="s", source="independent parts: their distances from the mean add in squares")
def late_ttft_s(ttft_s: Column, longer_s: Column, later_s: Column, beat_s: Column, percentile: float) -> Column:
    """TTFT at a percentile above the median: a longer prompt, a longer queue, and a step that has just begun.

    Source: variances of independent parts add. Limits: quantiles in place of deviations.
    """
    stepping = (percentile / 100 - 0.5) * beat_s
    late: Column = ttft_s + np.sqrt(np.maximum(longer_s, 0.0) ** 2 + np.maximum(later_s, 0.0) ** 2 + stepping**2)
    return late


@formula(unit="s", source="medians of the parts")
def median_ttft_s(ttft_s: Column, longer_s: Column, later_s: Column) -> Column:
    """TTFT at the median: the median prompt and the median queue. Source: counted. Limits: parts of little skew."""
    return ttft_s + np.minimum(longer_s, 0.0) + np.minimum(later_s, 0.0)


@formula(unit="s/token", source="prompts that fall between a request's tokens are a Poisson count")
def late_tpot_s(
    crowded_tpot_s: Column, z: float, prompt_s: Column, per_token: Column, later_tokens: Column, variation: Column
) -> Column:
    """TPOT at a percentile: more of the others' prompts than in the mean, and longer ones.

    Source: variance of a compound Poisson count. Limits: normal approximation.
    """
    return crowded_tpot_s + z * prompt_s * np.sqrt(2 * variation * per_token / later_tokens)


def ttft_at_s(ttft: Column, longer: Column, later: Column, beat: Column, percentile: float) -> Column:
    """TTFT at a percentile, from what a prompt and a queue at that percentile take beyond the mean."""
    if percentile <= 50:
        return median_ttft_s(ttft, longer, later)
    return late_ttft_s(ttft, longer, later, beat, percentile)


@formula(unit="requests/s", source="the batch that meets the limits, prompts that fit beside it, and the wait for them")
def capacity_per_s(
    batch_rate_per_s: Column, occupancy_s: Column, queue_rate_per_s: Column, assumed: Assumptions
) -> Column:
    """Requests per second within the limits; `queue_rate_per_s` is the largest at which TTFT still meets its own.

    Source: minimum of the bounds. Limits: as of the bounds.
    """
    return np.minimum(np.minimum(batch_rate_per_s, assumed.prefill_share_limit / occupancy_s), queue_rate_per_s)


def variation_of(burstiness: float, lengths: Lengths) -> float:
    """Mean of the squared variations of arrivals and lengths."""
    return (burstiness**2 + lengths.squared_variation) / 2


@formula(unit="s", source="definition")
def longer_prompt_s(long_alone_s: Column, idle_s: Column) -> Column:
    """What a prompt at a percentile takes beyond the mean one. Source: definition. Limits: steps that are not full."""
    return long_alone_s - idle_s


@dataclass(frozen=True, slots=True)
class WithinLimits(Columns):
    """Whether a batch meets the limits of TPOT and TTFT."""

    stream: Stream
    occupancy_s: Column
    alone_s: Column  # TTFT of the long prompt on an idle replica
    longer_s: Column  # than the mean one's
    tpot_limit_s: Column  # what is left of it by the margins
    ttft_limit_s: Column
    percentile: float
    closed: bool

    def holds(self, batch: Column) -> Mask:
        """Both limits at this batch."""
        z, stream = max(0.0, z_score(self.percentile)), self.stream
        if self.closed:
            flow = closed_turn(self.stream, batch, batch, passes=1)
            tpot, added, later = (
                flow.tpot_s,
                flow.prompt_s,
                queue_tail_s(flow.queue_s, flow.waits, self.percentile) - flow.queue_s,
            )
            first = ttft_at_s(flow.ttft_s, self.longer_s, later, flow.beat_s, self.percentile)
        else:
            at = pace(self.stream, batch)
            tpot, added, first = at.tpot_s, at.prompt_s, self.first_s(at, batch)
        others = per_step(batch, stream.later_tokens)
        tpot = late_tpot_s(tpot, z, added, others, stream.later_tokens, stream.variation)
        met: Mask = (tpot <= self.tpot_limit_s) & (first <= self.ttft_limit_s)
        return met

    def first_s(self, at: Pace, batch: Column) -> Column:
        """TTFT of the long prompt where nothing queues."""
        entry = open_entry_s(self.stream.entry_s, at.beat_s, at.held_back_s)
        return base_s(self.stream.idle_s, entry, at.own_s, accompanied(batch)) + self.longer_s


@dataclass(frozen=True, slots=True)
class StreamAlone(Alone):
    """A stream of tokens alone on an idle replica."""

    within: WithinLimits
    prefill: PrefillTerms  # at the mean prompt
    fastest_tpot_s: Column
    cold: StreamAlone | None = None  # the same without hits, where prefixes of idle sessions are to be found
    tightest: Tightest | None = None  # of several classes

    @property
    def fastest_ttft_s(self) -> Column:
        return self.within.alone_s

    @property
    def tpot_limit_s(self) -> Column:
        return self.within.tpot_limit_s

    @property
    def ttft_limit_s(self) -> Column:
        return self.within.ttft_limit_s


@dataclass(frozen=True, slots=True)
class BesidePrefixes(Columns):
    """What prefixes of idle sessions leave of a replica's cache."""

    counted: Mask  # whether hits are; else every prompt is computed whole
    binds: Mask  # whether nothing else keeps the replica from more
    sequences: Column  # that run at once beside the prefixes of so many


@dataclass(frozen=True, slots=True)
class StreamSpeed(Speed):
    """How one replica serves a stream of tokens."""

    alone: StreamAlone
    beside: BesidePrefixes | None = None

    @property
    def stream(self) -> Stream:
        return self.alone.within.stream

    @property
    def step(self) -> StepTerms:
        return self.stream.step

    @property
    def prefill(self) -> PrefillTerms:
        return self.alone.prefill

    @property
    def data_parallel(self) -> Column:
        return self.step.data_parallel

    def times(self, ranks: Column) -> StreamSpeed:
        """The same of so many ranks together."""
        return replace(
            self,
            slo_batch=self.slo_batch * ranks,
            capacity_per_s=self.capacity_per_s * ranks,
            saturation_per_s=self.saturation_per_s * ranks,
        )

    @property
    def occupancy_s(self) -> Column:
        """Replica time one mean prompt takes from decoding."""
        return self.alone.within.occupancy_s


@dataclass(frozen=True, slots=True)
class WaitWithin(Columns):
    """Whether the wait at a request rate leaves TTFT within its limit."""

    first_s: Column
    server_s: Column
    fill: Column
    variation: Column
    ttft_limit_s: Column
    percentile: float

    def holds(self, rate: Column) -> Mask:
        """TTFT's limit at this rate."""
        load = load_of(rate, self.server_s)
        wait = shared_wait_s(load, load, self.server_s, self.fill, self.variation)
        met: Mask = self.first_s + queue_tail_s(wait, np.minimum(load, 1.0), self.percentile) <= self.ttft_limit_s
        return met


def stream_alone(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    step: StepTerms,
    prefill: PrefillTerms,
    tails: Sequence[PrefillTerms],
    margins: Margins | None = None,
) -> StreamAlone:
    """A request alone on a replica of every plan, beside the workload's limits less so much margin. `tails`: its long
    prompt, or one of every class.
    """
    margins = Margins.none(len(plans)) if margins is None else margins
    stream = stream_of(
        step,
        prefill,
        Scheduled.by(plans.scheduling, memory.max_batched_tokens),
        output_tokens=workload.output_tokens.mean,
        variation=variation_of(workload.burstiness, workload.input_tokens),
        output_variation=variation_of(workload.burstiness, workload.output_tokens),
    )
    with told_as("steps filled with prompts"):
        prompt = prompt_s(prefill, memory.max_batched_tokens, None)
    with told_as("long prompt"):
        alone = [idle_first_token_s(tail, memory.max_batched_tokens) for tail in tails]
    tightest = tightest_of(workload, alone)
    quickest = alone[0] if tightest is None else tightest.quickest_s
    tpot_limit, ttft_limit = limits_by(workload, tightest, quickest, margins)
    within = WithinLimits(
        stream=stream,
        occupancy_s=occupancy_s(prompt, plans.pipeline_parallel),
        alone_s=quickest,
        longer_s=longer_prompt_s(quickest, stream.idle_s),
        tpot_limit_s=tpot_limit,
        ttft_limit_s=ttft_limit,
        percentile=workload.slo.percentile,
        closed=workload.load is Load.CLOSED,
    )
    with unrecorded():
        fastest = pace(stream, np.ones(len(plans))).tpot_s
    return StreamAlone(margins, within, prefill, fastest, tightest=tightest)


def stream_by(workload: InferenceWorkload, alone: StreamAlone, margins: Margins) -> StreamAlone:
    """The same beside limits less another margin."""
    tpot_limit, ttft_limit = limits_by(workload, alone.tightest, alone.fastest_ttft_s, margins)
    within = replace(alone.within, tpot_limit_s=tpot_limit, ttft_limit_s=ttft_limit)
    cold = None if alone.cold is None else stream_by(workload, alone.cold, margins)
    return replace(alone, margins=margins, within=within, cold=cold)


def stream_speed(
    workload: InferenceWorkload, memory: ServingMemory, alone: StreamAlone, assumed: Assumptions
) -> StreamSpeed:
    """Capacity of every plan within the workload's SLO."""
    within = alone.within
    with unrecorded():
        found = largest(np.ones(len(memory)), memory.sequences, within, halvings=BATCH_BISECTIONS)
    peak = np.maximum(1.0, np.floor(found + 1e-6))
    with told_as("all sequences running"):
        full = closed_turn(within.stream, memory.sequences, memory.sequences, queued=True)
    return StreamSpeed(
        alone=alone,
        slo_batch=peak,
        capacity_per_s=capacity_within(workload, within, peak, assumed) / alone.margins.rate,
        saturation_per_s=full.rate_per_s,
    )


def capacity_within(workload: InferenceWorkload, within: WithinLimits, peak: Column, assumed: Assumptions) -> Column:
    """Requests per second of a replica whose limits allow `peak` sequences at a time."""
    percentile, stream = workload.slo.percentile, within.stream
    if workload.load is not Load.OPEN:
        with told_as("at the limits"):
            return steady_flow(workload.load, stream, peak, peak).rate_per_s
    with told_as("within the limits"):
        by_batch = open_rate_per_s(stream, mean_batch(peak, max(0.0, z_score(percentile))), peak)
    with told_as("at the limits"):
        at = pace(stream, peak)
        first = within.first_s(at, peak)
    waits = WaitWithin(first, at.server_s, at.fill, stream.variation, within.ttft_limit_s, percentile)
    most = np.minimum(by_batch, assumed.prefill_share_limit / within.occupancy_s)
    with unrecorded():
        by_queue = largest(np.zeros(len(peak)), most, waits)
    return capacity_per_s(by_batch, within.occupancy_s, by_queue, assumed)
