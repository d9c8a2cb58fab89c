"""The best single service for one workload: found by the search, sized by simulation."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.decisions.rejections import NullRejections
from app.sizing.question import Question
from app.sizing.serving.finalists import finalists_of
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options
from app.sizing.serving.search import search
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload


def best_single_service(question: Question, workload: InferenceWorkload, market: Catalog) -> Options | None:
    """The option that ranks first for this workload without other services; None if no option is feasible."""
    single = replace(question, workload=workload, limit=1, trace=False, companions=())
    unread = NullRejections(market.accelerators)
    options = search(single, workload, plans_to_serve(single, workload, market, unread), market, unread)
    if not len(options):
        return None
    finalists, _ = finalists_of(single, workload, options, market, unread)
    return finalists.chosen if len(finalists.rows) else None
