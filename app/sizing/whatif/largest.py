"""The largest load or run that the limits of a request allow: the inverse of sizing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.sizing.question import LoadUnit, Question
from app.sizing.result import LargestLoad
from app.sizing.snapshot import Catalog
from app.sizing.whatif.limits import find_feasible_plans
from app.sizing.words import format_large_number, round_down_to_digits

# Factors on the load of the request: from a millionth to a million times, to within CLOSENESS.
MOST_DOUBLINGS, CLOSENESS = 20, 0.03
UNIT_WORDS = {LoadUnit.REQUESTS: "requests/s", LoadUnit.USERS: "users", LoadUnit.TOKENS: "training tokens"}
STEP, MOST_STEPS = 1.1, 24  # steps from the factor that formulas find to the one that simulation confirms


def at_largest_load(
    question: Question, catalog: Catalog, meets: Callable[[Question], bool]
) -> tuple[Question, LargestLoad | None]:
    """The question with the largest load within its limits, and that load; itself and None if no load meets them.

    Formulas bracket the load. From there, `meets` confirms in steps the largest load that meets the limits, to within
    5 %.

    Parameters:
        meets: whether some hardware meets the limits of a question, simulated.
    """
    sought, asked = question.largest, replace(question, largest=None)
    if sought is None:
        return asked, None

    def ask(times: float) -> Question:
        return replace(asked, workload=sought.workload_at(times))

    def is_likely(times: float) -> bool:
        return len(find_feasible_plans(ask(times), catalog).within(question.constraints)) > 0

    times = find_confirmed(bracket_largest(is_likely), lambda times: meets(ask(times)))
    if times is None:
        return asked, None
    load = sought.load * times
    value = float(int(load)) if sought.unit is LoadUnit.USERS else round_down_to_digits(load)
    if value <= 0:
        return asked, None
    return ask(value / sought.load), LargestLoad(sought.unit.value, value, value / sought.load)


def describe_largest(largest: LargestLoad | None) -> str:
    """The first sentence of a summary about the largest load; empty without one."""
    if largest is None:
        return ""
    unit = UNIT_WORDS[LoadUnit(largest.quantity)]
    return f"The largest load within the limits is {format_large_number(largest.value)} {unit}. "


def bracket_largest(is_likely: Callable[[float], bool]) -> float:
    """The largest factor that is likely, to within CLOSENESS, by doubling or halving from 1 and then bisecting.

    Check:
        >>> 6.7 < bracket_largest(lambda times: times <= 7) <= 7, 0.0097 < bracket_largest(lambda t: t <= 0.01) <= 0.01
        (True, True)
    """
    low = 1.0
    step = 2.0 if is_likely(low) else 0.5
    for _ in range(MOST_DOUBLINGS):
        if is_likely(low * step) == (step < 1):
            break
        low *= step
    low = min(low, low * step)
    high = 2 * low
    while high / low > 1 + CLOSENESS:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if is_likely(middle) else (low, middle)
    return low


def find_confirmed(start: float, is_met: Callable[[float], bool]) -> float | None:
    """The largest factor near `start` that is met, to within half a step; None if none is.

    Check:
        >>> 8.7 < find_confirmed(7.0, lambda times: times <= 9) <= 9, 4.5 < find_confirmed(7.0, lambda t: t <= 5) <= 5
        (True, True)
        >>> find_confirmed(7.0, lambda times: False) is None
        True
    """
    step = STEP if is_met(start) else 1 / STEP
    last = start
    for _ in range(MOST_STEPS):
        last *= step
        if is_met(last) == (step < 1):
            break
    else:
        return last if step > 1 else None
    low = min(last, last / step)
    middle = low * STEP**0.5
    return middle if is_met(middle) else low
