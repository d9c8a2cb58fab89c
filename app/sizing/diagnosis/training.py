"""Findings about a training run: step time, interruptions, scaling, and settings that cost speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from app.sizing.columns import GIB, SECONDS_PER_DAY
from app.sizing.diagnosis.case import Case, ScalePoint, excess_share, speed_loss_share
from app.sizing.diagnosis.findings import Evidence, Finding, build_finding
from app.sizing.question import Deployment
from app.sizing.result import Estimate
from app.sizing.words import format_number, join_words


def find_checkpoint_stalls(case: Case) -> Iterator[Finding]:
    """Checkpoints stop the run for longer, or more often, than expected."""
    t, p = case.training, case.expected_performance
    if t.checkpoint_s is None or not t.checkpoint_interval_s or p is None or p.checkpoint_stall_s is None:
        return
    share = t.checkpoint_s / (t.checkpoint_s + t.checkpoint_interval_s)
    slow = case.exceeds_expected(t.checkpoint_s, p.checkpoint_stall_s)
    usual = p.checkpoint_interval_s or t.checkpoint_interval_s
    interval = t.checkpoint_interval_s if slow else usual
    gain = share - p.checkpoint_stall_s / (p.checkpoint_stall_s + interval)
    if gain < case.assumptions.diagnosed_least_share:
        return
    code, what = ("slow_checkpoints", "checkpoint_s") if slow else ("frequent_checkpoints", "checkpoint_interval_s")
    seen, expected = (t.checkpoint_s, p.checkpoint_stall_s) if slow else (t.checkpoint_interval_s, usual)
    text = f"Checkpoints stop the run for {format_number(100 * share)} % of its time."
    evidence = (Evidence(what, seen, expected, "s"),)
    yield build_finding(code, text, share, evidence, gain, usual=format_number(usual))


def find_frequent_restarts(case: Case) -> Iterator[Finding]:
    """The run is interrupted more often than its hardware should interrupt it."""
    t, p = case.training, case.expected_performance
    usual = expected_interruptions_per_day(case)
    if t.restarts_per_day is None or p is None or usual is None:
        return
    each = case.assumptions.restart_minutes * 60 + (t.checkpoint_interval_s or p.checkpoint_interval_s or 0.0) / 2
    share = min(1.0, (t.restarts_per_day - usual) * each / SECONDS_PER_DAY)
    if case.exceeds_expected(t.restarts_per_day, usual) and share >= case.assumptions.diagnosed_least_share:
        yield build_finding(
            "run_restarts",
            f"The run restarts {format_number(t.restarts_per_day)} times per day (expected: {format_number(usual)}).",
            share,
            (Evidence("restarts_per_day", t.restarts_per_day, usual, "1/day"),),
            share,
        )


def expected_interruptions_per_day(case: Case) -> float | None:
    p = case.expected_performance
    return p.expected_interruptions / p.days if p and p.days and p.expected_interruptions is not None else None


def find_slow_warm_up(case: Case) -> Iterator[Finding]:
    """Each start takes long to reach full speed. The cost depends on how often the run starts."""
    t, usual = case.training, case.assumptions.restart_minutes * 60
    often = t.restarts_per_day if t.restarts_per_day is not None else expected_interruptions_per_day(case)
    if t.warmup_s is None or often is None or not case.exceeds_expected(t.warmup_s, usual):
        return
    share = min(1.0, often * (t.warmup_s - usual) / SECONDS_PER_DAY)
    if share >= case.assumptions.diagnosed_least_share:
        yield build_finding(
            "slow_warm_up",
            f"Each start takes {format_number(t.warmup_s)} s to reach full speed (planned: {format_number(usual)} s).",
            share,
            (Evidence("warmup_s", t.warmup_s, usual, "s"),),
            share,
        )


def find_evaluation_overhead(case: Case) -> Iterator[Finding]:
    """Evaluation takes a large share of the time."""
    share = case.training.evaluation_share
    if share is not None and share >= 2 * case.assumptions.diagnosed_least_share:
        yield build_finding(
            "evaluation",
            f"Evaluation takes {format_number(100 * share)} % of the run's time.",
            share,
            (Evidence("evaluation_share", share, 0.0, "1"),),
            share,
        )


INTERRUPTION_CHECKS = (find_checkpoint_stalls, find_frequent_restarts, find_slow_warm_up, find_evaluation_overhead)


TRAINING_LAYOUT_FIELDS = (
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "data_parallel",
    "zero_stage",
    "virtual_pipeline",
    "sequence_parallel",
    "activation_checkpointing",
    "micro_batch_sequences",
)
SERVING_LAYOUT_FIELDS = (
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "data_parallel",
    "accelerators_per_replica",
    "replicas",
    "context_parallel",
)
SETTING_NAMES = {
    "tensor_parallel": "tensor parallelism",
    "pipeline_parallel": "pipeline parallelism",
    "context_parallel": "context parallelism",
    "expert_parallel": "expert parallelism",
    "data_parallel": "data parallelism",
    "zero_stage": "ZeRO stage",
    "activation_checkpointing": "activation checkpointing",
    "micro_batch_sequences": "sequences per micro-batch",
    "accelerators_per_replica": "accelerators per replica",
    "replicas": "replicas",
}


PARALLELISM_CAUSE = "The parallelism degrees do not suit the model or the links between the accelerators."
MICRO_BATCH_CAUSE = "Larger micro-batches need activation checkpointing; smaller ones do not."
OFFLOADED_STATES = {
    "optimizer_offload": "optimizer states",
    "activation_offload": "activations",
    "parameter_offload": "parameters",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A deployment with some settings chosen automatically, its gain in speed and its estimate."""

    gain: float
    settings: Mapping[str, Any]
    estimate: Estimate


