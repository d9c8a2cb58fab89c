"""Cost of a model on machines of its own: the cheapest that a search finds."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.columns import at
from app.sizing.question import Objective, Question
from app.sizing.serving.alone import best_single_service
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload


def companions_usd_per_hour(question: Question, catalog: Catalog) -> float | None:
    """Cost of all companions, each on the cheapest machines of its own, USD/h; None where one is infeasible."""
    each = [service_usd_per_hour(question, c.workload, catalog) for c in question.companions]
    return None if None in each else sum(usd for usd in each if usd is not None)


def service_usd_per_hour(question: Question, workload: InferenceWorkload, catalog: Catalog) -> float | None:
    """Cost of the cheapest machines that carry a load within its limits, USD/h; None where it is infeasible."""
    best = best_single_service(replace(question, objective=Objective.COST), workload, catalog)
    return None if best is None else at(best.cost.usd_per_hour, 0)
