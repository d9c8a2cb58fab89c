"""Confirms relaxations by simulation: repeats the whole decision with the relaxed limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from app.sizing.question import Objective, Question
from app.sizing.relaxations.ways import Ways, cheapest, no_way, only, ways_from
from app.sizing.serving.alone import best_single_service
from app.sizing.serving.simulated import is_simulated
from app.sizing.snapshot import Catalog
from app.sizing.words import at_least
from app.sizing.workload import InferenceWorkload

# Multiples of the limit that the formulas give, tried in turn.
STEPS = (1.0, 1.03, 1.1, 1.2, 1.4, 2.0, 4.0)
CHEAPEST_TYPES = 3  # accelerator types tried per alternative


def decided(question: Question, market: Catalog, slug: str) -> Ways:
    """The recommendation for one accelerator type; an empty table where it is infeasible."""
    requested = replace(question, constraints=only(question.constraints, (slug,)), objective=Objective.COST)
    assert isinstance(requested.workload, InferenceWorkload)
    best = best_single_service(requested, requested.workload, market)
    return no_way() if best is None else ways_from(requested.workload, best)


def is_tried(question: Question) -> bool:
    """Whether a simulation decides, rather than the closed formulas alone."""
    return isinstance(question.workload, InferenceWorkload) and is_simulated(question.workload)


def least_that_does(
    question: Question,
    market: Catalog,
    allowing: Callable[[Question, float], Question],
    value: float,
    ways: Ways,
) -> tuple[float, Ways] | None:
    """Smallest value of a limit that is confirmed feasible, starting at the value of the formulas, with the resulting
    plan.

    The value rises by TRIAL_FACTORS; only the accelerator type of the first row of `ways` is tried. None where every
    step fails.
    """
    if not is_tried(question):
        return value, ways
    slug, whole = market.accelerators[int(ways.accelerator[0])].slug, float(value).is_integer()
    candidates = [math.ceil(value * step) if whole else at_least(value * step) for step in STEPS]
    for least in dict.fromkeys(candidates):
        found = decided(allowing(question, least), market, slug)
        if len(found):
            return least, found
    return None


def that_does(question: Question, market: Catalog, ways: Ways) -> Ways | None:
    """The cheapest plan that is confirmed feasible, trying the cheapest accelerator types in turn."""
    if not is_tried(question):
        return cheapest(ways)
    order = np.lexsort((ways.accelerators, ways.price))
    _, first = np.unique(ways.accelerator[order], return_index=True)
    for row in order[np.sort(first)[:CHEAPEST_TYPES]].tolist():
        found = decided(question, market, market.accelerators[int(ways.accelerator[row])].slug)
        if len(found):
            return found
    return None
