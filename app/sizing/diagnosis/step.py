"""Findings about the time of a training step: parts that take longer than expected, slow ranks and memory."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.diagnosis.case import Case, Evidence, Finding, excess_share
from app.sizing.units import GIB
from app.sizing.words import format_number

# (code, observed field, part of the expected step, name in a sentence, cause, change, what not to buy)
STEP_PARTS = (
    ("slow_kernels", "compute_s", "compute", "Compute",
     "Kernels are not fused, tensor shapes are inefficient or clocks are low.",
     "Profile one step. Enable flash attention and compiled kernels.", None),
    ("exposed_communication", "communication_s", "exposed_communication", "Exposed communication",
     "The network is slower than it should be, or gradients are not sent during computation.",
     "Run an all-reduce test, overlap communication, and keep tensor parallelism within a machine.",
     "more accelerators"),
    ("input_bound", "input_s", "input", "Waiting for data",
     "Reading or preprocessing data is slower than the step.",
     "Add loader workers, preprocess data before the run, or keep data on local disks.", "faster accelerators"),
    ("synchronisation", "synchronisation_s", "", "Waiting for other ranks",
     "Ranks have unequal work or unequal speed.",
     "Balance sequence lengths and find the slow rank.", "more accelerators"),
    ("outside_kernels", "outside_kernels_s", "", "Idle time between kernels",
     "The host cannot launch kernels fast enough, or Python waits for device values.",
     "Use CUDA graphs or compilation. Do not read values back within a step.", "faster accelerators"),
    ("slow_optimizer", "optimizer_s", "optimizer", "The optimizer",
     "It is not fused, or its states are not in accelerator memory.",
     "Use the fused optimizer and keep its states in accelerator memory.", None),
    ("pipeline_bubble", "bubble_s", "pipeline_bubble", "The pipeline bubble",
     "There are too few micro-batches for the number of stages.",
     "Use more micro-batches or fewer stages.", "more accelerators"),
)  # fmt: off
SLOW_STEP_CODES = ("slow_step", "low_mfu")
NETWORK_PART_CODES, SCALING_CODES = ("exposed_communication", "pipeline_bubble"), ("poor_scaling",)
STARVATION_CODES = ("input_bound", "outside_kernels", "synchronisation")


def find_slow_parts(case: Case) -> Iterator[Finding]:
    """Parts of a step that take considerably longer than expected."""
    p, t = case.expected_performance, case.training
    if p is None or p.step_breakdown_s is None or not t.step_time_s:
        return
    for code, field, part, name, cause, change, not_to_buy in STEP_PARTS:
        seen, usual = getattr(t, field), p.step_breakdown_s.get(part, 0.0)
        if seen is None or not case.exceeds_expected(seen, usual):
            continue
        share = (seen - usual) / t.step_time_s
        if share >= case.assumptions.diagnosed_least_share:
            text = f"{name} takes {format_number(seen)} s of each step (expected: {format_number(usual)} s)."
            evidence = (Evidence(field, seen, usual, "s"),)
            idle = ("starved",) if code in STARVATION_CODES else SCALING_CODES if code in NETWORK_PART_CODES else ()
            yield Finding(code, text, share, evidence, cause, change, share, not_to_buy, idle, SLOW_STEP_CODES)


def find_slow_step(case: Case) -> Iterator[Finding]:
    """A step takes longer than in published runs of its kind, according to its time, its throughput or its MFU."""
    p, step_observation = case.expected_performance, observed_step(case)
    if p is None or not p.step_time_s or step_observation is None or p.tokens_per_s is None:
        return
    seen, evidence = step_observation
    low = p.interval.low if p.interval.quantity == "tokens_per_s" else p.tokens_per_s
    if case.exceeds_expected(seen, p.step_time_s, p.step_time_s * p.tokens_per_s / low):
        share = excess_share(seen, p.step_time_s)
        yield Finding(
            "low_mfu" if evidence.quantity == "mfu" else "slow_step",
            describe_slow_step(evidence),
            share,
            (evidence,),
            "The reported parts of the step do not explain it."
            if has_part_times(case)
            else "No times of step parts were reported.",
            "Measure the parts of a step: compute, communication, data loading and waiting.",
            share,
            "faster accelerators before you know the slow part",
        )


def has_part_times(case: Case) -> bool:
    """True if the time of any part of a step was reported."""
    return any(getattr(case.training, field) is not None for _, field, *_ in STEP_PARTS)


def describe_slow_step(evidence: Evidence) -> str:
    """The observed and expected speed in the quantity that was reported."""
    seen, usual = evidence.observed, evidence.expected or 0.0
    if evidence.quantity == "mfu":
        return f"The MFU is {format_number(100 * seen)} % (expected: {format_number(100 * usual)} %)."
    if evidence.quantity == "tokens_per_s":
        return f"Throughput is {format_number(seen)} tokens/s (expected: {format_number(usual)} tokens/s)."
    return f"A step takes {format_number(seen)} s (expected: {format_number(usual)} s)."


def observed_step(case: Case) -> tuple[float, Evidence] | None:
    """Observed step time in seconds and the reported quantity that it was derived from; None if there is none."""
    p, t = case.expected_performance, case.training
    if p is None or not p.step_time_s:
        return None
    if t.step_time_s:
        return t.step_time_s, Evidence("step_time_s", t.step_time_s, p.step_time_s, "s")
    if t.tokens_per_s and p.tokens_per_s:
        evidence = Evidence("tokens_per_s", t.tokens_per_s, p.tokens_per_s, "tokens/s")
        return p.step_time_s * p.tokens_per_s / t.tokens_per_s, evidence
    if t.mfu and p.mfu:
        return p.step_time_s * p.mfu / t.mfu, Evidence("mfu", t.mfu, p.mfu, "1")
    return None


def find_miscounted_mfu(case: Case) -> Iterator[Finding]:
    """The reported MFU contradicts the measured step time."""
    p, t, step_observation = case.expected_performance, case.training, observed_step(case)
    if (
        p is None
        or step_observation is None
        or not t.mfu
        or not p.mfu
        or not p.step_time_s
        or step_observation[1].quantity == "mfu"
    ):
        return
    follows = p.mfu * p.step_time_s / step_observation[0]
    if case.exceeds_expected(t.mfu, follows) or case.exceeds_expected(follows, t.mfu):
        yield Finding(
            "miscounted_mfu",
            f"The reported MFU is {format_number(100 * t.mfu)} %. The measured speed implies "
            f"{format_number(100 * follows)} %.",
            None,
            (Evidence("mfu", t.mfu, follows, "1"),),
            "The MFU uses the peak of another precision or a sparse peak, or it counts recomputed work.",
            "Count 6 FLOPs per parameter and token plus attention, over the dense peak of the precision.",
            None,
        )


def find_slow_rank(case: Case) -> Iterator[Finding]:
    """One rank is slower than the others, which wait for it."""
    t = case.training
    if t.slowest_rank_s is None or not t.median_rank_s:
        return
    share = excess_share(t.slowest_rank_s, t.median_rank_s)
    if share >= 3 * case.assumptions.diagnosed_least_share:
        yield Finding(
            "slow_rank",
            f"The slowest rank takes {format_number(t.slowest_rank_s)} s per step, the median "
            f"{format_number(t.median_rank_s)} s.",
            share,
            (Evidence("slowest_rank_s", t.slowest_rank_s, t.median_rank_s, "s"),),
            "One machine is hot, shares its host or has a slow link.",
            "Remove that machine and run again.",
            share,
            "more accelerators",
            ("synchronisation", "poor_scaling"),
            SLOW_STEP_CODES,
        )


def find_allocator_retries(case: Case) -> Iterator[Finding]:
    """The memory allocator frees and reallocates memory, which stalls the device. The cost is the excess time of the
    step.
    """
    seen, step_observation, p = case.training.allocator_retries_per_step, observed_step(case), case.expected_performance
    if seen is None or seen < case.assumptions.diagnosed_least_share or p is None:
        return
    lost = excess_share(step_observation[0], p.step_time_s) if step_observation and p.step_time_s else 0.0
    outside, step_s = case.training.outside_kernels_s, case.training.step_time_s
    if outside is not None and step_s:
        lost = min(1.0, outside / step_s)
    share = lost if lost >= case.assumptions.diagnosed_least_share else None
    yield Finding(
        "allocator_retries",
        f"The memory allocator flushes its cache {format_number(seen)} times per step.",
        share,
        (Evidence("allocator_retries_per_step", seen, 0.0, "1"),),
        "Memory is nearly full or fragmented.",
        "Lower the micro-batch size, enable activation checkpointing, or allow expandable segments.",
        share,
        "accelerators with more memory before you try this",
        accounts_for=("slow_step", "low_mfu", "outside_kernels"),
    )


def find_high_memory(case: Case) -> Iterator[Finding]:
    """The run uses more memory than expected. The cost is unknown."""
    m, seen = case.expected_estimate.memory, case.training.memory_peak_bytes
    if m is None or seen is None or case.workload is not None:
        return
    if case.exceeds_expected(seen, m.total_bytes, case.upper_bound("memory_total_bytes", "mean")):
        yield Finding(
            "much_memory",
            f"The fullest accelerator uses {format_number(seen / GIB)} GiB (expected: "
            f"{format_number(m.total_bytes / GIB)} GiB).",
            None,
            (Evidence("memory_peak_gib", seen / GIB, m.total_bytes / GIB, "GiB"),),
            "Memory is fragmented, tensors survive from step to step, or states are not sharded.",
            "Take a memory snapshot. Check the ZeRO stage and activation checkpointing in the log.",
            None,
            "accelerators with more memory before you try this",
        )


CHECKS = (
    find_slow_parts,
    find_slow_step,
    find_miscounted_mfu,
    find_slow_rank,
    find_allocator_retries,
    find_high_memory,
)
