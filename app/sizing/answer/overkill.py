"""Hardware that a load leaves mostly idle: what less would do, or what decided where nothing less does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.sizing.answer.money import mean_usd_per_hour, usd
from app.sizing.question import Question
from app.sizing.result import Notice, Ranked, Reached, Reason, Rejection
from app.sizing.words import figure
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class Cheapest:
    """What costs the least per hour, in the mean of a day, of everything that is allowed and meets the limits."""

    name: str
    accelerators: int
    usd_per_hour: float


def little_used(question: Question, first: Ranked) -> str | None:
    """That a service leaves most of its hardware idle, in words; None where it does not."""
    workload, performance = question.workload, first.estimate.performance
    if not isinstance(workload, InferenceWorkload) or workload.load is Load.OFFLINE:
        return None
    used = None if performance is None else performance.utilization_at_peak
    name = first.accelerator.name
    if used is not None and used < question.assumptions.overkill_utilization:
        return f"{name} is {figure(used * 100)} % used at peak"
    if workload.personal and first.accelerator.training_class:
        return f"{name} is training-class hardware, and a few users leave most of it idle"
    return None


def less_would_do(question: Question, first: Ranked, cheapest: Cheapest) -> bool:
    """Whether something else costs less by more than a near tie."""
    hourly = mean_usd_per_hour(first.estimate.cost)
    return hourly is not None and cheapest.usd_per_hour * (1 + question.assumptions.near_tie_share) < hourly


def overkill(question: Question, first: Ranked, cheapest: Cheapest | None) -> Notice | None:
    """A warning where less would do; of a deployment that was given nobody searched for less."""
    why = little_used(question, first)
    if why is None:
        return None
    if cheapest is None:
        return Notice("training_class_overkill", f"{why}: POST /recommend says whether less would do.")
    if not less_would_do(question, first, cheapest):
        return None
    price = f"{usd(cheapest.usd_per_hour)} per hour"
    less = f"{cheapest.accelerators:,} x {cheapest.name} would do for {price}"
    return Notice("training_class_overkill", f"{why}: {less}.")


def with_what_decided(
    question: Question, ranked: tuple[Ranked, ...], cheapest: Cheapest | None, rejected: Sequence[Rejection]
) -> tuple[Ranked, ...]:
    """The first with what decided on it, where it is mostly idle and nothing less would do."""
    why = little_used(question, ranked[0]) if ranked and cheapest is not None else None
    if why is None or cheapest is None or less_would_do(question, ranked[0], cheapest):
        return ranked
    reached = {r.reached for r in rejected}
    decided = {
        (True, True): "memory and the time of a single request decided, not the load",
        (True, False): "memory, not speed, decided",
        (False, True): "the time of a single request decided, not the load",
        (False, False): "it is the least that is on sale",
    }[(Reached.MEMORY in reached, Reached.SPEED in reached)]
    performance, first = ranked[0].estimate.performance, ranked[0].estimate
    used = 0.0 if performance is None else performance.utilization_at_peak or 0.0
    reason = Reason("mostly_idle", f"{why}, and nothing that costs less would do: {decided}.", "used", used, "1")
    told = replace(ranked[0], estimate=replace(first, explanation=(*first.explanation, reason)))
    return (told, *ranked[1:])
