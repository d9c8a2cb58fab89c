"""The engine of every what-if: a change of the question, the search that it is put to, and the value that turns it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from app.sizing.question import Question

T = TypeVar("T", bound=Hashable)
Found = TypeVar("Found")


class Stage(Enum):
    """First stage of a search whose inputs a change touches; earlier stages keep their results."""

    SEARCH = "search"  # plans, memory and speed
    FLEET = "fleet"  # replicas, machines and cost of the same plans
    PRICE = "price"  # cost of the same machines


@dataclass(frozen=True, slots=True)
class Change:
    """One thing of a question changed."""

    name: str  # what changes, as text
    apply: Callable[[Question], Question]  # the question with the change
    words: str = ""  # caveat or trade-off that comes with it


@dataclass(frozen=True, slots=True)
class Knob:
    """A number of a question that a change can set to another value."""

    name: str  # the change as text, without its value
    now: float  # current value
    set_value: Callable[[Question, float], Question]
    format_value: Callable[[float], str]

    def change_to(self, value: float) -> Change:
        """The change to one value."""
        return Change(f"{self.name}: {self.format_value(value)}", lambda question: self.set_value(question, value))


def probe(search: Callable[[Question], Found], question: Question, change: Change) -> Found:
    """What a search finds for the changed question."""
    return search(change.apply(question))


@dataclass(frozen=True, slots=True)
class Threshold(Generic[T]):
    """The value at which an answer changes."""

    value: float  # nearest evaluated value with a changed answer
    last_unchanged: float  # nearest evaluated value with the current answer
    new_answer: T  # the changed answer


def find_threshold(
    answer_at: Callable[[float], T],
    now: float,
    steps: Sequence[float],
    closeness: float,
    *,
    rounded: Callable[[float], float] = float,
    halvings: int | None = None,
) -> Threshold[T] | None:
    """The first step at which the answer differs from the current one, refined by geometric bisection.

    A change that reverts between two steps is not found. Every value in the result was evaluated.

    Parameters:
        answer_at: answer at a value of the number.
        now: current value.
        steps: values to try, in order.
        closeness: relative distance between the last unchanged and the first changed value at which refinement
            stops.
        rounded: rounding of the values tried between two steps; refinement stops where it reaches an end.
        halvings: most values tried between two steps; None sets no limit.
    """
    same, still = answer_at(now), now
    for step in steps:
        becomes = answer_at(step)
        if becomes != same:
            found = Threshold(step, still, becomes)
            return _narrow_threshold(answer_at, found, same, closeness, rounded, halvings)
        still = step
    return None


def _narrow_threshold(
    answer_at: Callable[[float], T],
    threshold: Threshold[T],
    same: T,
    closeness: float,
    rounded: Callable[[float], float],
    halvings: int | None,
) -> Threshold[T]:
    """Narrow the interval between the unchanged and the changed answer."""
    tried = 0
    while tried != halvings:
        ends = threshold.value, threshold.last_unchanged
        middle = rounded((ends[0] * ends[1]) ** 0.5)
        if max(ends) / min(ends) <= 1 + closeness or middle in ends:
            break
        becomes = answer_at(middle)
        threshold = (
            Threshold(threshold.value, middle, threshold.new_answer)
            if becomes == same
            else Threshold(middle, threshold.last_unchanged, becomes)
        )
        tried += 1
    return threshold
