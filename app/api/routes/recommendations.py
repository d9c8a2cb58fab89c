"""POST /recommend, POST /estimate, GET /recommendations/{id}."""

from __future__ import annotations

from datetime import date
from email.utils import format_datetime
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.api.answering import NOT_STORED, answer_to, with_doubts
from app.api.body import parsed
from app.api.deps import Answers, AtTurn, RawBody, Snapshots, Today
from app.api.openapi import body_of, problems
from app.api.questions import estimate_question
from app.api.schemas.answers import EstimateShown, RecommendResponse
from app.api.schemas.conversion import estimate_json
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.api.sized import json_bytes
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import SnapshotStore
from app.sizing.estimate import estimate

router = APIRouter(tags=["sizing"])


@router.post(
    "/recommend",
    operation_id="recommend",
    response_model=RecommendResponse,
    openapi_extra=body_of(RecommendRequest),
    responses=problems(400, 404, 413, 415, 422, 429, 503),
    summary="Rank the hardware that can run a workload",
)
async def post_recommend(raw: RawBody, answers: Answers, snapshots: Snapshots, turn: AtTurn, today: Today) -> Response:
    """Which hardware, how much of it, laid out how, what it will do and cost, how sure that is, and
    why the rest was turned down. The same request on the same catalogue snapshot is the same answer,
    byte for byte on the same day, and is stored under its id.
    """
    return await turn.shared(recommended, raw, answers, snapshots, today)


def recommended(raw: bytes, answers: AnswerStore, snapshots: SnapshotStore, today: date) -> Response:
    """The stored answer to a request, or a new one."""
    request = parsed(raw, RecommendRequest)
    kept = answer_to(request, snapshots.directory(), snapshots, answers, today)
    return Response(kept.body, media_type="application/json", headers=NOT_STORED if not kept.stored else None)


@router.post(
    "/estimate",
    operation_id="estimate",
    response_model=EstimateShown,
    openapi_extra=body_of(EstimateRequest),
    responses=problems(400, 404, 413, 415, 422, 429, 503),
    summary="What one deployment would do",
)
async def post_estimate(raw: RawBody, snapshots: Snapshots, turn: AtTurn, today: Today) -> Response:
    """Memory, speed, latency, energy and cost of a workload on one deployment. A deployment taken
    from a recommendation gives back that recommendation's numbers; what is left out is chosen well
    and echoed.
    """
    return await turn.shared(estimated, raw, snapshots, today)


def estimated(raw: bytes, snapshots: SnapshotStore, today: date) -> Response:
    """One deployment, judged."""
    directory = snapshots.directory()
    request = parsed(raw, EstimateRequest)
    question, deployment = estimate_question(request, directory, snapshots, today)

    document = with_doubts(
        estimate_json(estimate(question, deployment, directory.market), trace=request.trace), request
    )
    return Response(json_bytes(document), media_type="application/json")


@router.get(
    "/recommendations/{id}",
    operation_id="getRecommendation",
    response_model=RecommendResponse,
    responses=problems(404, 422, 503),
    summary="A stored answer, byte for byte",
)
def get_recommendation_by_id(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="As the answer gave it.")], answers: Answers
) -> Response:
    """The answer as it was given. Last-Modified says when it was first stored."""
    body, stored_at = answers.get(id)
    headers = {
        "Last-Modified": format_datetime(stored_at, usegmt=True),
        "ETag": f'"{id}"',
        "Cache-Control": "immutable, max-age=31536000",
    }
    return Response(body, media_type="application/json", headers=headers)
