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

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as, unrecorded
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import BATCH_BISECTIONS, Alone, Speed, largest
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import PrefillTerms, prompt_s
from app.sizing.serving.step import StepTerms, step_s
from app.sizing.workload import InferenceWorkload, Load, z_score


@formula(unit="tokens", source="the first token comes of the prompt")
def later_tokens(output_tokens: Column | float) -> Column:
    """Tokens of a request after its first, each of which takes a decode step. Source: counted. Limits: at least one."""
    return np.maximum(output_tokens - 1.0, 1.0)


@formula(unit="s", source="a pipeline computes as many prompts as it has stages")
def occupancy_s(prefill_s: Column, pipeline_parallel: Column) -> Column:
    """Replica time that one prompt takes from decoding. Source: counted. Limits: full stages."""
    return prefill_s / np.maximum(1.0, pipeline_parallel)


@formula(unit="s", source="continuous batching in the mean")
def interleaved_s(occupancy_s: Column, queued_share: Column) -> Column:
    """Prefill of another sequence's successor that falls between tokens. Source: fitted share. Limits: closed loops."""
    return occupancy_s * (1 - queued_share)


@formula(unit="s/token", source="continuous batching in the mean")
def tpot_s(decode_step_s: Column, batch: Column, later_tokens: Column | float, interleaved_s: Column) -> Column:
    """Seconds per output token; each of the other sequences takes `interleaved_s` for its successor's prompt.

    Source: Agrawal et al. 2024 (arXiv:2403.02310) on stalls. Limits: lengths of equal mean.
    Check:
        >>> one(tpot_s(col(0.02), col(1), col(255), col(0.01)))  # alone: no prompt but its own
        0.02
    """
    return decode_step_s + np.maximum(batch - 1, 0.0) / later_tokens * interleaved_s


@formula(unit="requests/s", source="Little's law")
def rate_per_s(
    batch: Column,
    occupancy_s: Column,
    later_tokens: Column | float,
    decode_step_s: Column,
    idle_s: Column | float = 0.0,
) -> Column:
    """Requests per second of a replica that keeps `batch` sequences running; a slot stays empty for `idle_s` a turn.

    Source: Little 1961. Limits: a steady state.
    Check:
        >>> round(one(rate_per_s(col(32), col(0.01), col(255), col(0.02))), 3)  # 32 / (0.32 + 255 * 0.02)
        5.904
    """
    return batch / (idle_s + np.maximum(batch, 1.0) * occupancy_s + later_tokens * decode_step_s)


@formula(unit="s", source="uniform with the fitted mean, at most all the others' prompts")
def queued_s(queued_share: Column, occupancy_s: Column, batch: Column, percentile: float) -> Column:
    """Percentile of the wait behind prompts of a closed loop.

    Source: fitted share.
    Limits: a fixed number in flight.
    """
    return np.minimum(2 * percentile / 100 * queued_share, 1.0) * np.maximum(batch - 1, 0.0) * occupancy_s


@formula(unit="sequences", source="occupancy fluctuates like a Poisson count")
def mean_batch(slo_batch: Column, z: float) -> Column:
    """Mean occupancy whose z-quantile is the batch that meets the limits: B + z sqrt(B), solved for B.

    Source: normal approximation of a Poisson count. Limits: some ten sequences and more.
    Check:
        >>> round(one(mean_batch(col(100), 1.645)), 2)
        84.85
    """
    return np.maximum(np.minimum(1.0, slo_batch), ((np.sqrt(z * z + 4 * slo_batch) - z) / 2) ** 2)


@formula(unit="s", source="Kingman 1961")
def mean_wait_s(replica_rate_per_s: Column, occupancy_s: Column, variation: float) -> Column:
    """Mean wait for the replica's prefill slot, M/G/1; infinite at saturation. `variation` is (ca^2 + cs^2) / 2.

    Source: Kingman 1961. Limits: independent arrivals.
    Check:
        >>> round(one(mean_wait_s(col(0.8), col(1), 1.0)), 3)  # M/M/1: 0.8 / 0.2
        4.0
    """
    load = replica_rate_per_s * occupancy_s
    return np.where(load >= 1, np.inf, load / np.maximum(1 - load, 1e-12) * occupancy_s * variation)


