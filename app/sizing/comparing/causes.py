"""Why one deployment costs more than another: the factors whose product is the ratio of their costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from app.sizing.comparing.faster import why_faster
from app.sizing.comparing.outcomes import Outcome
from app.sizing.question import Deployment
from app.sizing.words import figure
from app.sizing.workload import InferenceWorkload, TrainingWorkload

# A factor that a sentence would round away.
ROUNDS_AWAY = 0.005


@dataclass(frozen=True, slots=True)
class Cause:
    """A factor of the ratio of two costs, `ratio` of the first over the second."""

    code: str
    ratio: float
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What `name` costs over what `beside` costs, and the factors of that, the one that matters most first."""

    name: str
    beside: str
    quantity: str
    ratio: float
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class Footing:
    """What a cost is the product of: price x idle x room x work / speed.

    Of a service per hour, `work` in requests per second; of work that ends in all, in units of it and hours.
    """

    price: float  # USD per hour of an accelerator that is paid for
    idle: float  # accelerators paid for over those that work
    room: float  # capacity over load; 1 of work that ends
    work: float
    speed: float  # per accelerator that works


def working(d: Deployment) -> float | None:
    """Accelerators that carry the load: neither spare nor left over in a machine."""
    if d.pools is not None:
        sides = [working(d.pools.prefill), working(d.pools.decode)]
        return None if None in sides else sum(side for side in sides if side is not None)
    if d.replicas is not None and d.accelerators_per_replica is not None:
        return float(d.replicas * d.accelerators_per_replica)
    return None if d.total_accelerators is None else float(d.total_accelerators)


def footing(o: Outcome) -> Footing | None:
    """Of an outcome; None where it has no price or no figure of what it could do."""
    e = o.estimate
    if e is None or not o.usd or e.cost is None or e.performance is None or not e.cost.usd_per_hour:
        return None
    paid, busy = e.deployment.total_accelerators, working(e.deployment)
    if not paid or not busy:
        return None
    price, idle = e.cost.usd_per_hour / paid, paid / busy
    if o.ends:
        work = _work(o)
        hours = o.usd / e.cost.usd_per_hour
        return Footing(price, idle, 1.0, work, work / (busy * hours))
    capacity = e.performance.requests_per_s_capacity or e.performance.samples_per_s
    if o.peak_per_s is not None and capacity:
        return Footing(price, idle, capacity / o.peak_per_s, o.peak_per_s, capacity / busy)
    done = e.performance.total_tokens_per_s or e.performance.samples_per_s
    return Footing(price, idle, 1.0, 1.0, 1.0 / busy) if not done else Footing(price, idle, 1.0, done, done / busy)


def _work(o: Outcome) -> float:
    """Units of work that ends: tokens or samples of training, requests of a volume."""
    workload = o.question.workload
    if isinstance(workload, TrainingWorkload):
        return workload.units
    assert isinstance(workload, InferenceWorkload) and workload.volume_requests is not None
    return workload.volume_requests


def difference(mine: Outcome, beside: Outcome) -> Difference | None:
    """Why one costs more or less than another; None where either has no cost, or their costs are of two kinds."""
    first, second = footing(mine), footing(beside)
    if first is None or second is None or mine.ends != beside.ends or mine.usd is None or beside.usd is None:
        return None
    quantity = "usd_total" if mine.ends else "usd_per_hour"
    causes = sorted(_causes(mine, beside, first, second), key=lambda c: -abs(math.log(c.ratio)))
    return Difference(mine.name, beside.name, quantity, mine.usd / beside.usd, tuple(causes))


def _causes(mine: Outcome, beside: Outcome, a: Footing, b: Footing) -> Iterator[Cause]:
    """Factors that are not 1."""
    unit = "requests/s" if mine.peak_per_s is not None else "tokens/s"
    told = (
        (
            "price",
            a.price / b.price,
            f"an accelerator costs {figure(a.price)} USD per hour instead of {figure(b.price)}",
        ),
        ("speed", b.speed / a.speed, _speed_words(mine, beside, a, b, unit)),
        ("room", a.room / b.room, f"it could do {figure(a.room)} times what is asked instead of {figure(b.room)}"),
        (
            "idle",
            a.idle / b.idle,
            f"{figure(a.idle)} accelerators are paid for each that works instead of {figure(b.idle)}",
        ),
        ("work", a.work / b.work, f"it does {figure(a.work / b.work)} times the work"),
    )
    for code, ratio, text in told:
        if abs(ratio - 1) > ROUNDS_AWAY:
            yield Cause(code, ratio, text)


def _speed_words(mine: Outcome, beside: Outcome, a: Footing, b: Footing, unit: str) -> str:
    """How much one accelerator does beside another, and what makes it so."""
    times = a.speed / b.speed
    text = f"an accelerator does {figure(times)} times as much work per hour"
    if not mine.ends and mine.peak_per_s is not None:
        text = f"an accelerator carries {figure(a.speed)} {unit} within the limits instead of {figure(b.speed)}"
    why = why_faster(mine, beside)
    return f"{text} ({why})" if why else text
