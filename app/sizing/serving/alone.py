"""The best service for a workload by itself, as a search finds and a simulation sizes it."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.decisions.rejections import Unread
from app.sizing.question import Question
from app.sizing.serving.finalists import finalists_of
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options
from app.sizing.serving.search import search
from app.sizing.snapshot import Snapshot
from app.sizing.workload import InferenceWorkload


def best_alone(question: Question, workload: InferenceWorkload, market: Snapshot) -> Options | None:
    """The one that a question about this workload would rank first; None where nothing does it."""
    asked = replace(question, workload=workload, limit=1, trace=False, companions=())
    unread = Unread(market.accelerators)
    options = search(asked, workload, plans_to_serve(asked, workload, market, unread), market, unread)
    if not len(options):
        return None
    finalists, _ = finalists_of(asked, workload, options, market, unread)
    return finalists.chosen if len(finalists.rows) else None
