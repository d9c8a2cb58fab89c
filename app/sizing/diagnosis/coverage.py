"""Which observed values were judged: those that have an expected value and did not deviate without a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from app.sizing.diagnosis.case import Case, throughputs_of
from app.sizing.diagnosis.findings import Finding
from app.sizing.diagnosis.memory import TERMS
from app.sizing.diagnosis.service import expected_waiting
from app.sizing.diagnosis.training import (
    STEP_PARTS,
    expected_interruptions_per_day,
    expected_scaling_ratio,
    has_planned_step,
)
from app.sizing.workload import InferenceWorkload, Load

DEVIATION_RATIO = 2.0  # ratio to the expectation from which a value without any finding counts as not judged
# Values for which less than expected is the problem; for the others it is more than expected.
LOWER_IS_WORSE = frozenset(
    {
        "output_tokens_per_s",
        "prefix_hit_share",
        "acceptance_rate",
        "cache_tokens",
        "cache_bytes",
        "tokens_per_s",
        "mfu",
        "checkpoint_interval_s",
        "utilization",
        "clock_share",
        "slowest_clock_share",
        "link_width_share",
    }
)
ERROR_FIELDS = (
    "needed_cache_bytes",
    "failed_allocation_bytes",
    "free_bytes",
    "process_bytes",
    "allocated_bytes",
    "unused_bytes",
)
GROUPS = ("service", "training", "devices", "memory")


def unjudged_quantities(case: Case, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Names of observed values about which the diagnosis says nothing."""
    expected = expected_values(case)
    return tuple(name for name, seen in observed_values(case) if not is_judged(name, seen, expected, findings))


def observed_values(case: Case) -> Iterator[tuple[str, Any]]:
    for group in GROUPS:
        observation = getattr(case.observed, group)
        for field in fields(observation):
            value = getattr(observation, field.name)
            if value is not None and value != ():
                yield field.name, value


def is_judged(name: str, seen: Any, expected: Mapping[str, float | None], findings: Sequence[Finding]) -> bool:
    """True if a value was compared with an expectation, and either agrees with it or a finding says why not."""
    usual = expected.get(name)
    if usual is None:
        return False
    if findings or not isinstance(seen, float | int) or not usual:
        return True
    ratio = usual / seen if name in LOWER_IS_WORSE and seen else seen / usual
    return ratio <= DEVIATION_RATIO and not (name in LOWER_IS_WORSE and not seen)


def expected_values(case: Case) -> dict[str, float | None]:
    """Expected value of each quantity, in base units; None where the observations do not allow to judge it.

    Lists of observations have the value 0 if they are judged.
    """
    of_kind = training_expectations(case) if case.workload is None else service_expectations(case)
    return {**of_kind, **device_expectations(case), **memory_expectations(case)}


def service_expectations(case: Case) -> dict[str, float | None]:
    p, s, w = case.expected_performance, case.service, case.workload
    if p is None or w is None:
        return {}
    simulation, planned = p.simulation, case.planned_question.workload
    capacity = throughputs_of(case.expected_estimate)[0]
    lengths = None if w.classes or w.trace is not None or not isinstance(planned, InferenceWorkload) else planned
    latencies = {
        f"{what}_{rank}_s": getattr(values, f"{rank}_s")
        for what, values in (("ttft", p.ttft), ("tpot", p.tpot))
        if values is not None
        for rank in ("p50", "p95", "p99")
    }
    waits = simulation is not None and s.waiting is not None
    fixed = w.load is not Load.OPEN or case.has_standing_queue
    bursts = s.ttft_p50_s is not None or s.tpot_p50_s is not None
    draft = case.requested_deployment.speculative
    return {
        **latencies,
        "requests_per_s": capacity,
        "peak_requests_per_s": capacity if s.requests_per_s is not None and bursts else None,
        "output_tokens_per_s": p.output_tokens_per_s if fixed else None,
        "input_tokens_mean": None if lengths is None else lengths.input_tokens.mean,
        "output_tokens_mean": None if lengths is None else lengths.output_tokens.mean,
        "inter_token_p50_s": None if simulation is None else simulation.inter_token.p50_s,
        "inter_token_p99_s": None if simulation is None else simulation.inter_token.p99_s,
        "queue_p50_s": None if simulation is None else simulation.queue.p50_s,
        "running": p.batch_at_peak if s.requests_per_s is not None or w.load is not Load.OPEN else None,
        "waiting": expected_waiting(case, s.requests_per_s or w.peak_per_s) if w.load is Load.OPEN else None,
        "cache_usage": simulation.cache_occupancy if simulation is not None and waits else None,
        "preemptions_per_request": None if simulation is None else simulation.preemptions_per_request,
        "preemptions": None if simulation is None else 0.0,
        "prefix_hit_share": getattr(planned, "cached_prefix_fraction", 0.0) or None,
        "acceptance_rate": None if draft is None else draft.acceptance_rate,
        "error_share": 0.0,
        "busiest_replica_share": 1.0,
        "cold_start_s": p.cold_start_s,
        "restarts_per_day": 0.0 if p.cold_start_s else None,
        "by_load": 0.0 if w.load is Load.OPEN and p.load_curve is not None else None,
    }


