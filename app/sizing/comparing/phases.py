"""Phases of one model: which resource matters for each, and what each costs on the hardware of another phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.sizing.comparing.outcomes import Option, Outcome, evaluate_option
from app.sizing.result import DeviceMemory
from app.sizing.snapshot import Catalog
from app.sizing.words import join_words, percent

# Resource that hardware should be chosen for, by bottleneck.
PRIORITY_BY_BOTTLENECK = {
    "compute": "compute throughput",
    "memory_bandwidth": "memory bandwidth",
    "memory_capacity": "memory capacity",
    "interconnect": "bandwidth between accelerators",
    "latency": "latency per step",
    "host": "host performance",
    "storage": "storage throughput",
}
MIN_SHARE_SHOWN = 0.05
PHASE_LABELS = {"training": "Training", "fine_tuning": "Fine-tuning", "inference": "Inference"}


@dataclass(frozen=True, slots=True)
class Priority:
    """Resource that matters most for a phase, and what fills its memory."""

    name: str  # phase
    chosen_by: str  # resource that matters most, as text
    memory_shares: Mapping[str, float]  # shares of the used memory by content, largest first
    text: str  # explanation


@dataclass(frozen=True, slots=True)
class OtherHardware:
    """A phase on the accelerator that another phase chose."""

    name: str  # phase
    on: str  # phase that chose the accelerator
    accelerator: str  # slug of that accelerator
    usd: float | None  # cost there, USD or USD/h; None where it is infeasible
    times: float | None  # cost there divided by the phase's own cost
    text: str  # explanation


def phase_label(name: str) -> str:
    """Name of a phase at the start of a sentence."""
    return PHASE_LABELS.get(name, name)


def hardware_priority(o: Outcome) -> Priority | None:
    """Hardware priority of one phase; None where it is infeasible."""
    e = o.estimate
    if e is None or e.memory is None or e.bottleneck is None:
        return None
    shares = memory_shares(e.memory)
    filled = join_words([f"{percent(share)} {name}" for name, share in shares.items() if share >= MIN_SHARE_SHOWN])
    by = PRIORITY_BY_BOTTLENECK.get(e.bottleneck, e.bottleneck)
    return Priority(o.name, by, shares, f"{phase_label(o.name)} is limited by {by}. Its memory holds {filled}.")


def memory_shares(m: DeviceMemory) -> Mapping[str, float]:
    """Shares of the used memory of a device by content, largest first."""
    parts = {
        "weights": m.weights_bytes,
        "gradients": m.gradient_bytes,
        "optimizer": m.optimizer_bytes,
        "activations": m.activation_bytes,
        "cache": m.kv_cache_bytes,
        "overhead": m.overhead_bytes,
    }
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return {name: held / m.total_bytes for name, held in ordered if held > 0}


def compare_hardware(outcomes: Sequence[Outcome], catalog: Catalog) -> tuple[OtherHardware, ...]:
    """Every phase on each accelerator that another phase chose."""
    return tuple(
        _evaluate_on_hardware(mine, other, catalog)
        for mine in outcomes
        for other in outcomes
        if mine.accelerator is not None and other.accelerator is not None and mine.accelerator != other.accelerator
    )


def _evaluate_on_hardware(mine: Outcome, other: Outcome, catalog: Catalog) -> OtherHardware:
    """One phase on the accelerator of another, with everything else as requested."""
    assert other.accelerator is not None and mine.accelerator is not None
    slug, name = other.accelerator.slug, other.accelerator.name
    limits = replace(mine.question.constraints, accelerators=(slug,), exclude_accelerators=(), by_pattern=())
    requested = replace(mine.question, constraints=limits, limit=1, trace=False)
    found = evaluate_option(Option(mine.name, requested), catalog)
    if found.usd is None or not mine.usd:
        rejected = () if found.answer is None else found.answer.rejected
        why = rejected[0].text if rejected else f"not feasible on {name}."
        return OtherHardware(mine.name, other.name, slug, None, None, f"{phase_label(mine.name)}: {why}")
    times = found.usd / mine.usd
    dearer = f"{percent(times - 1)} more" if times >= 1 else f"{percent(1 - times)} less"
    text = f"{phase_label(mine.name)} costs {dearer} on {name}, the choice for {phase_label(other.name).lower()}."
    return OtherHardware(mine.name, other.name, slug, found.usd, times, text)
