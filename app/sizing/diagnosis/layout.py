"""Findings about deployment settings that cost speed: estimates of the same accelerators without those settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from app.sizing.diagnosis.case import Case, Evidence, Finding, speed_loss_share
from app.sizing.question import Deployment
from app.sizing.result import Estimate
from app.sizing.units import GIB
from app.sizing.words import format_number, join_words

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
        yield Finding(
            "missing_recomputation",
            f"Activation checkpointing is off. With it the run would be {format_number(1 / (1 - best.gain))} times "
            "as fast.",
            best.gain,
            memory_evidence(case),
            "Activations fill the memory that larger micro-batches or a lower model-parallel degree need.",
            f"Set {describe_settings(best.settings)}.",
            best.gain,
            "accelerators with more memory",
            ("allocator_retries",),
            settings=best.settings,
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
    return Finding(
        "needless_recomputation",
        f"Activation checkpointing ({case.requested_deployment.activation_checkpointing}) is on, although "
        "activations fit in memory.",
        best.gain,
        memory_evidence(case),
        "The setting was made for a smaller accelerator or a larger batch.",
        f"Set {describe_settings(best.settings)}.",
        best.gain,
        "more accelerators",
        accounts_for=("slow_step", "low_mfu"),
        settings=best.settings,
    )


def find_slow_micro_batch(case: Case) -> Iterator[Finding]:
    """Micro-batches are smaller or larger than the fastest size."""
    size = case.requested_deployment.micro_batch_sequences
    if size is None or case.workload is not None:
        return
    best = try_variant(case, ("micro_batch_sequences",), case.current_deployment(micro_batch_sequences=None))
    if best is not None and best.gain >= case.assumptions.diagnosed_least_share:
        wanted = best.estimate.deployment.micro_batch_sequences
        yield Finding(
            "micro_batch",
            f"The micro-batch size is {size}. A size of {wanted} is faster and fits in memory.",
            best.gain,
            (Evidence("micro_batch_sequences", float(size), float(wanted or size), "sequences"),),
            "The setting comes from another model or accelerator.",
            f"Set {describe_settings(best.settings)}.",
            best.gain,
            "more accelerators",
            settings=best.settings,
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
        yield Finding(
            "needless_offload",
            f"Host memory holds the {what}, although the accelerators have room.",
            best.gain,
            memory_evidence(case),
            "The setting was made for accelerators with less memory.",
            f"Keep the {what} in accelerator memory.",
            best.gain,
            "faster hosts",
            (),
            ("slow_step", "low_mfu", "slow_optimizer"),
            best.settings,
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
    yield Finding(
        "wrong_layout",
        f"With another layout the same accelerators would be {format_number(1 / (1 - best.gain))} times as fast.",
        best.gain,
        tuple(
            Evidence(name, float(getattr(case.expected_estimate.deployment, name)), float(value), "1")
            for name, value in best.settings.items()
            if isinstance(value, int) and isinstance(getattr(case.expected_estimate.deployment, name), int)
        ),
        PARALLELISM_CAUSE
        if case.workload or any(name.endswith("_parallel") for name in best.settings)
        else MICRO_BATCH_CAUSE,
        f"Set {describe_settings(best.settings)}.",
        best.gain,
        "more accelerators before the layout is changed",
        ("overloaded", "saturated", "pipeline_bubble", "exposed_communication", "early_knee"),
        settings=best.settings,
    )


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Settings in words: "tensor parallelism to 2 and replicas to 4"."""
    phrases = [
        f"{SETTING_NAMES[name]} to {value}"
        for name, value in settings.items()
        if name in SETTING_NAMES and value is not None
    ]
    return join_words(phrases) if phrases else "these settings to the engine defaults"


CHECKS = (find_slow_settings,)