def training_expectations(case: Case) -> dict[str, float | None]:
    """Expected values of a training run."""
    p, t = case.expected_performance, case.training
    if p is None:
        return {}
    same = has_planned_step(case)
    parts = p.step_breakdown_s
    interruptions = expected_interruptions_per_day(case)
    starts = t.restarts_per_day is not None or interruptions is not None
    stalls = t.checkpoint_s is not None and t.checkpoint_interval_s is not None and p.checkpoint_stall_s is not None
    points = sorted(point.accelerators for point in t.scales)
    scales = len(points) > 1 and points[0] < points[-1] and expected_scaling_ratio(case, points[0], points[-1])
    return {
        **{field: None if parts is None else parts.get(part, 0.0) for _, field, part, *_ in STEP_PARTS},
        "step_time_s": p.step_time_s if same else None,
        "tokens_per_s": p.tokens_per_s if same and (t.step_time_s is None) else None,
        "tokens_per_step": t.tokens_per_step if same else None,
        "mfu": p.mfu if same else None,
        "slowest_rank_s": t.median_rank_s,
        "median_rank_s": t.median_rank_s if t.slowest_rank_s is not None else None,
        "memory_peak_bytes": None if case.expected_memory is None else case.expected_memory.total_bytes,
        "allocator_retries_per_step": 0.0,
        "checkpoint_s": p.checkpoint_stall_s if stalls else None,
        "checkpoint_interval_s": p.checkpoint_interval_s if stalls else None,
        "restarts_per_day": interruptions,
        "warmup_s": case.assumptions.restart_minutes * 60 if starts else None,
        "evaluation_share": 0.0,
        "scales": 0.0 if scales else None,
    }


def device_expectations(case: Case) -> dict[str, float | None]:
    """Expected values of the accelerators."""
    d, busy = case.devices, case.busy_share
    clocks = 1.0 if case.has_steady_work and case.expected_performance is not None else None
    power = d.clock_share is not None and clocks is not None
    return {
        "utilization": busy or None,
        "clock_share": clocks,
        "slowest_clock_share": clocks,
        "temperature_c": case.assumptions.diagnosed_hot_c,
        "power_w": d.power_limit_w if power else None,
        "power_limit_w": d.power_limit_w if power and d.power_w is not None else None,
        "memory_used_bytes": None if case.expected_memory is None else case.expected_memory.total_bytes,
        "link_width_share": None if case.expected_performance is None else 1.0,
        "errors_per_day": 0.0,
    }


def memory_expectations(case: Case) -> dict[str, float | None]:
    """Expected memory terms; the values of an out-of-memory error are evidence of that error."""
    expected = case.expected_memory
    error = 0.0 if case.ran_out_of_memory else None
    terms = {name: None if expected is None else getattr(expected, usual) or None for _, name, usual in TERMS}
    of_error = dict.fromkeys(ERROR_FIELDS, error)
    host = 0.0 if case.memory.failed_host_bytes is not None else None
    return {
        **of_error,
        **terms,
        "failed_host_bytes": host,
        "cache_tokens": None if expected is None else expected.kv_cache_tokens,
    }
