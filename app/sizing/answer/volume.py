"""Duration and cost of offline work with a fixed volume, and what more work or less time would cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from app.sizing.answer.money import finite_or_none
from app.sizing.columns import SECONDS_PER_DAY, SECONDS_PER_HOUR, Column, Columns, at
from app.sizing.decisions.cost import usd_total
from app.sizing.question import Question
from app.sizing.result import CostSummary, Estimate, Interval, Performance, Reason
from app.sizing.serving.assurance import duration_at_confidence_s
from app.sizing.serving.options import PlanEvaluations, duration_s
from app.sizing.uncertainty import Neighborhood, Spreads
from app.sizing.words import format_count, format_number, format_quantity, percent
from app.sizing.workload import InferenceWorkload

# Longer durations are shown in days.
LONGEST_IN_HOURS_S = 7 * SECONDS_PER_DAY


@dataclass(frozen=True, slots=True)
class VolumeOutcome(Columns):
    """Duration and cost of the volume, one row per plan."""

    expected_s: Column  # median prediction of the duration, in s
    confident_s: Column  # duration at the requested confidence, in s
    startup_s: Column  # time to start the replicas, in s
    usd: Column  # cost of the expected duration, in USD; NaN without a price


def estimate_volume_outcome(
    question: Question,
    workload: InferenceWorkload,
    judged: PlanEvaluations[Any, Any, Any],
    around: Neighborhood,
    spreads: Spreads,
) -> VolumeOutcome | None:
    """Duration and cost of work with a fixed volume; None for other work."""
    if workload.volume_requests is None:
        return None
    lasts = duration_s(workload.volume_requests, judged.options)
    return VolumeOutcome(
        expected_s=lasts,
        confident_s=duration_at_confidence_s(question, workload, lasts, judged.options, around, spreads),
        startup_s=judged.options.cold_start_s,
        usd=usd_total(judged.cost.usd_per_hour, lasts),
    )


def with_volume_outcome(
    question: Question, workload: InferenceWorkload, estimate: Estimate, outcome: VolumeOutcome, row: int
) -> Estimate:
    """An estimate with the duration and cost of the whole volume, and the reason that states them."""
    performance, cost = estimate.performance, estimate.cost
    if performance is None or cost is None:
        return estimate
    paid = replace(cost, usd_total=finite_or_none(at(outcome.usd, row)))
    lasts, surely = (at(values, row) / SECONDS_PER_DAY for values in (outcome.expected_s, outcome.confident_s))
    lasting = replace(performance, days=lasts, surely_days=surely)
    intervals = (*performance.intervals, *volume_intervals(outcome, row, lasting, paid))
    return replace(
        estimate,
        performance=replace(lasting, intervals=intervals),
        cost=paid,
        explanation=(volume_duration_reason(question, workload, outcome, row), *estimate.explanation),
    )


def volume_intervals(
    outcome: VolumeOutcome, row: int, performance: Performance, cost: CostSummary
) -> Iterator[Interval]:
    """Intervals of the duration and, where priced, of the cost, from the interval of the speed.

    The startup time has no uncertainty.
    """
    rate, start, lasts = performance.interval, at(outcome.startup_s, row), at(outcome.expected_s, row)
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


def volume_duration_reason(question: Question, workload: InferenceWorkload, outcome: VolumeOutcome, row: int) -> Reason:
    """Share of the allowed time that the volume takes: expected, and at the requested confidence."""
    lasts, surely, start = (at(values, row) for values in (outcome.expected_s, outcome.confident_s, outcome.startup_s))
    limit_s = workload.deadline_s
    in_hours = max(limit_s or 0.0, surely) <= LONGEST_IN_HOURS_S
    unit, each = ("hour", SECONDS_PER_HOUR) if in_hours else ("day", SECONDS_PER_DAY)
    taken = format_quantity(lasts / each, unit)
    if limit_s is not None:
        taken = f"{format_number(lasts / each)} of {format_quantity(limit_s / each, unit)}"
    text = (
        f"Expected time for {describe_volume(workload)}: {taken} ({format_quantity(surely / each, unit)} at "
        f"{percent(question.constraints.confidence)} confidence), including {format_count(round(start), 'second')} of "
        "startup."
    )
    return Reason("deadline" if limit_s is not None else "duration", text, "days", lasts / SECONDS_PER_DAY, "days")


def describe_volume(workload: InferenceWorkload) -> str:
    """The volume as text: "1,000,000 requests"."""
    return format_count(workload.volume_requests or 0.0, "sample" if workload.model.sample else "request")
