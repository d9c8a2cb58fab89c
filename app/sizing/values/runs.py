"""How a training run scales, and the largest values that fit in memory."""

from __future__ import annotations

from dataclasses import dataclass

QUANTITY_UNITS = {"parameters": "parameters", "sequence_length": "tokens", "micro_batch": "sequences"}


@dataclass(frozen=True, slots=True)
class MaximumThatFits:
    """The largest value that fits in memory, and the smallest tested value that does not."""

    quantity: str
    value: float
    too_large: float

    @property
    def unit(self) -> str:
        return QUANTITY_UNITS[self.quantity]


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """The fastest layout that fits on a number of accelerators."""

    accelerators: int
    days: float
    usd_total: float | None
    tokens_per_s: float
    efficiency: float  # speed per accelerator over the best speed per accelerator of this and smaller sizes


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    """Speed and cost by number of accelerators. `knee` is the largest size whose last increase still pays off; `binds`
    names what limits the next size.
    """

    points: tuple[ScalingPoint, ...]
    knee: int
    minimum: int
    binds: str
    twice: ScalingPoint | None = None  # result with twice the chosen accelerators
    ends: str = ""  # why the curve ends
