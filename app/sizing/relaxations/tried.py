"""What formulas say would do, tried: the whole decision again with the limit that would have to give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from app.sizing.question import Objective, Question
from app.sizing.relaxations.ways import Ways, cheapest, no_way, only, ways_from
from app.sizing.serving.alone import best_alone
from app.sizing.serving.simulated import is_simulated
from app.sizing.snapshot import Snapshot
from app.sizing.words import at_least
from app.sizing.workload import InferenceWorkload

# How many times what formulas say a limit may have to be, in turn.
STEPS = (1.0, 1.03, 1.1, 1.2, 1.4, 2.0, 4.0)
CHEAPEST_TYPES = 3  # that are tried where one thing allowed would do


def decided(question: Question, market: Snapshot, slug: str) -> Ways:
    """What would be recommended of one type; an empty table where nothing is."""
    asked = replace(question, constraints=only(question.constraints, (slug,)), objective=Objective.COST)
    assert isinstance(asked.workload, InferenceWorkload)
    best = best_alone(asked, asked.workload, market)
    return no_way() if best is None else ways_from(asked.workload, best)


def is_tried(question: Question) -> bool:
    """Whether anything but formulas decides."""
    return isinstance(question.workload, InferenceWorkload) and is_simulated(question.workload)


def least_that_does(
    question: Question,
    market: Snapshot,
    allowing: Callable[[Question, float], Question],
    value: float,
    ways: Ways,
) -> tuple[float, Ways] | None:
    """The least value of a limit that does, from the one that formulas say, and the first of `ways` as it then is."""
    if not is_tried(question):
        return value, ways
    slug, whole = market.accelerators[int(ways.accelerator[0])].slug, float(value).is_integer()
    tried = [math.ceil(value * step) if whole else at_least(value * step) for step in STEPS]
    for least in dict.fromkeys(tried):
        found = decided(allowing(question, least), market, slug)
        if len(found):
            return least, found
    return None


def that_does(question: Question, market: Snapshot, ways: Ways) -> Ways | None:
    """The cheapest of ways that does, tried by type."""
    if not is_tried(question):
        return cheapest(ways)
    order = np.lexsort((ways.accelerators, ways.price))
    _, first = np.unique(ways.accelerator[order], return_index=True)
    for row in order[np.sort(first)[:CHEAPEST_TYPES]].tolist():
        found = decided(question, market, market.accelerators[int(ways.accelerator[row])].slug)
        if len(found):
            return found
    return None
