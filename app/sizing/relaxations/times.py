"""Latency limits and deadlines that would have to be relaxed, and by how little."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.sizing.question import Question
from app.sizing.relaxations.tried import least_that_does
from app.sizing.relaxations.ways import Size, Ways, cheapest, keeping, named, types_of, ways_of
from app.sizing.result import Change, Reached, Rejection
from app.sizing.snapshot import Catalog
from app.sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.words import at_least, figure, span
from app.sizing.workload import InferenceWorkload, TrainingWorkload, with_limit

# The search for a feasible limit goes up to MAX_LIMIT_FACTOR times the requested one. It then bisects up to HALVINGS
# times, or until both ends are within CLOSE_FACTOR.
MOST_TIMES, HALVINGS, CLOSE = 16.0, 7, 1.02


@dataclass(frozen=True, slots=True)
class Time:
    """A latency limit or a deadline, with the function that sets another value in the question."""

    label: str
    asked_s: float  # requested limit, s
    known_s: float  # smallest value known to be needed, s; infinite where unknown
    types: tuple[str, ...]  # accelerator types that a wider limit may help
    allowing: Callable[[Question, float], Question]
    format_value: Callable[[float], str]


# By field of an Slo: its name as text, the rejection code of types that miss it, and other codes that a wider limit may
# help.
LATENCIES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "ttft_s": ("TTFT", "too_slow_to_first_token", ()),
    "tpot_s": ("TPOT", "too_slow_per_token", ("too_slow_to_first_token",)),
    "e2e_s": ("end-to-end latency", "too_slow", ("too_slow_per_token", "too_slow_to_first_token")),
}


def times_asked(question: Question, judged: Sequence[Rejection]) -> Iterator[Time]:
    """Latency limits or the deadline of the request that some types miss, or that let other types need fewer
    resources.
    """
    workload = question.workload

    def types(*codes: str) -> tuple[str, ...]:
        return tuple(r.accelerator for r in judged if r.reached is Reached.LIMITS or r.code in codes)

    def known(code: str, each_s: float) -> float:
        return min((r.needed * each_s for r in judged if r.code == code and r.needed), default=math.inf)

    if workload.deadline_s is not None:
        each_s = SECONDS_PER_DAY if isinstance(workload, TrainingWorkload) else SECONDS_PER_HOUR
        asked_s, least_s = workload.deadline_s, known("too_slow", each_s)
        label = f"extend the deadline (now {_days(asked_s)})"
        yield Time(label, asked_s, least_s, types("too_slow"), _with_deadline, _days)
    if isinstance(workload, TrainingWorkload) or workload.ends:
        return
    for whose, slo in [(c.name, c.slo) for c in workload.classes] or [("", workload.slo)]:
        for name, (shown, code, others) in LATENCIES.items():
            asked_s = getattr(slo, name)
            if asked_s is not None:
                label = f"raise {whose} {name.removesuffix('_s')}_ms (now {figure(asked_s * 1e3)})".replace("  ", " ")
                allowing, words = partial(_with_latency, name, whose), partial(_milliseconds, shown)
                least_s = math.inf if whose else known(code, 1e-3)  # rejections do not name the traffic class
                yield Time(label, asked_s, least_s, types(code, *others), allowing, words)


def _days(seconds: float) -> str:
    return span(seconds / SECONDS_PER_DAY)


def _milliseconds(name: str, seconds: float) -> str:
    return f"{name} {figure(seconds * 1e3)} ms"


def _with_deadline(question: Question, seconds: float) -> Question:
    return replace(question, workload=replace(question.workload, deadline_s=seconds))


def _with_latency(name: str, whose: str, question: Question, seconds: float | None) -> Question:
    workload, changed = question.workload, {name: seconds}
    assert isinstance(workload, InferenceWorkload)
    if whose:
        return replace(question, workload=with_limit(workload, whose, name, seconds))
    return replace(question, workload=replace(workload, slo=replace(workload.slo, **changed)))  # type: ignore[arg-type]


def without_latencies(question: Question) -> Question:
    """The question without latency limits."""
    if isinstance(question.workload, InferenceWorkload):
        for whose in [c.name for c in question.workload.classes] or [""]:
            for name in LATENCIES:
                question = _with_latency(name, whose, question, None)
    return question


def of_times(question: Question, market: Catalog, judged: Sequence[Rejection], sizes: Sequence[Size]) -> list[Change]:
    """Latency limits and deadlines that are enough to relax alone, each with its smallest feasible value.

    With resource limits in the request, only types that meet them under much wider time limits are searched.
    """
    times = list(times_asked(question, judged))
    types = tuple(dict.fromkeys(name for time in times for name in time.types))
    if sizes:
        wide = question
        for time in times:
            wide = time.allowing(wide, time.asked_s * MOST_TIMES)
        ways = ways_of(wide, market, types)
        types = types_of(ways.take(keeping(sizes, ways)), market)
    found = []
    for time in times:
        enough = least_time(question, time, tuple(t for t in time.types if t in types), market, sizes)
        if enough is not None:
            confirmed = least_that_does(question, market, time.allowing, enough[0], cheapest(enough[1]))
            if confirmed is not None:
                found.append(Change(time.label, f"feasible at {time.format_value(confirmed[0])}: {named(confirmed[1], market)}"))
    return found


def least_time(
    question: Question, time: Time, types: tuple[str, ...], market: Catalog, sizes: Sequence[Size]
) -> tuple[float, Ways] | None:
    """Smallest feasible value of a time limit in seconds, and the plans that meet it.

    The value is the known need of the nearest rejected plan, or the result of a bisection.
    """

    def ways(seconds: float, among: tuple[str, ...]) -> Ways:
        found = ways_of(time.allowing(question, seconds), market, among)
        return found.take(keeping(sizes, found))

    low = time.asked_s
    if time.known_s < math.inf and not sizes:
        low = at_least(time.known_s)
        found = ways(low, types)
        if len(found):
            return low, found
    high = at_least(low * MOST_TIMES)
    found = ways(high, types)
    if not len(found):
        return None
    for _ in range(HALVINGS):
        middle = at_least(math.sqrt(low * high))
        if high <= low * CLOSE or middle >= high:
            break
        nearer = ways(middle, types_of(found, market))
        if len(nearer):
            high, found = middle, nearer
        else:
            low = middle
    return high, found