@formula(unit="s", source="Kingman 1961 for the mean; the tail is exact for M/M/1")
def queue_wait_s(replica_rate_per_s: Column, occupancy_s: Column, percentile: float, variation: float) -> Column:
    """Percentile of the wait for the replica's prefill slot, M/G/1 with an exponential tail; infinite at saturation.

    `variation` is (ca^2 + cs^2) / 2.
    Source: Kingman 1961. Limits: independent arrivals.
    Check:
        >>> round(one(queue_wait_s(col(0.8), col(1), 95, 1.0)), 3)  # M/M/1: ln(0.8 / 0.05) / 0.2
        13.863
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        load = replica_rate_per_s * occupancy_s
        mean = load / (1 - load) * occupancy_s * variation
        tail = np.log(np.maximum(load / (1 - percentile / 100), 1.0))
        return np.where(load >= 1, np.inf, np.where(load > 0, mean / np.maximum(load, 1e-12) * tail, 0.0))


@formula(unit="s", source="ingest, tokenising and the prompt's own steps")
def alone_s(request_s: Column, tokenise_s: Column, prefill_s: Column) -> Column:
    """TTFT on an idle replica. Source: counted. Limits: the network is not counted."""
    return request_s + tokenise_s + prefill_s


@formula(unit="s", source="each chunk of a prompt is computed beside a step of the others")
def beside_s(new_tokens: Column, max_batched_tokens: Column, decode_step_s: Column, batch: Column) -> Column:
    """What a running batch adds to TTFT. Source: Agrawal et al. 2024 (arXiv:2403.02310). Limits: chunked prefill."""
    return np.ceil(new_tokens / max_batched_tokens) * decode_step_s * (1 - 1 / np.maximum(batch, 1.0))


@formula(unit="s", source="an exhausted queue takes no longer than its prompts")
def first_token_s(alone_s: Column, beside_s: Column, queued_s: Column | float = 0.0) -> Column:
    """TTFT in the mean, behind the prompts queued before it. Source: sum of the parts. Limits: none."""
    return alone_s + beside_s + queued_s


@formula(unit="requests/s", source="the batch that meets the limits, prompts that fit beside it, and the wait for them")
def capacity_per_s(
    batch_rate_per_s: Column, occupancy_s: Column, queue_rate_per_s: Column, assumed: Assumptions
) -> Column:
    """Requests per second within the limits; `queue_rate_per_s` is the largest at which TTFT still meets its own.

    Source: minimum of the bounds. Limits: as of the bounds.
    """
    return np.minimum(np.minimum(batch_rate_per_s, assumed.prefill_share_limit / occupancy_s), queue_rate_per_s)


def variation_of(workload: InferenceWorkload) -> float:
    """Mean of the squared variations of arrivals and prompts."""
    return (workload.burstiness**2 + workload.input_tokens.squared_variation) / 2


def idle_first_token_s(prefill: PrefillTerms, max_batched_tokens: Column) -> Column:
    """TTFT of a prompt on an idle replica."""
    return alone_s(prefill.request_s, prefill.tokenise_s, prompt_s(prefill, max_batched_tokens, 1.0))


@dataclass(frozen=True, slots=True)
class WithinLimits(Columns):
    """Whether a batch meets the limits of TPOT and TTFT."""

    step: StepTerms
    occupancy_s: Column
    interleaved_s: Column
    alone_s: Column  # TTFT of the long prompt on an idle replica
    new_tokens: Column  # of the long prompt
    max_batched_tokens: Column
    queued_share: Column
    tpot_limit_s: Column  # what is left of it by the margins
    ttft_limit_s: Column
    later_tokens: float
    percentile: float
    closed: bool

    def holds(self, batch: Column) -> Mask:
        """Both limits at this batch."""
        decode = step_s(self.step, batch)
        first = self.alone_s + beside_s(self.new_tokens, self.max_batched_tokens, decode, batch)
        if self.closed:
            first = first + queued_s(self.queued_share, self.occupancy_s, batch, self.percentile)
        tpot = tpot_s(decode, batch, self.later_tokens, self.interleaved_s)
        met: Mask = (tpot <= self.tpot_limit_s) & (first <= self.ttft_limit_s)
        return met


@dataclass(frozen=True, slots=True)
class StreamAlone(Alone):
    """A stream of tokens alone on an idle replica."""

    within: WithinLimits
    prefill: PrefillTerms  # at the mean prompt
    fastest_tpot_s: Column
    cold: StreamAlone | None = None  # the same without hits, where prefixes of idle sessions are to be found

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
    def step(self) -> StepTerms:
        return self.alone.within.step

    @property
    def prefill(self) -> PrefillTerms:
        return self.alone.prefill

    @property
    def occupancy_s(self) -> Column:
        """Replica time one mean prompt takes from decoding."""
        return self.alone.within.occupancy_s


@dataclass(frozen=True, slots=True)
class WaitWithin(Columns):
    """Whether the wait at a request rate leaves TTFT within its limit."""

    first_token_s: Column
    occupancy_s: Column
    ttft_limit_s: Column
    percentile: float
    variation: float

    def holds(self, rate: Column) -> Mask:
        """TTFT's limit at this rate."""
        wait = queue_wait_s(rate, self.occupancy_s, self.percentile, self.variation)
        met: Mask = self.first_token_s + wait <= self.ttft_limit_s
        return met


