"""Findings about full batches, a full KV cache, preemptions, prefix cache hits and speculative decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.sizing.diagnosis.case import Case, Evidence, Finding, speed_loss_share
from app.sizing.words import format_number

QUEUE_CODES = ("idle_fleet", "queueing", "late_first_token", "low_throughput", "early_knee", "slow_tail")


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
        yield Finding(
            "batch_limit",
            f"{format_number(s.running)} requests run and {format_number(s.waiting or 0.0)} wait, although the KV "
            "cache has room.",
            share,
            (Evidence("running", s.running, p.batch_at_peak, "requests"),),
            f"max_num_seqs is limited to {limit}.",
            "Remove the limit and let the engine choose it.",
            gain,
            "more accelerators",
            ("overloaded", "saturated", "late_first_token", *QUEUE_CODES),
            settings={"max_batch": None},
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
    yield Finding(
        "cache_full",
        f"The KV cache is {format_number(100 * s.cache_usage)} % full and {format_number(s.waiting or 0.0)} requests "
        "wait.",
        max(gain, share),
        (Evidence("cache_usage", s.cache_usage, usual, "1"),),
        "Contexts are long, or the engine may use too little memory.",
        "Raise the memory fraction, use an 8-bit KV cache, or run more replicas.",
        gain,
        "accelerators with more compute",
        ("preemptions", "late_first_token", "saturated", *QUEUE_CODES),
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
    if (
        seen is None
        or excess < case.assumptions.diagnosed_least_share
        or not case.exceeds_expected(seen, seen - excess)
    ):
        return
    usual, share = seen - excess, excess / (1 + excess)
    yield Finding(
        "preemptions",
        f"Each request is preempted {format_number(seen)} times on average (expected: {format_number(usual)}).",
        share,
        (Evidence("preemptions_per_request", seen, usual, "1"),),
        "The engine admits more sequences than the KV cache can hold until they finish.",
        "Lower max_num_seqs to what the KV cache can hold, or give the cache more memory.",
        share,
        "accelerators with more compute",
        ("low_throughput", "stalled_tokens", "slow_tail", "queueing", "early_knee", "idle_fleet"),
        ("slow_decode", "late_first_token"),
    )


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
    yield Finding(
        "prefix_misses",
        f"The prefix cache hit rate is {format_number(100 * seen)} % (planned: {format_number(100 * share_planned)} "
        "%).",
        miss.share,
        (Evidence("prefix_hit_share", seen, share_planned, "1"),),
        miss.cause,
        miss.change,
        miss.share,
        "more accelerators",
        ("overloaded", "saturated", "late_first_token", "cache_full", *QUEUE_CODES),
        ("slow_decode",),
        miss.settings,
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
    yield Finding(
        "poor_drafts",
        f"The acceptance rate of draft tokens is {format_number(100 * seen)} % "
        f"(planned: {format_number(100 * plan.acceptance_rate)} %).",
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


CHECKS = (find_batch_limit, find_full_cache, find_preemptions, find_prefix_misses, find_poor_drafts)