def find_slow_settings(case: Case) -> Iterator[Finding]:
    """Cost of single settings, then of the whole layout as far as it exceeds them."""
    if not has_speed_observation(case):
        return
    single_findings = [
        found
        for look in (find_checkpointing_mistake, find_slow_micro_batch, find_needless_offload)
        for found in look(case)
    ]
    yield from single_findings
    yield from find_slow_layout(case, max((f.known_cost_share for f in single_findings), default=0.0))


def has_speed_observation(case: Case) -> bool:
    """True if any observation says how fast the deployment is."""
    s, t = case.service, case.training
    if case.workload is None:
        return any((t.step_time_s, t.tokens_per_s, t.mfu, t.compute_s))
    return any((s.requests_per_s, s.output_tokens_per_s, s.ttft_p50_s, s.tpot_p50_s, s.by_load))


def try_variant(case: Case, names: tuple[str, ...], deployment: Deployment) -> Variant | None:
    """Estimate another deployment; None if it does not run or gains nothing.

    `names`: fields whose changes become the settings of the variant.
    """
    now = case.expected_estimate.deployment
    variant_estimate = case.estimate_variant(deployment)
    gain = speed_loss_share(variant_estimate, case.expected_estimate)
    if variant_estimate is None or gain <= 0:
        return None
    changed_fields = {name: getattr(variant_estimate.deployment, name) for name in names}
    return Variant(gain, {n: v for n, v in changed_fields.items() if v != getattr(now, n)}, variant_estimate)


def find_checkpointing_mistake(case: Case) -> Iterator[Finding]:
    """Activation checkpointing is on without need, or off although it would free useful memory."""
    mode, least = case.requested_deployment.activation_checkpointing, case.assumptions.diagnosed_least_share
    if mode is None or case.workload is not None:
        return
    names = ("activation_checkpointing", "micro_batch_sequences")
    if mode != "none":
        kept = case.expected_estimate.deployment.micro_batch_sequences
        ways = [
            try_variant(case, names, case.current_deployment(activation_checkpointing=way, micro_batch_sequences=size))
            for way, size in product(("none", "selective"), (kept, None))
            if way != mode
        ]
        best = max((way for way in ways if way), key=lambda way: way.gain, default=None)
        if best is not None and best.gain >= least and has_room(case, best.estimate):
            yield needless_recomputation_finding(case, best)
        return
    more, fixed = (  # settings that the caller omitted are chosen again
        [
            try_variant(
                case,
                TRAINING_LAYOUT_FIELDS,
                replace(case.requested_deployment, micro_batch_sequences=None, activation_checkpointing=w),
            )
            for w in ways
        ]
        for ways in (("selective", "full"), ("none",))
    )
    best = max((way for way in more if way), key=lambda way: way.gain, default=None)
    if best is not None and best.gain - (fixed[0].gain if fixed[0] else 0.0) >= least:
        yield build_finding(
            "missing_recomputation",
            f"Activation checkpointing is off. With it the run would be {format_number(1 / (1 - best.gain))} times "
            "as fast.",
            best.gain,
            memory_evidence(case),
            best.gain,
            settings=best.settings,
            fields=describe_settings(best.settings),
        )


