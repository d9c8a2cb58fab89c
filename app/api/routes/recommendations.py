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
from app.catalog.snapshot import CatalogStore
from app.sizing.estimate import estimate_deployment

router = APIRouter(tags=["sizing"])


@router.post(
    "/recommend",
    operation_id="recommend",
    response_model=RecommendResponse,
    openapi_extra=body_of(RecommendRequest),
    responses=problems(400, 404, 413, 415, 422, 429, 503),
    summary="Recommend hardware for a workload",
)
async def post_recommend(raw: RawBody, answers: Answers, catalog_store: Snapshots, turn: AtTurn, today: Today) -> Response:
    """Returns ranked hardware options with quantity, layout, performance, cost and confidence, and the reasons for
    every
    rejected option. The answer is stored under its id. The same request on the same catalog version and day returns
    the
    same bytes.
    """
    return await turn.shared(recommended, raw, answers, catalog_store, today)


def recommended(raw: bytes, answers: AnswerStore, catalog_store: CatalogStore, today: date) -> Response:
    """Returns the stored answer to a request, or computes a new one."""
    request = parsed(raw, RecommendRequest)
    kept = answer_to(request, catalog_store.directory(), catalog_store, answers, today)
    return Response(kept.body, media_type="application/json", headers=NOT_STORED if not kept.stored else None)


@router.post(
    "/estimate",
    operation_id="estimate",
    response_model=EstimateShown,
    openapi_extra=body_of(EstimateRequest),
    responses=problems(400, 404, 413, 415, 422, 429, 503),
    summary="Estimate one deployment",
)
async def post_estimate(raw: RawBody, catalog_store: Snapshots, turn: AtTurn, today: Today) -> Response:
    """Returns memory, throughput, latency, energy and cost of a workload on one deployment. A deployment copied from a
    recommendation reproduces its figures. Settings that you omit are chosen for you and returned.
    """
    return await turn.shared(estimated, raw, catalog_store, today)


def estimated(raw: bytes, catalog_store: CatalogStore, today: date) -> Response:
    """Computes the estimate of one deployment."""
    directory = catalog_store.directory()
    request = parsed(raw, EstimateRequest)
    question, deployment = estimate_question(request, directory, catalog_store, today)

    document = with_doubts(
        estimate_json(estimate_deployment(question, deployment, directory.market), trace=request.trace), request
    )
    return Response(json_bytes(document), media_type="application/json")


@router.get(
    "/recommendations/{id}",
    operation_id="getRecommendation",
    response_model=RecommendResponse,
    responses=problems(404, 422, 503),
    summary="Get a stored answer",
)
def get_recommendation_by_id(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")], answers: Answers
) -> Response:
    """Returns the stored answer unchanged. Last-Modified is the time at which it was first stored."""
    body, stored_at = answers.get(id)
    headers = {
        "Last-Modified": format_datetime(stored_at, usegmt=True),
        "ETag": f'"{id}"',
        "Cache-Control": "immutable, max-age=31536000",
    }
    return Response(body, media_type="application/json", headers=headers)
