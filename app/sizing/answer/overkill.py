"""Hardware that a load leaves mostly idle: the cheaper option, or the reason that there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.sizing.answer.money import format_usd
from app.sizing.question import Question
from app.sizing.result import FilterStage, Notice, Ranked, Reason, Rejection
from app.sizing.words import format_number, percent
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class CheapestOption:
    """The cheapest option per hour, as the mean of a day, of all that are allowed and meet the limits."""

    name: str
    accelerators: int
    usd_per_hour: float
    beyond_limits: bool = False  # found without the request's limits on accelerator types


def describe_low_use(question: Question, first: Ranked) -> str | None:
    """Statement that a service leaves most of its hardware idle; None if it does not."""
    workload, performance = question.workload, first.estimate.performance
    if not isinstance(workload, InferenceWorkload) or workload.load is Load.OFFLINE:
        return None
    used = None if performance is None else performance.utilization_at_peak
    name = first.accelerator.name
    if used is not None and used < question.assumptions.overkill_utilization:
        return f"{name} is only {format_number(used * 100)} % utilized at peak"
    if workload.is_personal and first.accelerator.training_class:
        return f"{name} is training-class hardware that a few users leave mostly idle"
    return None


def cheaper_is_enough(question: Question, first: Ranked, cheapest: CheapestOption) -> bool:
    """True if another option is cheaper by more than a near tie."""
    hourly = None if first.estimate.cost is None else first.estimate.cost.usd_per_hour
    return hourly is not None and cheapest.usd_per_hour * (1 + question.assumptions.near_tie_share) < hourly


def limits_types(question: Question) -> bool:
    """Whether the request limits which accelerator types may be used."""
    c = question.constraints
    return bool(c.accelerators or c.exclude_accelerators or c.vendors or c.segments)


def overkill_warning(question: Question, first: Ranked, cheapest: CheapestOption | None) -> Notice | None:
    """Warning that a cheaper option is enough; a given deployment was not compared with other options."""
    why = describe_low_use(question, first)
    if why is None:
        return None
    if cheapest is None:
        return Notice("training_class_overkill", f"{why}. Use POST /recommend to look for a cheaper option.")
    if not cheaper_is_enough(question, first, cheapest):
        return None
    count, lead = cheapest.accelerators, "Without the limit on accelerators, " if cheapest.beyond_limits else ""
    less = (
        f"{lead}{count:,} × {cheapest.name} {'is' if count == 1 else 'are'} enough for "
        f"{format_usd(cheapest.usd_per_hour)}/h"
    )
    return Notice("training_class_overkill", f"{why}. {less}.")


def explain_idle_hardware(
    question: Question, ranked: tuple[Ranked, ...], cheapest: CheapestOption | None, rejected: Sequence[Rejection]
) -> tuple[Ranked, ...]:
    """Recommendations; the first states what determined its size if it is mostly idle and nothing cheaper is enough."""
    why = describe_low_use(question, ranked[0]) if ranked and cheapest is not None else None
    if why is None or cheapest is None or cheaper_is_enough(question, ranked[0], cheapest):
        return ranked
    hourly, near = ranked[0].estimate.cost, question.assumptions.near_tie_share
    leads = hourly is None or hourly.usd_per_hour is None or hourly.usd_per_hour <= cheapest.usd_per_hour * (1 + 1e-9)
    reached = {r.stage for r in rejected}
    decided = {
        (True, True): "memory and single-request latency determine the size, not the load",
        (True, False): "memory determines the size, not speed",
        (False, True): "single-request latency determines the size, not the load",
        (
            False,
            False,
        ): f"it is {'the smallest configuration' if leads else 'among the smallest configurations'} on sale",
    }[(FilterStage.MEMORY in reached, FilterStage.SPEED in reached)]
    performance, first = ranked[0].estimate.performance, ranked[0].estimate
    used = 0.0 if performance is None else performance.utilization_at_peak or 0.0
    none = "no cheaper option" if leads else f"no option that costs over {percent(near)} less"
    none = f"{none}{' that was compared' if leads else ' and was compared'}" if limits_types(question) else none
    reason = Reason("mostly_idle", f"{why}, but {none} is enough: {decided}.", "used", used, "1")
    best = replace(ranked[0], estimate=replace(first, explanation=(*first.explanation, reason)))
    return (best, *ranked[1:])
