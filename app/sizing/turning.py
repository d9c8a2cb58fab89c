"""Finds the nearest value of one number at which an answer changes, to a given relative precision."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Threshold(Generic[T]):
    """The value at which an answer changes."""

    value: float  # nearest evaluated value with a changed answer
    last_unchanged: float  # nearest evaluated value with the current answer
    new_answer: T  # the changed answer


def find_threshold(
    answer_at: Callable[[float], T], now: float, steps: Sequence[float], closeness: float
) -> Threshold[T] | None:
    """The first step at which the answer differs from the current one, refined by geometric bisection.

    A change that reverts between two steps is not found. Every value in the result was evaluated.

    Parameters:
        answer_at: answer at a value of the number.
        now: current value.
        steps: values to try, in order.
        closeness: relative distance between the last unchanged and the first changed value at which refinement
            stops.
    """
    same, still = answer_at(now), now
    for step in steps:
        becomes = answer_at(step)
        if becomes != same:
            return _narrow_threshold(answer_at, Threshold(step, still, becomes), same, closeness)
        still = step
    return None


def _narrow_threshold(
    answer_at: Callable[[float], T], threshold: Threshold[T], same: T, closeness: float
) -> Threshold[T]:
    """Narrow the interval between the unchanged and the changed answer."""
    while (
        max(threshold.value, threshold.last_unchanged) / min(threshold.value, threshold.last_unchanged) > 1 + closeness
    ):
        middle = (threshold.value * threshold.last_unchanged) ** 0.5
        becomes = answer_at(middle)
        threshold = (
            Threshold(threshold.value, middle, threshold.new_answer)
            if becomes == same
            else Threshold(middle, threshold.last_unchanged, becomes)
        )
    return threshold
