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
    mean_token_s: Column  # mean time per later token, s; 0 for requests of one token
    e2e_s: Column  # end-to-end latency, s
    queued_s: Column  # time until admission, s
    later_tokens: Codes  # tokens after the first

    def meets_limits(self, slo: Slo) -> Mask:
        """Which requests meet every limit."""
        limits = ((self.first_s, slo.ttft_s), (self.mean_token_s, slo.tpot_s), (self.e2e_s, slo.e2e_s))
        checks = [wait <= limit for wait, limit in limits if limit is not None]
        meets_all: Mask = np.logical_and.reduce(checks or [self.first_s >= 0])
        return meets_all

    def summarize_waits(self, percentiles: Sequence[float]) -> Waits:
        """Means and percentiles of TTFT, TPOT, end-to-end latency and time in the queue, s."""
        waits_s, several = [self.first_s, self.mean_token_s, self.e2e_s, self.queued_s], self.later_tokens > 0
        if several.all():
            return summarize_each(np.stack(waits_s), percentiles)
        waits_s[1] = self.mean_token_s[several]
        return np.concatenate([summarize_each(wait_s[None], percentiles) for wait_s in waits_s])


def class_parts(
    workload: InferenceWorkload, window: RequestWindow, waited: RequestWaits
) -> list[tuple[float, Slo, RequestWaits]]:
    """Share, limits and measured requests of every traffic class; one entry if the workload has no classes."""
    if window.populations is None:
        return [(1.0, workload.slo, waited)]
    which = window.populations[window.warm : window.wanted]
    kinds = group_populations(workload.classes)
    parts = []
    for each in workload.classes:
        (index,) = (i for i, kind in enumerate(kinds) if kind.contains_class(each))
        share = each.peak_per_s / workload.peak_per_s
        parts.append((share, each.slo, waited.take(np.flatnonzero(which == index))))
    return parts


def simulate_load(workload: InferenceWorkload, replica: Replica, window: RequestWindow) -> LoadPoint:
    """Simulate a replica with the requests it receives at one load."""
    result = simulate_replica(replica, window.requests, warm=window.warm, wanted=window.wanted)
    later = window.requests.output_tokens[window.warm : window.wanted] - 1
    first = result.first_token_s - result.arrival_s
    # Pipeline stages emit the first token late, so a short answer may finish before it.
    streamed = np.maximum(result.finish_s - result.first_token_s, 0.0)
    token = np.divide(streamed, later, out=np.zeros(len(later)), where=later > 0)
    queued = np.maximum(result.began_s - result.arrival_s, 0.0)
    waited = RequestWaits(first, token, first + streamed, queued, later)
    parts = class_parts(workload, window, waited)
    shares = (*QUANTILES, workload.slo.percentile)
    gap_s = [streamed.sum() / max(later.sum(), 1), *result.gaps.quantiles_s(shares)]
    return LoadPoint(
        waits_s=np.vstack([waited.summarize_waits(shares), gap_s]),
        answered_per_s=result.finished / max(result.lasts_s, MIN_RATE_PER_S),
        running=result.running,
        cache_share=result.cache_share,
        preempted=result.preempted,
        goodput_share=sum(share * float(part.meets_limits(slo).mean()) for share, slo, part in parts),
        requests=window.wanted,
        by_class=tuple(part.summarize_waits((*QUANTILES, slo.percentile))[:3] for _, slo, part in parts)
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
    return np.column_stack([waits_s.mean(axis=1), np.sort(waits_s, axis=1)[:, ranks]])
