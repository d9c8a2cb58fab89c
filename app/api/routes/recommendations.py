"""POST /recommend, POST /estimate, GET /recommendations/{id}."""

from __future__ import annotations

from datetime import date
from email.utils import format_datetime
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.api.answering import NOT_STORED, find_or_compute_answer, with_input_warnings
from app.api.body import parse_body
from app.api.deps import Answers, RawBody, ShortSlot, Snapshots, Today
from app.api.openapi import body_schema, problem_responses
from app.api.questions import build_estimate_question
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
    openapi_extra=body_schema(RecommendRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Recommend hardware for a workload",
)
async def post_recommend(
    raw: RawBody, answers: Answers, catalog_store: Snapshots, turn: ShortSlot, today: Today
) -> Response:
    """Returns ranked hardware options with quantity, layout, performance, cost and confidence, and the reasons for
    every rejected option. The answer is stored under its id. The same request on the same catalog version and day
    returns the same bytes.
    """
    return await turn.answer_shared(compute_recommendation, raw, answers, catalog_store, today)


def compute_recommendation(raw: bytes, answers: AnswerStore, catalog_store: CatalogStore, today: date) -> Response:
    """Returns the stored answer to a request, or computes a new one."""
    request = parse_body(raw, RecommendRequest)
    kept = find_or_compute_answer(request, catalog_store.directory(), catalog_store, answers, today)
    return Response(kept.body, media_type="application/json", headers=NOT_STORED if not kept.stored else None)


@router.post(
    "/estimate",
    operation_id="estimate",
    response_model=EstimateShown,
    openapi_extra=body_schema(EstimateRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Estimate one deployment",
)
async def post_estimate(raw: RawBody, catalog_store: Snapshots, turn: ShortSlot, today: Today) -> Response:
    """Returns memory, throughput, latency, energy and cost of a workload on one deployment. A deployment copied from a
    recommendation reproduces its figures. Settings that you omit are chosen for you and returned.
    """
    return await turn.answer_shared(compute_estimate, raw, catalog_store, today)


def compute_estimate(raw: bytes, catalog_store: CatalogStore, today: date) -> Response:
    """Computes the estimate of one deployment."""
    directory = catalog_store.directory()
    request = parse_body(raw, EstimateRequest)
    question, deployment = build_estimate_question(request, directory, catalog_store, today)

    document = with_input_warnings(
        estimate_json(estimate_deployment(question, deployment, directory.catalog), trace=request.trace), request
    )
    return Response(json_bytes(document), media_type="application/json")


@router.get(
    "/recommendations/{id}",
    operation_id="getRecommendation",
    response_model=RecommendResponse,
    responses=problem_responses(404, 422, 503),
    summary="Get a stored answer",
)
def get_recommendation_by_id(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")], answers: Answers
) -> Response:
    """Returns the stored answer unchanged. Last-Modified is the time at which it was first stored."""
    body, stored_at = answers.get_answer(id)
    headers = {
        "Last-Modified": format_datetime(stored_at, usegmt=True),
        "ETag": f'"{id}"',
        "Cache-Control": "immutable, max-age=31536000",
    }
    return Response(body, media_type="application/json", headers=headers)
