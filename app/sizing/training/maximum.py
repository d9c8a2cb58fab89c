"""The most that given hardware trains: the largest model, the longest sequence, the largest micro-batch that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.errors import Conflict
from app.sizing.model.counting.size import assumed_architecture
from app.sizing.question import Deployment
from app.sizing.values.runs import UNITS, Maximum
from app.sizing.workload import TrainingWorkload

QUANTITIES = ("parameters", "sequence_length", "micro_batch")
MOST = {"parameters": 2e13, "sequence_length": 1e7, "micro_batch": 65536.0}
LEAST = {"parameters": 1e6, "sequence_length": 128.0, "micro_batch": 1.0}
SEQUENCE_STEP = 128.0
CLOSE = 1.002  # parameters are found to a fifth of a percent


Asked = tuple[TrainingWorkload, Deployment]


def with_value(workload: TrainingWorkload, deployment: Deployment, quantity: str, value: float, devices: int) -> Asked:
    """The same question with another size of model, sequence or micro-batch, on as many devices."""
    if quantity == "parameters":
        return replace(workload, model=assumed_architecture(value)), deployment
    if quantity == "sequence_length":
        return replace(workload, units_per_sequence=value), deployment
    # The batch is as near to the one asked for as micro-batches of this size divide over the devices.
    share = int(value) * devices
    batch = share * max(1, round(workload.global_batch / share))
    return replace(workload, global_batch=batch), replace(deployment, micro_batch_sequences=int(value))


def rounded_down(quantity: str, value: float) -> float:
    if quantity == "parameters":
        return value
    step = SEQUENCE_STEP if quantity == "sequence_length" else 1.0
    return max(LEAST[quantity], value // step * step)


def largest(
    quantity: str,
    workload: TrainingWorkload,
    deployment: Deployment,
    devices: int,
    fits: Callable[[TrainingWorkload, Deployment], bool],
) -> Maximum:
    """The largest value that fits, by bisection: memory grows with each of them.

    Raises Conflict where nothing fits at all, or where the model does not work on tokens.
    """
    if workload.in_samples:
        raise Conflict("maximize counts tokens and parameters of language models; this model works on samples.")

    def good(value: float) -> bool:
        return fits(*with_value(workload, deployment, quantity, value, devices))

    low, high = LEAST[quantity], MOST[quantity]
    if not good(low):
        raise Conflict(
            f"Nothing fits: even {low:g} {UNITS[quantity]} do not. "
            "Give more accelerators, sharding (zero_stage 3), or offload."
        )
    if good(high):
        return Maximum(quantity, high, high)
    while not _close(quantity, low, high):
        middle = rounded_down(quantity, (low * high) ** 0.5)
        if middle <= low:
            middle = low + (SEQUENCE_STEP if quantity == "sequence_length" else 1.0)
        if good(middle):
            low = middle
        else:
            high = middle
    return Maximum(quantity, low, high)


def _close(quantity: str, low: float, high: float) -> bool:
    if quantity == "parameters":
        return high / low <= CLOSE
    return high - low <= (SEQUENCE_STEP if quantity == "sequence_length" else 1.0)
