"""What makes an accelerator of one deployment do more than one of another: hardware, formats, layout, load."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.comparing.outcomes import Outcome
from app.sizing.hardware.parts import Accelerator
from app.sizing.question import Deployment
from app.sizing.result import Estimate
from app.sizing.words import figure, together

# Hardware that differs by less is told to be the same.
ALIKE = 0.03
MOST_TOLD = 4


def why_faster(mine: Outcome, beside: Outcome) -> str:
    """What differs between two, what limits first; empty where nothing is known to."""
    if mine.accelerator is None or beside.accelerator is None or mine.estimate is None or beside.estimate is None:
        return ""
    told = [*_hardware(mine, beside), *_layout(mine.estimate, beside.estimate), *_held(mine.estimate, beside.estimate)]
    return together(told[:MOST_TOLD]) if told else ""


def _hardware(mine: Outcome, beside: Outcome) -> Iterator[str]:
    """What one has more of, that which limits it first."""
    a, b = mine.accelerator, beside.accelerator
    assert a is not None and b is not None and mine.estimate is not None
    limit = mine.estimate.bottleneck
    resources = (
        ("memory_bandwidth", "memory bandwidth", a.memory_bytes_per_s, b.memory_bytes_per_s),
        ("compute", "rate in 16 bit", _rate(a), _rate(b)),
        ("memory_capacity", "memory", a.memory_bytes, b.memory_bytes),
        ("interconnect", "bandwidth of its link", a.scaleup_bytes_per_s, b.scaleup_bytes_per_s),
    )
    for _, name, has, other in sorted(resources, key=lambda r: r[0] != limit):
        if has and other and abs(has / other - 1) > ALIKE:
            yield f"{figure(has / other)} times the {name}"


def _rate(a: Accelerator) -> float:
    """FLOP/s in 16 bit."""
    return max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))


def _layout(mine: Estimate, beside: Estimate) -> Iterator[str]:
    """What was chosen otherwise."""
    a, b = mine.deployment, beside.deployment
    if (a.pools is None) != (b.pools is None):
        yield "two pools instead of one" if a.pools is not None else "one pool instead of two"
        return
    if a.pools is not None and b.pools is not None:
        a, b = a.pools.decode, b.pools.decode
    for what, has, other in (
        ("weights in {} instead of {}", a.weight_format, b.weight_format),
        ("cache in {} instead of {}", a.kv_format, b.kv_format),
        ("{} instead of {}", a.engine or a.framework, b.engine or b.framework),
        ("replicas of {} instead of {}", _each(a), _each(b)),
    ):
        if has is not None and other is not None and has != other:
            yield what.format(has, other)


def _each(d: Deployment) -> int | None:
    """Accelerators of a replica."""
    return d.accelerators_per_replica


def _held(mine: Estimate, beside: Estimate) -> Iterator[str]:
    """How many sequences are computed at once."""
    if mine.performance is None or beside.performance is None:
        return
    has, other = mine.performance.batch_at_peak, beside.performance.batch_at_peak
    if has and other and abs(has / other - 1) > ALIKE:
        yield f"a batch of {figure(has)} instead of {figure(other)}"
