"""Findings about full batches, a full KV cache, preemptions, prefix cache hits and speculative decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.sizing.diagnosis.case import Case, Evidence, Finding, lost_between
from app.sizing.words import figure

QUEUES = ("idle_fleet", "queueing", "late_first_token", "low_throughput", "early_knee", "slow_tail")


def batch_limit(case: Case) -> Iterator[Finding]:
    """Requests wait because the batch limit is too small."""
    s, limit, p = case.service, case.requested_deployment.max_batch, case.expected
    full = case.assumed.diagnosed_full_share
    if limit is None or s.running is None or not case.waits or s.running < 0.9 * full * limit or p is None:
        return
    if (s.cache_usage or 0.0) >= full:
        return
    gain = case.gain(case.unlimited())
    share = max(gain, case.queued_share)
    if gain >= case.assumed.diagnosed_least_share:
        yield Finding(
            "batch_limit",
            f"{figure(s.running)} requests run and {figure(s.waiting or 0.0)} wait, although the KV cache has room.",
            share,
            (Evidence("running", s.running, p.batch_at_peak, "requests"),),
            f"max_num_seqs is limited to {limit}.",
            "Remove the limit and let the engine choose it.",
            gain,
            "more accelerators",
            ("overloaded", "saturated", "late_first_token", *QUEUES),
            settings={"max_batch": None},
        )


def cache_full(case: Case) -> Iterator[Finding]:
    """Requests wait for room in the KV cache."""
    s, p = case.service, case.expected
    if s.cache_usage is None or not case.waits or p is None:
        return
    thrown_out = preempted(case) >= case.assumed.diagnosed_least_share  # a preemption frees cache for a moment
    if s.cache_usage < case.assumed.diagnosed_full_share and not thrown_out:
        return
    usual = None if p.simulation is None else p.simulation.cache_occupancy
    share = case.queued_share
    changes: list[dict[str, object]] = [{"kv_format": "fp8"}]
    if case.requested_deployment.memory_fraction is not None:
        changes.insert(0, {"memory_fraction": None})
    gains = [(case.gain(case.running(**fields)), fields) for fields in changes]
    gain, settings = max(gains, key=lambda pair: pair[0])
    yield Finding(
        "cache_full",
        f"The KV cache is {figure(100 * s.cache_usage)} % full and {figure(s.waiting or 0.0)} requests wait.",
        max(gain, share),
        (Evidence("cache_usage", s.cache_usage, usual, "1"),),
        "Contexts are long, or the engine may use too little memory.",
        "Raise the memory fraction, use an 8-bit KV cache, or run more replicas.",
        gain,
        "accelerators with more compute",
        ("preemptions", "late_first_token", "saturated", *QUEUES),
        settings=settings if gain > 0 else {},
    )


def preempted(case: Case) -> float:
    """Preemptions per request beyond the expected number."""
    p = case.expected
    usual = 0.0 if p is None or p.simulation is None else p.simulation.preemptions_per_request
    return (case.service.preemptions_per_request or 0.0) - usual


def preemptions(case: Case) -> Iterator[Finding]:
    """The engine evicts requests from the KV cache and computes them again."""
    seen, excess = case.service.preemptions_per_request, preempted(case)
    if seen is None or excess < case.assumed.diagnosed_least_share or not case.much(seen, seen - excess):
        return
    usual, share = seen - excess, excess / (1 + excess)
    yield Finding(
        "preemptions",
        f"Each request is preempted {figure(seen)} times on average (expected: {figure(usual)}).",
        share,
        (Evidence("preemptions_per_request", seen, usual, "1"),),
        "The engine admits more sequences than the KV cache can hold until they finish.",
        "Lower max_num_seqs to what the KV cache can hold, or give the cache more memory.",
        share,
        "accelerators with more compute",
        ("low_throughput", "stalled_tokens", "slow_tail", "queueing", "early_knee", "idle_fleet"),
        ("slow_decode", "late_first_token"),
    )


def prefix_misses(case: Case) -> Iterator[Finding]:
    """The engine computes prompt tokens that were planned as prefix cache hits."""
    planned, w, seen = case.planned.workload, case.workload, case.service.prefix_hit_share
    share_planned = getattr(planned, "cached_prefix_fraction", 0.0)
    if w is None or seen is None or not share_planned or seen >= share_planned:
        return
    if not case.much(share_planned, seen):
        return
    miss = missed(case, share_planned, seen)
    if miss.share < case.assumed.diagnosed_least_share:
        return
    yield Finding(
        "prefix_misses",
        f"The prefix cache hit rate is {figure(100 * seen)} % (planned: {figure(100 * share_planned)} %).",
        miss.share,
        (Evidence("prefix_hit_share", seen, share_planned, "1"),),
        miss.cause,
        miss.change,
        miss.share,
        "more accelerators",
        ("overloaded", "saturated", "late_first_token", "cache_full", *QUEUES),
        ("slow_decode",),
        miss.settings,
    )


@dataclass(frozen=True, slots=True)
class Missed:
    """Share of the speed that missing prefix cache hits cost, why they are missing and the change."""

    share: float
    cause: str
    change: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def missed(case: Case, planned: float, seen: float) -> Missed:
    """Explain missing hits: the cache is off, prefixes are not found in it, or it cannot keep them from turn to
    turn.
    """
    if case.requested_deployment.scheduler is not None and case.requested_deployment.scheduler.prefix_cache is False:
        share = lost_to_misses(case, planned, seen)
        return Missed(share, "The prefix cache is off.", "Enable the prefix cache.", {"scheduler.prefix_cache": True})
    share = lost_to_misses(case, planned, seen)
    if share >= case.assumed.diagnosed_least_share:
        cause = "Sessions reach other replicas, prompts begin with variable text, or the prefix cache is off."
        return Missed(share, cause, "Route each session to the replica that holds its prefix. Put variable text last.")
    cause = "The KV cache has no room to keep prefixes until the next turn."
    change = "Keep prefixes in host memory too, or send the next turn sooner."
    return Missed(lost_to_misses(case, planned, seen, turn_gap_s=0.0), cause, change)


def lost_to_misses(case: Case, planned: float, seen: float, turn_gap_s: float | None = None) -> float:
    """Share of the speed that is lost with the observed instead of the planned hits, from two estimates."""
    w, scheduler = case.workload, case.requested_deployment.scheduler
    assert w is not None
    on = case.running(scheduler=None if scheduler is None else replace(scheduler, prefix_cache=None))
    gap_s = w.turn_gap_s if turn_gap_s is None else turn_gap_s
    hits = replace(w, cached_prefix_fraction=planned, turn_gap_s=gap_s)
    misses = replace(w, cached_prefix_fraction=seen, shared_prefix_fraction=w.shared_prefix_fraction * seen / planned)
    whole, less = (case.judged(on, replace(case.question, workload=workload)) for workload in (hits, misses))
    return lost_between(whole, less)


def poor_drafts(case: Case) -> Iterator[Finding]:
    """The model accepts draft tokens less often than planned."""
    plan, seen = case.requested_deployment.speculative, case.service.acceptance_rate
    if plan is None or seen is None or case.expected is None or not case.much(plan.acceptance_rate, seen):
        return
    share = 1 - replace(plan, acceptance_rate=seen).tokens_per_step / plan.tokens_per_step
    now = case.running(speculative=replace(plan, acceptance_rate=seen))
    gain = lost_between(case.judged(case.running(speculative=None)), case.judged(now))
    yield Finding(
        "poor_drafts",
        f"The acceptance rate of draft tokens is {figure(100 * seen)} % "
        f"(planned: {figure(100 * plan.acceptance_rate)} %).",
        share,
        (Evidence("acceptance_rate", seen, plan.acceptance_rate, "1"),),
        "The draft model does not suit this text.",
        "Draft fewer tokens, or disable speculative decoding at high load.",
        gain,
        "more accelerators",
        ("low_throughput", "slow_at_light_load", "early_knee", "saturated", "queueing"),
        ("slow_decode",),
        {"speculative": None} if gain > 0 else {},
    )


FINDINGS = (batch_limit, cache_full, preemptions, prefix_misses, poor_drafts)