def has_room(case: Case, variant_estimate: Estimate) -> bool:
    """True if the observed memory use leaves room for the memory that the change adds."""
    seen, m = case.training.memory_peak_bytes or case.devices.memory_used_bytes, case.expected_estimate.memory
    if seen is None or m is None or variant_estimate.memory is None:
        return True
    return seen + variant_estimate.memory.total_bytes - m.total_bytes <= m.usable_bytes


def memory_evidence(case: Case) -> tuple[Evidence, ...]:
    """Evidence for memory: the observed use and the usable memory."""
    seen, m = case.training.memory_peak_bytes or case.devices.memory_used_bytes, case.expected_estimate.memory
    if m is None:
        return ()
    return (Evidence("memory_gib", (seen or m.total_bytes) / GIB, m.usable_bytes / GIB, "GiB"),)


def needless_recomputation_finding(case: Case, best: Variant) -> Finding:
    """Activation checkpointing that the memory does not require."""
    return build_finding(
        "needless_recomputation",
        f"Activation checkpointing ({case.requested_deployment.activation_checkpointing}) is on, although "
        "activations fit in memory.",
        best.gain,
        memory_evidence(case),
        best.gain,
        settings=best.settings,
        fields=describe_settings(best.settings),
    )


def find_slow_micro_batch(case: Case) -> Iterator[Finding]:
    """Micro-batches are smaller or larger than the fastest size."""
    size = case.requested_deployment.micro_batch_sequences
    if size is None or case.workload is not None:
        return
    best = try_variant(case, ("micro_batch_sequences",), case.current_deployment(micro_batch_sequences=None))
    if best is not None and best.gain >= case.assumptions.diagnosed_least_share:
        wanted = best.estimate.deployment.micro_batch_sequences
        yield build_finding(
            "micro_batch",
            f"The micro-batch size is {size}. A size of {wanted} is faster and fits in memory.",
            best.gain,
            (Evidence("micro_batch_sequences", float(size), float(wanted or size), "sequences"),),
            best.gain,
            settings=best.settings,
            fields=describe_settings(best.settings),
        )


def find_needless_offload(case: Case) -> Iterator[Finding]:
    """States are offloaded to host memory although the accelerators have room."""
    requested = case.requested_deployment
    names = tuple(name for name in OFFLOADED_STATES if getattr(requested, name))
    if not names or case.workload is not None:
        return
    best = try_variant(case, names, case.current_deployment(**dict.fromkeys(names, False)))
    if best is not None and best.gain >= case.assumptions.diagnosed_least_share and has_room(case, best.estimate):
        what = join_words([OFFLOADED_STATES[name] for name in names])
        yield build_finding(
            "needless_offload",
            f"Host memory holds the {what}, although the accelerators have room.",
            best.gain,
            memory_evidence(case),
            best.gain,
            settings=best.settings,
            what=what,
        )


