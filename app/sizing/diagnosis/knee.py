"""Findings from latencies at several loads, compared with the estimated load curve.

Either the service is slow at any load, or its latency rises at a lower load than expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from app.sizing.diagnosis.case import Case, Evidence, Finding, excess_share
from app.sizing.diagnosis.observed import LoadObservation
from app.sizing.result import Performance
from app.sizing.values.latencies import LoadCurve
from app.sizing.words import format_number
from app.sizing.workload import InferenceWorkload, Load

LATENCY_NAMES = {"ttft": "The first token", "tpot": "An output token"}
PERCENTILE_NAMES = ("p50", "p95", "p99")


def compare_load_levels(case: Case) -> Iterator[Finding]:
    """Compare the latencies at several loads with the expectation, lightest load first."""
    seen = sorted(case.service.by_load, key=lambda point: point.requests_per_s)
    if not seen or case.workload is None or case.workload.load is not Load.OPEN:
        return
    expected = [performance_at_rate(case, point.requests_per_s) for point in seen]
    excesses = [largest_excess(case, point, p, PERCENTILE_NAMES) for point, p in zip(seen, expected, strict=True)]
    light = largest_excess(case, seen[0], expected[0], PERCENTILE_NAMES[:1])
    if light is not None:
        yield slow_at_light_load_finding(seen[0], *light)
        return
    first = next((i for i, found in enumerate(excesses) if found is not None), None)
    if first is not None and (curve := case.expected_performance and case.expected_performance.load_curve):
        yield from find_early_knee(case, seen, first, curve)


def performance_at_rate(case: Case, requests_per_s: float) -> Performance | None:
    """Expected performance of the same deployment at another request rate."""
    w = case.workload
    assert isinstance(w, InferenceWorkload)
    question = replace(case.question, workload=w.scale_load(requests_per_s / w.peak_per_s))
    variant = case.estimate_variant(case.current_deployment(), question)
    return None if variant is None else variant.performance


def largest_excess(
    case: Case, seen: LoadObservation, expected: Performance | None, ranks: Sequence[str]
) -> tuple[str, float, float] | None:
    """The percentile that exceeds its expectation by the largest factor.

    Returns its name, the observed value and the expected value, both in ms.
    """
    if expected is None:
        return None
    candidates: list[tuple[str, float, float]] = []
    for what, rank in product(LATENCY_NAMES, ranks):
        wait, usual = getattr(seen, f"{what}_{rank}_s"), getattr(getattr(expected, what), f"{rank}_s", None)
        wide = case.upper_bound_ratio(f"{what}_s")
        if wait and usual and case.exceeds_expected(wait, usual * (1 if rank == "p50" else 2), wide * usual):
            candidates.append((f"{what}_{rank}_ms", wait * 1e3, usual * 1e3))
    return max(candidates, key=lambda f: f[1] / f[2], default=None)


def slow_at_light_load_finding(seen: LoadObservation, what: str, wait_ms: float, usual_ms: float) -> Finding:
    """Latency is too high even at light load."""
    share = excess_share(wait_ms, usual_ms)
    return Finding(
        "slow_at_light_load",
        f"{LATENCY_NAMES[what.split('_', maxsplit=1)[0]]} takes {format_number(wait_ms)} ms at only "
        f"{format_number(seen.requests_per_s)} requests/s (expected: {format_number(usual_ms)} ms).",
        share,
        (Evidence(what, wait_ms, usual_ms, "ms"),),
        "Load is not the cause. The host, the kernels or a link slows every step.",
        "Profile a single request before you investigate load.",
        share,
        "more accelerators: even a single request is slow",
        ("early_knee", "slow_tail", "late_first_token"),
        ("slow_decode",),
    )


def find_early_knee(case: Case, seen: Sequence[LoadObservation], first: int, curve: LoadCurve) -> Iterator[Finding]:
    """Latency rises at a lower load than the load curve predicts. The cost is the difference between the two loads."""
    point = seen[first]
    expected_rates = [
        rate_at_latency(curve, what, wait) for what in ("ttft", "tpot") if (wait := getattr(point, f"{what}_p95_s"))
    ]
    carried = max(expected_rates, default=curve.knee_per_s)
    share = excess_share(carried, point.requests_per_s)
    if share >= 2 * case.assumptions.diagnosed_least_share:
        yield Finding(
            "early_knee",
            f"Latency is as expected up to {format_number(seen[first - 1].requests_per_s if first else 0.0)} "
            "requests/s. At "
            f"{format_number(point.requests_per_s)} requests/s it matches the expectation for "
            f"{format_number(carried)} requests/s.",
            share,
            (Evidence("knee_requests_per_s", point.requests_per_s, carried, "requests/s"),),
            "Another limit is reached before the hardware limit: batch size, KV cache, router or host.",
            "Check waiting requests, KV cache usage and the host at that load.",
            share,
            "faster accelerators before you know the limit",
        )


def rate_at_latency(curve: LoadCurve, what: str, wait_s: float) -> float:
    """Request rate at which the p95 latency is expected to reach a value, interpolated linearly in log space."""
    waits = np.maximum.accumulate([getattr(point, f"{what}_p95_s") for point in curve.points])
    rates = [point.requests_per_s for point in curve.points]
    return float(np.exp(np.interp(np.log(wait_s), np.log(np.maximum(waits, 1e-9)), np.log(rates))))


CHECKS = (compare_load_levels,)
