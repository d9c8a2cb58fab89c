"""Findings about the load of a service: rate, lengths, idle machines, errors and replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.sizing.diagnosis.case import Case, Evidence, Finding, lost_between, lost_to
from app.sizing.question import Deployment, Question
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.words import counted, figure
from app.sizing.workload import InferenceWorkload

WAITS = (
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
PEAK_S = 10.0  # window over which the peak rate is counted, s
DEVIATIONS = 4.0  # standard deviations above which a peak is not chance
SLOWER = ("late_first_token", "slow_decode")
NO_FASTER = "faster accelerators: more accelerators of the same type are enough"


def overloaded(case: Case) -> Iterator[Finding]:
    """More requests arrive than the deployment can serve within the limits."""
    p, rate, d = case.expected, case.service.requests_per_s, case.expected_estimate.deployment
    if p is None or rate is None or not p.requests_per_s_capacity or rate <= p.requests_per_s_capacity:
        return
    if within_limits(case):
        return
    share, now = lost_to(rate, p.requests_per_s_capacity), d.replicas or 1
    if share < case.assumed.diagnosed_least_share and not case.waits:
        return
    more = math.ceil(now * rate / p.requests_per_s_capacity)
    fleet = case.judged(with_replicas(case, more))
    carries = fleet is not None and fleet.performance is not None and not fleet.performance.overloaded
    yield Finding(
        "overloaded",
        f"{figure(rate)} requests/s arrive. The capacity within the limits is {figure(p.requests_per_s_capacity)} "
        "requests/s.",
        share,
        (Evidence("requests_per_s", rate, p.requests_per_s_capacity, "requests/s"),),
        "The load exceeds the capacity of the replicas.",
        f"Run {counted(more, 'replica')} instead of {now}, or reject excess requests.",
        share if carries else None,
        NO_FASTER,
        WAITS,
        settings=fleet_of(with_replicas(case, more)) if carries else {},
    )


def within_limits(case: Case) -> bool:
    """True if the observed p95 latencies meet the limits and nothing waits, so the deployment does carry the load."""
    w, s = case.workload, case.service
    if w is None or case.waits:
        return False
    latencies = ((s.ttft_p95_s, w.slo.ttft_s), (s.tpot_p95_s, w.slo.tpot_s))
    return all(seen is not None and (limit is None or seen <= limit) for seen, limit in latencies)


def with_replicas(case: Case, count: int) -> Deployment:
    """The deployment with another number of serving replicas and the same number of spares."""
    d = case.expected_estimate.deployment
    total = (count + (d.spare_replicas or 0)) * (d.accelerators_per_replica or 1)
    return case.running(replicas=count, nodes=None, total_accelerators=total)


def fleet_of(d: Deployment) -> dict[str, Any]:
    """Deployment fields that set the number of replicas and machines."""
    return {"replicas": d.replicas, "total_accelerators": d.total_accelerators, "nodes": d.nodes}


def bursts(case: Case) -> Iterator[Finding]:
    """For some seconds the rate exceeds both the mean rate and the capacity, and latencies rise."""
    p, s = case.expected, case.service
    peak, rate = s.peak_requests_per_s, s.requests_per_s
    if p is None or peak is None or rate is None or not p.requests_per_s_capacity:
        return
    usual = max(rate, case.planned.workload.peak_per_s if isinstance(case.planned.workload, InferenceWorkload) else 0.0)
    by_chance = usual + DEVIATIONS * math.sqrt(usual / PEAK_S)
    if not case.much(peak, usual, by_chance) or peak <= p.requests_per_s_capacity or rate > p.requests_per_s_capacity:
        return
    medians = ((s.tpot_p50_s, p.tpot), (s.ttft_p50_s, p.ttft))
    if not any(seen and usual and usual.p50_s and case.much(seen, usual.p50_s) for seen, usual in medians):
        return
    share = lost_to(peak, p.requests_per_s_capacity)
    yield Finding(
        "bursts",
        f"Bursts reach {figure(peak)} requests/s. The capacity is {figure(p.requests_per_s_capacity)} requests/s, the "
        f"mean rate {figure(rate)} requests/s.",
        share,
        (Evidence("peak_requests_per_s", peak, p.requests_per_s_capacity, "requests/s"),),
        "Jobs or retries start at the same time.",
        "Spread the requests, queue them at the client, or size for the burst.",
        None,
        "faster accelerators before the bursts are spread out",
        tuple(code for code in WAITS if code not in SLOWER),
        SLOWER,
    )


def saturated(case: Case) -> Iterator[Finding]:
    """The deployment answers requests at its capacity and the rest waits."""
    p, s = case.expected, case.service
    if p is None or s.requests_per_s is None or not p.requests_per_s_capacity or not s.waiting:
        return
    carried, share = p.requests_per_s_capacity, case.queued_share
    near = carried / (1 + case.assumed.diagnosed_slower_share)
    if not near <= s.requests_per_s <= carried or share < case.assumed.diagnosed_idle_share:
        return
    yield Finding(
        "saturated",
        f"Each replica runs {figure(s.running or 0.0)} requests and queues {figure(s.waiting)}. Throughput is near "
        f"capacity.",
        share,
        (Evidence("requests_per_s", s.requests_per_s, carried, "requests/s"),),
        "Requests arrive faster than the service answers them.",
        "Run more replicas, or reject excess requests. Plan with the arrival rate.",
        None,
        NO_FASTER,
        WAITS,
    )


def idle_fleet(case: Case) -> Iterator[Finding]:
    """The load needs fewer replicas than are running."""
    p, rate, d, w = case.expected, case.service.requests_per_s, case.expected_estimate.deployment, case.workload
    if p is None or rate is None or w is None or not p.requests_per_s_capacity or (d.replicas or 1) < 2:
        return
    each = p.requests_per_s_capacity / (d.replicas or 1) * w.target_utilization
    needed = max(1, math.ceil(rate / each))
    share = 1 - needed / (d.replicas or 1)
    if w.single_pass and case.devices.utilization is not None:
        share = min(share, 1 - case.devices.utilization)  # an accelerator that computes is not idle
    if share < case.assumed.diagnosed_idle_share or case.waits:
        return
    judged = case.judged(with_replicas(case, needed))
    if judged is None or judged.performance is None or judged.performance.overloaded:
        return
    yield Finding(
        "idle_fleet",
        f"{needed:,} of {d.replicas} replicas {'is' if needed == 1 else 'are'} enough for the load.",
        share,
        (Evidence("replicas", float(d.replicas or 1), float(needed), "replicas"),),
        "The fleet is larger than the load requires.",
        f"Run {counted(needed, 'replica')}, or enable autoscaling.",
        share,
        "more accelerators",
        settings=fleet_of(with_replicas(case, needed)),
    )


def longer(case: Case) -> Iterator[Finding]:
    """Prompts or answers are longer than planned."""
    w, s = case.planned.workload, case.service
    if not isinstance(w, InferenceWorkload):
        return
    mean_lengths = (
        ("prompts", s.input_tokens_mean, w.input_tokens.mean),
        ("answers", s.output_tokens_mean, w.output_tokens.mean),
    )
    if not any(seen and case.much(seen, plan) for _, seen, plan in mean_lengths):
        return
    share = lost_between(case.judged(case.running(), as_planned(case, w)), case.expected_estimate)
    for what, seen, planned in mean_lengths:
        if seen and case.much(seen, planned) and share >= case.assumed.diagnosed_least_share:
            yield Finding(
                f"longer_{what}",
                f"{what.capitalize()} have {figure(seen)} tokens on average (planned: {figure(planned)}).",
                share,
                (Evidence(f"{what}_tokens_mean", seen, planned, "tokens"),),
                "The traffic differs from the plan.",
                f"Plan again with the observed lengths, or limit the length of {what}.",
                share,
                explains=("overloaded", "saturated", *WAITS),
            )


def as_planned(case: Case, planned: InferenceWorkload) -> Question:
    """The observed load with the planned lengths."""
    w = case.workload
    assert w is not None
    lengths = replace(w, input_tokens=planned.input_tokens, output_tokens=planned.output_tokens)
    return replace(case.question, workload=lengths)


def errors(case: Case) -> Iterator[Finding]:
    """Requests fail."""
    share = case.service.error_share
    if share is not None and share >= case.assumed.diagnosed_least_share / 5:
        yield Finding(
            "errors",
            f"{figure(100 * share)} % of requests fail.",
            share,
            (Evidence("error_share", share, 0.0, "1"),),
            "Timeouts, context limits or crashes cause the failures.",
            "Check finish reasons in the engine log before you change the size.",
            share,
            "any hardware before the errors are understood",
        )


def uneven_replicas(case: Case) -> Iterator[Finding]:
    """One replica carries more load than the others."""
    busiest = case.service.busiest_replica_share
    if busiest is not None and case.much(busiest, 1.0):
        share = lost_to(busiest, 1.0)
        yield Finding(
            "uneven_replicas",
            f"The busiest replica carries {figure(busiest)} times the mean load.",
            share,
            (Evidence("busiest_replica_share", busiest, 1.0, "1"),),
            "The router balances requests instead of tokens, or pins sessions to replicas.",
            "Route by requests in flight or by free KV cache.",
            share,
            "more replicas: the busiest replica would stay overloaded",
            WAITS,
        )


def starts(case: Case) -> Iterator[Finding]:
    """Replicas start slowly or restart often. Each start costs the time in which the replica does not serve."""
    p, s = case.expected, case.service
    if p is None or not p.cold_start_s:
        return
    usual = p.cold_start_s
    if s.cold_start_s and case.much(s.cold_start_s, 2 * usual):
        often = s.restarts_per_day
        yield Finding(
            "slow_start",
            f"A replica takes {figure(s.cold_start_s)} s to start (expected: {figure(usual)} s).",
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
            f"Each replica restarts {figure(s.restarts_per_day)} times per day.",
            lost,
            (Evidence("restarts_per_day", s.restarts_per_day, 0.0, "1/day"),),
            "The engine runs out of memory, fails its health check or loses its machine.",
            "Check exit codes. Lower the memory fraction or extend the health check timeout.",
            lost,
            "spare replicas before you know the cause",
        )


FINDINGS = (overloaded, bursts, saturated, idle_fleet, longer, errors, uneven_replicas, starts)
