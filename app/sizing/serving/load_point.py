"""One simulated load of a replica: the requests that it receives, and the waits of those that are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.serving.interfaces import QUANTILES
from app.sizing.serving.simulation import Replica, Requests, simulate_replica
from app.sizing.workload import InferenceWorkload, Slo, group_populations

MIN_RATE_PER_S = 1e-9

Waits = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RequestWindow:
    """Requests that a replica receives at a load, of which the first `warm` are not measured."""

    requests: Requests  # requests in order of arrival
    warm: int  # first requests, not measured
    wanted: int  # requests until measurement ends
    populations: Codes | None = None  # index of the population of each request; None if there is only one


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Simulation result of a replica at one load."""

    waits_s: Waits  # WAITS by STATISTIC_COLUMNS, s
    answered_per_s: float  # answered requests/s
    running: float  # mean sequences running
    cache_share: float  # mean share of the KV pool in use
    preempted: float  # preemptions per request
    goodput_share: float  # share of requests that meet every limit
    requests: int  # simulated requests
    by_class: tuple[Waits, ...] = ()  # waits of each traffic class, s


@dataclass(frozen=True, slots=True)
class RequestWaits(Columns):
    """Waits of every measured request."""

    first_s: Column  # TTFT, s
    streamed_s: Column  # time from the first token to the last, s
    queued_s: Column  # time until admission, s
    later_tokens: Codes  # tokens after the first

    @property
    def e2e_s(self) -> Column:
        """End-to-end latency, s."""
        return self.first_s + self.streamed_s

    @property
    def mean_token_s(self) -> Column:
        """Mean time per later token of each request, s; 0 for requests of one token."""
        later = self.later_tokens
        return np.divide(self.streamed_s, later, out=np.zeros(len(later)), where=later > 0)

    def meets_limits(self, slo: Slo) -> Mask:
        """Which requests meet every limit."""
        limits = ((self.first_s, slo.ttft_s), (self.mean_token_s, slo.tpot_s), (self.e2e_s, slo.e2e_s))
        checks = [wait <= limit for wait, limit in limits if limit is not None]
        meets_all: Mask = np.logical_and.reduce(checks or [self.first_s >= 0])
        return meets_all

    def summarize_waits(self, percentiles: Sequence[float]) -> Waits:
        """Means and percentiles of TTFT, TPOT, end-to-end latency and time in the queue, s."""
        token, several = self.mean_token_s, self.later_tokens > 0
        if several.all():
            return summarize_each(np.stack([self.first_s, token, self.e2e_s, self.queued_s]), percentiles)
        first, whole, queued = summarize_each(np.stack([self.first_s, self.e2e_s, self.queued_s]), percentiles)
        return np.stack([first, summarize_each(token[None, several], percentiles)[0], whole, queued])


def class_parts(workload: InferenceWorkload, window: RequestWindow) -> list[tuple[float, Slo, Codes]]:
    """Share, limits and measured requests of every traffic class; one entry if the workload has no classes."""
    every = np.arange(window.wanted - window.warm)
    if window.populations is None:
        return [(1.0, workload.slo, every)]
    which = window.populations[window.warm : window.wanted]
    kinds = group_populations(workload.classes)
    parts = []
    for each in workload.classes:
        (index,) = (i for i, kind in enumerate(kinds) if kind.contains_class(each))
        parts.append((each.peak_per_s / workload.peak_per_s, each.slo, every[which == index]))
    return parts


def simulate_load(workload: InferenceWorkload, replica: Replica, window: RequestWindow) -> LoadPoint:
    """Simulate a replica with the requests it receives at one load."""
    result = simulate_replica(replica, window.requests, warm=window.warm, wanted=window.wanted)
    later = window.requests.output_tokens[window.warm : window.wanted] - 1
    first = result.first_token_s - result.arrival_s
    # Pipeline stages emit the first token late, so a short answer may finish before it.
    streamed = np.maximum(result.finish_s - result.first_token_s, 0.0)
    waited = RequestWaits(first, streamed, np.maximum(result.began_s - result.arrival_s, 0.0), later)
    parts = class_parts(workload, window)
    shares = (*QUANTILES, workload.slo.percentile)
    gap_s = [streamed.sum() / max(later.sum(), 1), *map(result.gaps.quantile_s, shares)]
    return LoadPoint(
        waits_s=np.vstack([waited.summarize_waits(shares), gap_s]),
        answered_per_s=result.finished / max(result.lasts_s, MIN_RATE_PER_S),
        running=result.running,
        cache_share=result.cache_share,
        preempted=result.preempted,
        goodput_share=sum(share * float(waited.take(rows).meets_limits(slo).mean()) for share, slo, rows in parts),
        requests=window.wanted,
        by_class=tuple(waited.take(rows).summarize_waits((*QUANTILES, slo.percentile))[:3] for _, slo, rows in parts)
        if workload.classes
        else (),
    )


def summarize_each(waits_s: Waits, percentiles: Sequence[float]) -> Waits:
    """Mean and percentiles of every row of waits, s; zeros where there are none.

    A percentile is the smallest wait that at least that share does not exceed.
    """
    kinds, count = waits_s.shape
    if not count:
        return np.zeros((kinds, 1 + len(percentiles)))
    ranks = [max(int(np.ceil(q / 100 * count)) - 1, 0) for q in percentiles]
    ordered = np.partition(waits_s, sorted({*ranks}), axis=1)
    return np.column_stack([waits_s.mean(axis=1), ordered[:, ranks]])
