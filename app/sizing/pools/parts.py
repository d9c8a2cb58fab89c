"""Workloads of the two pools: all prompts with one output token each, and all outputs with transferred KV caches."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np

from app.sizing.columns import Column, one
from app.sizing.formula import formula
from app.sizing.result import Estimate, Interval, Performance
from app.sizing.values.latencies import LoadPoint, Percentiles
from app.sizing.workload import InferenceWorkload, Lengths, Slo
from app.sizing.workload.longest import MAX_SEQUENCE_TOKENS

FIRST_TOKEN = Lengths(1.0)
MIN_LIMIT_S = 1e-6  # remainder of a limit that is already used up


def remaining_limit_s(limit_s: float | None, used_s: float) -> float | None:
    """Remainder of a latency limit in seconds; None if there is no limit."""
    return None if limit_s is None else max(limit_s - used_s, MIN_LIMIT_S)


def decode_reserve_s(workload: InferenceWorkload) -> float:
    """Part of the TTFT limit that is reserved for admission to the decode pool, in seconds: up to one TPOT limit."""
    slo = workload.slo
    return 0.0 if slo.tpot_s is None or slo.ttft_s is None else min(slo.tpot_s, slo.ttft_s / 2)


def reported_percentile(percentile: float) -> str:
    """The reported percentile that is equal to or next above the requested one."""
    return "p95" if 50 < percentile <= 95 else "p99" if percentile > 95 else "p50"


def ttft_at_limit_s(performance: Performance | None, percentile: float) -> float:
    """TTFT at the percentile of the limits, in seconds; 0 where the queue grows without bound."""
    ttft = None if performance is None else performance.ttft
    return 0.0 if ttft is None else getattr(ttft, f"{reported_percentile(percentile)}_s") or 0.0


@formula(unit="s", source="published benchmarks of disaggregated and aggregated serving")
def split_ttft_s(read_s: Column, split_first_token_factor: float) -> Column:
    """TTFT of a split service, without KV cache transfer and admission to the decode pool.

    A router, two servers and two schedulers process the request instead of one of each.

    Parameters:
        read_s: TTFT of the prefill pool, in seconds.
        split_first_token_factor: assumed ratio of the split service's TTFT to that of the prefill pool.
    Limits: one factor for all engines, loads and prompt lengths.
    Check: 0.3 s * 2 = 0.6 s.
        >>> float(split_ttft_s(0.3, 2.0))
        0.6
    """
    return read_s * split_first_token_factor


def prefill_workload(workload: InferenceWorkload, reserved_s: float, factor: float) -> InferenceWorkload:
    """Workload of the prefill pool: the prompts with one output token each.

    `reserved_s` of the TTFT limit is reserved for transfer and decode pool. The rest is divided by `factor` to get the
    pool's own limit.
    """
    slo, trace = workload.slo, workload.trace
    available_s = remaining_limit_s(slo.e2e_s if slo.ttft_s is None else slo.ttft_s, reserved_s)
    return replace(
        workload,
        output_tokens=FIRST_TOKEN,
        slo=Slo(None if available_s is None else available_s / factor, None, None, slo.percentile),
        trace=None if trace is None else replace(trace, output_tokens=np.ones_like(trace.output_tokens)),
    )


def with_client_ttft(found: Estimate, factor: float) -> Estimate:
    """Prefill estimate with TTFT as the client sees it, after the request moves to the decode pool."""
    p = found.performance
    if p is None or p.ttft is None:
        return found

    def client_wait_s(wait_s: float | None) -> float | None:
        return None if wait_s is None else one(split_ttft_s(np.array([wait_s]), factor))

    def rescale_interval(interval: Interval) -> Interval:
        if interval.quantity != "ttft_s":
            return interval
        return replace(interval, low=interval.low * factor, high=interval.high * factor)

    def rescale_point(point: LoadPoint) -> LoadPoint:
        return replace(point, ttft_p50_s=point.ttft_p50_s * factor, ttft_p95_s=point.ttft_p95_s * factor)

    curve = p.load_curve
    return replace(
        found,
        performance=replace(
            p,
            ttft=Percentiles(*map(client_wait_s, astuple(p.ttft))),
            intervals=tuple(map(rescale_interval, p.intervals)),
            load_curve=None if curve is None else replace(curve, points=tuple(map(rescale_point, curve.points))),
        ),
    )


def decode_workload(workload: InferenceWorkload, before_s: float) -> InferenceWorkload:
    """Workload of the decode pool: outputs after prompts whose KV cache is already there, except for the last prompt
    token.

    `before_s` is the time that a request has already taken when it arrives.
    """
    slo, trace, prompt = workload.slo, workload.trace, workload.input_tokens.mean
    return replace(
        workload,
        cached_prefix_fraction=max(0.0, 1 - 1 / prompt),
        shared_prefix_fraction=MAX_SEQUENCE_TOKENS / prompt,  # never evicted: a prompt arrives with its KV cache
        turn_gap_s=0.0,
        comes_read=True,
        encoder_flops_per_request=0.0,
        slo=Slo(
            remaining_limit_s(slo.ttft_s, before_s), slo.tpot_s, remaining_limit_s(slo.e2e_s, before_s), slo.percentile
        ),
        trace=None if trace is None else replace(trace, prefix_tokens=np.maximum(trace.input_tokens - 1, 0)),
    )
