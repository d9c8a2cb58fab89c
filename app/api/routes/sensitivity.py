"""GET /recommendations/{id}/sensitivity: what would make another type first."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import orjson
from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.api.answering import catalog_json, request_of
from app.api.deps import Answers, AtLongTurn, Snapshots
from app.api.flips import Asker, flips_of
from app.api.openapi import problems
from app.api.patterns import Saving, patterns_of, savings_of, usd_of
from app.api.questions import recommend_question
from app.api.schemas.flips import SensitivityShown, sensitivity_json
from app.api.sized import json_bytes
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import SnapshotStore

router = APIRouter(tags=["sizing"])


@router.get(
    "/recommendations/{id}/sensitivity",
    operation_id="getSensitivity",
    response_model=SensitivityShown,
    responses=problems(404, 422, 429, 503),
    summary="What would make another type first",
)
async def get_sensitivity(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="As the answer gave it.")],
    answers: Answers,
    snapshots: Snapshots,
    turn: AtLongTurn,
) -> Response:
    """Load, lengths, limits, confidence, prices and formats are moved one at a time, and the request is asked again
    until the nearest change is found that makes another type of accelerator first. Patterns that cost less and were
    left open are asked too. Takes some seconds. Prices are today's; their ages are counted to the day of the answer.
    """
    return await turn.shared(moved, id, answers, snapshots)


def cheaper_patterns(asker: Asker) -> tuple[list[Saving], int]:
    """Patterns that the question left open and that save money, and how many were asked."""
    question = recommend_question(asker.request, asker.directory, asker.snapshots, asker.today)
    patterns = list(patterns_of(asker.request, question, asker.snapshots.smaller_model))
    now = asker.answered({})
    usd = None if now is None else usd_of(now)
    return savings_of(patterns, usd, asker.answered, question.assumptions.near_tie_share), len(patterns)


def moved(identity: str, answers: AnswerStore, snapshots: SnapshotStore) -> Response:
    """Ask the request of a stored answer again, changed in one place at a time."""
    stored = orjson.loads(answers.get(identity)[0])
    request = request_of(stored)
    directory = snapshots.directory()
    asker = Asker(request, directory, snapshots, date.fromisoformat(stored["as_of"]))
    behind = [r["deployment"]["accelerator"] for r in stored["recommendations"][1:]]
    names = {a.slug: a.name for a in directory.market.accelerators}
    first, flips, holds = flips_of(asker, [(slug, names.get(slug, slug)) for slug in dict.fromkeys(behind)])
    savings, tried = cheaper_patterns(asker)
    head = {"id": identity, "catalog": catalog_json(directory.market)}
    shown = {**head, **sensitivity_json(first, flips, holds, savings), "asked": len(asker.known) + tried}
    return Response(json_bytes(shown), media_type="application/json")