def find_slow_layout(case: Case, single_setting_gain: float) -> Iterator[Finding]:
    """The recommended layout of the same accelerators is faster, beyond the gain of single settings."""
    names = TRAINING_LAYOUT_FIELDS if case.workload is None else SERVING_LAYOUT_FIELDS
    if all(getattr(case.requested_deployment, name) is None for name in names):
        return
    total = case.expected_estimate.deployment.total_accelerators
    best = try_variant(
        case, names, case.current_deployment(**dict.fromkeys(names), nodes=None, total_accelerators=total)
    )
    slower = case.assumptions.diagnosed_slower_share
    if (
        best is None
        or best.gain < slower / (1 + slower)
        or best.gain - single_setting_gain < 2 * case.assumptions.diagnosed_least_share
    ):
        return
    yield build_finding(
        "wrong_layout",
        f"With another layout the same accelerators would be {format_number(1 / (1 - best.gain))} times as fast.",
        best.gain,
        tuple(
            Evidence(name, float(getattr(case.expected_estimate.deployment, name)), float(value), "1")
            for name, value in best.settings.items()
            if isinstance(value, int) and isinstance(getattr(case.expected_estimate.deployment, name), int)
        ),
        best.gain,
        settings=best.settings,
        cause=PARALLELISM_CAUSE
        if case.workload or any(name.endswith("_parallel") for name in best.settings)
        else MICRO_BATCH_CAUSE,
        fields=describe_settings(best.settings),
    )


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Settings in words: "tensor parallelism to 2 and replicas to 4"."""
    phrases = [
        f"{SETTING_NAMES[name]} to {value}"
        for name, value in settings.items()
        if name in SETTING_NAMES and value is not None
    ]
    return join_words(phrases) if phrases else "these settings to the engine defaults"


LAYOUT_CHECKS = (find_slow_settings,)


def find_poor_scaling(case: Case) -> Iterator[Finding]:
    """The speed per accelerator falls more than expected when the run grows."""
    points = sorted(case.training.scales, key=lambda s: s.accelerators)
    if len(points) < 2 or points[0].accelerators == points[-1].accelerators:
        return
    first, last = points[0], points[-1]
    seen = accelerator_tokens_per_s(last) / accelerator_tokens_per_s(first)
    ratio = expected_scaling_ratio(case, first.accelerators, last.accelerators)
    expected = 1.0 if ratio is None else min(1.0, ratio)
    if ratio is None or not case.exceeds_expected(expected, seen):
        return
    share = 1 - seen / expected
    yield build_finding(
        "poor_scaling",
        f"Scaling efficiency from {format_number(first.accelerators)} to {format_number(last.accelerators)} "
        f"accelerators is {format_number(100 * seen)} % (expected: {format_number(100 * expected)} %).",
        share,
        (Evidence("scaling_efficiency", seen, expected, "1"),),
        share,
    )


def accelerator_tokens_per_s(point: ScalePoint) -> float:
    return point.tokens_per_s / point.accelerators


def expected_scaling_ratio(case: Case, few: float, many: float) -> float | None:
    """Expected speed per accelerator on many accelerators over that on few; None if no layout runs.

    Both estimates use the same layout of a replica, or any layout that runs.
    """
    rates = [expected_each(case, count) for count in (few, many)]
    return rates[1] / rates[0] if rates[0] and rates[1] else None


def expected_each(case: Case, count: float) -> float | None:
    """Expected tokens per second and accelerator on `count` accelerators."""
    changed = {"nodes": None, "replicas": None, "data_parallel": None, "accelerators_per_replica": None}
    for freed in (
        (),
        (
            "tensor_parallel",
            "pipeline_parallel",
            "context_parallel",
            "expert_parallel",
            "zero_stage",
            "micro_batch_sequences",
            "activation_checkpointing",
        ),
    ):
        fields = {**changed, **dict.fromkeys(freed)}
        variant = case.estimate_variant(case.current_deployment(**fields, total_accelerators=round(count)))
        p = None if variant is None or variant.deployment.total_accelerators != round(count) else variant.performance
        if p is not None and p.tokens_per_s:
            return p.tokens_per_s / count
    return None


SCALING_CHECKS = (find_poor_scaling,)


# (code, observed field, part of the expected step, name in a sentence)
STEP_PARTS = (
    ("slow_kernels", "compute_s", "compute", "Compute"),
    ("exposed_communication", "communication_s", "exposed_communication", "Exposed communication"),
    ("input_bound", "input_s", "input", "Waiting for data"),
    ("synchronisation", "synchronisation_s", "", "Waiting for other ranks"),
    ("outside_kernels", "outside_kernels_s", "", "Idle time between kernels"),
    ("slow_optimizer", "optimizer_s", "optimizer", "The optimizer"),
    ("pipeline_bubble", "bubble_s", "pipeline_bubble", "The pipeline bubble"),
)


def find_slow_parts(case: Case) -> Iterator[Finding]:
    """Parts of a step that take considerably longer than expected."""
    p, t = case.expected_performance, case.training
    if p is None or p.step_breakdown_s is None or not p.step_time_s:
        return
    for code, field, part, name in STEP_PARTS:
        seen, usual = getattr(t, field), p.step_breakdown_s.get(part, 0.0)
        if seen is None or not case.exceeds_expected(seen, usual):
            continue
        share = (seen - usual) / (t.step_time_s or max(p.step_time_s, seen))
        if share >= case.assumptions.diagnosed_least_share:
            text = f"{name} takes {format_number(seen)} s of each step (expected: {format_number(usual)} s)."
            evidence = (Evidence(field, seen, usual, "s"),)
            yield build_finding(code, text, share, evidence, share)


def find_slow_step(case: Case) -> Iterator[Finding]:
    """A step takes longer than in published runs of its kind, according to its time, its throughput or its MFU."""
    p, step_observation = case.expected_performance, observed_step(case)
    if p is None or not p.step_time_s or step_observation is None or p.tokens_per_s is None:
        return
    seen, evidence = step_observation
    low = p.interval.low if p.interval.quantity == "tokens_per_s" else p.tokens_per_s
    if case.exceeds_expected(seen, p.step_time_s, p.step_time_s * p.tokens_per_s / low):
        share = excess_share(seen, p.step_time_s)
        yield build_finding(
            "low_mfu" if evidence.quantity == "mfu" else "slow_step",
            describe_slow_step(evidence),
            share,
            (evidence,),
            share,
            cause="The reported parts of the step do not explain it."
            if has_part_times(case)
            else "No times of step parts were reported.",
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
    if p is None or not p.step_time_s or not has_planned_step(case):
        return None
    if t.step_time_s:
        return t.step_time_s, Evidence("step_time_s", t.step_time_s, p.step_time_s, "s")
    if t.tokens_per_s and p.tokens_per_s:
        evidence = Evidence("tokens_per_s", t.tokens_per_s, p.tokens_per_s, "tokens/s")
        return p.step_time_s * p.tokens_per_s / t.tokens_per_s, evidence
    if t.mfu and p.mfu:
        return p.step_time_s * p.mfu / t.mfu, Evidence("mfu", t.mfu, p.mfu, "1")
    return None


def has_planned_step(case: Case) -> bool:
    """False if the steps of the run have clearly more or fewer tokens than those of the workload.

    The prediction of another step says nothing about them.
    """
    p, seen = case.expected_performance, case.training.tokens_per_step
    if seen is None or p is None or not p.step_time_s or not p.tokens_per_s:
        return True
    planned = p.step_time_s * p.tokens_per_s
    return not case.exceeds_expected(seen, planned) and not case.exceeds_expected(planned, seen)


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
        yield build_finding(
            "miscounted_mfu",
            f"The reported MFU is {format_number(100 * t.mfu)} %. The measured speed implies "
            f"{format_number(100 * follows)} %.",
            None,
            (Evidence("mfu", t.mfu, follows, "1"),),
        )


def find_slow_rank(case: Case) -> Iterator[Finding]:
    """One rank is slower than the others, which wait for it."""
    t = case.training
    if t.slowest_rank_s is None or not t.median_rank_s:
        return
    share = excess_share(t.slowest_rank_s, t.median_rank_s)
    if share >= 3 * case.assumptions.diagnosed_least_share:
        yield build_finding(
            "slow_rank",
            f"The slowest rank takes {format_number(t.slowest_rank_s)} s per step, the median "
            f"{format_number(t.median_rank_s)} s.",
            share,
            (Evidence("slowest_rank_s", t.slowest_rank_s, t.median_rank_s, "s"),),
            share,
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
    yield build_finding(
        "allocator_retries",
        f"The memory allocator flushes its cache {format_number(seen)} times per step.",
        share,
        (Evidence("allocator_retries_per_step", seen, 0.0, "1"),),
        share,
    )


def find_high_memory(case: Case) -> Iterator[Finding]:
    """The run uses more memory than expected. The cost is unknown."""
    m, seen = case.expected_memory, case.training.memory_peak_bytes or case.devices.memory_used_bytes
    if m is None or seen is None:
        return
    if case.exceeds_expected(seen, m.total_bytes, case.upper_bound("memory_total_bytes", "mean")):
        yield build_finding(
            "much_memory",
            f"The fullest accelerator uses {format_number(seen / GIB)} GiB (expected: "
            f"{format_number(m.total_bytes / GIB)} GiB).",
            None,
            (Evidence("memory_peak_gib", seen / GIB, m.total_bytes / GIB, "GiB"),),
        )


STEP_CHECKS = (
    find_slow_parts,
    find_slow_step,
    find_miscounted_mfu,
    find_slow_rank,
    find_allocator_retries,
)
