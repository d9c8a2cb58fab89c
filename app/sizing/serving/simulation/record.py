"""Input and output records of a replica simulation, and random requests from a seed, identical on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from app.sizing.columns import Column, Quantiles, log_of

Seconds = NDArray[np.float64]
Counts = NDArray[np.int64]

MIXED, PREFILL_FIRST = 0, 1  # policies: prompt chunks share steps with decodes, or have steps of their own, first
RECOMPUTED, SWAPPED, NEVER = 0, 1, 2  # how a preempted sequence gets its cache back; NEVER: no preemption

# The gap histogram is logarithmic in microseconds, with 64 bins per doubling.
GAP_BINS_PER_DOUBLING = 64
GAP_DOUBLINGS = 34  # covers more than four hours


class Replica(NamedTuple):
    """Scheduler settings and step times of a replica; a step computes B decodes and P prompt tokens.

    The linear layers of a step take `linear_s` at B + prompt_equivalent * P tokens and those that pad experts (a grid:
    every number up to `linear_exact`, then every `linear_stride`-th). Attention depends on the contexts of the running
    sequences; everything else of a decode step is in `decode_s`, by B. Cache and attention of one sequence of c tokens
    are fixed + token * c + sum over windows of window * min(c, W). One rank computes a prompt: a step lasts as long as
    its fullest rank.
    """

    policy: int  # MIXED or PREFILL_FIRST
    chunked: bool  # whether a prompt may be computed in several steps
    max_batched_tokens: int  # token budget of a step, tokens
    max_sequences: int  # sequences that can run at the same time
    preemption: int  # RECOMPUTED, SWAPPED or NEVER
    receive_interval_steps: int  # decode steps between two polls for new requests; 1: every step
    batch_wait_steps: int  # most steps that prompts are delayed to batch them; 0: none
    batch_wait_share: float  # share of the token budget at which the delay ends
    planning_lag_steps: int  # steps that the scheduler plans ahead
    decode_s: Seconds  # decode step without attention by number of decodes, s
    linear_s: Seconds  # linear layers of a step on the token grid, s
    linear_exact: int  # token count up to which the grid holds every number, tokens
    linear_stride: int  # distance of grid points above it, tokens
    prompt_equivalent: float  # decode tokens whose multiplication takes as long as one prompt token
    prompt_fixed_tokens: float  # decode tokens equivalent to the fixed part of a prompt: output head, images
    padding_equivalent: float  # decode tokens equivalent to the rows that pad all experts of a step with prompts
    expert_share: float  # experts per token divided by all experts; 0 for dense models
    prompt_token_s: float  # communication per prompt token, s
    prompt_step_s: float  # communication latency of a prompt-only step, s
    dispatch_s: float  # least time of a step with prompts, s
    graph_dispatch_s: float  # the same for a step of at most `graph_tokens`, s
    graph_tokens: int  # most tokens of a step with prompts that captured graphs launch
    prompt_attention_s: Seconds  # attention per prompt token by prompt length, eight points per doubling, s
    stages: int  # pipeline stages
    ranks: int  # data-parallel ranks that step together, each with its own prompts; other fields sum over them
    pooled_share: float  # share of prompt multiplication that all ranks do together
    stages_overlap: bool  # whether chunks of one prompt follow each other through the stages
    attention_token_s: float  # attention of a decode step per context token, s
    window_tokens: Counts  # lengths of the attention windows, tokens
    window_attention_s: Seconds  # attention per token within each window, s
    cache_fixed_bytes: float  # KV cache per sequence independent of its length, bytes
    cache_token_bytes: float  # KV cache per token, bytes
    window_cache_bytes: Seconds  # KV cache per token within each window, bytes
    cache_bytes: float  # KV pool, bytes
    host_cache_bytes: float  # host memory for copies of cached prefixes, bytes
    output_reserve_share: float  # share of a request's output whose cache is reserved at admission
    swap_token_s: float  # time to swap the cache of one token in one direction, s
    ingest_s: float  # ingest of a request, independent of its length and concurrent with others, s
    tokenise_token_s: float  # tokenization per prompt token, one request after another, s
    stream_token_s: float  # server time per streamed token, s


class Requests(NamedTuple):
    """Arriving requests. `arrival_s` is empty in a closed loop, where `in_flight` requests are always present."""

    arrival_s: Seconds  # arrival times, s
    in_flight: int  # requests in flight of a closed loop
    input_tokens: Counts  # prompt tokens
    output_tokens: Counts  # answer tokens
    prefix_tokens: Counts  # prompt tokens that the session left in the cache
    shared_tokens: int  # prefix tokens that all requests share
    reuse_gap_s: float  # time since the prefix was stored, s


class Routed(NamedTuple):
    """Requests before a router, which knows the prompts but not how long the answers will be."""

    arrival_s: Seconds  # arrival times in order, s
    input_tokens: Counts  # prompt tokens
    prefix_tokens: Counts  # prompt tokens that are in the cache
    output_tokens: Counts  # answer tokens
    prompt_token_s: float  # time of a replica per prompt token that is not in the cache, s
    output_token_s: float  # time of a replica per answer token, s
    answer_s: float  # mean time of an answer, which the router expects of every request, s


class Dispatch(NamedTuple):
    """Replicas behind a router."""

    free_s: Seconds  # times at which replicas have done their expected work, the first one first, s
    order: Counts  # replicas in this order
    carried_s: Seconds  # work that each replica got, s
    replica: Counts  # replica that gets each request


def field_types(record: type[Any]) -> dict[str, Any]:
    """Declared types of a record's fields, in order."""
    return get_type_hints(record)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Histogram of tokens by the time since the previous token, in bins of microseconds."""

    tokens: Counts  # tokens per bin

    def quantiles_s(self, percentiles: Sequence[float]) -> list[float]:
        """Gaps that each of the percentages of all gaps do not exceed, s."""
        total = self.tokens.cumsum()
        if not total[-1]:
            return [0.0] * len(percentiles)
        ranks = np.searchsorted(total, np.array(percentiles) / 100 * total[-1])
        return [bin_middle_s(min(rank, len(total) - 1)) for rank in ranks.tolist()]


def bin_middle_s(index: int) -> float:
    """Middle of a bin, s."""
    doubling, part = divmod(index, GAP_BINS_PER_DOUBLING)
    if doubling == 0:
        return (part + 0.5) / 1e6
    return float((GAP_BINS_PER_DOUBLING + part + 0.5) * 2.0 ** (doubling - 1)) / 1e6


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Times of every measured request, and totals of the replica between `from_s` and `to_s`."""

    arrival_s: Seconds  # arrival of each request, s
    began_s: Seconds  # admission of each prompt, s
    first_token_s: Seconds  # first token of each request, s
    finish_s: Seconds  # last token of each request, s
    gaps: Gaps  # gaps between tokens
    from_s: float  # start of the measured interval, s
    to_s: float  # end of the measured interval, s
    running: float  # mean sequences running
    waiting: float  # mean requests waiting
    cache_share: float  # mean share of the KV pool in use
    busy_share: float  # share of the time with a step running
    preempted: float  # preemptions per request
    hit_tokens: float  # prompt tokens found in the prefix cache per request
    finished: int  # requests finished in the measured interval

    @property
    def lasts_s(self) -> float:
        """Length of the measured interval, s."""
        return self.to_s - self.from_s


