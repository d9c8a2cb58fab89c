"""Findings about latency: queue time, TTFT, TPOT and its tail, and output throughput while requests wait."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.diagnosis.case import Case, Evidence, Finding, excess_share
from app.sizing.result import Performance
from app.sizing.values.latencies import Percentiles
from app.sizing.words import format_number

# Cause and change for slow decode steps: first for a replica of several accelerators, then for one of a single one.
MULTI_ACCELERATOR_ADVICE = (
    "Steps run without CUDA graphs, or the link between accelerators is slower than it should be.",
    "Make sure that eager mode is off. Check that the accelerators communicate over the fast link.",
)
SINGLE_ACCELERATOR_ADVICE = (
    "Steps run without CUDA graphs, kernels do not suit the number format, or another process uses the accelerator.",
    "Make sure that eager mode is off. Check in the log which kernels run, and look for other processes on the card.",
)


def find_queueing(case: Case) -> Iterator[Finding]:
    """Requests wait longer for prefill than expected at this load."""
    p, s = case.expected_performance, case.service
    if p is None or p.simulation is None or s.queue_p50_s is None or not s.ttft_p50_s:
        return
    usual = p.simulation.queue.p50_s
    if usual is None or not case.exceeds_expected(s.queue_p50_s, usual):
        return
    excess_s = s.queue_p50_s - usual
    share = case.share_of_request(excess_s)
    if (
        excess_s > case.assumptions.diagnosed_idle_share * s.ttft_p50_s
        and share >= case.assumptions.diagnosed_least_share
    ):
        yield Finding(
            "queueing",
            f"The median queue time is {format_number(s.queue_p50_s * 1e3)} ms (expected: "
            f"{format_number(usual * 1e3)} ms).",
            share,
            (Evidence("queue_p50_ms", s.queue_p50_s * 1e3, usual * 1e3, "ms"),),
            "Requests arrive in bursts, or a component before the engine delays them.",
            "Measure the bursts and plan with `burstiness`. Check the queue of the router.",
            share,
            "faster accelerators",
            ("late_first_token", "early_knee", "slow_tail", "idle_fleet"),
        )


def find_late_first_token(case: Case) -> Iterator[Finding]:
    """TTFT is too high, excess queue time not included."""
    p, s = case.expected_performance, case.service
    if p is None or p.ttft is None or not p.ttft.p50_s or s.ttft_p50_s is None:
        return
    queue = None if p.simulation is None else p.simulation.queue.p50_s
    seen, usual = s.ttft_p50_s, p.ttft.p50_s
    if s.queue_p50_s is not None and queue is not None:
        seen = max(0.0, seen - max(0.0, s.queue_p50_s - queue))
    if case.exceeds_expected(seen, usual, case.upper_bound("ttft_s", "p50")):
        share = case.share_of_request(seen - usual)
        if share < case.assumptions.diagnosed_least_share:
            return
        yield Finding(
            "late_first_token",
            f"The median TTFT without excess queueing is {format_number(seen * 1e3)} ms (expected: "
            f"{format_number(usual * 1e3)} ms).",
            share,
            (Evidence("ttft_p50_ms", seen * 1e3, usual * 1e3, "ms"),),
            "Prefill is slower than the hardware allows, because of kernels, small prefill chunks or tokenization.",
            "Raise max_batched_tokens, check the attention kernel in the log, and give tokenization more CPU cores.",
            share,
            "accelerators with more memory",
            ("slow_tail", "early_knee", "idle_fleet"),
        )


def find_slow_decode(case: Case) -> Iterator[Finding]:
    """TPOT is higher than memory bandwidth allows with the observed number of running requests."""
    p, s = case.expected_performance, case.service
    if p is None or p.tpot is None or not p.tpot.p50_s or s.tpot_p50_s is None:
        return
    seen, usual, wide = s.tpot_p50_s, p.tpot.p50_s, case.upper_bound_ratio("tpot_s")
    if not case.exceeds_expected(seen, usual, wide * usual):
        return
    full = case.performance_at_observed_batch()
    if full is not None and full.tpot is not None and full.tpot.p50_s:
        usual = max(usual, full.tpot.p50_s)
    if case.exceeds_expected(seen, usual, wide * usual):
        share = excess_share(seen, usual)
        linked = (case.expected_estimate.deployment.accelerators_per_replica or 1) > 1
        yield Finding(
            "slow_decode",
            f"The median TPOT is {format_number(seen * 1e3)} ms (expected at this batch size: "
            f"{format_number(usual * 1e3)} ms).",
            share,
            (Evidence("tpot_p50_ms", seen * 1e3, usual * 1e3, "ms"),),
            MULTI_ACCELERATOR_ADVICE[0] if linked else SINGLE_ACCELERATOR_ADVICE[0],
            MULTI_ACCELERATOR_ADVICE[1] if linked else SINGLE_ACCELERATOR_ADVICE[1],
            share,
            "accelerators with more memory",
            ("low_throughput", "queueing", "early_knee", "slow_tail", "cache_full", "idle_fleet"),
            ("late_first_token",),
        )


def find_slow_tail(case: Case) -> Iterator[Finding]:
    """A few requests wait far longer than expected while the median is as expected. The cost is what these few requests
    lose.
    """
    p, s = case.expected_performance, case.service
    if p is None:
        return
    percentiles = (
        ("ttft", "p95", s.ttft_p50_s, s.ttft_p95_s, 0.05),
        ("ttft", "p99", s.ttft_p50_s, s.ttft_p99_s, 0.01),
        ("tpot", "p95", s.tpot_p50_s, s.tpot_p95_s, 0.05),
    )
    findings = [
        f for what, rank, half, tail, of in percentiles if (f := tail_finding(case, p, what, rank, half, tail, of))
    ]
    if findings:
        yield max(findings, key=lambda f: f.known_cost_share)


def tail_finding(
    case: Case, p: Performance, what: str, rank: str, half_s: float | None, tail_s: float | None, tail_share: float
) -> Finding | None:
    """The finding for one percentile; None if it is as expected, or if the median is too high as well."""
    usual: Percentiles | None = getattr(p, what)
    if usual is None or tail_s is None or half_s is None or not usual.p50_s:
        return None
    expected = getattr(usual, f"{rank}_s")
    wide = case.upper_bound_ratio(f"{what}_s")
    if not expected or not case.exceeds_expected(tail_s, 2 * expected, wide * expected):
        return None
    if case.exceeds_expected(half_s, usual.p50_s, case.upper_bound(f"{what}_s", "p50")):
        return None
    share = tail_share * excess_share(tail_s, expected)
    name = {"ttft": "first token", "tpot": "output token"}[what]
    return Finding(
        "slow_tail",
        f"One {name} in {format_number(1 / tail_share)} takes {format_number(tail_s * 1e3)} ms or more (expected: "
        f"{format_number(expected * 1e3)} "
        f"ms). The median is as expected.",
        share,
        (Evidence(f"{what}_{rank}_ms", tail_s * 1e3, expected * 1e3, "ms"),),
        "A few long prompts, short bursts, or a replica or host that pauses now and then cause the tail.",
        "Compare replicas and hours of the day. Limit the longest prompts or route them separately.",
        share,
        "faster accelerators",
        ("idle_fleet",),
    )


def find_stalled_tokens(case: Case) -> Iterator[Finding]:
    """A few tokens take far longer than the median."""
    p, s = case.expected_performance, case.service
    if p is None or p.simulation is None or not s.inter_token_p50_s or s.inter_token_p99_s is None:
        return
    usual = p.simulation.inter_token
    if not usual.p50_s or not usual.p99_s:
        return
    ratio, expected = s.inter_token_p99_s / s.inter_token_p50_s, usual.p99_s / usual.p50_s
    if not case.exceeds_expected(ratio, 2 * expected):
        return
    share = 0.01 * (ratio - expected) / (0.99 + 0.01 * ratio)
    yield Finding(
        "stalled_tokens",
        f"The p99 inter-token latency is {format_number(ratio)} times the median (expected: "
        f"{format_number(expected)} times).",
        share,
        (Evidence("inter_token_p99_over_p50", ratio, expected, "1"),),
        "The prefill of long prompts delays the decode of other requests (head-of-line blocking).",
        "Enable chunked prefill, or lower max_batched_tokens.",
        share,
        "more accelerators",
        ("slow_tail", "idle_fleet"),
    )


def find_low_throughput(case: Case) -> Iterator[Finding]:
    """Output throughput is below what the hardware allows although requests wait."""
    p, s = case.expected_performance, case.service
    if p is None or s.output_tokens_per_s is None or not case.has_standing_queue or not p.requests_per_s_capacity:
        return
    w = case.workload
    possible = p.output_tokens_per_s if w is None else p.requests_per_s_capacity * w.output_tokens.mean
    if not possible or not p.output_tokens_per_s:
        return
    low = p.interval.low / p.output_tokens_per_s if p.interval.quantity == "output_tokens_per_s" else 1.0
    bound = possible * min(low, 1 / (1 + case.assumptions.diagnosed_slower_share))
    if s.output_tokens_per_s < bound:
        share = excess_share(possible, s.output_tokens_per_s)
        yield Finding(
            "low_throughput",
            f"Output throughput is {format_number(s.output_tokens_per_s)} tokens/s while requests wait. The hardware "
            "allows "
            f"{format_number(possible)} tokens/s.",
            share,
            (Evidence("output_tokens_per_s", s.output_tokens_per_s, possible, "tokens/s"),),
            "The host or the engine limits throughput, not the accelerators.",
            "Profile the engine process. Give it more CPU cores or more API servers.",
            share,
            "more accelerators",
            ("queueing",),
        )


CHECKS = (
    find_queueing,
    find_late_first_token,
    find_slow_decode,
    find_slow_tail,
    find_stalled_tokens,
    find_low_throughput,
)
