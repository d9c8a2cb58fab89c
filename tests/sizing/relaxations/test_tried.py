"""A value that formulas call sufficient is the value that the decision takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.question import Constraints, Question
from app.sizing.relaxations import tried
from app.sizing.relaxations.tried import STEPS, decided, is_tried, least_that_does, that_does
from app.sizing.relaxations.ways import Ways, cheapest, no_way, sizes_asked, ways_of
from app.sizing.workload import Slo
from tests.examples import CHAT, LLAMA_8B, PRETRAIN
from tests.sizing.small import SMALL

SMALL_CHAT = replace(CHAT, model=LLAMA_8B, peak_per_s=40.0, average_per_s=20.0)
DEAR = Question(SMALL_CHAT, Constraints(max_usd_per_hour=0.01))


def test_only_streams_of_tokens_are_tried() -> None:
    assert is_tried(DEAR)
    assert not is_tried(Question(PRETRAIN))
    (size,) = sizes_asked(Constraints(max_usd_per_hour=1.0))
    found = least_that_does(Question(PRETRAIN), SMALL, size.allowing, 7.3, no_way())
    assert found is not None
    assert found[0] == 7.3


def test_a_value_is_taken_up_until_the_decision_finds_something() -> None:
    (size,) = sizes_asked(DEAR.constraints)
    ways = cheapest(ways_of(DEAR, SMALL))
    found = least_that_does(DEAR, SMALL, size.allowing, float(ways.usd_per_hour[0]) / 1.3, ways)
    assert found is not None
    value, does = found
    slug = SMALL.accelerators[int(ways.accelerator[0])].slug
    assert float(does.usd_per_hour[0]) <= value
    assert len(decided(size.allowing(DEAR, value), SMALL, slug))
    assert not len(decided(size.allowing(DEAR, value / 1.5), SMALL, slug))
    assert least_that_does(DEAR, SMALL, size.allowing, float(ways.usd_per_hour[0]) / 10, ways) is None


def test_numbers_stay_whole() -> None:
    question = Question(SMALL_CHAT, Constraints(max_accelerators=1))
    (size,) = sizes_asked(question.constraints)
    ways = size.least(ways_of(question, SMALL))
    found = least_that_does(question, SMALL, size.allowing, float(ways.accelerators[0]), ways)
    assert found is not None
    assert found[0].is_integer() if isinstance(found[0], float) else isinstance(found[0], int)
    assert STEPS[0] == 1


def test_the_next_type_is_tried_where_the_cheapest_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    free = Question(replace(SMALL_CHAT, slo=Slo(20.0, 2.0, None, 95.0)))
    ways = ways_of(free, SMALL)
    best = cheapest(ways)
    first = SMALL.accelerators[int(best.accelerator[0])].slug
    real = tried.decided
    monkeypatch.setattr(tried, decided.__name__, lambda q, m, slug: no_way() if slug == first else real(q, m, slug))
    other = that_does(free, SMALL, ways)
    assert isinstance(other, Ways)
    assert int(other.accelerator[0]) != int(best.accelerator[0])
    monkeypatch.setattr(tried, decided.__name__, lambda *_: no_way())
    assert that_does(free, SMALL, ways) is None
    assert np.isfinite(ways.usd_per_hour).any()