ARRIVALS, BRANCHES, PROMPTS, OUTPUTS, CLASSES = 0, 1, 2, 3, 4  # random streams of one seed
ARRIVAL_RESOLUTION_S = 2.0**-30  # arrival times are multiples of it, so that sums are exact, s


def draw_uniforms(seed: int, stream: int, count: int) -> Column:
    """Uniform random numbers from 0 to 1; each random quantity has its own stream."""
    numbers: Column = np.random.Generator(np.random.Philox(key=[seed, stream])).random(count)
    return numbers


@lru_cache(maxsize=16)
def stratified_uniforms(seed: int, stream: int, count: int) -> Column:
    """One random number in each of `count` equal intervals from 0 to 1, in random order; read-only.

    Quantities drawn with them have almost exactly their mean and quantiles, so that fewer requests give the same
    precision as independent numbers.
    """
    order, offsets = draw_uniforms(seed, stream, 2 * count).reshape(2, count)
    numbers: Column = (np.argsort(order) + offsets) / count
    numbers.flags.writeable = False
    return numbers


@lru_cache(maxsize=64)
def stratified_quantiles(seed: int, stream: int, count: int) -> Quantiles:
    """The same numbers as quantiles, which many workloads share, with every quantile found once."""
    return Quantiles(stratified_uniforms(seed, stream, count))


