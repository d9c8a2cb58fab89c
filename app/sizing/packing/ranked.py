"""Ranks finalists by the cost of all models: companions are packed onto the cards of each finalist, cheapest total
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.formula import suspend_recording
from app.sizing.packing.apart import companions_usd_per_hour
from app.sizing.packing.together import cheapest_total_usd, pack_models, separate_total_usd
from app.sizing.question import Objective, Question
from app.sizing.result import Estimate
from app.sizing.serving.plans import Plans
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload


def with_enough_finalists(question: Question) -> Question:
    """The question with enough finalists to try with their companions."""
    if not ranks_by_total_cost(question):
        return question
    return replace(question, limit=max(question.limit, int(question.assumptions.packed_types)))


def ranks_by_total_cost(question: Question) -> bool:
    """Whether the cost of all models at peak load decides the ranking."""
    workload = question.workload
    by_day = isinstance(workload, InferenceWorkload) and bool(workload.hourly_shares)
    return bool(question.companions) and question.objective is Objective.COST and not by_day


def pack_finalists(
    question: Question,
    workload: InferenceWorkload,
    estimates: Sequence[Estimate],
    plans: Plans,
    scores: Column,
    catalog: Catalog,
) -> tuple[tuple[Estimate, ...], Codes, Column]:
    """Estimates with companions packed onto their cards, the order of the total cost, and the ranking values.

    Finalists that are not packed cost the sum of separate deployments. Where money does not decide, only the first
    finalist is packed and the order stays.
    """
    order = np.arange(len(estimates))
    if not question.companions:
        return tuple(estimates), order, scores
    with suspend_recording():
        companion_usd = companions_usd_per_hour(question, catalog)
        count = int(question.assumptions.packed_types) if ranks_by_total_cost(question) else 1
        packed = [
            replace(e, packing=pack_models(question, workload, e, plans.take(order[i : i + 1]), catalog, companion_usd))
            for i, e in enumerate(estimates[:count])
        ]
    every = (*packed, *estimates[count:])
    if not ranks_by_total_cost(question):
        return every, order, scores
    separate_usd = [separate_total_usd(found, companion_usd) for found in estimates[count:]]
    totals = np.array([*map(cheapest_total_usd, packed), *(np.inf if usd is None else usd for usd in separate_usd)])
    order = np.argsort(totals, kind="stable")
    return tuple(every[row] for row in order.tolist()), order, totals[order]
