"""POST /recommend, POST /estimate, GET /recommendations/{id}."""

from __future__ import annotations

import hashlib
from datetime import date
from email.utils import format_datetime
from functools import cache
from importlib import resources
from pathlib import Path as Folder
from typing import Annotated

import orjson
from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.api.body import parsed
from app.api.deps import Answers, RawBody, Snapshots, Today, Turns
from app.api.doubts import doubts
from app.api.openapi import body_of, problems
from app.api.questions import estimate_question, recommend_question
from app.api.schemas.answers import EstimateShown, RecommendResponse
from app.api.schemas.conversion import answer_json, estimate_json, notice_json
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.api.sized import Document, json_bytes, within_size
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import SnapshotStore
from app.sizing.estimate import estimate
from app.sizing.recommend import recommend

router = APIRouter(tags=["sizing"])


@cache
def engine_version() -> bytes:
    """Digest of the arithmetic and of the answer's shape: a changed engine gives new answers, never stored old ones."""
    digest = hashlib.sha256()
    for package in ("app.sizing", "app.api", "app.catalog"):
        for file in sorted(Folder(str(resources.files(package))).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest().encode()


def identity_of(request: RecommendRequest, snapshot: str, today: date) -> tuple[str, bytes]:
    """Digest of the request, the snapshot, the day and the engine; the canonical request beside it. How an answer is
    shown and ranked by default is the same request where it is spelled out; a figure that is asked for is told as
    asked.
    """
    said, usual = request.model_dump(mode="json", exclude_unset=True), RecommendRequest.model_fields
    told = {name: value for name, value in said.items() if value != usual[name].default}
    day = (request.as_of or today).isoformat()
    canonical = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(b"|".join((engine_version(), snapshot.encode(), day.encode(), canonical)))
    return f"rec_{digest.hexdigest()[:28]}", canonical


@router.post(
    "/recommend",
    operation_id="recommend",
    response_model=RecommendResponse,
    openapi_extra=body_of(RecommendRequest),
    responses=problems(400, 404, 413, 415, 422, 503),
    summary="Rank the hardware that can run a workload",
)
async def post_recommend(raw: RawBody, answers: Answers, snapshots: Snapshots, turns: Turns, today: Today) -> Response:
    """Which hardware, how much of it, laid out how, what it will do and cost, how sure that is, and
    why the rest was turned down. The same request on the same catalogue snapshot is the same answer,
    byte for byte on the same day, and is stored under its id.
    """
    return await turns.run(recommended, raw, answers, snapshots, today)


def recommended(raw: bytes, answers: AnswerStore, snapshots: SnapshotStore, today: date) -> Response:
    """The stored answer to a request, or a new one."""
    request = parsed(raw, RecommendRequest)
    directory = snapshots.directory()
    market = directory.market
    identity, canonical = identity_of(request, market.version, today)
    known = answers.known(identity)
    if known is not None:
        return Response(known, media_type="application/json")

    question = recommend_question(request, directory, snapshots, today)

    answer = recommend(question, market)

    catalog = {"snapshot": market.version, "prices_as_of": market.prices_as_of}
    document = answer_json(
        answer,
        identity=identity,
        created_at=market.created_at,
        catalog=catalog,
        as_of=question.today,
        request=request.model_dump(mode="json", exclude_unset=True),
        trace=request.trace,
    )
    document = with_doubts(document, request)
    by_default = request.rejected_limit is None and not request.trace
    body = within_size(document) if by_default else json_bytes(document)
    kept = answers.keep(identity, snapshot=market.version, request=canonical, body=body)
    return Response(
        kept.body, media_type="application/json", headers=None if kept.stored else {"Headroom-Stored": "false"}
    )


@router.post(
    "/estimate",
    operation_id="estimate",
    response_model=EstimateShown,
    openapi_extra=body_of(EstimateRequest),
    responses=problems(400, 404, 413, 415, 422, 503),
    summary="What one deployment would do",
)
async def post_estimate(raw: RawBody, snapshots: Snapshots, turns: Turns, today: Today) -> Response:
    """Memory, speed, latency, energy and cost of a workload on one deployment. A deployment taken
    from a recommendation gives back that recommendation's numbers; what is left out is chosen well
    and echoed.
    """
    return await turns.run(estimated, raw, snapshots, today)


def estimated(raw: bytes, snapshots: SnapshotStore, today: date) -> Response:
    """One deployment, judged."""
    directory = snapshots.directory()
    request = parsed(raw, EstimateRequest)
    question, deployment = estimate_question(request, directory, snapshots, today)

    document = with_doubts(
        estimate_json(estimate(question, deployment, directory.market), trace=request.trace), request
    )
    return Response(json_bytes(document), media_type="application/json")


def with_doubts(document: Document, request: RecommendRequest | EstimateRequest) -> Document:
    """The answer with what of the request looks as if another unit was meant, before all other warnings."""
    found = [notice_json(doubt) for doubt in doubts(request)]
    return {**document, "warnings": [*found, *document.get("warnings", [])]} if found else document


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
