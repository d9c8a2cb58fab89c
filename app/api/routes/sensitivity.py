"""GET /recommendations/{id}/sensitivity: changes that make another accelerator type rank first."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import orjson
from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.api.answering import catalog_json, load_stored_request
from app.api.deps import Answers, LongSlot, Snapshots
from app.api.flips import RequestProbe, find_breakpoints
from app.api.openapi import problem_responses
from app.api.patterns import Saving, first_cost_usd, open_patterns, rank_savings
from app.api.questions import build_recommend_question
from app.api.schemas.flips import SensitivityShown, sensitivity_json
from app.api.sized import json_bytes
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import CatalogStore

router = APIRouter(tags=["sizing"])


@router.get(
    "/recommendations/{id}/sensitivity",
    operation_id="getSensitivity",
    response_model=SensitivityShown,
    responses=problem_responses(404, 422, 429, 503),
    summary="Find the changes that make another accelerator rank first",
)
async def get_sensitivity(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    answers: Answers,
    catalog_store: Snapshots,
    turn: LongSlot,
) -> Response:
    """Varies load, lengths, limits, confidence, prices and formats one at a time and finds the smallest change that
    makes another accelerator type rank first. Also tests cheaper patterns that the request left open. Takes several
    seconds. Uses today's prices; their age counts to the date of the answer.
    """
    return await turn.answer_shared(compute_sensitivity, id, answers, catalog_store)


def cheaper_patterns(asker: RequestProbe) -> tuple[list[Saving], int]:
    """Returns the open patterns that save money, and the number of patterns tested."""
    question = build_recommend_question(asker.request, asker.catalog_index, asker.catalog_store, asker.today)
    patterns = list(open_patterns(asker.request, question, asker.catalog_store.smaller_model))
    now = asker.feasible_answer({})
    usd = None if now is None else first_cost_usd(now)
    return rank_savings(patterns, usd, asker.feasible_answer, question.assumptions.near_tie_share), len(patterns)


def compute_sensitivity(identity: str, answers: AnswerStore, catalog_store: CatalogStore) -> Response:
    """Computes the breakpoints, stable ranges and savings of a stored answer."""
    stored = orjson.loads(answers.get_answer(identity)[0])
    request = load_stored_request(stored)
    directory = catalog_store.directory()
    asker = RequestProbe(request, directory, catalog_store, date.fromisoformat(stored["as_of"]))
    behind = [r["deployment"]["accelerator"] for r in stored["recommendations"][1:]]
    names = {a.slug: a.name for a in directory.catalog.accelerators}
    first, flips, holds = find_breakpoints(asker, [(slug, names.get(slug, slug)) for slug in dict.fromkeys(behind)])
    savings, tried = cheaper_patterns(asker)
    head = {"id": identity, "catalog": catalog_json(directory.catalog)}
    shown = {**head, **sensitivity_json(first, flips, holds, savings), "asked": len(asker.results) + tried}
    return Response(json_bytes(shown), media_type="application/json")
