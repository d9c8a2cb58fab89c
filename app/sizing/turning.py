"""Where an answer turns into another as one number is moved: the nearest such place, to a share of the number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Turn(Generic[T]):
    """The answer is `becomes` at `value`, and still the old one at `still`."""

    value: float
    still: float
    becomes: T


def nearest_turn(
    answer_at: Callable[[float], T], now: float, steps: Sequence[float], closeness: float
) -> Turn[T] | None:
    """The first of the steps at which the answer is another than now, brought nearer by halving (of logarithms) until
    it is within `closeness` of where the answer is still the same; None where it is the same at all of them.

    An answer that turns and turns back between two steps is not seen. Every place told was asked.
    """
    same, still = answer_at(now), now
    for step in steps:
        becomes = answer_at(step)
        if becomes != same:
            return _nearer(answer_at, Turn(step, still, becomes), same, closeness)
        still = step
    return None


def _nearer(answer_at: Callable[[float], T], found: Turn[T], same: T, closeness: float) -> Turn[T]:
    """Between what is still the same and what is another."""
    while max(found.value, found.still) / min(found.value, found.still) > 1 + closeness:
        middle = (found.value * found.still) ** 0.5
        becomes = answer_at(middle)
        found = Turn(found.value, middle, found.becomes) if becomes == same else Turn(middle, found.still, becomes)
    return found
