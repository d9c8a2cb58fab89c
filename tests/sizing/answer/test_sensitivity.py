"""What would change with one thing changed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.sensitivity import first_of, rent_or_buy, sensitivity
from app.sizing.assumptions import Assumptions
from app.sizing.question import Constraints, Economics, Question
from app.sizing.recommend import recommend
from app.sizing.workload import InferenceWorkload, Load, Redundancy
from tests.examples import CHAT, col, row
from tests.sizing.answer.given import estimated
from tests.sizing.small import SMALL

ON_BIG = Constraints(accelerators=("acme-big",), providers=("sky",))


def told(workload: InferenceWorkload, constraints: Constraints = ON_BIG) -> dict[str, str]:
    return {c.change: c.effect for c in recommend(Question(workload, constraints), SMALL).sensitivity}


def dollars(effect: str) -> tuple[float, float]:
    """(changed, now)."""
    changed, now = re.findall(r"([\d,.]+) USD", effect)
    return float(changed.replace(",", "")), float(now.replace(",", ""))


def cheapest(workload: InferenceWorkload, constraints: Constraints = ON_BIG) -> float:
    """USD per hour of what is recommended first."""
    (first,) = recommend(Question(workload, constraints, limit=1), SMALL).recommendations
    assert first.estimate.cost is not None
    return first.estimate.cost.usd_per_hour or 0.0


BUSY = replace(CHAT, peak_per_s=400.0, average_per_s=200.0)
CHANGES: dict[str, dict[str, Any]] = {
    "twice the peak load": {"peak_per_s": 800.0},
    "redundancy n+1": {"redundancy": Redundancy(spare=1)},
    "half of each replica kept free (target utilisation 0.5)": {"target_utilization": 0.5},
}


def test_every_change_says_what_asking_for_it_would_answer() -> None:
    found = told(BUSY)
    assert set(CHANGES) <= set(found)
    for label, changes in CHANGES.items():
        changed, now = dollars(found[label])
        assert now == pytest.approx(cheapest(BUSY), abs=1)
        assert changed == pytest.approx(cheapest(replace(BUSY, **changes)), abs=1), label
    # twice the load is nearly twice the machines; a machine of eight costs the same full or not
    changed, now = dollars(found["twice the peak load"])
    assert 1.5 * now <= changed <= 2 * now


def test_who_asked_for_a_spare_is_told_what_none_would_save() -> None:
    found = told(replace(BUSY, redundancy=Redundancy(double=True)))
    changed, now = dollars(found["no redundancy"])
    assert changed < now
    assert "redundancy n+1" not in found


def test_who_keeps_half_free_already_is_not_told_to() -> None:
    assert not any("kept free" in change for change in told(replace(BUSY, target_utilization=0.5)))


def test_without_arrivals_there_is_nothing_to_double() -> None:
    closed = replace(CHAT, load=Load.CLOSED, in_flight=8.0)
    assert sensitivity(closed, row(), Assumptions(), Economics()) == ()  # type: ignore[arg-type]


def options(usd_per_hour: Any, purchase_usd: Any) -> Any:
    return row(cost=row(usd_per_hour=usd_per_hour, purchase_usd=purchase_usd))


def test_the_cheapest_to_own_is_held_against_the_cheapest_to_rent() -> None:
    both = options(col(40, 30, 16, 12), col(np.nan, np.nan, 300_000, 200_000))
    (change,) = rent_or_buy(both)
    assert change.effect == (
        "owning costs 200,000 USD up front and 12.00 USD per hour over the horizon, renting 30.00 USD per hour"
    )


@pytest.mark.parametrize("purchase", [col(np.nan, np.nan), col(1000, 2000)])
def test_with_one_way_only_there_is_no_choice(purchase: Any) -> None:
    assert rent_or_buy(options(col(40, 30), purchase)) == ()


def test_the_first_answer_in_a_clause() -> None:
    assert first_of([estimated()]) == "8 x acme-big, 40.00 USD per hour, 0.25 USD per million tokens"
    assert first_of([]) == "still nothing fits"
