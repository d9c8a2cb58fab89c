"""Findings about a service: its load, full batches and caches, latency, and latency at several loads.

Either the service is slow at any load, or its latency rises at a lower load than expected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from app.sizing.columns import SECONDS_PER_DAY
from app.sizing.diagnosis.case import Case, LoadObservation, excess_share, speed_loss_share
from app.sizing.diagnosis.findings import Evidence, Finding, build_finding
from app.sizing.question import Deployment, Question
from app.sizing.result import LoadCurve, Percentiles, Performance
from app.sizing.words import format_count, format_number
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
    return build_finding(
        "slow_at_light_load",
        f"{LATENCY_NAMES[what.split('_', maxsplit=1)[0]]} takes {format_number(wait_ms)} ms at only "
        f"{format_number(seen.requests_per_s)} requests/s (expected: {format_number(usual_ms)} ms).",
        share,
        (Evidence(what, wait_ms, usual_ms, "ms"),),
        share,
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
        yield build_finding(
            "early_knee",
            f"Latency is as expected up to {format_number(seen[first - 1].requests_per_s if first else 0.0)} "
            f"requests/s. At {format_number(point.requests_per_s)} requests/s it matches the expectation for "
            f"{format_number(carried)} requests/s.",
            share,
            (Evidence("knee_requests_per_s", point.requests_per_s, carried, "requests/s"),),
            share,
        )


def rate_at_latency(curve: LoadCurve, what: str, wait_s: float) -> float:
    """Request rate at which the p95 latency is expected to reach a value, interpolated linearly in log space."""
    waits = np.maximum.accumulate([getattr(point, f"{what}_p95_s") for point in curve.points])
    rates = [point.requests_per_s for point in curve.points]
    return float(np.exp(np.interp(np.log(wait_s), np.log(np.maximum(waits, 1e-9)), np.log(rates))))


CURVE_CHECKS = (compare_load_levels,)


PEAK_WINDOW_S = 10.0  # window over which the peak rate is counted, s
BURST_DEVIATIONS = 4.0  # standard deviations above which a peak is not chance


def find_overload(case: Case) -> Iterator[Finding]:
    """More requests arrive than the deployment can serve within the limits."""
    p, rate, d = case.expected_performance, case.service.requests_per_s, case.expected_estimate.deployment
    if p is None or rate is None or not p.requests_per_s_capacity or rate <= p.requests_per_s_capacity:
        return
    if observed_within_limits(case):
        return
    share, now = excess_share(rate, p.requests_per_s_capacity), d.replicas or 1
    if share < case.assumptions.diagnosed_least_share and not case.has_standing_queue:
        return
    more = math.ceil(now * rate / p.requests_per_s_capacity)
    fleet = case.estimate_variant(with_replicas(case, more))
    carries = fleet is not None and fleet.performance is not None and not fleet.performance.overloaded
    yield build_finding(
        "overloaded",
        f"{format_number(rate)} requests/s arrive. The capacity within the limits is "
        f"{format_number(p.requests_per_s_capacity)} requests/s.",
        share,
        (Evidence("requests_per_s", rate, p.requests_per_s_capacity, "requests/s"),),
        share if carries else None,
        settings=fleet_settings(with_replicas(case, more)) if carries else {},
        replicas=format_count(more, "replica"),
        now=now,
    )


def observed_within_limits(case: Case) -> bool:
    """True if the observed p95 latencies meet the limits and nothing waits, so the deployment does carry the load."""
    w, s = case.workload, case.service
    if w is None or case.has_standing_queue:
        return False
    latencies = ((s.ttft_p95_s, w.slo.ttft_s), (s.tpot_p95_s, w.slo.tpot_s))
    return all(seen is not None and (limit is None or seen <= limit) for seen, limit in latencies)


def with_replicas(case: Case, count: int) -> Deployment:
    """The deployment with another number of serving replicas and the same number of spares."""
    d = case.expected_estimate.deployment
    total = (count + (d.spare_replicas or 0)) * (d.accelerators_per_replica or 1)
    return case.current_deployment(replicas=count, nodes=None, total_accelerators=total)


def fleet_settings(d: Deployment) -> dict[str, Any]:
    """Deployment fields that set the number of replicas and machines."""
    return {"replicas": d.replicas, "total_accelerators": d.total_accelerators, "nodes": d.nodes}


def find_bursts(case: Case) -> Iterator[Finding]:
    """For some seconds the rate exceeds both the mean rate and the capacity, and latencies rise."""
    p, s = case.expected_performance, case.service
    peak, rate = s.peak_requests_per_s, s.requests_per_s
    if p is None or peak is None or rate is None or not p.requests_per_s_capacity:
        return
    usual = max(
        rate,
        case.planned_question.workload.peak_per_s
        if isinstance(case.planned_question.workload, InferenceWorkload)
        else 0.0,
    )
    by_chance = usual + BURST_DEVIATIONS * math.sqrt(usual / PEAK_WINDOW_S)
    if (
        not case.exceeds_expected(peak, usual, by_chance)
        or peak <= p.requests_per_s_capacity
        or rate > p.requests_per_s_capacity
    ):
        return
    medians = ((s.tpot_p50_s, p.tpot), (s.ttft_p50_s, p.ttft))
    if not any(seen and usual and usual.p50_s and case.exceeds_expected(seen, usual.p50_s) for seen, usual in medians):
        return
    share = excess_share(peak, p.requests_per_s_capacity)
    yield build_finding(
        "bursts",
        f"Bursts reach {format_number(peak)} requests/s. The capacity is {format_number(p.requests_per_s_capacity)} "
        f"requests/s, the mean rate {format_number(rate)} requests/s.",
        share,
        (Evidence("peak_requests_per_s", peak, p.requests_per_s_capacity, "requests/s"),),
    )


def find_saturation(case: Case) -> Iterator[Finding]:
    """The deployment answers requests at its capacity and the rest waits."""
    p, s = case.expected_performance, case.service
    if p is None or s.requests_per_s is None or not p.requests_per_s_capacity or not s.waiting:
        return
    carried, share = p.requests_per_s_capacity, case.queued_share
    near = carried / (1 + case.assumptions.diagnosed_slower_share)
    if not near <= s.requests_per_s <= carried or share < case.assumptions.diagnosed_idle_share:
        return
    yield build_finding(
        "saturated",
        f"Each replica runs {format_number(s.running or 0.0)} requests and queues {format_number(s.waiting)}. "
        "Throughput is near capacity.",
        share,
        (Evidence("requests_per_s", s.requests_per_s, carried, "requests/s"),),
    )


def find_queue_below_capacity(case: Case) -> Iterator[Finding]:
    """Requests wait although the load is below the capacity, and no limit of the engine explains it."""
    p, s, w = case.expected_performance, case.service, case.workload
    if p is None or w is None or w.load is not Load.OPEN or not p.requests_per_s_capacity or not s.waiting:
        return
    rate = s.requests_per_s or w.peak_per_s
    usual = expected_waiting(case, rate)
    if rate > p.requests_per_s_capacity / (1 + case.assumptions.diagnosed_slower_share):
        return
    if case.has_standing_queue and s.waiting >= 1 and case.far_exceeds_expected(s.waiting, usual):
        yield build_finding(
            "queue_below_capacity",
            f"{format_number(s.waiting)} requests wait per replica at {format_number(rate)} requests/s. The capacity "
            f"is {format_number(p.requests_per_s_capacity)} requests/s.",
            case.queued_share,
            (Evidence("waiting", s.waiting, usual, "requests"),),
        )


def expected_waiting(case: Case, requests_per_s: float) -> float:
    """Expected number of waiting requests of one replica: rate times mean queue time (Little's law)."""
    p, replicas = case.expected_performance, case.expected_estimate.deployment.replicas or 1
    queue = None if p is None or p.simulation is None else p.simulation.queue
    return requests_per_s / replicas * ((queue.mean_s or 0.0) if queue is not None else 0.0)


def find_idle_fleet(case: Case) -> Iterator[Finding]:
    """The load needs fewer replicas than are running."""
    p, rate, d, w = (
        case.expected_performance,
        case.service.requests_per_s,
        case.expected_estimate.deployment,
        case.workload,
    )
    if p is None or rate is None or w is None or not p.requests_per_s_capacity or (d.replicas or 1) < 2:
        return
    each = p.requests_per_s_capacity / (d.replicas or 1) * w.target_utilization
    needed = max(1, math.ceil(rate / each))
    share = 1 - needed / (d.replicas or 1)
    if w.single_pass and case.devices.utilization is not None:
        share = min(share, 1 - case.devices.utilization)  # an accelerator that computes is not idle
    if share < case.assumptions.diagnosed_idle_share or case.has_standing_queue:
        return
    smaller_fleet = case.estimate_variant(with_replicas(case, needed))
    if smaller_fleet is None or smaller_fleet.performance is None or smaller_fleet.performance.overloaded:
        return
    yield build_finding(
        "idle_fleet",
        f"{needed:,} of {d.replicas} replicas {'is' if needed == 1 else 'are'} enough for the load.",
        share,
        (Evidence("replicas", float(d.replicas or 1), float(needed), "replicas"),),
        share,
        settings=fleet_settings(with_replicas(case, needed)),
        replicas=format_count(needed, "replica"),
    )


def find_longer_requests(case: Case) -> Iterator[Finding]:
    """Prompts or answers are longer than planned."""
    w, s = case.planned_question.workload, case.service
    if not isinstance(w, InferenceWorkload):
        return
    mean_lengths = (
        ("prompts", s.input_tokens_mean, w.input_tokens.mean),
        ("answers", s.output_tokens_mean, w.output_tokens.mean),
    )
    if not any(seen and case.exceeds_expected(seen, plan) for _, seen, plan in mean_lengths):
        return
    share = speed_loss_share(
        case.estimate_variant(case.current_deployment(), with_planned_lengths(case, w)), case.expected_estimate
    )
    for what, seen, planned in mean_lengths:
        if seen and case.exceeds_expected(seen, planned) and share >= case.assumptions.diagnosed_least_share:
            yield build_finding(
                f"longer_{what}",
                f"{what.capitalize()} have {format_number(seen)} tokens on average (planned: "
                f"{format_number(planned)}).",
                share,
                (Evidence(f"{what}_tokens_mean", seen, planned, "tokens"),),
                share,
            )


def with_planned_lengths(case: Case, planned: InferenceWorkload) -> Question:
    """The observed load with the planned lengths."""
    w = case.workload
    assert w is not None
    lengths = replace(w, input_tokens=planned.input_tokens, output_tokens=planned.output_tokens)
    return replace(case.question, workload=lengths)


def find_request_errors(case: Case) -> Iterator[Finding]:
    """Requests fail."""
    share = case.service.error_share
    if share is not None and share >= case.assumptions.diagnosed_least_share / 5:
        yield build_finding(
            "errors",
            f"{format_number(100 * share)} % of requests fail.",
            share,
            (Evidence("error_share", share, 0.0, "1"),),
            share,
        )


def find_uneven_replicas(case: Case) -> Iterator[Finding]:
    """One replica carries more load than the others."""
    busiest = case.service.busiest_replica_share
    if busiest is not None and case.exceeds_expected(busiest, 1.0):
        share = excess_share(busiest, 1.0)
        yield build_finding(
            "uneven_replicas",
            f"The busiest replica carries {format_number(busiest)} times the mean load.",
            share,
            (Evidence("busiest_replica_share", busiest, 1.0, "1"),),
            share,
        )


def find_start_problems(case: Case) -> Iterator[Finding]:
    """Replicas start slowly or restart often. Each start costs the time in which the replica does not serve."""
    p, s = case.expected_performance, case.service
    if p is None or not p.cold_start_s:
        return
    usual = p.cold_start_s
    if s.cold_start_s and case.exceeds_expected(s.cold_start_s, 2 * usual):
        often = s.restarts_per_day
        yield build_finding(
            "slow_start",
            f"A replica takes {format_number(s.cold_start_s)} s to start (expected: {format_number(usual)} s).",
            None if not often else min(1.0, often * (s.cold_start_s - usual) / SECONDS_PER_DAY),
            (Evidence("cold_start_s", s.cold_start_s, usual, "s"),),
            None if not often else min(1.0, often * (s.cold_start_s - usual) / SECONDS_PER_DAY),
        )
    if s.restarts_per_day is not None and s.restarts_per_day >= 1:
        lost = min(1.0, s.restarts_per_day * min(s.cold_start_s or usual, 2 * usual) / SECONDS_PER_DAY)
        yield build_finding(
            "service_restarts",
            f"Each replica restarts {format_number(s.restarts_per_day)} times per day.",
            lost,
            (Evidence("restarts_per_day", s.restarts_per_day, 0.0, "1/day"),),
            lost,
        )


LOAD_CHECKS = (
    find_overload,
    find_bursts,
    find_saturation,
    find_queue_below_capacity,
    find_idle_fleet,
    find_longer_requests,
    find_request_errors,
    find_uneven_replicas,
    find_start_problems,
)


def find_batch_limit(case: Case) -> Iterator[Finding]:
    """Requests wait because the batch limit is too small."""
    s, limit, p = case.service, case.requested_deployment.max_batch, case.expected_performance
    full = case.assumptions.diagnosed_full_share
    if limit is None or s.running is None or not case.has_standing_queue or s.running < 0.9 * full * limit or p is None:
        return
    if (s.cache_usage or 0.0) >= full:
        return
    gain = case.estimate_gain(case.deployment_without_batch_limit())
    share = max(gain, case.queued_share)
    if gain >= case.assumptions.diagnosed_least_share:
        yield build_finding(
            "batch_limit",
            f"{format_number(s.running)} requests run and {format_number(s.waiting or 0.0)} wait, although the KV "
            "cache has room.",
            share,
            (Evidence("running", s.running, p.batch_at_peak, "requests"),),
            gain,
            settings={"max_batch": None},
            limit=limit,
        )


def find_full_cache(case: Case) -> Iterator[Finding]:
    """Requests wait for room in the KV cache."""
    s, p = case.service, case.expected_performance
    if s.cache_usage is None or not case.has_standing_queue or p is None:
        return
    thrown_out = (
        excess_preemptions(case) >= case.assumptions.diagnosed_least_share
    )  # a preemption frees cache for a moment
    if s.cache_usage < case.assumptions.diagnosed_full_share and not thrown_out:
        return
    usual = None if p.simulation is None else p.simulation.cache_occupancy
    share = case.queued_share
    changes: list[dict[str, object]] = [{"kv_format": "fp8"}]
    if case.requested_deployment.memory_fraction is not None:
        changes.insert(0, {"memory_fraction": None})
    gains = [(case.estimate_gain(case.current_deployment(**fields)), fields) for fields in changes]
    gain, settings = max(gains, key=lambda pair: pair[0])
    yield build_finding(
        "cache_full",
        f"The KV cache is {format_number(100 * s.cache_usage)} % full and {format_number(s.waiting or 0.0)} requests "
        "wait.",
        max(gain, share),
        (Evidence("cache_usage", s.cache_usage, usual, "1"),),
        gain,
        settings=settings if gain > 0 else {},
    )


def excess_preemptions(case: Case) -> float:
    """Preemptions per request beyond the expected number."""
    p = case.expected_performance
    usual = 0.0 if p is None or p.simulation is None else p.simulation.preemptions_per_request
    return (case.service.preemptions_per_request or 0.0) - usual


def find_preemptions(case: Case) -> Iterator[Finding]:
    """The engine evicts requests from the KV cache and computes them again."""
    seen, excess = case.service.preemptions_per_request, excess_preemptions(case)
    counted = case.service.preemptions
    simulated = case.expected_performance is not None and case.expected_performance.simulation is not None
    if seen is None and counted and simulated and excess > -case.assumptions.diagnosed_least_share:
        yield preemptions_finding(
            f"The log counts {format_number(counted)} preemptions; almost none are expected.",
            None,
            Evidence("preemptions", counted, 0.0, "1"),
        )
    if (
        seen is None
        or excess < case.assumptions.diagnosed_least_share
        or not case.exceeds_expected(seen, seen - excess)
    ):
        return
    usual, share = seen - excess, excess / (1 + excess)
    yield preemptions_finding(
        f"Each request is preempted {format_number(seen)} times on average (expected: {format_number(usual)}).",
        share,
        Evidence("preemptions_per_request", seen, usual, "1"),
    )


def preemptions_finding(text: str, share: float | None, evidence: Evidence) -> Finding:
    """The finding that requests are preempted; the share is None if their number is unknown."""
    return build_finding("preemptions", text, share, (evidence,), share)


def find_prefix_misses(case: Case) -> Iterator[Finding]:
    """The engine computes prompt tokens that were planned as prefix cache hits."""
    planned, w, seen = case.planned_question.workload, case.workload, case.service.prefix_hit_share
    share_planned = getattr(planned, "cached_prefix_fraction", 0.0)
    if w is None or seen is None or not share_planned or seen >= share_planned:
        return
    if not case.exceeds_expected(share_planned, seen):
        return
    miss = explain_prefix_misses(case, share_planned, seen)
    if miss.share < case.assumptions.diagnosed_least_share:
        return
    yield build_finding(
        "prefix_misses",
        f"The prefix cache hit rate is {format_number(100 * seen)} % (planned: {format_number(100 * share_planned)} "
        "%).",
        miss.share,
        (Evidence("prefix_hit_share", seen, share_planned, "1"),),
        miss.share,
        settings=miss.settings,
        cause=miss.cause,
        change=miss.change,
    )


@dataclass(frozen=True, slots=True)
class PrefixMiss:
    """Share of the speed that missing prefix cache hits cost, why they are missing and the change."""

    share: float
    cause: str
    change: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def explain_prefix_misses(case: Case, planned: float, seen: float) -> PrefixMiss:
    """Explain missing hits: the cache is off, prefixes are not found in it, or it cannot keep them from turn to
    turn.
    """
    if case.requested_deployment.scheduler is not None and case.requested_deployment.scheduler.prefix_cache is False:
        share = prefix_miss_loss(case, planned, seen)
        return PrefixMiss(
            share, "The prefix cache is off.", "Enable the prefix cache.", {"scheduler.prefix_cache": True}
        )
    share = prefix_miss_loss(case, planned, seen)
    if share >= case.assumptions.diagnosed_least_share:
        cause = "Sessions reach other replicas, prompts begin with variable text, or the prefix cache is off."
        return PrefixMiss(
            share, cause, "Route each session to the replica that holds its prefix. Put variable text last."
        )
    cause = "The KV cache has no room to keep prefixes until the next turn."
    change = "Keep prefixes in host memory too, or send the next turn sooner."
    return PrefixMiss(prefix_miss_loss(case, planned, seen, turn_gap_s=0.0), cause, change)


def prefix_miss_loss(case: Case, planned: float, seen: float, turn_gap_s: float | None = None) -> float:
    """Share of the speed that is lost with the observed instead of the planned hits, from two estimates."""
    w, scheduler = case.workload, case.requested_deployment.scheduler
    assert w is not None
    on = case.current_deployment(scheduler=None if scheduler is None else replace(scheduler, prefix_cache=None))
    gap_s = w.turn_gap_s if turn_gap_s is None else turn_gap_s
    hits = replace(w, cached_prefix_fraction=planned, turn_gap_s=gap_s)
    misses = replace(w, cached_prefix_fraction=seen, shared_prefix_fraction=w.shared_prefix_fraction * seen / planned)
    whole, less = (case.estimate_variant(on, replace(case.question, workload=workload)) for workload in (hits, misses))
    return speed_loss_share(whole, less)


def find_poor_drafts(case: Case) -> Iterator[Finding]:
    """The model accepts draft tokens less often than planned."""
    plan, seen = case.requested_deployment.speculative, case.service.acceptance_rate
    if (
        plan is None
        or seen is None
        or case.expected_performance is None
        or not case.exceeds_expected(plan.acceptance_rate, seen)
    ):
        return
    share = 1 - replace(plan, acceptance_rate=seen).tokens_per_step / plan.tokens_per_step
    now = case.current_deployment(speculative=replace(plan, acceptance_rate=seen))
    gain = speed_loss_share(
        case.estimate_variant(case.current_deployment(speculative=None)), case.estimate_variant(now)
    )
    yield build_finding(
        "poor_drafts",
        f"The acceptance rate of draft tokens is {format_number(100 * seen)} % "
        f"(planned: {format_number(100 * plan.acceptance_rate)} %).",
        share,
        (Evidence("acceptance_rate", seen, plan.acceptance_rate, "1"),),
        gain,
        settings={"speculative": None} if gain > 0 else {},
    )


CACHE_CHECKS = (find_batch_limit, find_full_cache, find_preemptions, find_prefix_misses, find_poor_drafts)


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
    if p is None or p.simulation is None or s.queue_p50_s is None:
        return
    usual = p.simulation.queue.p50_s
    if usual is None or not case.exceeds_expected(s.queue_p50_s, usual):
        return
    excess_s = s.queue_p50_s - usual
    first_s = s.ttft_p50_s or excess_s + (0.0 if p.ttft is None else p.ttft.p50_s or 0.0)
    share = case.share_of_request(excess_s)
    if excess_s > case.assumptions.diagnosed_idle_share * first_s and share >= case.assumptions.diagnosed_least_share:
        yield build_finding(
            "queueing",
            f"The median queue time is {format_number(s.queue_p50_s * 1e3)} ms (expected: "
            f"{format_number(usual * 1e3)} ms).",
            share,
            (Evidence("queue_p50_ms", s.queue_p50_s * 1e3, usual * 1e3, "ms"),),
            share,
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
        far = case.far_exceeds_expected(seen, usual, case.upper_bound("ttft_s", "p50"))
        if share < case.assumptions.diagnosed_least_share and not far:
            return
        yield build_finding(
            "late_first_token",
            f"The median TTFT without excess queueing is {format_number(seen * 1e3)} ms (expected: "
            f"{format_number(usual * 1e3)} ms).",
            share,
            (Evidence("ttft_p50_ms", seen * 1e3, usual * 1e3, "ms"),),
            share,
        )


def find_slow_decode(case: Case) -> Iterator[Finding]:
    """TPOT is higher than memory bandwidth allows with the observed number of running requests."""
    of_tokens = case.service.tpot_p50_s is None
    seen = case.service.inter_token_p50_s if of_tokens else case.service.tpot_p50_s
    usual, wide = median_token_s(case.expected_performance, of_tokens), case.upper_bound_ratio("tpot_s")
    if seen is None or usual is None or not case.exceeds_expected(seen, usual, wide * usual):
        return
    usual = max(usual, median_token_s(case.performance_at_observed_batch(), of_tokens) or 0.0)
    if case.exceeds_expected(seen, usual, wide * usual):
        share = excess_share(seen, usual)
        linked = (case.expected_estimate.deployment.accelerators_per_replica or 1) > 1
        yield build_finding(
            "slow_decode",
            f"The median {'inter-token latency' if of_tokens else 'TPOT'} is {format_number(seen * 1e3)} ms (expected "
            f"at this batch size: {format_number(usual * 1e3)} ms).",
            share,
            (Evidence("inter_token_p50_ms" if of_tokens else "tpot_p50_ms", seen * 1e3, usual * 1e3, "ms"),),
            share,
            cause=MULTI_ACCELERATOR_ADVICE[0] if linked else SINGLE_ACCELERATOR_ADVICE[0],
            change=MULTI_ACCELERATOR_ADVICE[1] if linked else SINGLE_ACCELERATOR_ADVICE[1],
        )


def median_token_s(p: Performance | None, of_tokens: bool) -> float | None:
    """Expected median TPOT in seconds, or the median inter-token latency if `of_tokens`; None if unknown."""
    if of_tokens:
        return None if p is None or p.simulation is None else p.simulation.inter_token.p50_s
    return None if p is None or p.tpot is None else p.tpot.p50_s


def find_slow_tail(case: Case) -> Iterator[Finding]:
    """A few requests wait far longer than expected while the median is as expected or unknown. The cost is what these
    few requests lose.
    """
    p, s = case.expected_performance, case.service
    if p is None:
        return
    percentiles = (
        ("ttft", "p95", s.ttft_p50_s, s.ttft_p95_s, 0.05),
        ("ttft", "p99", s.ttft_p50_s, s.ttft_p99_s, 0.01),
        ("tpot", "p95", s.tpot_p50_s, s.tpot_p95_s, 0.05),
        ("tpot", "p99", s.tpot_p50_s, s.tpot_p99_s, 0.01),
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
    if usual is None or tail_s is None or not usual.p50_s:
        return None
    expected = getattr(usual, f"{rank}_s")
    wide = case.upper_bound_ratio(f"{what}_s")
    if not expected or not case.exceeds_expected(tail_s, 2 * expected, wide * expected):
        return None
    if half_s is not None and case.exceeds_expected(half_s, usual.p50_s, case.upper_bound(f"{what}_s", "p50")):
        return None
    share = tail_share * excess_share(tail_s, expected)
    name = {"ttft": "first token", "tpot": "output token"}[what]
    return build_finding(
        "slow_tail",
        f"One {name} in {format_number(1 / tail_share)} takes {format_number(tail_s * 1e3)} ms or more (expected: "
        f"{format_number(expected * 1e3)} ms). The median is {'unknown' if half_s is None else 'as expected'}.",
        share,
        (Evidence(f"{what}_{rank}_ms", tail_s * 1e3, expected * 1e3, "ms"),),
        share,
    )


def find_stalled_tokens(case: Case) -> Iterator[Finding]:
    """A few tokens take far longer than the median."""
    p, s = case.expected_performance, case.service
    if p is None or p.simulation is None or s.inter_token_p99_s is None:
        return
    usual = p.simulation.inter_token
    if not usual.p50_s or not usual.p99_s:
        return
    ratio, expected = s.inter_token_p99_s / (s.inter_token_p50_s or usual.p50_s), usual.p99_s / usual.p50_s
    if not case.exceeds_expected(ratio, 2 * expected):
        return
    share = 0.01 * (ratio - expected) / (0.99 + 0.01 * ratio)
    yield build_finding(
        "stalled_tokens",
        f"The p99 inter-token latency is {format_number(ratio)} times the "
        f"{'median' if s.inter_token_p50_s else 'expected median'} (expected: {format_number(expected)} times).",
        share,
        (Evidence("inter_token_p99_over_p50", ratio, expected, "1"),),
        share,
    )


def find_missed_limit(case: Case) -> Iterator[Finding]:
    """The percentile that exceeds its limit by the largest factor, of the limits that the workload states. A lower
    percentile than that of the limit must meet it as well.
    """
    w = case.workload
    if w is None or w.slo.assumed_times is not None:
        return
    missed = [
        (what, rank, seen, limit)
        for what, limit in (("ttft", w.slo.ttft_s), ("tpot", w.slo.tpot_s))
        for rank in (99, 95, 50)
        if limit is not None and rank <= w.slo.percentile
        if (seen := getattr(case.service, f"{what}_p{rank}_s")) is not None and seen > limit
    ]
    if missed:
        what, rank, seen, limit = max(missed, key=lambda each: each[2] / each[3])
        allowed = f"{format_number(limit * 1e3)} ms" + (
            "" if rank == w.slo.percentile else f" at p{w.slo.percentile:g}"
        )
        yield build_finding(
            "limit_missed",
            f"The p{rank} {what.upper()} is {format_number(seen * 1e3)} ms; the workload allows {allowed}.",
            None,
            (Evidence(f"{what}_p{rank}_ms", seen * 1e3, limit * 1e3, "ms"),),
        )


def find_low_throughput(case: Case) -> Iterator[Finding]:
    """Output throughput is below what the hardware allows, although requests wait or always run at a fixed number."""
    p, s = case.expected_performance, case.service
    w = case.workload
    if p is None or s.output_tokens_per_s is None or w is None or not p.output_tokens_per_s:
        return
    possible = p.output_tokens_per_s
    if w.load is Load.OPEN:
        if not case.has_standing_queue or not p.requests_per_s_capacity:
            return
        possible = p.requests_per_s_capacity * w.output_tokens.mean
    low = p.interval.low / p.output_tokens_per_s if p.interval.quantity == "output_tokens_per_s" else 1.0
    bound = possible * min(low, 1 / (1 + case.assumptions.diagnosed_slower_share))
    if s.output_tokens_per_s < bound:
        share = excess_share(possible, s.output_tokens_per_s)
        yield build_finding(
            "low_throughput",
            f"Output throughput is {format_number(s.output_tokens_per_s)} tokens/s"
            f"{' while requests wait' if w.load is Load.OPEN else ''}. The hardware allows "
            f"{format_number(possible)} tokens/s.",
            share,
            (Evidence("output_tokens_per_s", s.output_tokens_per_s, possible, "tokens/s"),),
            share,
        )


LATENCY_CHECKS = (
    find_queueing,
    find_late_first_token,
    find_slow_decode,
    find_slow_tail,
    find_stalled_tokens,
    find_missed_limit,
    find_low_throughput,
)
