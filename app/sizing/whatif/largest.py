"""The largest load or run that the limits of a request allow: the inverse of sizing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from app.sizing.question import LoadUnit, Question
from app.sizing.result import LargestLoad
from app.sizing.snapshot import Catalog
from app.sizing.whatif.change import find_threshold
from app.sizing.whatif.limits import find_plans_within_limits
from app.sizing.words import format_large_number, round_down_to_digits

# Factors on the load of the request: from a millionth to a million times, which formulas find to within CLOSENESS.
DOUBLINGS, SMALLEST, CLOSENESS = tuple(2.0**n for n in range(1, 21)), 2.0**-20, 0.03
UNIT_WORDS = {LoadUnit.REQUESTS: "requests/s", LoadUnit.USERS: "users", LoadUnit.TOKENS: "training tokens"}
# Factors from there to the load that simulation confirms, to within CONFIRMED_CLOSENESS.
STEPS, CONFIRMED_CLOSENESS = tuple(1.1**n for n in (1, 2, 4, 8, 16, 32, 64, 128)), 0.05


def at_largest_load(
    question: Question, catalog: Catalog, meets: Callable[[Question], bool]
) -> tuple[Question, LargestLoad | None]:
    """The question with the largest load within its limits, and that load; itself and None if no load meets them.

    Formulas find the load. From there, `meets` confirms the largest load that meets the limits, to within 5 %.

    Parameters:
        meets: whether some hardware meets the limits of a question, simulated.
    """
    sought, asked = question.largest, replace(question, largest=None)
    if sought is None:
        return asked, None

    def question_at(times: float) -> Question:
        return replace(asked, workload=sought.workload_at(times))

    def round_load(times: float) -> float:
        load = sought.load * times
        return float(int(load)) if sought.unit is LoadUnit.USERS else round_down_to_digits(load)

    def is_likely(times: float) -> bool:
        return len(find_plans_within_limits(question_at(times), catalog)) > 0

    def is_met(times: float) -> bool:
        load = round_load(times)
        return load > 0 and meets(question_at(load / sought.load))

    likely = find_largest(is_likely, 1.0, DOUBLINGS, (SMALLEST,), CLOSENESS)
    times = (
        None
        if likely is None
        else find_largest(is_met, likely, STEPS, tuple(1 / n for n in STEPS), CONFIRMED_CLOSENESS)
    )
    if times is None:
        return asked, None
    value = round_load(times)
    return question_at(value / sought.load), LargestLoad(sought.unit.value, value, value / sought.load)


def describe_largest(largest: LargestLoad | None) -> str:
    """The first sentence of a summary about the largest load; empty without one."""
    if largest is None:
        return ""
    unit = UNIT_WORDS[LoadUnit(largest.quantity)]
    return f"The largest load within the limits is {format_large_number(largest.value)} {unit}. "


def find_largest(
    holds: Callable[[float], bool], start: float, up: Sequence[float], down: Sequence[float], closeness: float
) -> float | None:
    """The largest value at which a condition holds that fails beyond it; None if it holds nowhere.

    Parameters:
        start: first value.
        up: multiples of `start` to try in order if the condition holds there; the last one if it holds at all.
        down: multiples of `start` to try in order if it does not.
        closeness: relative distance to the next value, at which the condition fails.
    Check:
        >>> doubled = [2.0, 4.0, 8.0]
        >>> 6.7 < find_largest(lambda load: load <= 7, 1.0, doubled, [1e-6], 0.03) <= 7
        True
        >>> 0.0097 < find_largest(lambda load: load <= 0.01, 1.0, doubled, [1e-6], 0.03) <= 0.01
        True
        >>> find_largest(lambda load: True, 1.0, doubled, [1e-6], 0.03)
        8.0
        >>> find_largest(lambda load: False, 1.0, doubled, [1e-6], 0.03) is None
        True
    """
    known = cache(holds)
    values = tuple(start * times for times in (up if known(start) else down))
    turn = find_threshold(known, start, values, closeness)
    if turn is None:
        return values[-1] if known(start) else None
    return turn.last_unchanged if known(start) else turn.value