def limits_of(workload: InferenceWorkload, quickest: Column, margins: Margins) -> tuple[Column, Column]:
    """Limits that predictions of TPOT and TTFT must meet for the margins to hold, those that follow of a whole
    request's included.
    """
    slo = workload.slo
    tpot = np.full(len(quickest), np.inf if slo.tpot_s is None else slo.tpot_s)
    ttft = np.full(len(quickest), np.inf if slo.ttft_s is None else slo.ttft_s)
    if slo.e2e_s is not None:
        tokens = max(1.0, workload.long_answer(slo.percentile))
        tpot = np.minimum(tpot, np.maximum(slo.e2e_s - quickest * margins.ttft, 1e-9) / tokens)
        ttft = np.minimum(ttft, slo.e2e_s)
    return tpot / margins.tpot, ttft / margins.ttft


def within_limits(
    workload: InferenceWorkload,
    max_batched_tokens: Column,
    step: StepTerms,
    prefill: PrefillTerms,
    tail: PrefillTerms,
    occupied: Column,
    margins: Margins,
) -> WithinLimits:
    """The limits of every plan, and what they bound."""
    closed = workload.load is Load.CLOSED
    with told_as("long prompt"):
        quickest = idle_first_token_s(tail, max_batched_tokens)
    tpot_limit, ttft_limit = limits_of(workload, quickest, margins)
    return WithinLimits(
        step=step,
        occupancy_s=occupied,
        interleaved_s=interleaved_s(occupied, prefill.queued_share) if closed else occupied,
        alone_s=quickest,
        new_tokens=tail.new_tokens,
        max_batched_tokens=max_batched_tokens,
        queued_share=prefill.queued_share,
        tpot_limit_s=tpot_limit,
        ttft_limit_s=ttft_limit,
        later_tokens=float(later_tokens(workload.output_tokens.mean)),
        percentile=workload.slo.percentile,
        closed=closed,
    )


def stream_alone(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    step: StepTerms,
    prefill: PrefillTerms,
    tail: PrefillTerms,
    margins: Margins | None = None,
) -> StreamAlone:
    """A request alone on a replica of every plan, beside the workload's limits less so much margin."""
    margins = Margins.none(len(plans)) if margins is None else margins
    with told_as("steps filled with prompts"):
        prompt = prompt_s(prefill, memory.max_batched_tokens, None)
    occupied = occupancy_s(prompt, plans.pipeline_parallel)
    within = within_limits(workload, memory.max_batched_tokens, step, prefill, tail, occupied, margins)
    alone = np.ones(len(plans))
    with unrecorded():
        fastest = tpot_s(step_s(step, alone), alone, within.later_tokens, within.interleaved_s)
    return StreamAlone(margins, within, prefill, fastest)


def stream_by(workload: InferenceWorkload, alone: StreamAlone, margins: Margins) -> StreamAlone:
    """The same beside limits less another margin."""
    tpot_limit, ttft_limit = limits_of(workload, alone.fastest_ttft_s, margins)
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
        decode = step_s(within.step, memory.sequences)
        saturation = rate_per_s(memory.sequences, within.occupancy_s, within.later_tokens, decode)
    return StreamSpeed(
        alone=alone,
        slo_batch=peak,
        capacity_per_s=capacity_within(workload, within.step, within, peak, assumed) / alone.margins.rate,
        saturation_per_s=saturation,
    )


def capacity_within(
    workload: InferenceWorkload, step: StepTerms, within: WithinLimits, peak: Column, assumed: Assumptions
) -> Column:
    """Requests per second of a replica whose limits allow `peak` sequences at a time."""
    percentile, occupied = workload.slo.percentile, within.occupancy_s
    if workload.load is not Load.OPEN:
        with told_as("at the limits"):
            return rate_per_s(peak, occupied, within.later_tokens, step_s(step, peak))
    with told_as("within the limits"):
        mean = mean_batch(peak, max(0.0, z_score(percentile)))
        by_batch = rate_per_s(mean, occupied, within.later_tokens, step_s(step, mean))
    with told_as("at the limits"):
        beside = beside_s(within.new_tokens, within.max_batched_tokens, step_s(step, peak), peak)
        first = first_token_s(within.alone_s, beside)
    waits = WaitWithin(first, occupied, within.ttft_limit_s, percentile, variation_of(workload))
    most = np.minimum(by_batch, assumed.prefill_share_limit / occupied)
    with unrecorded():
        by_queue = largest(np.zeros(len(peak)), most, waits)
    return capacity_per_s(by_batch, occupied, by_queue, assumed)
