"""Latency limits and deadlines that would have to be relaxed, and by how little."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.sizing.columns import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.question import Question
from app.sizing.relaxations.tried import min_confirmed_value
from app.sizing.relaxations.ways import (
    FeasiblePlans,
    ResourceLimit,
    accelerator_types,
    cheapest_plan,
    describe_cheapest,
    find_feasible_plans,
    meets_resource_limits,
)
from app.sizing.result import Change, FilterStage, Rejection
from app.sizing.snapshot import Catalog
from app.sizing.words import format_duration, format_number, round_up_to_digits
from app.sizing.workload import InferenceWorkload, TrainingWorkload, with_class_limit

# The search for a feasible limit goes up to MAX_LIMIT_FACTOR times the requested one. It then bisects up to HALVINGS
# times, or until both ends are within CLOSE_FACTOR.
MAX_LIMIT_FACTOR, HALVINGS, CLOSE_FACTOR = 16.0, 7, 1.02


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A latency limit or a deadline, with the function that sets another value in the question."""

    label: str
    requested_s: float  # requested limit, s
    known_need_s: float  # smallest value known to be needed, s; infinite where unknown
    types: tuple[str, ...]  # accelerator types that a wider limit may help
    apply_value: Callable[[Question, float], Question]
    format_value: Callable[[float], str]


# By field of an Slo: its name as text, the rejection code of types that miss it, and other codes that a wider limit may
# help.
LATENCIES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "ttft_s": ("TTFT", "too_slow_to_first_token", ()),
    "tpot_s": ("TPOT", "too_slow_per_token", ("too_slow_to_first_token",)),
    "e2e_s": ("end-to-end latency", "too_slow", ("too_slow_per_token", "too_slow_to_first_token")),
}


def requested_time_limits(question: Question, judged: Sequence[Rejection]) -> Iterator[TimeLimit]:
    """Latency limits or the deadline of the request that some types miss, or that let other types need fewer
    resources.
    """
    workload = question.workload

    def helped_types(*codes: str) -> tuple[str, ...]:
        return tuple(r.accelerator for r in judged if r.stage is FilterStage.LIMITS or r.code in codes)

    def known_need(code: str, each_s: float) -> float:
        return min((r.needed * each_s for r in judged if r.code == code and r.needed), default=math.inf)

    if workload.deadline_s is not None:
        each_s = SECONDS_PER_DAY if isinstance(workload, TrainingWorkload) else SECONDS_PER_HOUR
        requested_s, least_s = workload.deadline_s, known_need("too_slow", each_s)
        label = f"extend the deadline (now {_format_days(requested_s)})"
        yield TimeLimit(label, requested_s, least_s, helped_types("too_slow"), _with_deadline, _format_days)
    if isinstance(workload, TrainingWorkload) or workload.is_finite:
        return
    for whose, slo in [(c.name, c.slo) for c in workload.classes] or [("", workload.slo)]:
        for name, (shown, code, others) in LATENCIES.items():
            requested_s = getattr(slo, name)
            if requested_s is not None:
                label = f"raise {whose} {name.removesuffix('_s')}_ms (now {format_number(requested_s * 1e3)})".replace(
                    "  ", " "
                )
                allowing, words = partial(_with_latency, name, whose), partial(_format_milliseconds, shown)
                least_s = math.inf if whose else known_need(code, 1e-3)  # rejections do not name the traffic class
                yield TimeLimit(label, requested_s, least_s, helped_types(code, *others), allowing, words)


def _format_days(seconds: float) -> str:
    return format_duration(seconds / SECONDS_PER_DAY)


def _format_milliseconds(name: str, seconds: float) -> str:
    return f"{name} {format_number(seconds * 1e3)} ms"


def _with_deadline(question: Question, seconds: float) -> Question:
    return replace(question, workload=replace(question.workload, deadline_s=seconds))


def _with_latency(name: str, whose: str, question: Question, seconds: float | None) -> Question:
    workload, changed = question.workload, {name: seconds}
    assert isinstance(workload, InferenceWorkload)
    if whose:
        return replace(question, workload=with_class_limit(workload, whose, name, seconds))
    return replace(question, workload=replace(workload, slo=replace(workload.slo, **changed)))  # type: ignore[arg-type]


def without_latencies(question: Question) -> Question:
    """The question without latency limits."""
    if isinstance(question.workload, InferenceWorkload):
        for whose in [c.name for c in question.workload.classes] or [""]:
            for name in LATENCIES:
                question = _with_latency(name, whose, question, None)
    return question


def relax_time_limits(
    question: Question, catalog: Catalog, judged: Sequence[Rejection], sizes: Sequence[ResourceLimit]
) -> list[Change]:
    """Latency limits and deadlines that are enough to relax alone, each with its smallest feasible value.

    With resource limits in the request, only types that meet them under much wider time limits are searched.
    """
    times = list(requested_time_limits(question, judged))
    types = tuple(dict.fromkeys(name for time in times for name in time.types))
    if sizes:
        wide = question
        for time in times:
            wide = time.apply_value(wide, time.requested_s * MAX_LIMIT_FACTOR)
        ways = find_feasible_plans(wide, catalog, types)
        types = accelerator_types(ways.take(meets_resource_limits(sizes, ways)), catalog)
    found = []
    for time in times:
        enough = min_feasible_time(question, time, tuple(t for t in time.types if t in types), catalog, sizes)
        if enough is not None:
            confirmed = min_confirmed_value(question, catalog, time.apply_value, enough[0], cheapest_plan(enough[1]))
            if confirmed is not None:
                found.append(
                    Change(
                        time.label,
                        f"feasible at {time.format_value(confirmed[0])}: {describe_cheapest(confirmed[1], catalog)}",
                    )
                )
    return found


def min_feasible_time(
    question: Question, time: TimeLimit, types: tuple[str, ...], catalog: Catalog, sizes: Sequence[ResourceLimit]
) -> tuple[float, FeasiblePlans] | None:
    """Smallest feasible value of a time limit in seconds, and the plans that meet it.

    The value is the known need of the nearest rejected plan, or the result of a bisection.
    """

    def feasible_within(seconds: float, among: tuple[str, ...]) -> FeasiblePlans:
        found = find_feasible_plans(time.apply_value(question, seconds), catalog, among)
        return found.take(meets_resource_limits(sizes, found))

    low = time.requested_s
    if time.known_need_s < math.inf and not sizes:
        low = round_up_to_digits(time.known_need_s)
        found = feasible_within(low, types)
        if len(found):
            return low, found
    high = round_up_to_digits(low * MAX_LIMIT_FACTOR)
    found = feasible_within(high, types)
    if not len(found):
        return None
    for _ in range(HALVINGS):
        middle = round_up_to_digits(math.sqrt(low * high))
        if high <= low * CLOSE_FACTOR or middle >= high:
            break
        nearer = feasible_within(middle, accelerator_types(found, catalog))
        if len(nearer):
            high, found = middle, nearer
        else:
            low = middle
    return high, found
