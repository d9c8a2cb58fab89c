"""Whether a service carries what it was planned for: load, lengths, idle machines, errors, replicas."""

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
PEAK_S, DEVIATIONS = 10.0, 4.0  # over which a peak is counted, and from where on it did not come by chance
SLOWER = ("late_first_token", "slow_decode")
NO_FASTER = "faster accelerators: more of the same carry it"


def overloaded(case: Case) -> Iterator[Finding]:
    """More requests arrive than the deployment carries within the limits."""
    p, rate, d = case.expected, case.service.requests_per_s, case.found.deployment
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
        f"{figure(rate)} requests/s arrive; {figure(p.requests_per_s_capacity)} are carried within the limits.",
        share,
        (Evidence("requests_per_s", rate, p.requests_per_s_capacity, "requests/s"),),
        "The load is above what this many replicas carry.",
        f"Run {counted(more, 'replica')} instead of {now}, or turn requests away.",
        share if carries else None,
        NO_FASTER,
        WAITS,
        settings=fleet_of(with_replicas(case, more)) if carries else {},
    )


def within_limits(case: Case) -> bool:
    """Whether the tails that were seen keep the limits, and nothing waits: then the load is carried."""
    w, s = case.workload, case.service
    if w is None or case.waits:
        return False
    told = ((s.ttft_p95_s, w.slo.ttft_s), (s.tpot_p95_s, w.slo.tpot_s))
    return all(seen is not None and (limit is None or seen <= limit) for seen, limit in told)


def with_replicas(case: Case, count: int) -> Deployment:
    """The deployment with another number of replicas beside its spares."""
    d = case.found.deployment
    total = (count + (d.spare_replicas or 0)) * (d.accelerators_per_replica or 1)
    return case.running(replicas=count, nodes=None, total_accelerators=total)


def fleet_of(d: Deployment) -> dict[str, Any]:
    """How many there are of it, as fields of a deployment."""
    return {"replicas": d.replicas, "total_accelerators": d.total_accelerators, "nodes": d.nodes}


def bursts(case: Case) -> Iterator[Finding]:
    """For seconds far more requests come than on the mean, more than are carried, and waits show it."""
    p, s = case.expected, case.service
    peak, rate = s.peak_requests_per_s, s.requests_per_s
    if p is None or peak is None or rate is None or not p.requests_per_s_capacity:
        return
    usual = max(rate, case.planned.workload.peak_per_s if isinstance(case.planned.workload, InferenceWorkload) else 0.0)
    by_chance = usual + DEVIATIONS * math.sqrt(usual / PEAK_S)
    if not case.much(peak, usual, by_chance) or peak <= p.requests_per_s_capacity or rate > p.requests_per_s_capacity:
        return
    told = ((s.tpot_p50_s, p.tpot), (s.ttft_p50_s, p.ttft))
    if not any(seen and usual and usual.p50_s and case.much(seen, usual.p50_s) for seen, usual in told):
        return
    share = lost_to(peak, p.requests_per_s_capacity)
    yield Finding(
        "bursts",
        f"In bursts {figure(peak)} requests/s come; {figure(p.requests_per_s_capacity)} are carried, and "
        f"{figure(rate)} come on the mean.",
        share,
        (Evidence("peak_requests_per_s", peak, p.requests_per_s_capacity, "requests/s"),),
        "Jobs or retries start together.",
        "Spread them, queue them where they start, or size for the burst.",
        None,
        "faster accelerators before the bursts are spread",
        tuple(code for code in WAITS if code not in SLOWER),
        SLOWER,
    )


def saturated(case: Case) -> Iterator[Finding]:
    """As much is answered as the deployment can, and the rest waits."""
    p, s = case.expected, case.service
    if p is None or s.requests_per_s is None or not p.requests_per_s_capacity or not s.waiting:
        return
    carried, share = p.requests_per_s_capacity, case.queued_share
    near = carried / (1 + case.assumed.diagnosed_slower_share)
    if not near <= s.requests_per_s <= carried or share < case.assumed.diagnosed_idle_share:
        return
    yield Finding(
        "saturated",
        f"{figure(s.waiting)} requests of a replica wait for {figure(s.running or 0.0)} that run, and nearly all that "
        f"it carries is answered.",
        share,
        (Evidence("requests_per_s", s.requests_per_s, carried, "requests/s"),),
        "More arrives than is answered.",
        "Run more replicas, or turn requests away; plan with the rate at which requests arrive.",
        None,
        NO_FASTER,
        WAITS,
    )


