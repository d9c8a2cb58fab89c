"""Explains why one deployment costs more than another: factors whose product is the ratio of the costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from app.sizing.answer.money import format_usd
from app.sizing.comparing.faster import explain_speed
from app.sizing.comparing.outcomes import Outcome
from app.sizing.question import Deployment
from app.sizing.words import format_number
from app.sizing.workload import InferenceWorkload, TrainingWorkload

# Factors closer to 1 than this are not mentioned.
MIN_DEVIATION = 0.005


@dataclass(frozen=True, slots=True)
class Cause:
    """One factor of a cost ratio, with an explanation."""

    code: str  # name of the factor
    ratio: float  # factor of the first cost divided by that of the second
    text: str  # explanation


@dataclass(frozen=True, slots=True)
class Difference:
    """Cost of one option divided by the cost of another, with the factors of that ratio, the largest first."""

    name: str  # option that is compared
    baseline: str  # option that it is compared with
    quantity: str  # name of the cost quantity
    ratio: float  # cost of `name` divided by the cost of `baseline`
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class CostFactors:
    """Factors of a cost: price x idle x room x work / speed.

    For a service the cost is in USD/h and `work` in requests/s. For work with an end the cost is in USD and `work` in
    units of work; the product also contains the hours.
    """

    price: float  # price of one paid accelerator, USD/h
    idle: float  # paid accelerators per working accelerator
    headroom: float  # capacity divided by load; 1 for work with an end
    work: float  # requests/s, or units of work
    speed: float  # work per working accelerator, per second for a service and per hour for work with an end


def working_accelerators(d: Deployment) -> float | None:
    """Accelerators that carry the load, without spares and without those left over in a machine."""
    if d.pools is not None:
        sides = [working_accelerators(d.pools.prefill), working_accelerators(d.pools.decode)]
        return None if None in sides else sum(side for side in sides if side is not None)
    if d.replicas is not None and d.accelerators_per_replica is not None:
        return float(d.replicas * d.accelerators_per_replica)
    return None if d.total_accelerators is None else float(d.total_accelerators)


def cost_factors(o: Outcome) -> CostFactors | None:
    """Cost factors of an outcome; None where it has no price or no capacity."""
    e = o.estimate
    if e is None or not o.usd or e.cost is None or e.performance is None or not e.cost.usd_per_hour:
        return None
    paid, busy = e.deployment.total_accelerators, working_accelerators(e.deployment)
    if not paid or not busy:
        return None
    price, idle = e.cost.usd_per_hour / paid, paid / busy
    if o.has_an_end:
        work = _work_units(o)
        hours = o.usd / e.cost.usd_per_hour
        return CostFactors(price, idle, 1.0, work, work / (busy * hours))
    capacity = e.performance.requests_per_s_capacity or e.performance.samples_per_s
    if o.peak_per_s is not None and capacity:
        return CostFactors(price, idle, capacity / o.peak_per_s, o.peak_per_s, capacity / busy)
    done = e.performance.total_tokens_per_s or e.performance.samples_per_s
    return (
        CostFactors(price, idle, 1.0, 1.0, 1.0 / busy) if not done else CostFactors(price, idle, 1.0, done, done / busy)
    )


def _work_units(o: Outcome) -> float:
    """Units of work: tokens or samples of a training run, requests of a volume."""
    workload = o.question.workload
    if isinstance(workload, TrainingWorkload):
        return workload.units
    assert isinstance(workload, InferenceWorkload) and workload.volume_requests is not None
    return workload.volume_requests


def explain_difference(mine: Outcome, baseline: Outcome) -> Difference | None:
    """Why one outcome costs more or less than another; None where one has no cost or only one of them has an end."""
    first, second = cost_factors(mine), cost_factors(baseline)
    if (
        first is None
        or second is None
        or mine.has_an_end != baseline.has_an_end
        or mine.usd is None
        or baseline.usd is None
    ):
        return None
    quantity = "usd_total" if mine.has_an_end else "usd_per_hour"
    causes = sorted(_cost_causes(mine, baseline, first, second), key=lambda c: -abs(math.log(c.ratio)))
    return Difference(mine.name, baseline.name, quantity, mine.usd / baseline.usd, tuple(causes))


def _cost_causes(mine: Outcome, baseline: Outcome, a: CostFactors, b: CostFactors) -> Iterator[Cause]:
    """The factors that differ from 1, with their explanations."""
    unit = "requests/s" if mine.peak_per_s is not None else "tokens/s"
    factors = (
        (
            "price",
            a.price / b.price,
            f"an accelerator costs {format_usd(a.price)}/h instead of {format_usd(b.price)}/h",
        ),
        ("speed", b.speed / a.speed, _speed_text(mine, baseline, a, b, unit)),
        (
            "room",
            a.headroom / b.headroom,
            f"its capacity is {format_number(a.headroom)} times the load instead of {format_number(b.headroom)}",
        ),
        (
            "idle",
            a.idle / b.idle,
            f"it pays for {format_number(a.idle)} accelerators per working one instead of {format_number(b.idle)}",
        ),
        ("work", a.work / b.work, f"it has {format_number(a.work / b.work)} times the work to do"),
    )
    for code, ratio, text in factors:
        if abs(ratio - 1) > MIN_DEVIATION:
            yield Cause(code, ratio, text)


def _speed_text(mine: Outcome, baseline: Outcome, a: CostFactors, b: CostFactors, unit: str) -> str:
    """How much more one accelerator does than one of the other outcome, and why."""
    times = a.speed / b.speed
    text = f"an accelerator does {format_number(times)} times as much work per hour"
    if not mine.has_an_end and mine.peak_per_s is not None:
        text = (
            f"an accelerator carries {format_number(a.speed)} instead of {format_number(b.speed)} {unit} within the "
            "limits"
        )
    why = explain_speed(mine, baseline)
    return f"{text} ({why})" if why else text
