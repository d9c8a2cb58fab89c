"""The best single service for one workload: found by the search, sized by simulation."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.decisions.rejections import NullRejections
from app.sizing.question import Question
from app.sizing.serving.finalists import select_finalists
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options
from app.sizing.serving.search import search_plans
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload


def best_single_service(question: Question, workload: InferenceWorkload, catalog: Catalog) -> Options | None:
    """The option that ranks first for this workload without other services; None if no option is feasible."""
    single = replace(question, workload=workload, limit=1, trace=False, companions=())
    unread = NullRejections(catalog.accelerators)
    options = search_plans(single, workload, plans_to_serve(single, workload, catalog, unread), catalog, unread)
    if not len(options):
        return None
    finalists, _ = select_finalists(single, workload, options, catalog, unread)
    return finalists.chosen_options if len(finalists.rows) else None
