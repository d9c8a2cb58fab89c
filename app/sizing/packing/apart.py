"""What a model costs on machines of its own: the cheapest that a search finds."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.columns import at
from app.sizing.question import Objective, Question
from app.sizing.serving.alone import best_alone
from app.sizing.snapshot import Snapshot
from app.sizing.workload import InferenceWorkload


def companions_usd(question: Question, market: Snapshot) -> float | None:
    """What every companion costs on the cheapest machines of its own, together; None where one has none."""
    each = [usd_per_hour_apart(question, c.workload, market) for c in question.companions]
    return None if None in each else sum(usd for usd in each if usd is not None)


def usd_per_hour_apart(question: Question, workload: InferenceWorkload, market: Snapshot) -> float | None:
    """USD per hour of the cheapest machines that carry a load within its limits; None where nothing does."""
    best = best_alone(replace(question, objective=Objective.COST), workload, market)
    return None if best is None else at(best.cost.usd_per_hour, 0)
