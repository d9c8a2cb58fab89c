"""Findings about the load of a service: rate, lengths, idle machines, errors and replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.sizing.diagnosis.case import Case, Evidence, Finding, excess_share, speed_loss_share
from app.sizing.question import Deployment, Question
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.words import format_count, format_number
from app.sizing.workload import InferenceWorkload

WAITING_CODES = (
    "queueing",
    "cache_full",
    "preemptions",
    "late_first_token",
    "slow_decode",
    "low_throughput",
    "early_knee",
    "slow_tail",
    "idle_fleet",
)
PEAK_WINDOW_S = 10.0  # window over which the peak rate is counted, s
BURST_DEVIATIONS = 4.0  # standard deviations above which a peak is not chance
SLOWNESS_CODES = ("late_first_token", "slow_decode")
FASTER_NOT_NEEDED = "faster accelerators: more accelerators of the same type are enough"


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
    yield Finding(
        "overloaded",
        f"{format_number(rate)} requests/s arrive. The capacity within the limits is "
        f"{format_number(p.requests_per_s_capacity)} "
        "requests/s.",
        share,
        (Evidence("requests_per_s", rate, p.requests_per_s_capacity, "requests/s"),),
        "The load exceeds the capacity of the replicas.",
        f"Run {format_count(more, 'replica')} instead of {now}, or reject excess requests.",
        share if carries else None,
        FASTER_NOT_NEEDED,
        WAITING_CODES,
        settings=fleet_settings(with_replicas(case, more)) if carries else {},
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
    yield Finding(
        "bursts",
        f"Bursts reach {format_number(peak)} requests/s. The capacity is {format_number(p.requests_per_s_capacity)} "
        "requests/s, the "
        f"mean rate {format_number(rate)} requests/s.",
        share,
        (Evidence("peak_requests_per_s", peak, p.requests_per_s_capacity, "requests/s"),),
        "Jobs or retries start at the same time.",
        "Spread the requests, queue them at the client, or size for the burst.",
        None,
        "faster accelerators before the bursts are spread out",
        tuple(code for code in WAITING_CODES if code not in SLOWNESS_CODES),
        SLOWNESS_CODES,
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
    yield Finding(
        "saturated",
        f"Each replica runs {format_number(s.running or 0.0)} requests and queues {format_number(s.waiting)}. "
        "Throughput is near "
        f"capacity.",
        share,
        (Evidence("requests_per_s", s.requests_per_s, carried, "requests/s"),),
        "Requests arrive faster than the service answers them.",
        "Run more replicas, or reject excess requests. Plan with the arrival rate.",
        None,
        FASTER_NOT_NEEDED,
        WAITING_CODES,
    )


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
    yield Finding(
        "idle_fleet",
        f"{needed:,} of {d.replicas} replicas {'is' if needed == 1 else 'are'} enough for the load.",
        share,
        (Evidence("replicas", float(d.replicas or 1), float(needed), "replicas"),),
        "The fleet is larger than the load requires.",
        f"Run {format_count(needed, 'replica')}, or enable autoscaling.",
        share,
        "more accelerators",
        settings=fleet_settings(with_replicas(case, needed)),
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
            yield Finding(
                f"longer_{what}",
                f"{what.capitalize()} have {format_number(seen)} tokens on average (planned: "
                f"{format_number(planned)}).",
                share,
                (Evidence(f"{what}_tokens_mean", seen, planned, "tokens"),),
                "The traffic differs from the plan.",
                f"Plan again with the observed lengths, or limit the length of {what}.",
                share,
                explains=("overloaded", "saturated", *WAITING_CODES),
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
        yield Finding(
            "errors",
            f"{format_number(100 * share)} % of requests fail.",
            share,
            (Evidence("error_share", share, 0.0, "1"),),
            "Timeouts, context limits or crashes cause the failures.",
            "Check finish reasons in the engine log before you change the size.",
            share,
            "any hardware before the errors are understood",
        )


def find_uneven_replicas(case: Case) -> Iterator[Finding]:
    """One replica carries more load than the others."""
    busiest = case.service.busiest_replica_share
    if busiest is not None and case.exceeds_expected(busiest, 1.0):
        share = excess_share(busiest, 1.0)
        yield Finding(
            "uneven_replicas",
            f"The busiest replica carries {format_number(busiest)} times the mean load.",
            share,
            (Evidence("busiest_replica_share", busiest, 1.0, "1"),),
            "The router balances requests instead of tokens, or pins sessions to replicas.",
            "Route by requests in flight or by free KV cache.",
            share,
            "more replicas: the busiest replica would stay overloaded",
            WAITING_CODES,
        )


def find_start_problems(case: Case) -> Iterator[Finding]:
    """Replicas start slowly or restart often. Each start costs the time in which the replica does not serve."""
    p, s = case.expected_performance, case.service
    if p is None or not p.cold_start_s:
        return
    usual = p.cold_start_s
    if s.cold_start_s and case.exceeds_expected(s.cold_start_s, 2 * usual):
        often = s.restarts_per_day
        yield Finding(
            "slow_start",
            f"A replica takes {format_number(s.cold_start_s)} s to start (expected: {format_number(usual)} s).",
            None if not often else min(1.0, often * (s.cold_start_s - usual) / SECONDS_PER_DAY),
            (Evidence("cold_start_s", s.cold_start_s, usual, "s"),),
            "Weights load over a slow path, or graphs are compiled at each start.",
            "Keep weights and compiled graphs on a local disk.",
            None if not often else min(1.0, often * (s.cold_start_s - usual) / SECONDS_PER_DAY),
            "spare replicas before starts are faster",
        )
    if s.restarts_per_day is not None and s.restarts_per_day >= 1:
        lost = min(1.0, s.restarts_per_day * min(s.cold_start_s or usual, 2 * usual) / SECONDS_PER_DAY)
        yield Finding(
            "service_restarts",
            f"Each replica restarts {format_number(s.restarts_per_day)} times per day.",
            lost,
            (Evidence("restarts_per_day", s.restarts_per_day, 0.0, "1/day"),),
            "The engine runs out of memory, fails its health check or loses its machine.",
            "Check exit codes. Lower the memory fraction or extend the health check timeout.",
            lost,
            "spare replicas before you know the cause",
        )


CHECKS = (
    find_overload,
    find_bursts,
    find_saturation,
    find_idle_fleet,
    find_longer_requests,
    find_request_errors,
    find_uneven_replicas,
    find_start_problems,
)
