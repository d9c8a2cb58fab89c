"""What goes into the simulation of one replica, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
Counts = NDArray[np.int64]

MIXED, PREFILL_FIRST = 0, 1  # chunks of prompts share steps with decodes, or have steps of their own, first
RECOMPUTED, SWAPPED, NEVER = 0, 1, 2  # what becomes of a sequence that loses its room

# Gaps between tokens are counted by their length in microseconds: 64 bins to every doubling.
GAP_BINS_PER_DOUBLING = 64
GAP_DOUBLINGS = 34  # up to more than four hours


class Replica(NamedTuple):
    """A scheduler's settings and the seconds of its steps; a step takes B decodes and P tokens of prompts.

    A step's linear layers cost `linear_s` at B + prompt_equivalent * P tokens (a grid: every number up to
    `linear_exact`, then every `linear_stride`th), attention by the contexts of what runs; everything else
    of a decode step is in `decode_s`, by B. Cache and attention of one sequence of c tokens are
    fixed + token * c + sum over windows of window * min(c, W). A prompt is computed by one of the ranks: a step
    lasts as long as the fullest of them.
    """

    policy: int
    chunked: bool  # whether a prompt may be computed in several steps
    max_batched_tokens: int
    max_sequences: int
    preemption: int
    receive_interval_steps: int  # between looks for new requests while anything decodes; 1: every step
    batch_wait_steps: int  # that prompts wait for company; 0: none
    batch_wait_share: float  # of a full step's tokens, from which they no longer wait
    planning_lag_steps: int  # a step is planned so many steps ahead
    decode_s: Seconds  # by number of decodes: a step without its attention
    linear_s: Seconds
    linear_exact: int
    linear_stride: int
    prompt_equivalent: float  # tokens of decoding that multiply as long as one of a prompt
    prompt_fixed_tokens: float  # the same for what comes with every prompt: its last token's head, its images
    prompt_token_s: float  # links, by token
    prompt_step_s: float  # latency of a step with prompts alone
    dispatch_s: float  # least of a step with prompts
    prompt_attention_s: Seconds  # per token of a prompt of so many tokens: a grid of every doubling's eighth
    stages: int  # of a pipeline
    ranks: int  # that step together, each with prompts of its own; all else is of all of them
    pooled_share: float  # of multiplying prompts, what all ranks do together
    stages_overlap: bool  # chunks of one prompt pass stages one behind another
    attention_token_s: float
    window_tokens: Counts
    window_attention_s: Seconds
    cache_fixed_bytes: float
    cache_token_bytes: float
    window_cache_bytes: Seconds
    cache_bytes: float  # of the pool
    output_reserve_share: float  # of a request's output, room that is set aside when it is admitted
    swap_token_s: float
    ingest_s: float  # of a request, whatever its length, beside others'
    tokenise_token_s: float  # of a prompt, one request after another
    stream_token_s: float  # of the server, for every token it streams


class Requests(NamedTuple):
    """What arrives. `arrival_s` is empty in a closed loop, where `in_flight` are always there."""

    arrival_s: Seconds
    in_flight: int
    input_tokens: Counts
    output_tokens: Counts
    prefix_tokens: Counts  # of a prompt, what its session left in the cache
    shared_tokens: int  # of it, what all requests share
    reuse_gap_s: float  # since it was left there


@dataclass(frozen=True, slots=True)
class Gaps:
    """Tokens by the time since the one before, in bins of microseconds."""

    tokens: Counts

    def quantile_s(self, percentile: float) -> float:
        """Seconds that so many percent of the gaps do not exceed."""
        total = int(self.tokens.sum())
        if not total:
            return 0.0
        rank = np.searchsorted(np.cumsum(self.tokens), percentile / 100 * total)
        return gap_s(min(int(rank), len(self.tokens) - 1))


def gap_s(place: int) -> float:
    """Middle of a bin."""
    doubling, part = divmod(place, GAP_BINS_PER_DOUBLING)
    if doubling == 0:
        return (part + 0.5) / 1e6
    return float((GAP_BINS_PER_DOUBLING + part + 0.5) * 2.0 ** (doubling - 1)) / 1e6


@dataclass(frozen=True, slots=True)
class Simulated:
    """Every request's times, and what the replica did between `from_s` and `to_s`."""

    arrival_s: Seconds
    began_s: Seconds  # when the prompt was let in
    first_token_s: Seconds
    finish_s: Seconds
    gaps: Gaps
    from_s: float
    to_s: float
    running: float  # mean sequences
    waiting: float
    cache_share: float  # of the pool, in the mean
    busy_share: float  # of the time
    preempted: float  # per request
    hit_tokens: float  # per request
    finished: int  # between the two

    @property
    def lasts_s(self) -> float:
        """Seconds of the measured stretch."""
        return self.to_s - self.from_s
