"""How a run scales, and the most that fits: plain values."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = {"parameters": "parameters", "sequence_length": "tokens", "micro_batch": "sequences"}


@dataclass(frozen=True, slots=True)
class Maximum:
    """The largest value that fits, and the least that does not."""

    quantity: str
    value: float
    too_large: float

    @property
    def unit(self) -> str:
        return UNITS[self.quantity]


@dataclass(frozen=True, slots=True)
class Point:
    """The fastest layout that fits on a number of accelerators."""

    accelerators: int
    days: float
    usd_total: float | None
    tokens_per_s: float
    efficiency: float  # speed per accelerator over the best of this and smaller sizes


@dataclass(frozen=True, slots=True)
class Curve:
    """`knee` is the largest size whose last step up still paid; `binds` says what stops the next one."""

    points: tuple[Point, ...]
    knee: int
    minimum: int
    binds: str
    twice: Point | None = None  # on twice the accelerators chosen
    ends: str = ""  # why the curve goes no further
