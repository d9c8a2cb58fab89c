"""Room that requests wait for, in the batch or in the cache, and work that the cache or a draft should have spared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.sizing.diagnosis.case import Case, Evidence, Finding, lost_between
from app.sizing.words import figure

QUEUES = ("idle_fleet", "queueing", "late_first_token", "low_throughput", "early_knee", "slow_tail")


def batch_limit(case: Case) -> Iterator[Finding]:
    """Requests wait for a place in a batch that was set too small."""
    s, limit, p = case.service, case.asked.max_batch, case.expected
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
            f"{figure(s.running)} requests run, {figure(s.waiting or 0.0)} wait, and the cache has room.",
            share,
            (Evidence("running", s.running, p.batch_at_peak, "requests"),),
            f"max_num_seqs is {limit}.",
            "Leave the limit to the engine.",
            gain,
            "more accelerators",
            ("overloaded", "saturated", "late_first_token", *QUEUES),
            settings={"max_batch": None},
        )


def cache_full(case: Case) -> Iterator[Finding]:
    """Requests wait for room in the cache."""
    s, p = case.service, case.expected
    if s.cache_usage is None or not case.waits or p is None:
        return
    thrown_out = preempted(case) >= case.assumed.diagnosed_least_share  # which leaves room for a moment
    if s.cache_usage < case.assumed.diagnosed_full_share and not thrown_out:
        return
    usual = None if p.simulation is None else p.simulation.cache_occupancy
    share = case.queued_share
    tried: list[dict[str, object]] = [{"kv_format": "fp8"}]
    if case.asked.memory_fraction is not None:
        tried.insert(0, {"memory_fraction": None})
    gains = [(case.gain(case.running(**fields)), fields) for fields in tried]
    gain, settings = max(gains, key=lambda pair: pair[0])
    yield Finding(
        "cache_full",
        f"The cache is {figure(100 * s.cache_usage)} % full and {figure(s.waiting or 0.0)} requests wait.",
        max(gain, share),
        (Evidence("cache_usage", s.cache_usage, usual, "1"),),
        "Long contexts, or memory that the engine was not given.",
        "Raise the memory fraction, keep the cache in 8 bits, or run more replicas.",
        gain,
        "accelerators with more compute",
        ("preemptions", "late_first_token", "saturated", *QUEUES),
        settings=settings if gain > 0 else {},
    )


def preempted(case: Case) -> float:
    """Preemptions of a request beyond those expected."""
    p = case.expected
    usual = 0.0 if p is None or p.simulation is None else p.simulation.preemptions_per_request
    return (case.service.preemptions_per_request or 0.0) - usual


def preemptions(case: Case) -> Iterator[Finding]:
    """Requests are thrown out of the cache and computed again."""
    seen, beyond = case.service.preemptions_per_request, preempted(case)
    if seen is None or beyond < case.assumed.diagnosed_least_share or not case.much(seen, seen - beyond):
        return
    usual, share = seen - beyond, beyond / (1 + beyond)
    yield Finding(
        "preemptions",
        f"{figure(seen)} preemptions a request; {figure(usual)} are expected.",
        share,
        (Evidence("preemptions_per_request", seen, usual, "1"),),
        "More sequences are admitted than the cache holds to their end.",
        "Lower max_num_seqs to what the cache holds, or give the cache more memory.",
        share,
        "accelerators with more compute",
        ("low_throughput", "stalled_tokens", "slow_tail", "queueing", "early_knee", "idle_fleet"),
        ("slow_decode", "late_first_token"),
    )


def prefix_misses(case: Case) -> Iterator[Finding]:
    """Prompts that were planned to be found in the cache are computed."""
    planned, w, seen = case.planned.workload, case.workload, case.service.prefix_hit_share
    share_planned = getattr(planned, "cached_prefix_fraction", 0.0)
    if w is None or seen is None or not share_planned or seen >= share_planned:
        return
    if not case.much(share_planned, seen):
        return
    found = missed(case, share_planned, seen)
    if found.share < case.assumed.diagnosed_least_share:
        return
    yield Finding(
        "prefix_misses",
        f"{figure(100 * seen)} % of prompt tokens are found in the cache; {figure(100 * share_planned)} % are planned.",
        found.share,
        (Evidence("prefix_hit_share", seen, share_planned, "1"),),
        found.cause,
        found.change,
        found.share,
        "more accelerators",
        ("overloaded", "saturated", "late_first_token", "cache_full", *QUEUES),
        ("slow_decode",),
        found.settings,
    )


@dataclass(frozen=True, slots=True)
class Missed:
    """What hits that were planned and not seen would bring, and why they are missing."""

    share: float
    cause: str
    change: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def missed(case: Case, planned: float, seen: float) -> Missed:
    """The cache is off; or prefixes are not found in it; or it has no room to keep them from turn to turn."""
    if case.asked.scheduler is not None and case.asked.scheduler.prefix_cache is False:
        share = lost_to_misses(case, planned, seen)
        return Missed(share, "The prefix cache is off.", "Turn it on.", {"scheduler.prefix_cache": True})
    share = lost_to_misses(case, planned, seen)
    if share >= case.assumed.diagnosed_least_share:
        cause = "Sessions reach other replicas, prompts begin with what changes, or the cache is off."
        return Missed(share, cause, "Route sessions to where their prefix lies; put what changes last.")
    cause = "The cache has no room to keep prefixes until the next turn."
    change = "Keep them in the host's memory as well, or send the next turn sooner."
    return Missed(lost_to_misses(case, planned, seen, turn_gap_s=0.0), cause, change)


def lost_to_misses(case: Case, planned: float, seen: float, turn_gap_s: float | None = None) -> float:
    """Share of the speed that is lost with the hits seen in place of those planned, as the core judges both."""
    w, scheduler = case.workload, case.asked.scheduler
    assert w is not None
    on = case.running(scheduler=None if scheduler is None else replace(scheduler, prefix_cache=None))
    gap_s = w.turn_gap_s if turn_gap_s is None else turn_gap_s
    hits = replace(w, cached_prefix_fraction=planned, turn_gap_s=gap_s)
    misses = replace(w, cached_prefix_fraction=seen, shared_prefix_fraction=w.shared_prefix_fraction * seen / planned)
    whole, less = (case.judged(on, replace(case.question, workload=workload)) for workload in (hits, misses))
    return lost_between(whole, less)


def poor_drafts(case: Case) -> Iterator[Finding]:
    """Drafted tokens are accepted less often than planned."""
    plan, seen = case.asked.speculative, case.service.acceptance_rate
    if plan is None or seen is None or case.expected is None or not case.much(plan.acceptance_rate, seen):
        return
    share = 1 - replace(plan, acceptance_rate=seen).tokens_per_step / plan.tokens_per_step
    now = case.running(speculative=replace(plan, acceptance_rate=seen))
    gain = lost_between(case.judged(case.running(speculative=None)), case.judged(now))
    yield Finding(
        "poor_drafts",
        f"{figure(100 * seen)} % of drafted tokens are accepted; {figure(100 * plan.acceptance_rate)} % were planned.",
        share,
        (Evidence("acceptance_rate", seen, plan.acceptance_rate, "1"),),
        "The draft was made for other text.",
        "Draft fewer tokens, or none at high load.",
        gain,
        "more accelerators",
        ("low_throughput", "slow_at_light_load", "early_knee", "saturated", "queueing"),
        ("slow_decode",),
        {"speculative": None} if gain > 0 else {},
    )


FINDINGS = (batch_limit, cache_full, preemptions, prefix_misses, poor_drafts)
