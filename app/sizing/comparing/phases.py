"""One model in several phases: what each asks of hardware, and what it would do on another phase's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.sizing.comparing.outcomes import Option, Outcome, outcome_of
from app.sizing.result import DeviceMemory
from app.sizing.snapshot import Snapshot
from app.sizing.words import together

# What hardware is chosen by, by what limits a deployment.
CHOSEN_BY = {
    "compute": "the rate of multiplication",
    "memory_bandwidth": "memory bandwidth",
    "memory_capacity": "memory",
    "interconnect": "the links between accelerators",
    "latency": "steps without delay",
    "host": "the host beside the accelerators",
    "storage": "storage",
}
LEAST_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Priority:
    """What a phase asks of hardware: what limits it, what fills its memory (shares, largest first), in a sentence."""

    name: str
    chosen_by: str
    memory_shares: Mapping[str, float]
    text: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A phase on the accelerator that another chose; `times` what its own costs, None where it does not run there."""

    name: str
    on: str
    accelerator: str
    usd: float | None
    times: float | None
    text: str


def priority(o: Outcome) -> Priority | None:
    """Of one phase; None where nothing runs it."""
    e = o.estimate
    if e is None or e.memory is None or e.bottleneck is None:
        return None
    shares = memory_shares(e.memory)
    filled = together([f"{share:.0%} {name}" for name, share in shares.items() if share >= LEAST_SHARE])
    by = CHOSEN_BY.get(e.bottleneck, e.bottleneck)
    return Priority(o.name, by, shares, f"{o.name} is chosen by {by}; its memory holds {filled}.")


def memory_shares(m: DeviceMemory) -> Mapping[str, float]:
    """What fills the memory of a device, in words, largest first."""
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


def elsewhere(outcomes: Sequence[Outcome], market: Snapshot) -> tuple[Elsewhere, ...]:
    """Every phase on the accelerators that the others chose."""
    return tuple(
        _elsewhere(mine, other, market)
        for mine in outcomes
        for other in outcomes
        if mine.accelerator is not None and other.accelerator is not None and mine.accelerator != other.accelerator
    )


def _elsewhere(mine: Outcome, other: Outcome, market: Snapshot) -> Elsewhere:
    """One phase on the accelerator of another, all else as asked."""
    assert other.accelerator is not None and mine.accelerator is not None
    slug, name = other.accelerator.slug, other.accelerator.name
    limits = replace(mine.question.constraints, accelerators=(slug,), exclude_accelerators=(), by_pattern=())
    asked = replace(mine.question, constraints=limits, limit=1, trace=False)
    found = outcome_of(Option(mine.name, asked), market)
    if found.usd is None or not mine.usd:
        why = found.answer.rejected[0].text if found.answer is not None and found.answer.rejected else f"not on {name}."
        return Elsewhere(mine.name, other.name, slug, None, None, f"{mine.name}: {why}")
    times = found.usd / mine.usd
    dearer = f"{times - 1:.0%} more" if times >= 1 else f"{1 - times:.0%} less"
    text = f"{mine.name} on {name}, which {other.name} takes, would cost {dearer}."
    return Elsewhere(mine.name, other.name, slug, found.usd, times, text)
