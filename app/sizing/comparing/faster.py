"""Explains why an accelerator of one deployment does more work than one of another: hardware, formats, layout,
batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.comparing.outcomes import Outcome
from app.sizing.hardware.parts import Accelerator
from app.sizing.question import Deployment
from app.sizing.result import Estimate
from app.sizing.words import format_name, format_number, join_words, product_name

# Smaller relative differences are not mentioned.
MIN_DIFFERENCE = 0.03
MAX_REASONS = 4


def explain_speed(mine: Outcome, baseline: Outcome) -> str:
    """What differs between two outcomes, the limiting resource first; an empty text where no difference is known."""
    if mine.accelerator is None or baseline.accelerator is None or mine.estimate is None or baseline.estimate is None:
        return ""
    reasons = [
        *_hardware_reasons(mine, baseline),
        *_layout_reasons(mine.estimate, baseline.estimate),
        *_batch_reasons(mine.estimate, baseline.estimate),
    ]
    return join_words(reasons[:MAX_REASONS]) if reasons else ""


def _hardware_reasons(mine: Outcome, baseline: Outcome) -> Iterator[str]:
    """Differences of the hardware, the limiting resource first."""
    a, b = mine.accelerator, baseline.accelerator
    assert a is not None and b is not None and mine.estimate is not None
    limit = mine.estimate.bottleneck
    resources = (
        ("memory_bandwidth", "memory bandwidth", a.memory_bytes_per_s, b.memory_bytes_per_s),
        ("compute", "16-bit matrix rate", _matrix_rate(a), _matrix_rate(b)),
        ("memory_capacity", "memory", a.memory_bytes, b.memory_bytes),
        ("interconnect", "link bandwidth", a.scaleup_bytes_per_s, b.scaleup_bytes_per_s),
    )
    for _, name, has, other in sorted(resources, key=lambda r: r[0] != limit):
        if has and other and abs(has / other - 1) > MIN_DIFFERENCE:
            yield f"{format_number(has / other)} times the {name}"


def _matrix_rate(a: Accelerator) -> float:
    """Matrix rate in 16 bit, FLOP/s."""
    return max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))


def _layout_reasons(mine: Estimate, baseline: Estimate) -> Iterator[str]:
    """Differences of formats, engine and layout."""
    a, b = mine.deployment, baseline.deployment
    if (a.pools is None) != (b.pools is None):
        yield "two pools instead of one" if a.pools is not None else "one pool instead of two"
        return
    if a.pools is not None and b.pools is not None:
        a, b = a.pools.decode, b.pools.decode
    for what, as_text, has, other in (
        ("weights in {} instead of {}", format_name, a.weight_format, b.weight_format),
        ("KV cache in {} instead of {}", format_name, a.kv_format, b.kv_format),
        ("{} instead of {}", product_name, a.engine or a.framework, b.engine or b.framework),
    ):
        if has is not None and other is not None and has != other:
            yield what.format(as_text(has), as_text(other))
    size, other_size = _replica_size(a), _replica_size(b)
    if size is not None and other_size is not None and size != other_size:
        yield f"replicas of {size} instead of {other_size} accelerators"


def _replica_size(d: Deployment) -> int | None:
    """Accelerators per replica."""
    return d.accelerators_per_replica


def _batch_reasons(mine: Estimate, baseline: Estimate) -> Iterator[str]:
    """Difference of the batch size at peak load."""
    if mine.performance is None or baseline.performance is None:
        return
    has, other = mine.performance.batch_at_peak, baseline.performance.batch_at_peak
    if has and other and abs(has / other - 1) > MIN_DIFFERENCE:
        yield f"a batch of {format_number(has)} instead of {format_number(other)}"