def unit_gaps(seed: int, count: int, burstiness: float) -> Column:
    """Gaps between arrivals with mean 1 and coefficient of variation `burstiness`; 1 is a Poisson process.

    Up to 1, a gap is a constant plus an exponential part; above 1, it comes from one of two exponential distributions,
    a short one and a long one, which contribute equally to the mean.
    """
    gaps = -log_of(1 - stratified_uniforms(seed, ARRIVALS, count))
    if burstiness <= 1:
        return 1 - burstiness + burstiness * gaps
    squared = burstiness**2
    share = (1 + float(np.sqrt((squared - 1) / (squared + 1)))) / 2
    short = stratified_uniforms(seed, BRANCHES, count) < share
    return np.where(short, gaps / (2 * share), gaps / (2 * (1 - share)))


@lru_cache(maxsize=64)
def unit_arrivals(seed: int, count: int, burstiness: float) -> Column:
    """Arrival times with these gaps; read-only."""
    arrivals: Column = np.cumsum(unit_gaps(seed, count, burstiness))
    arrivals.flags.writeable = False
    return arrivals


@dataclass(frozen=True, slots=True)
class DrawnRequests:
    """Lengths of random requests, and their arrival at a rate of 1 request/s."""

    unit_arrival_s: Column  # arrival times at 1 request/s, s
    input_tokens: Counts  # prompt tokens
    output_tokens: Counts  # answer tokens
    prefix_tokens: Counts  # prompt tokens that the session left in the cache
    shared_tokens: int = 0  # prefix tokens that all requests share
    reuse_gap_s: float = 0.0  # time since the prefix was stored, s
    populations: Counts | None = None  # index of the population of each request; None if there is only one

    def first_requests(self, count: int) -> DrawnRequests:
        """The first `count` requests."""
        lengths = (self.input_tokens[:count], self.output_tokens[:count], self.prefix_tokens[:count])
        populations = None if self.populations is None else self.populations[:count]
        return DrawnRequests(self.unit_arrival_s[:count], *lengths, self.shared_tokens, self.reuse_gap_s, populations)

    def arrival_s(self, requests_per_s: float) -> Seconds:
        """Arrival times at a rate, s."""
        arrival_s: Seconds = np.rint(self.unit_arrival_s / requests_per_s / ARRIVAL_RESOLUTION_S)
        return arrival_s * ARRIVAL_RESOLUTION_S

    def at_rate(self, requests_per_s: float) -> Requests:
        """The same requests, arriving at a rate."""
        return self._as_requests(self.arrival_s(requests_per_s), 0)

    def take(self, rows: Counts) -> DrawnRequests:
        """Some of the requests."""
        lengths = (self.input_tokens[rows], self.output_tokens[rows], self.prefix_tokens[rows])
        populations = None if self.populations is None else self.populations[rows]
        return DrawnRequests(self.unit_arrival_s[rows], *lengths, self.shared_tokens, self.reuse_gap_s, populations)

    def arriving(self, arrival_s: Seconds) -> Requests:
        """The same requests, arriving at the given times."""
        return self._as_requests(arrival_s, 0)

    def in_flight(self, count: int) -> Requests:
        """The same requests in a closed loop: each is sent as soon as one of `count` requests in flight is answered."""
        return self._as_requests(np.zeros(0), count)

    def _as_requests(self, arrival_s: Column, in_flight: int) -> Requests:
        lengths = (self.input_tokens, self.output_tokens, self.prefix_tokens)
        return Requests(arrival_s, in_flight, *lengths, self.shared_tokens, self.reuse_gap_s)
