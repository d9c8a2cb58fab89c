"""Random requests from a seed, identical on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column
from app.sizing.exact import log_of
from app.sizing.serving.simulation.record import Counts, Requests

ARRIVALS, BRANCHES, PROMPTS, OUTPUTS, CLASSES = 0, 1, 2, 3, 4  # random streams of one seed
ARRIVAL_RESOLUTION_S = 2.0**-30  # arrival times are multiples of it, so that sums are exact, s


def draw_uniforms(seed: int, stream: int, count: int) -> Column:
    """Uniform random numbers from 0 to 1; each random quantity has its own stream."""
    numbers: Column = np.random.Generator(np.random.Philox(key=[seed, stream])).random(count)
    return numbers


def unit_gaps(seed: int, count: int, burstiness: float) -> Column:
    """Gaps between arrivals with mean 1 and coefficient of variation `burstiness`; 1 is a Poisson process.

    Up to 1, a gap is a constant plus an exponential part; above 1, it comes from one of two exponential distributions,
    a short one and a long one, which contribute equally to the mean.
    """
    gaps = -log_of(1 - draw_uniforms(seed, ARRIVALS, count))
    if burstiness <= 1:
        return 1 - burstiness + burstiness * gaps
    squared = burstiness**2
    share = (1 + float(np.sqrt((squared - 1) / (squared + 1)))) / 2
    short = draw_uniforms(seed, BRANCHES, count) < share
    return np.where(short, gaps / (2 * share), gaps / (2 * (1 - share)))


@dataclass(frozen=True, slots=True)
class DrawnRequests:
    """Lengths of random requests, and the gaps between them at a rate of 1 request/s."""

    unit_gaps: Column  # gaps between arrivals at 1 request/s, s
    input_tokens: Counts  # prompt tokens
    output_tokens: Counts  # answer tokens
    prefix_tokens: Counts  # prompt tokens that the session left in the cache
    shared_tokens: int = 0  # prefix tokens that all requests share
    reuse_gap_s: float = 0.0  # time since the prefix was stored, s

    def first_requests(self, count: int) -> DrawnRequests:
        """The first `count` requests."""
        lengths = (self.input_tokens[:count], self.output_tokens[:count], self.prefix_tokens[:count])
        return DrawnRequests(self.unit_gaps[:count], *lengths, self.shared_tokens, self.reuse_gap_s)

    def at_rate(self, requests_per_s: float) -> Requests:
        """The same requests, arriving at a rate."""
        arrival_s = np.cumsum(self.unit_gaps) / requests_per_s
        return self._as_requests(np.rint(arrival_s / ARRIVAL_RESOLUTION_S) * ARRIVAL_RESOLUTION_S, 0)

    def in_flight(self, count: int) -> Requests:
        """The same requests in a closed loop: each is sent as soon as one of `count` requests in flight is answered."""
        return self._as_requests(np.zeros(0), count)

    def _as_requests(self, arrival_s: Column, in_flight: int) -> Requests:
        lengths = (self.input_tokens, self.output_tokens, self.prefix_tokens)
        return Requests(arrival_s, in_flight, *lengths, self.shared_tokens, self.reuse_gap_s)
