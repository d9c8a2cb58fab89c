"""Capacity of given hardware: the largest model, the longest sequence or the largest micro-batch that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.errors import Conflict
from app.sizing.model.counting.size import assumed_architecture
from app.sizing.question import Deployment
from app.sizing.values.runs import QUANTITY_UNITS, MaximumThatFits
from app.sizing.workload import TrainingWorkload

QUANTITIES = ("parameters", "sequence_length", "micro_batch")
UPPER_BOUNDS = {"parameters": 2e13, "sequence_length": 1e7, "micro_batch": 65536.0}
LOWER_BOUNDS = {"parameters": 1e6, "sequence_length": 128.0, "micro_batch": 1.0}
SEQUENCE_STEP = 128.0
RELATIVE_TOLERANCE = 1.002  # relative precision of the parameter count: 0.2 %


SizingCase = tuple[TrainingWorkload, Deployment]


def with_quantity(
    workload: TrainingWorkload, deployment: Deployment, quantity: str, value: float, devices: int
) -> SizingCase:
    """Return the same case with another model size, sequence length or micro-batch, on the same number of devices."""
    if quantity == "parameters":
        return replace(workload, model=assumed_architecture(value)), deployment
    if quantity == "sequence_length":
        return replace(workload, units_per_sequence=value), deployment
    # Choose the batch nearest to the requested one that micro-batches of this size divide over the devices.
    share = int(value) * devices
    batch = share * max(1, round(workload.global_batch / share))
    return replace(workload, global_batch=batch), replace(deployment, micro_batch_sequences=int(value))


def round_down_to_step(quantity: str, value: float) -> float:
    """Round down to the step of a quantity: 128 tokens or one sequence; parameters are not rounded."""
    if quantity == "parameters":
        return value
    step = SEQUENCE_STEP if quantity == "sequence_length" else 1.0
    return max(LOWER_BOUNDS[quantity], value // step * step)


def find_maximum(
    quantity: str,
    workload: TrainingWorkload,
    deployment: Deployment,
    devices: int,
    fits: Callable[[TrainingWorkload, Deployment], bool],
) -> MaximumThatFits:
    """Find the largest value that fits, by bisection; memory grows monotonically with every quantity.

    Raises Conflict if nothing fits, or if the model does not process tokens.
    """
    if workload.in_samples:
        raise Conflict("maximize supports models that process tokens; this model processes samples.")

    def value_fits(value: float) -> bool:
        return fits(*with_quantity(workload, deployment, quantity, value, devices))

    low, high = LOWER_BOUNDS[quantity], UPPER_BOUNDS[quantity]
    if not value_fits(low):
        raise Conflict(
            f"Nothing fits: even the smallest size, {low:,.0f} {QUANTITY_UNITS[quantity]}, exceeds memory. "
            "Request more accelerators, sharding (zero_stage 3) or offload."
        )
    if value_fits(high):
        return MaximumThatFits(quantity, high, high)
    while not _has_converged(quantity, low, high):
        midpoint = round_down_to_step(quantity, (low * high) ** 0.5)
        if midpoint <= low:
            midpoint = low + (SEQUENCE_STEP if quantity == "sequence_length" else 1.0)
        if value_fits(midpoint):
            low = midpoint
        else:
            high = midpoint
    return MaximumThatFits(quantity, low, high)


def _has_converged(quantity: str, low: float, high: float) -> bool:
    """Whether the bounds are close enough to stop the bisection."""
    if quantity == "parameters":
        return high / low <= RELATIVE_TOLERANCE
    return high - low <= (SEQUENCE_STEP if quantity == "sequence_length" else 1.0)
