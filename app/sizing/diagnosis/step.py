"""Where a training step's time goes beyond what the core expects of it, and what keeps a run from stepping."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.diagnosis.case import Case, Evidence, Finding, lost_to
from app.sizing.units import GIB
from app.sizing.words import figure

# (code, field observed, part of the expected step, what it is, cause, change, what not to buy)
PARTS = (
    ("slow_kernels", "compute_s", "compute", "Computing", "Kernels are not fused, shapes are odd or clocks are low.",
     "Profile one step; turn on flash attention and compiled kernels.", None),
    ("exposed_communication", "communication_s", "exposed_communication", "Communication that nothing hides",
     "The network is slower than it should be, or gradients are not sent while computing.",
     "Run an all-reduce test, overlap it, keep tensor parallel within a machine.", "more accelerators"),
    ("input_bound", "input_s", "input", "Waiting for data", "Reading or preparing data is slower than the step.",
     "Add loader workers, prepare data before the run, keep it on local disks.", "faster accelerators"),
    ("synchronisation", "synchronisation_s", "", "Waiting for one another", "Ranks have unequal work or unequal speed.",
     "Balance sequence lengths; find the slow rank.", "more accelerators"),
    ("outside_kernels", "outside_kernels_s", "", "Time outside kernels",
     "The host cannot launch kernels fast enough, or Python waits for values.",
     "Use graphs or compilation; read no value back within a step.", "faster accelerators"),
    ("slow_optimizer", "optimizer_s", "optimizer", "The optimizer", "It is not fused, or its states lie elsewhere.",
     "Use the fused implementation, keep its states on the accelerators.", None),
    ("pipeline_bubble", "bubble_s", "pipeline_bubble", "Empty pipeline stages", "Too few micro-batches for the stages.",
     "More micro-batches, or fewer stages.", "more accelerators"),
)  # fmt: off
LATE = ("slow_step", "low_mfu")
SPREADING, SCALES = ("exposed_communication", "pipeline_bubble"), ("poor_scaling",)
STARVING = ("input_bound", "outside_kernels", "synchronisation")


def parts(case: Case) -> Iterator[Finding]:
    """Parts of a step that take longer than expected, and enough of it."""
    p, t = case.expected, case.training
    if p is None or p.step_breakdown_s is None or not t.step_time_s:
        return
    for code, field, part, name, cause, change, not_to_buy in PARTS:
        seen, usual = getattr(t, field), p.step_breakdown_s.get(part, 0.0)
        if seen is None or not case.much(seen, usual):
            continue
        share = (seen - usual) / t.step_time_s
        if share >= case.assumed.diagnosed_least_share:
            text = f"{name} takes {figure(seen)} s of a step; {figure(usual)} s are expected."
            evidence = (Evidence(field, seen, usual, "s"),)
            idle = ("starved",) if code in STARVING else SCALES if code in SPREADING else ()
            yield Finding(code, text, share, evidence, cause, change, share, not_to_buy, idle, LATE)


def slow_step(case: Case) -> Iterator[Finding]:
    """A step takes longer than published runs of its kind would, by its time, its tokens or its MFU."""
    p, told = case.expected, seen_step(case)
    if p is None or not p.step_time_s or told is None or p.tokens_per_s is None:
        return
    seen, evidence = told
    low = p.interval.low if p.interval.quantity == "tokens_per_s" else p.tokens_per_s
    if case.much(seen, p.step_time_s, p.step_time_s * p.tokens_per_s / low):
        share = lost_to(seen, p.step_time_s)
        yield Finding(
            "low_mfu" if evidence.quantity == "mfu" else "slow_step",
            too_slow(evidence),
            share,
            (evidence,),
            "The parts that were told do not make it." if parts_told(case) else "Which part is slow was not told.",
            "Time the parts of a step: computing, communication, data, waiting.",
            share,
            "faster accelerators before the part is known",
        )


def parts_told(case: Case) -> bool:
    """Whether any part of a step was told."""
    return any(getattr(case.training, field) is not None for _, field, *_ in PARTS)


def too_slow(told: Evidence) -> str:
    """How slow it is, as it was told."""
    seen, usual = told.observed, told.expected or 0.0
    if told.quantity == "mfu":
        return f"The MFU is {figure(100 * seen)} %; {figure(100 * usual)} % are expected."
    if told.quantity == "tokens_per_s":
        return f"The run does {figure(seen)} tokens/s; {figure(usual)} are expected."
    return f"A step takes {figure(seen)} s; {figure(usual)} s are expected."


def seen_step(case: Case) -> tuple[float, Evidence] | None:
    """Seconds of a step as they follow from what was told, and what that is."""
    p, t = case.expected, case.training
    if p is None or not p.step_time_s:
        return None
    if t.step_time_s:
        return t.step_time_s, Evidence("step_time_s", t.step_time_s, p.step_time_s, "s")
    if t.tokens_per_s and p.tokens_per_s:
        told = Evidence("tokens_per_s", t.tokens_per_s, p.tokens_per_s, "tokens/s")
        return p.step_time_s * p.tokens_per_s / t.tokens_per_s, told
    if t.mfu and p.mfu:
        return p.step_time_s * p.mfu / t.mfu, Evidence("mfu", t.mfu, p.mfu, "1")
    return None


def miscounted_mfu(case: Case) -> Iterator[Finding]:
    """An MFU that does not follow from the time of a step."""
    p, t, told = case.expected, case.training, seen_step(case)
    if p is None or told is None or not t.mfu or not p.mfu or not p.step_time_s or told[1].quantity == "mfu":
        return
    follows = p.mfu * p.step_time_s / told[0]
    if case.much(t.mfu, follows) or case.much(follows, t.mfu):
        yield Finding(
            "miscounted_mfu",
            f"An MFU of {figure(100 * t.mfu)} % was told; {figure(100 * follows)} % follows from the speed.",
            None,
            (Evidence("mfu", t.mfu, follows, "1"),),
            "The peak is that of another precision or with sparsity, or work that is computed again is counted.",
            "Count 6 operations per parameter and token, and attention, over the dense peak of the precision.",
            None,
        )


def slow_rank(case: Case) -> Iterator[Finding]:
    """One rank is slower than the others, which wait for it."""
    t = case.training
    if t.slowest_rank_s is None or not t.median_rank_s:
        return
    share = lost_to(t.slowest_rank_s, t.median_rank_s)
    if share >= 3 * case.assumed.diagnosed_least_share:
        yield Finding(
            "slow_rank",
            f"The slowest rank takes {figure(t.slowest_rank_s)} s a step, the median {figure(t.median_rank_s)}.",
            share,
            (Evidence("slowest_rank_s", t.slowest_rank_s, t.median_rank_s, "s"),),
            "One machine is hot, shares its host or has a slow link.",
            "Take that machine out and run again.",
            share,
            "more accelerators",
            ("synchronisation", "poor_scaling"),
            LATE,
        )


def allocator(case: Case) -> Iterator[Finding]:
    """The allocator gives memory back and asks again, which stops the device; it costs what a step takes too long."""
    seen, told, p = case.training.allocator_retries_per_step, seen_step(case), case.expected
    if seen is None or seen < case.assumed.diagnosed_least_share or p is None:
        return
    lost = lost_to(told[0], p.step_time_s) if told and p.step_time_s else 0.0
    outside, step_s = case.training.outside_kernels_s, case.training.step_time_s
    if outside is not None and step_s:
        lost = min(1.0, outside / step_s)
    share = lost if lost >= case.assumed.diagnosed_least_share else None
    yield Finding(
        "allocator_retries",
        f"The allocator flushes its cache {figure(seen)} times a step.",
        share,
        (Evidence("allocator_retries_per_step", seen, 0.0, "1"),),
        "Memory is nearly full or in pieces.",
        "Lower the micro-batch, recompute activations, or let segments expand.",
        share,
        "accelerators with more memory before that",
        accounts_for=("slow_step", "low_mfu", "outside_kernels"),
    )


def memory(case: Case) -> Iterator[Finding]:
    """More memory is in use than the run should need; what that costs is not known."""
    m, seen = case.found.memory, case.training.memory_peak_bytes
    if m is None or seen is None or case.workload is not None:
        return
    if case.much(seen, m.total_bytes, case.high("memory_total_bytes", "mean")):
        yield Finding(
            "much_memory",
            f"The fullest accelerator holds {figure(seen / GIB)} GiB; {figure(m.total_bytes / GIB)} are expected.",
            None,
            (Evidence("memory_peak_gib", seen / GIB, m.total_bytes / GIB, "GiB"),),
            "Memory in pieces, tensors that are kept from step to step, or states that are not sharded.",
            "Take a snapshot of memory; check the ZeRO stage and what the log says is recomputed.",
            None,
            "accelerators with more memory before that",
        )


FINDINGS = (parts, slow_step, miscounted_mfu, slow_rank, allocator, memory)
