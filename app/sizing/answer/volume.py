"""What an answer says of offline work that ends: how long all of it takes, what that costs, what more would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.sizing.answer.money import finite, usd
from app.sizing.columns import Column, Columns, at
from app.sizing.decisions.cost import usd_total
from app.sizing.decisions.ranking import score_of
from app.sizing.decisions.rejections import Unread
from app.sizing.decisions.volume import may_be_in_time
from app.sizing.question import Question
from app.sizing.result import Change, CostSummary, Estimate, Interval, Performance, Reason
from app.sizing.serving.assurance import surely_s
from app.sizing.serving.measured import Settings
from app.sizing.serving.options import Judged, Options, allowed, duration_s, measures
from app.sizing.serving.search import replicas_of, resized
from app.sizing.uncertainty import Around, Spreads
from app.sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.words import counted, figure, measured, span
from app.sizing.workload import InferenceWorkload

# Up to where durations are told in hours.
LONGEST_IN_HOURS_S = 7 * SECONDS_PER_DAY


@dataclass(frozen=True, slots=True)
class Ending(Columns):
    """How long volumes take and what they cost, a row each."""

    expected_s: Column
    surely_s: Column  # with the confidence asked
    start_s: Column
    usd: Column  # as expected; NaN without a price


def ending(
    question: Question,
    workload: InferenceWorkload,
    judged: Judged[Any, Any, Any],
    around: Around,
    spreads: Spreads,
) -> Ending | None:
    """When work that ends does, and at which cost."""
    if workload.volume_requests is None:
        return None
    lasts = duration_s(workload.volume_requests, judged.options)
    return Ending(
        expected_s=lasts,
        surely_s=surely_s(question, workload, lasts, judged.options, around, spreads),
        start_s=judged.options.cold_start_s,
        usd=usd_total(judged.cost.usd_per_hour, lasts),
    )


def with_ending(
    question: Question, workload: InferenceWorkload, estimate: Estimate, found: Ending, row: int
) -> Estimate:
    """An estimate with the days and the money that all of the work takes, and why."""
    performance, cost = estimate.performance, estimate.cost
    if performance is None or cost is None:
        return estimate
    paid = replace(cost, usd_total=finite(at(found.usd, row)))
    lasts, surely = (at(values, row) / SECONDS_PER_DAY for values in (found.expected_s, found.surely_s))
    lasting = replace(performance, days=lasts, surely_days=surely)
    intervals = (*performance.intervals, *ending_intervals(found, row, lasting, paid))
    return replace(
        estimate,
        performance=replace(lasting, intervals=intervals),
        cost=paid,
        explanation=(ending_reason(question, workload, found, row), *estimate.explanation),
    )


def ending_intervals(found: Ending, row: int, performance: Performance, cost: CostSummary) -> Iterator[Interval]:
    """Days and, where there is a price, money of the volume, by the errors of the speed; the start is what it is."""
    rate, start, lasts = performance.interval, at(found.start_s, row), at(found.expected_s, row)
    point = getattr(performance, rate.quantity)
    low, high = ((start + (lasts - start) * point / end) / lasts for end in (rate.high, rate.low))
    figures = {
        "days": performance.days,
        "usd_total": cost.usd_total,
        f"usd_per_million_{cost.per_million}": cost.usd_per_million,
    }
    for name, value in figures.items():
        if value is not None:
            yield Interval(name, value * low, value * high)


def ending_reason(question: Question, workload: InferenceWorkload, found: Ending, row: int) -> Reason:
    """How much of the time allowed a volume takes: expected, and with the confidence asked."""
    lasts, surely, start = (at(values, row) for values in (found.expected_s, found.surely_s, found.start_s))
    limit_s = workload.deadline_s
    in_hours = max(limit_s or 0.0, surely) <= LONGEST_IN_HOURS_S
    unit, each = ("hour", SECONDS_PER_HOUR) if in_hours else ("day", SECONDS_PER_DAY)
    taken = measured(lasts / each, unit)
    if limit_s is not None:
        taken = f"{figure(lasts / each)} of {measured(limit_s / each, unit)}"
    text = (
        f"{amount_words(workload)} take {taken} expected, {figure(surely / each)} at "
        f"{question.constraints.confidence:.0%} confidence, {counted(round(start), 'second')} of it to start."
    )
    return Reason("deadline" if limit_s is not None else "duration", text, "days", lasts / SECONDS_PER_DAY, "days")


def amount_words(workload: InferenceWorkload) -> str:
    """The volume in words."""
    return counted(workload.volume_requests or 0.0, "sample" if workload.model.sample else "request")


def volume_changes(question: Question, workload: InferenceWorkload, options: Options) -> tuple[Change, ...]:
    """What the best plan would cost and take with more to do, or less time."""
    now = best_of(question, workload, options)
    if workload.volume_requests is None or now is None:
        return ()
    twice = replace(workload, volume_requests=2 * workload.volume_requests)
    limit_s, sooner = workload.deadline_s, "half the deadline"
    if limit_s is None:
        limit_s, sooner = now[1], "done in half the time"
    cases = (("twice the volume", twice), (sooner, replace(workload, deadline_s=limit_s / 2)))
    return tuple(Change(label, effect_words(question, now, best_of(question, w, options))) for label, w in cases)


def best_of(question: Question, workload: InferenceWorkload, options: Options) -> tuple[float, float, float] | None:
    """(USD, seconds, accelerators) of the best plan at another amount of work, with the confidence asked; None where
    none is in time within the limits.
    """
    plans, batch, capacity = options.plans, options.slo_batch, options.capacity_per_s
    replicas = replicas_of(question, workload, plans, capacity, batch, Settings())
    sized = resized(question, workload, options, replicas)
    able = may_be_in_time(workload, capacity, batch, options.cold_start_s)
    sized = sized.take(able & allowed(question, sized, Unread(())))
    if not len(sized):
        return None
    merit = measures(workload, sized)
    row = int(np.argmin(score_of(question.objective, merit)))
    return at(merit.usd, row), at(merit.latency_s, row), at(sized.fleet.accelerators, row)


def effect_words(question: Question, now: tuple[float, float, float], then: tuple[float, float, float] | None) -> str:
    """How the best plan changes."""
    if then is None:
        return "nothing is done in time within the limits"
    before, after = (
        f"{usd(spent)} in {span(seconds / SECONDS_PER_DAY)} on {counted(count, 'accelerator')}"
        for spent, seconds, count in (now, then)
    )
    sure = f"at {question.constraints.confidence:.0%} confidence"
    if before == after:
        return f"no change: the best plan costs {after} {sure}"
    return f"the best plan costs {after} instead of {before} {sure}"