def idle_fleet(case: Case) -> Iterator[Finding]:
    """Replicas that the load does not need."""
    p, rate, d, w = case.expected, case.service.requests_per_s, case.found.deployment, case.workload
    if p is None or rate is None or w is None or not p.requests_per_s_capacity or (d.replicas or 1) < 2:
        return
    each = p.requests_per_s_capacity / (d.replicas or 1) * w.target_utilization
    needed = max(1, math.ceil(rate / each))
    share = 1 - needed / (d.replicas or 1)
    if w.single_pass and case.devices.utilization is not None:
        share = min(share, 1 - case.devices.utilization)  # what multiplies all the time is not idle
    if share < case.assumed.diagnosed_idle_share or case.waits:
        return
    judged = case.judged(with_replicas(case, needed))
    if judged is None or judged.performance is None or judged.performance.overloaded:
        return
    yield Finding(
        "idle_fleet",
        f"{counted(needed, 'replica')} of {d.replicas} would carry the load.",
        share,
        (Evidence("replicas", float(d.replicas or 1), float(needed), "replicas"),),
        "The fleet is larger than its load.",
        f"Run {counted(needed, 'replica')}, or let the number follow the load.",
        share,
        "more accelerators",
        settings=fleet_of(with_replicas(case, needed)),
    )


def longer(case: Case) -> Iterator[Finding]:
    """Prompts or answers that are longer than planned."""
    w, s = case.planned.workload, case.service
    if not isinstance(w, InferenceWorkload):
        return
    told = (
        ("prompts", s.input_tokens_mean, w.input_tokens.mean),
        ("answers", s.output_tokens_mean, w.output_tokens.mean),
    )
    if not any(seen and case.much(seen, plan) for _, seen, plan in told):
        return
    share = lost_between(case.judged(case.running(), as_planned(case, w)), case.found)
    for what, seen, planned in told:
        if seen and case.much(seen, planned) and share >= case.assumed.diagnosed_least_share:
            yield Finding(
                f"longer_{what}",
                f"{what.capitalize()} have {figure(seen)} tokens on the mean where {figure(planned)} were planned.",
                share,
                (Evidence(f"{what}_tokens_mean", seen, planned, "tokens"),),
                "The traffic is not what was planned for.",
                f"Plan again with these lengths, or limit {what}.",
                share,
                explains=("overloaded", "saturated", *WAITS),
            )


def as_planned(case: Case, planned: InferenceWorkload) -> Question:
    """The load that was observed with the lengths that were planned."""
    w = case.workload
    assert w is not None
    lengths = replace(w, input_tokens=planned.input_tokens, output_tokens=planned.output_tokens)
    return replace(case.question, workload=lengths)


def errors(case: Case) -> Iterator[Finding]:
    """Requests that fail."""
    share = case.service.error_share
    if share is not None and share >= case.assumed.diagnosed_least_share / 5:
        yield Finding(
            "errors",
            f"{figure(100 * share)} % of the requests fail.",
            share,
            (Evidence("error_share", share, 0.0, "1"),),
            "Time limits, context limits or crashes.",
            "Read the engine's log by finish reason before any sizing.",
            share,
            "anything before the errors are understood",
        )


def uneven_replicas(case: Case) -> Iterator[Finding]:
    """One replica has more to do than the others."""
    busiest = case.service.busiest_replica_share
    if busiest is not None and case.much(busiest, 1.0):
        share = lost_to(busiest, 1.0)
        yield Finding(
            "uneven_replicas",
            f"The busiest replica has {figure(busiest)} times the mean load.",
            share,
            (Evidence("busiest_replica_share", busiest, 1.0, "1"),),
            "The router spreads requests, not tokens, or keeps sessions together.",
            "Route by requests in flight or by free cache.",
            share,
            "more replicas: the busiest would stay busy",
            WAITS,
        )


def starts(case: Case) -> Iterator[Finding]:
    """Replicas that start often, or slowly; each costs the time it is away."""
    p, s = case.expected, case.service
    if p is None or not p.cold_start_s:
        return
    usual = p.cold_start_s
    if s.cold_start_s and case.much(s.cold_start_s, 2 * usual):
        often = s.restarts_per_day
        yield Finding(
            "slow_start",
            f"A replica starts in {figure(s.cold_start_s)} s; {figure(usual)} s are expected.",
            None if not often else min(1.0, often * (s.cold_start_s - usual) / SECONDS_PER_DAY),
            (Evidence("cold_start_s", s.cold_start_s, usual, "s"),),
            "Weights come over a slow path, or graphs are compiled at each start.",
            "Keep weights and compiled graphs on the machine's own disk.",
            None if not often else min(1.0, often * (s.cold_start_s - usual) / SECONDS_PER_DAY),
            "spare replicas before starts are short",
        )
    if s.restarts_per_day is not None and s.restarts_per_day >= 1:
        lost = min(1.0, s.restarts_per_day * min(s.cold_start_s or usual, 2 * usual) / SECONDS_PER_DAY)
        yield Finding(
            "service_restarts",
            f"A replica restarts {figure(s.restarts_per_day)} times a day.",
            lost,
            (Evidence("restarts_per_day", s.restarts_per_day, 0.0, "1/day"),),
            "The engine runs out of memory, fails its health check or its machine is taken away.",
            "Look at exit codes; lower the memory fraction or give the health check more time.",
            lost,
            "spare replicas before the cause is known",
        )


FINDINGS = (overloaded, bursts, saturated, idle_fleet, longer, errors, uneven_replicas, starts)
