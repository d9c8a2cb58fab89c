"""Figures of answers that relations between questions compare: the score of the best option, the performance shown."""

from __future__ import annotations

import math
from dataclasses import replace

from app.sizing.decisions.ranking import objective_score
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search
from app.sizing.finalists import find_finalists
from app.sizing.question import Question
from app.sizing.result import Estimate, Performance
from app.sizing.serving.load_curves import is_simulated
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import measures
from app.sizing.serving.search import search_plans
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload


def best_score(question: Question, catalog: Catalog) -> float:
    """Score of the best option; infinite where there is none.

    A simulated service is scored by the formulas that choose the simulated options: relations hold among them for every
    option, while two questions may simulate different layouts.
    """
    unread, workload = NullRejections(catalog.accelerators), question.workload
    if not isinstance(workload, InferenceWorkload) or not is_simulated(workload):
        return next(iter(find_finalists(Search.start(question, catalog, unread)).scores), math.inf)
    options = search_plans(
        Search.start(question, catalog, unread).of(workload),
        plans_to_serve(Search.start(question, catalog, unread).of(workload)),
    )
    scores = objective_score(question.objective, measures(workload, options))
    return float(scores.min()) if len(scores) else math.inf


def shown_performance(estimate: Estimate, rank: int) -> Performance | None:
    """The performance that an answer shows of a rank: only the first has its whole load curve."""
    performance = estimate.performance
    return performance if performance is None or rank == 1 else replace(performance, load_curve=None)
