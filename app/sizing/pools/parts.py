"""What either pool has to do of a workload: all prompts with one token each, or all answers from caches that come."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np

from app.sizing.columns import Column, one
from app.sizing.formula import formula
from app.sizing.result import Estimate, Interval, Performance
from app.sizing.values.latencies import LoadPoint, Percentiles
from app.sizing.workload import InferenceWorkload, Lengths, Slo
from app.sizing.workload.longest import MOST_TOKENS

FIRST_TOKEN = Lengths(1.0)
LEAST_LIMIT_S = 1e-6  # what is left of a limit that was used up elsewhere


def left_of(limit_s: float | None, used_s: float) -> float | None:
    """What is left of a limit."""
    return None if limit_s is None else max(limit_s - used_s, LEAST_LIMIT_S)


def reserve_s(workload: InferenceWorkload) -> float:
    """Of the time to a first token what is left to the decode pool, to let it in: as long as a token may take."""
    slo = workload.slo
    return 0.0 if slo.tpot_s is None or slo.ttft_s is None else min(slo.tpot_s, slo.ttft_s / 2)


def shown_at(percentile: float) -> str:
    """The percentile shown that is next above the one asked for."""
    return "p95" if 50 < percentile <= 95 else "p99" if percentile > 95 else "p50"


def at_limit_s(performance: Performance | None, percentile: float) -> float:
    """Time to the first token at the percentile of the limits; none where the queue never empties."""
    ttft = None if performance is None else performance.ttft
    return 0.0 if ttft is None else getattr(ttft, f"{shown_at(percentile)}_s") or 0.0


@formula(unit="s", source="published results of two pools beside those of one")
def handed_over_s(read_s: Column, split_first_token_factor: float) -> Column:
    """Time to a first token that is handed from one pool to the other, transfer and room there apart.

    Source: the assumption's; a router, two servers and two schedulers see a request instead of one.
    Limits: one factor for every engine, load and length.
    Check:
        >>> float(handed_over_s(0.3, 2.0))
        0.6
    """
    return read_s * split_first_token_factor


def prefill_of(workload: InferenceWorkload, beside_s: float, factor: float) -> InferenceWorkload:
    """The prompts with their first tokens; `beside_s` of the time to these goes to the transfer and the other pool, and
    the rest is `factor` times what the pool itself may take.
    """
    slo, trace = workload.slo, workload.trace
    left_s = left_of(slo.e2e_s if slo.ttft_s is None else slo.ttft_s, beside_s)
    return replace(
        workload,
        output_tokens=FIRST_TOKEN,
        slo=Slo(None if left_s is None else left_s / factor, None, None, slo.percentile),
        trace=None if trace is None else replace(trace, output_tokens=np.ones_like(trace.output_tokens)),
    )


def handed_over(found: Estimate, factor: float) -> Estimate:
    """A pool that reads with the waits that a client sees: its first tokens are handed over."""
    p = found.performance
    if p is None or p.ttft is None:
        return found

    def seen(wait_s: float | None) -> float | None:
        return None if wait_s is None else one(handed_over_s(np.array([wait_s]), factor))

    def of(interval: Interval) -> Interval:
        if interval.quantity != "ttft_s":
            return interval
        return replace(interval, low=interval.low * factor, high=interval.high * factor)

    def at(point: LoadPoint) -> LoadPoint:
        return replace(point, ttft_p50_s=point.ttft_p50_s * factor, ttft_p95_s=point.ttft_p95_s * factor)

    curve = p.load_curve
    return replace(
        found,
        performance=replace(
            p,
            ttft=Percentiles(*map(seen, astuple(p.ttft))),
            intervals=tuple(map(of, p.intervals)),
            load_curve=None if curve is None else replace(curve, points=tuple(map(at, curve.points))),
        ),
    )


def decode_of(workload: InferenceWorkload, before_s: float) -> InferenceWorkload:
    """The answers to prompts whose cache is there, the last token of each apart; `before_s` of a request are over when
    they come.
    """
    slo, trace, prompt = workload.slo, workload.trace, workload.input_tokens.mean
    return replace(
        workload,
        cached_prefix_fraction=max(0.0, 1 - 1 / prompt),
        shared_prefix_fraction=MOST_TOKENS / prompt,  # none of it is ever evicted: a prompt comes with its cache
        turn_gap_s=0.0,
        comes_read=True,
        encoder_flops_per_request=0.0,
        slo=Slo(left_of(slo.ttft_s, before_s), slo.tpot_s, left_of(slo.e2e_s, before_s), slo.percentile),
        trace=None if trace is None else replace(trace, prefix_tokens=np.maximum(trace.input_tokens - 1, 0)),
    )
