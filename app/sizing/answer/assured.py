"""Uncertainty of training runs: intervals within physical limits, probabilities, and the cost of more confidence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.sizing.answer.certainty import Certainty, clip_interval, interval_ends
from app.sizing.answer.money import finite_or_none
from app.sizing.columns import at
from app.sizing.result import Assurance, Interval, Level, Reason
from app.sizing.training.doubt import memory_scale
from app.sizing.training.finalists import Finalists
from app.sizing.units import HOURS_PER_DAY, SECONDS_PER_DAY
from app.sizing.words import format_duration, format_number, format_quantity, join_words, percent
from app.sizing.workload import TrainingWorkload

NEGLIGIBLE_INTERRUPTIONS = 0.01  # fewer expected interruptions are shown as none
UNCERTAIN_RANGE = (0.2, 0.8)  # range of probabilities in which the answer warns that the run may not fit
MEMORY = "memory_total_bytes"


def speed_interval(finalists: Finalists, row: int, certainty: Certainty, *, samples: bool) -> Interval:
    """80 % interval of the units per second; its upper end is the peak compute rate."""
    outcome = finalists.outcome
    units = at(outcome.units_per_s, row)
    name, kind = ("samples_per_s", "training_samples") if samples else ("tokens_per_s", "training")
    return clip_interval(certainty.predict_interval(name, units, kind), units, most=units / at(outcome.mfu, row))


def duration_intervals(finalists: Finalists, row: int, speed: Interval) -> Iterator[Interval]:
    """Intervals of the duration and, where priced, of the cost of a run, from the interval of its speed."""
    outcome = finalists.outcome
    units = at(outcome.units_per_s, row)
    for name, value in (("days", at(outcome.days, row)), ("usd_total", at(outcome.usd_total, row))):
        if finite_or_none(value) is not None:
            yield clip_interval(Interval(name, value * units / speed.high, value * units / speed.low), value)


def memory_interval(finalists: Finalists, row: int) -> Interval:
    """80 % interval of the memory of one accelerator, in bytes.

    It is at least the sum of weights, gradients and optimizer states, and at most the capacity if the run fits.
    """
    memory, spread = finalists.run.memory, finalists.plans.stack.margins.memory
    total, capacity = at(memory.total_bytes, row), at(memory.capacity_bytes, row)
    counted = at(memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes, row)
    most = capacity if finalists.fits[row] else np.inf
    low, high = np.exp(at(memory_scale(finalists.plans, memory), row) * interval_ends(spread)).tolist()
    return clip_interval(Interval(MEMORY, total * low, total * high), total, least=counted, most=most)


def run_assurance(finalists: Finalists, row: int) -> Assurance:
    """Probabilities of one run, and the accelerators and cost that each confidence level needs."""
    sure = finalists.assurance
    taken = zip(sure.levels, sure.accelerators[row].tolist(), sure.usd_total[row].tolist(), strict=True)
    return Assurance(
        asked=finalists.plans.stack.margins.asked,
        fits=at(sure.fits, row),
        meets_slo=None,
        meets_deadline=at(sure.meets_deadline, row),
        by_level=tuple(
            Level(level, None if finite_or_none(count) is None else int(count), usd_total=finite_or_none(usd))
            for level, count, usd in taken
        ),
    )


def fits_reason(probability: float) -> Iterator[Reason]:
    """Reason that the run may not fit in memory, where neither outcome is likely enough."""
    if UNCERTAIN_RANGE[0] < probability < UNCERTAIN_RANGE[1]:
        text = f"The run is {percent(probability)} likely to fit in memory. Test a few steps before paying for more."
        yield Reason("doubtful_memory", text, "fits", probability, "1")


def deadline_reason(workload: TrainingWorkload, finalists: Finalists, row: int) -> Reason:
    """Share of the allowed time that a run takes: expected, and at the requested confidence."""
    days, limit = at(finalists.outcome.days, row), workload.deadline_s / SECONDS_PER_DAY
    sure, asked = at(finalists.assurance.wall_s, row) / SECONDS_PER_DAY, finalists.plans.stack.margins.asked
    unit, each = ("day", 1.0) if limit >= 2 else ("hour", HOURS_PER_DAY)
    in_one_unit = min(days, sure) * each >= 1
    expected = format_number(days * each) if in_one_unit else format_duration(days)
    surely = format_quantity(sure * each, unit) if in_one_unit else format_duration(sure)
    interruptions = at(finalists.run.interruptions, row)
    included = []
    if workload.experiment_overhead:
        included.append(f"{percent(workload.experiment_overhead)} for extra experiments")
    if interruptions >= NEGLIGIBLE_INTERRUPTIONS:
        included.append(format_quantity(interruptions, "expected interruption"))
    also = f" This includes {join_words(included)}." if included else ""
    return Reason(
        "deadline",
        f"The run is expected to take {expected} of the {format_quantity(limit * each, unit)} allowed ({surely} at "
        f"{percent(asked)} confidence).{also}",
        "days",
        days,
        "days",
    )
