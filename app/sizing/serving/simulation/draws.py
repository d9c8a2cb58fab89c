"""Requests drawn by chance, from a seed: the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column
from app.sizing.exact import log_of
from app.sizing.serving.simulation.record import Counts, Requests

ARRIVALS, BRANCHES, PROMPTS, OUTPUTS, CLASSES = 0, 1, 2, 3, 4  # streams of one seed
ARRIVAL_GRAIN_S = 2.0**-30  # to which times of arrival are rounded, so that sums keep them


def uniforms(seed: int, stream: int, count: int) -> Column:
    """Numbers between 0 and 1, one stream for each thing that is left to chance."""
    found: Column = np.random.Generator(np.random.Philox(key=[seed, stream])).random(count)
    return found


def unit_gaps(seed: int, count: int, burstiness: float) -> Column:
    """Gaps between arrivals with mean 1 and this coefficient of variation; 1: Poisson.

    Up to 1 a fixed part and an exponential one; beyond it two exponentials of equal weight, one short, one long.
    """
    gaps = -log_of(1 - uniforms(seed, ARRIVALS, count))
    if burstiness <= 1:
        return 1 - burstiness + burstiness * gaps
    squared = burstiness**2
    share = (1 + float(np.sqrt((squared - 1) / (squared + 1)))) / 2
    short = uniforms(seed, BRANCHES, count) < share
    return np.where(short, gaps / (2 * share), gaps / (2 * (1 - share)))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Lengths of requests and gaps between them at a rate of one a second."""

    unit_gaps: Column
    input_tokens: Counts
    output_tokens: Counts
    prefix_tokens: Counts
    shared_tokens: int = 0
    reuse_gap_s: float = 0.0

    def first(self, count: int) -> Drawn:
        """The first so many of the requests."""
        lengths = (self.input_tokens[:count], self.output_tokens[:count], self.prefix_tokens[:count])
        return Drawn(self.unit_gaps[:count], *lengths, self.shared_tokens, self.reuse_gap_s)

    def at_rate(self, requests_per_s: float) -> Requests:
        """The same requests arriving at a rate."""
        arrival_s = np.cumsum(self.unit_gaps) / requests_per_s
        return self._arriving(np.rint(arrival_s / ARRIVAL_GRAIN_S) * ARRIVAL_GRAIN_S, 0)

    def in_flight(self, count: int) -> Requests:
        """The same requests, each sent as soon as one of so many is answered."""
        return self._arriving(np.zeros(0), count)

    def _arriving(self, arrival_s: Column, in_flight: int) -> Requests:
        lengths = (self.input_tokens, self.output_tokens, self.prefix_tokens)
        return Requests(arrival_s, in_flight, *lengths, self.shared_tokens, self.reuse_gap_s)
