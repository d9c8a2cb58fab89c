"""What a model costs on machines of its own: the cheapest that a search finds."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.columns import at
from app.sizing.decisions.rejections import Unread
from app.sizing.question import Objective, Question
from app.sizing.serving.finalists import finalists_of
from app.sizing.serving.search import plans_sought, search
from app.sizing.snapshot import Snapshot
from app.sizing.workload import InferenceWorkload


def usd_per_hour_apart(question: Question, workload: InferenceWorkload, market: Snapshot) -> float | None:
    """USD per hour of the cheapest machines that carry a load within its limits; None where nothing does."""
    alone = replace(question, workload=workload, objective=Objective.COST, limit=1, companions=())
    unread = Unread(market.accelerators)
    options = search(alone, workload, plans_sought(alone, workload, market, unread), market, unread)
    if not len(options):
        return None
    finalists, _ = finalists_of(alone, workload, options, market, unread)
    if not len(finalists.rows):
        return None
    return at(finalists.chosen.cost.usd_per_hour, 0)
