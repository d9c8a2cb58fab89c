"""How sure runs are, in an answer: intervals that stay inside physics, probabilities, and what more certainty takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.sizing.answer.certainty import Certainty, ends_of, inside
from app.sizing.answer.money import finite
from app.sizing.columns import at
from app.sizing.result import Assurance, Interval, Level, Reason
from app.sizing.training.doubt import memory_scale
from app.sizing.training.finalists import Finalists
from app.sizing.units import HOURS_PER_DAY, SECONDS_PER_DAY
from app.sizing.words import figure, measured, span
from app.sizing.workload import TrainingWorkload

NO_INTERRUPTION = 0.01
DOUBTFUL = (0.2, 0.8)  # probabilities between which it is said that it may not fit
MEMORY = "memory_total_bytes"


def speed_interval(finalists: Finalists, row: int, certainty: Certainty, *, samples: bool) -> Interval:
    """Units per second, at most what the peak rate allows."""
    outcome = finalists.outcome
    units = at(outcome.units_per_s, row)
    name, kind = ("samples_per_s", "training_samples") if samples else ("tokens_per_s", "training")
    return inside(certainty.interval(name, units, kind), units, most=units / at(outcome.mfu, row))


def duration_intervals(finalists: Finalists, row: int, speed: Interval) -> Iterator[Interval]:
    """Days and, where there is a price, money of the run, by the errors of its speed."""
    outcome = finalists.outcome
    units = at(outcome.units_per_s, row)
    for name, value in (("days", at(outcome.days, row)), ("usd_total", at(outcome.usd_total, row))):
        if finite(value) is not None:
            yield inside(Interval(name, value * units / speed.high, value * units / speed.low), value)


def memory_interval(finalists: Finalists, row: int) -> Interval:
    """Bytes of an accelerator: at least what is counted of weights, gradients and states, at most what it has."""
    memory, spread = finalists.run.memory, finalists.plans.stack.margins.memory
    total, capacity = at(memory.total_bytes, row), at(memory.capacity_bytes, row)
    counted = at(memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes, row)
    most = capacity if finalists.fits[row] else np.inf
    low, high = np.exp(at(memory_scale(finalists.plans, memory), row) * ends_of(spread)).tolist()
    return inside(Interval(MEMORY, total * low, total * high), total, least=counted, most=most)


def assurance_of(finalists: Finalists, row: int) -> Assurance:
    """How sure a row is, and what other confidences would take."""
    sure = finalists.assured
    taken = zip(sure.levels, sure.accelerators[row].tolist(), sure.usd_total[row].tolist(), strict=True)
    return Assurance(
        asked=finalists.plans.stack.margins.asked,
        fits=at(sure.fits, row),
        meets_slo=None,
        meets_deadline=at(sure.meets_deadline, row),
        by_level=tuple(
            Level(level, None if finite(count) is None else int(count), usd_total=finite(usd))
            for level, count, usd in taken
        ),
    )


def fits_reason(probability: float) -> Iterator[Reason]:
    """That it may not fit, where neither is sure."""
    if DOUBTFUL[0] < probability < DOUBTFUL[1]:
        text = f"It fits with a probability of {probability:.0%}: try a few steps before paying for more."
        yield Reason("doubtful_memory", text, "fits", probability, "1")


def deadline_reason(workload: TrainingWorkload, finalists: Finalists, row: int) -> Reason:
    """How much of the time allowed a run takes: expected, and with the confidence asked."""
    days, limit = at(finalists.outcome.days, row), workload.deadline_s / SECONDS_PER_DAY
    sure, asked = at(finalists.assured.wall_s, row) / SECONDS_PER_DAY, finalists.plans.stack.margins.asked
    unit, each = ("day", 1.0) if limit >= 2 else ("hour", HOURS_PER_DAY)
    in_one_unit = min(days, sure) * each >= 1
    expected, surely = (figure(d * each) if in_one_unit else span(d) for d in (days, sure))
    interruptions = at(finalists.run.interruptions, row)
    broken = "no interruption" if interruptions < NO_INTERRUPTION else measured(interruptions, "interruption")
    return Reason(
        "deadline",
        f"The run takes {expected} of {measured(limit * each, unit)} expected, {surely} at "
        f"{asked:.0%} confidence, with {workload.experiment_overhead:.0%} for experiments and {broken} expected.",
        "days",
        days,
        "days",
    )
