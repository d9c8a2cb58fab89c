"""Confirms relaxations by simulation: repeats the whole decision with the relaxed limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from app.sizing.decisions.search import Search
from app.sizing.question import Objective, Question
from app.sizing.relaxations.ways import FeasiblePlans, cheapest_plan, empty_plans, plans_from_options, restrict_to_types
from app.sizing.serving.choice import best_single_service
from app.sizing.serving.load_curves import is_simulated
from app.sizing.snapshot import Catalog
from app.sizing.words import round_up_to_digits
from app.sizing.workload import InferenceWorkload

# Multiples of the limit that the formulas give, tried in turn.
TRIAL_FACTORS = (1.0, 1.03, 1.1, 1.2, 1.4, 2.0, 4.0)
MAX_TYPES_TRIED = 3  # accelerator types tried per alternative


def decide_for_type(question: Question, catalog: Catalog, slug: str) -> FeasiblePlans:
    """The recommendation for one accelerator type; an empty table where it is infeasible."""
    requested = replace(
        question, constraints=restrict_to_types(question.constraints, (slug,)), objective=Objective.COST
    )
    assert isinstance(requested.workload, InferenceWorkload)
    best = best_single_service(Search.start(requested, catalog).of(requested.workload))
    return empty_plans() if best is None else plans_from_options(requested.workload, best)


def needs_simulation(question: Question) -> bool:
    """Whether a simulation decides, rather than the closed formulas alone."""
    return isinstance(question.workload, InferenceWorkload) and is_simulated(question.workload)


def min_confirmed_value(
    question: Question,
    catalog: Catalog,
    allowing: Callable[[Question, float], Question],
    value: float,
    ways: FeasiblePlans,
) -> tuple[float, FeasiblePlans] | None:
    """Smallest value of a limit that is confirmed feasible, starting at the value of the formulas, with the resulting
    plan.

    The value rises by TRIAL_FACTORS; only the accelerator type of the first row of `ways` is tried. None where every
    step fails.
    """
    if not needs_simulation(question):
        return value, ways
    slug, whole = catalog.accelerators[int(ways.accelerator[0])].slug, float(value).is_integer()
    candidates = [math.ceil(value * step) if whole else round_up_to_digits(value * step) for step in TRIAL_FACTORS]
    for least in dict.fromkeys(candidates):
        found = decide_for_type(allowing(question, least), catalog, slug)
        if len(found):
            return least, found
    return None


def cheapest_confirmed(question: Question, catalog: Catalog, ways: FeasiblePlans) -> FeasiblePlans | None:
    """The cheapest plan that is confirmed feasible, trying the cheapest accelerator types in turn."""
    if not needs_simulation(question):
        return cheapest_plan(ways)
    order = np.lexsort((ways.accelerators, ways.price))
    _, first = np.unique(ways.accelerator[order], return_index=True)
    for row in order[np.sort(first)[:MAX_TYPES_TRIED]].tolist():
        found = decide_for_type(question, catalog, catalog.accelerators[int(ways.accelerator[row])].slug)
        if len(found):
            return found
    return None
