"""Findings about memory: reported terms against expected ones, and out-of-memory errors.

Sizes are in bytes and of the fullest accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.errors import Conflict
from app.sizing.columns import GIB
from app.sizing.diagnosis.case import Case
from app.sizing.diagnosis.findings import Evidence, Finding, build_finding
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.engines import engine_named
from app.sizing.result import DeviceMemory, Estimate
from app.sizing.words import format_number

OTHER_PROCESS_BYTES = 1 * GIB  # memory that neither this process nor its libraries explain
# What an engine reports (field, unit), and the expected value of it.
TERMS = (
    ("weights", "weights_bytes", "weights_bytes"),
    ("kv_cache", "cache_bytes", "kv_cache_bytes"),
    ("activations", "activation_bytes", "activation_bytes"),
    ("overhead", "overhead_bytes", "overhead_bytes"),
    ("capacity", "capacity_bytes", "capacity_bytes"),
)


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """One term of memory as the engine reports it, and as it is expected; None if it is not expected separately."""

    term: str
    observed: float
    expected: float | None
    unit: str

    @property
    def difference(self) -> float | None:
        """Reported minus expected, in the unit of the term."""
        return None if self.expected is None else self.observed - self.expected


def memory_terms(case: Case) -> tuple[MemoryTerm, ...]:
    """Terms that the engine reports, in GiB or tokens."""
    m, expected = case.memory, case.expected_memory
    terms = [
        MemoryTerm(term, seen / GIB, None if expected is None else getattr(expected, part) / GIB, "GiB")
        for term, name, part in TERMS
        if (seen := getattr(m, name)) is not None
    ]
    tokens = case.service.cache_tokens
    if tokens is not None:
        usual = None if expected is None else expected.kv_cache_tokens
        terms.append(MemoryTerm("kv_cache_tokens", tokens, usual, "tokens"))
    return tuple(terms)


def find_out_of_memory(case: Case) -> Iterator[Finding]:
    """The engine or trainer ran out of memory. It does not run, so the cost is everything."""
    m, expected = case.memory, case.expected_memory
    if not case.ran_out_of_memory:
        return
    needed = m.failed_allocation_bytes or m.needed_cache_bytes or 0.0
    free = m.cache_bytes if m.failed_allocation_bytes is None else m.free_bytes
    cause, change, settings = explain_out_of_memory(case, max(0.0, needed - (free or 0.0)))
    yield build_finding(
        "out_of_memory",
        describe_out_of_memory(case, needed, free),
        1.0,
        () if expected is None else error_evidence(case, expected, needed),
        settings=settings,
        cause=cause,
        change=change,
    )


def find_out_of_host_memory(case: Case) -> Iterator[Finding]:
    """A process ran out of host memory, or was killed for it."""
    failed, expected = case.memory.failed_host_bytes, case.expected_memory
    if failed is None or (not failed and case.ran_out_of_memory):
        return  # a launcher also kills the other processes of a job that failed
    usual = None if expected is None else expected.host_bytes or expected.host_weights_bytes
    text = (
        f"An allocation of {format_number(failed / GIB)} GiB of host memory failed."
        if failed
        else "A process was killed (signal 9), as the system does when host memory is used up."
    )
    offloads = "turn off offloading" if usual else "start fewer processes on each machine"
    yield build_finding(
        "out_of_host_memory",
        text + ("" if usual is None else f" Expected need for offloaded data: {format_number(usual / GIB)} GiB."),
        1.0 if failed else None,
        (Evidence("host_memory_gib", failed / GIB, None if usual is None else usual / GIB, "GiB"),) if failed else (),
        offloads=offloads,
    )


def describe_out_of_memory(case: Case, needed: float, free: float | None) -> str:
    """What failed, what was free, and what was expected; sizes in bytes."""
    m, expected = case.memory, case.expected_memory
    if m.failed_allocation_bytes == 0:
        text = "An allocation failed, and the error does not state its size"
    elif not needed:
        text = "No memory is left for the KV cache"
    elif m.failed_allocation_bytes:
        text = f"An allocation of {format_number(needed / GIB)} GiB failed"
        text += "" if free is None else f" with {format_number(free / GIB)} GiB free"
    else:
        text = f"One sequence of the longest context needs {format_number(needed / GIB)} GiB of KV cache"
        text += "" if free is None else f", but the engine has {format_number(free / GIB)} GiB"
    if expected is None:
        return f"{text}."
    if m.failed_allocation_bytes is not None:
        whole, usable = expected.total_bytes / GIB, expected.usable_bytes / GIB
        return f"{text}. Expected need: {format_number(whole)} of {format_number(usable)} GiB usable."
    return f"{text}. Expected KV cache: {format_number(expected.kv_cache_bytes / GIB)} GiB."


def error_evidence(case: Case, expected: DeviceMemory, needed: float) -> tuple[Evidence, ...]:
    """Observed and expected memory of the accelerator, or of the KV cache if it was too small."""
    m = case.memory
    if m.failed_allocation_bytes is not None:
        seen = (m.process_bytes or m.allocated_bytes or 0.0) + needed
        return (Evidence("memory_gib", seen / GIB, expected.total_bytes / GIB, "GiB"),) if seen else ()
    return (Evidence("cache_gib", (m.cache_bytes or 0.0) / GIB, expected.kv_cache_bytes / GIB, "GiB"),)


def explain_out_of_memory(case: Case, missing_bytes: float) -> tuple[str, str, Mapping[str, Any]]:
    """Cause, change and settings for an out-of-memory error that lacks some bytes."""
    m = case.memory
    if m.unused_bytes and m.failed_allocation_bytes and m.unused_bytes >= m.failed_allocation_bytes:
        change = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        return "The allocator holds enough memory, but in pieces that are too small.", change, {}
    if m.capacity_bytes and m.process_bytes is not None and m.free_bytes is not None:
        others = m.capacity_bytes - m.free_bytes - m.process_bytes
        if others > OTHER_PROCESS_BYTES:
            cause = f"Other processes use {format_number(others / GIB)} GiB of the same accelerator."
            return cause, "Stop them, or let them use another accelerator.", {}
    expected = case.expected_memory
    if m.failed_allocation_bytes is None and expected and expected.kv_cache_bytes > (m.needed_cache_bytes or 0.0):
        cause = "Weights, activations or other processes take more memory than expected, or the memory fraction is low."
        return cause, "Compare the terms of memory in the log, and raise the memory fraction.", {}
    cause = "The model, its states and its activations need more memory than the accelerator has."
    settings = fitting_change(case, missing_bytes)
    if settings:
        return cause, f"Set {join_settings(settings)}.", settings
    if case.workload is None:
        return cause, "Use more accelerators, or accelerators with more memory.", {}
    return cause, "Shorten the longest context, raise the memory fraction, or use more accelerators per replica.", {}


def join_settings(settings: Mapping[str, Any]) -> str:
    """Settings in words: "micro_batch_sequences to 1"."""
    return " and ".join(f"{name} to {str(value).lower()}" for name, value in settings.items())


def possible_changes(case: Case) -> Iterator[dict[str, Any]]:
    """Changes that need less memory or give the cache more, the cheapest in speed first."""
    d, now = case.requested_deployment, case.expected_estimate.deployment
    if case.workload is not None:
        if d.memory_fraction is not None:
            yield {"memory_fraction": None}
        yield {"kv_format": "fp8"}
        each = now.accelerators_per_replica or 1
        yield {"accelerators_per_replica": 2 * each, "tensor_parallel": 2 * (now.tensor_parallel or each)}
        return
    if (now.micro_batch_sequences or 1) > 1:
        yield {"micro_batch_sequences": 1}
    for change in (
        {"activation_checkpointing": "full"},
        {"zero_stage": 3},
        {"activation_checkpointing": "full", "zero_stage": 3},
        {"optimizer_offload": True},
        {"activation_checkpointing": "full", "optimizer_offload": True},
    ):
        if any(getattr(now, name) != value for name, value in change.items()):
            yield change


def fitting_change(case: Case, missing_bytes: float) -> Mapping[str, Any]:
    """The first change with which the deployment is expected to fit.

    If it was already expected to fit, the change must free the bytes that were missing.
    """
    now = case.expected_memory
    if now is None:
        return {}
    limit = min(now.usable_bytes, now.total_bytes - missing_bytes)
    for change in possible_changes(case):
        variant = estimate_change(case, change)
        memory = None if variant is None or not variant.fits else variant.memory
        if memory is None:
            continue
        freed = memory.total_bytes <= limit if case.workload is None else holds_more(memory, now, missing_bytes)
        if freed:
            return change
    return {}


def holds_more(memory: DeviceMemory, now: DeviceMemory, missing_bytes: float) -> bool:
    """True if a KV cache gains as many tokens as the missing bytes would hold."""
    per_token = now.kv_cache_bytes / now.kv_cache_tokens if now.kv_cache_tokens else 0.0
    more = (memory.kv_cache_tokens or 0.0) - (now.kv_cache_tokens or 0.0)
    return more > 0 and more * per_token >= missing_bytes


def estimate_change(case: Case, change: Mapping[str, Any]) -> Estimate | None:
    """Estimate of the requested deployment after a change, with the memory that the accelerators have."""
    try:
        asked = replace(case.requested_deployment, **change)
        return estimate_deployment(case.planned_question, asked, case.real_catalog or case.catalog)
    except Conflict:
        return None


def find_other_weights(case: Case) -> Iterator[Finding]:
    """The engine loads clearly more or less weight memory than expected: another checkpoint, format or layout."""
    seen, expected = case.memory.weights_bytes, case.expected_memory
    if seen is None or expected is None or not expected.weights_bytes:
        return
    if abs(seen / expected.weights_bytes - 1) <= 3 * case.assumptions.diagnosed_least_share:
        return
    yield build_finding(
        "more_weights" if seen > expected.weights_bytes else "fewer_weights",
        f"The weights take {format_number(seen / GIB)} GiB per accelerator (expected: "
        f"{format_number(expected.weights_bytes / GIB)} GiB).",
        None,
        (Evidence("weights_gib", seen / GIB, expected.weights_bytes / GIB, "GiB"),),
    )


def find_smaller_cache(case: Case) -> Iterator[Finding]:
    """The KV cache holds fewer tokens than the memory allows.

    Before 0.21, vLLM printed too few tokens for models with several kinds of layers. For these models, the bytes of the
    cache are compared instead of its tokens.
    """
    seen, expected = case.service.cache_tokens, case.expected_memory
    in_bytes, model = case.memory.cache_bytes, case.workload and case.workload.model
    if in_bytes and expected and model and (len(model.attention) > 1 or model.state_bytes_per_sequence):
        seen = None
    usual = None if expected is None else expected.kv_cache_tokens
    quantity, unit, scale = "cache_tokens", "tokens", 1.0
    if seen is None and expected is not None:
        seen, usual, quantity, unit, scale = case.memory.cache_bytes, expected.kv_cache_bytes, "cache_gib", "GiB", GIB
    if not seen or not usual or case.ran_out_of_memory or not case.exceeds_expected(usual, seen):
        return
    engine = case.expected_estimate.deployment.engine
    if engine is not None and engine_named(engine).small and not case.has_standing_queue:
        return  # these engines allocate the context that the user chose, and nothing waits for more
    settings: Mapping[str, Any] = {} if case.requested_deployment.memory_fraction is None else {"memory_fraction": None}
    found = build_finding(
        "smaller_cache",
        f"The KV cache holds {format_number(seen / scale)} {unit}. The memory allows {format_number(usual / scale)} "
        f"{unit}.",
        None,
        (Evidence(quantity, seen / scale, usual / scale, unit),),
        settings=settings,
    )
    yield found if case.has_standing_queue else replace(found, explains=())


CHECKS = (find_out_of_memory, find_out_of_host_memory, find_other_weights, find_smaller_cache)
