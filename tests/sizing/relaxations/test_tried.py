"""A value that formulas call sufficient is the value that the decision takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.question import Constraints, Question
from app.sizing.relaxations import tried
from app.sizing.relaxations.tried import (
    TRIAL_FACTORS,
    cheapest_confirmed,
    decide_for_type,
    min_confirmed_value,
    needs_simulation,
)
from app.sizing.relaxations.ways import FeasiblePlans, cheapest_plan, empty_plans, find_feasible_plans, requested_limits
from app.sizing.workload import Slo
from tests.examples import CHAT, LLAMA_8B, PRETRAIN
from tests.sizing.small import SMALL

SMALL_CHAT = replace(CHAT, model=LLAMA_8B, peak_per_s=40.0, average_per_s=20.0)
DEAR = Question(SMALL_CHAT, Constraints(max_usd_per_hour=0.01))


def test_only_streams_of_tokens_are_tried() -> None:
    assert needs_simulation(DEAR)
    assert not needs_simulation(Question(PRETRAIN))
    (size,) = requested_limits(Constraints(max_usd_per_hour=1.0))
    found = min_confirmed_value(Question(PRETRAIN), SMALL, size.with_value, 7.3, empty_plans())
    assert found is not None
    assert found[0] == 7.3


def test_a_value_is_taken_up_until_the_decision_finds_something() -> None:
    (size,) = requested_limits(DEAR.constraints)
    ways = cheapest_plan(find_feasible_plans(DEAR, SMALL))
    found = min_confirmed_value(DEAR, SMALL, size.with_value, float(ways.usd_per_hour[0]) / 1.3, ways)
    assert found is not None
    value, does = found
    slug = SMALL.accelerators[int(ways.accelerator[0])].slug
    assert float(does.usd_per_hour[0]) <= value
    assert len(decide_for_type(size.with_value(DEAR, value), SMALL, slug))
    assert not len(decide_for_type(size.with_value(DEAR, value / 1.5), SMALL, slug))
    assert min_confirmed_value(DEAR, SMALL, size.with_value, float(ways.usd_per_hour[0]) / 10, ways) is None


def test_numbers_stay_whole() -> None:
    question = Question(SMALL_CHAT, Constraints(max_accelerators=1))
    (size,) = requested_limits(question.constraints)
    ways = size.least_demanding(find_feasible_plans(question, SMALL))
    found = min_confirmed_value(question, SMALL, size.with_value, float(ways.accelerators[0]), ways)
    assert found is not None
    assert found[0].is_integer() if isinstance(found[0], float) else isinstance(found[0], int)
    assert TRIAL_FACTORS[0] == 1


def test_the_next_type_is_tried_where_the_cheapest_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    free = Question(replace(SMALL_CHAT, slo=Slo(20.0, 2.0, None, 95.0)))
    ways = find_feasible_plans(free, SMALL)
    best = cheapest_plan(ways)
    first = SMALL.accelerators[int(best.accelerator[0])].slug
    real = tried.decide_for_type
    monkeypatch.setattr(
        tried, decide_for_type.__name__, lambda q, m, slug: empty_plans() if slug == first else real(q, m, slug)
    )
    other = cheapest_confirmed(free, SMALL, ways)
    assert isinstance(other, FeasiblePlans)
    assert int(other.accelerator[0]) != int(best.accelerator[0])
    monkeypatch.setattr(tried, decide_for_type.__name__, lambda *_: empty_plans())
    assert cheapest_confirmed(free, SMALL, ways) is None
    assert np.isfinite(ways.usd_per_hour).any()
