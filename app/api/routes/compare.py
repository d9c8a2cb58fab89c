"""POST /compare."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from fastapi.responses import Response

from app.api.answering import catalog_json, identity_of, kept_answer
from app.api.body import document_of, parsed
from app.api.compared import Asked, asked_options, of_option
from app.api.deps import Answers, AtLongTurn, RawBody, Snapshots, Today
from app.api.openapi import body_of, problems
from app.api.schemas.compare import CompareRequest, CompareResponse, comparison_json
from app.api.schemas.requests import RecommendRequest
from app.api.sized import json_bytes
from app.catalog.directory import Directory
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import SnapshotStore
from app.errors import AppError
from app.sizing.comparing.compare import Comparison, compare
from app.sizing.comparing.outcomes import Outcome, outcome_of
from app.sizing.snapshot import Snapshot

router = APIRouter(tags=["sizing"])


@router.post(
    "/compare",
    operation_id="compare",
    response_model=CompareResponse,
    openapi_extra=body_of(CompareRequest),
    responses=problems(400, 404, 413, 415, 422, 429, 503),
    summary="Options side by side, and what sets them apart",
)
async def post_compare(
    raw: RawBody, answers: Answers, snapshots: Snapshots, turn: AtLongTurn, today: Today
) -> Response:
    """One workload on named deployments or within other limits, or one model in several phases: every figure side by
    side, the factors that a difference in cost is the product of, and the month in which buying, renting, committing
    or a hosted API overtakes another. Where the best is looked for, it is stored as by /recommend.
    """
    return await turn.shared(compared, raw, answers, snapshots, today)


def compared(raw: bytes, answers: AnswerStore, snapshots: SnapshotStore, today: date) -> Response:
    """The options, judged and compared."""
    request = parsed(raw, CompareRequest)
    directory = snapshots.directory()
    market = directory.market
    options = asked_options(document_of(raw), request, directory, snapshots, today)

    comparison = compare([outcome(asked, market) for asked in options], market, phases=request.phases is not None)

    ids = stored(options, comparison, directory, answers, today)
    head = {"catalog": catalog_json(market), "as_of": (request.as_of or today).isoformat()}
    return Response(json_bytes({**head, **comparison_json(comparison, ids)}), media_type="application/json")


def outcome(asked: Asked, market: Snapshot) -> Outcome:
    """What came of an option; an error says which."""
    try:
        return outcome_of(asked.option, market)
    except AppError as error:
        raise of_option(error, asked.option.name, asked.pointer, asked.own) from None


def stored(
    options: list[Asked], comparison: Comparison, directory: Directory, answers: AnswerStore, today: date
) -> dict[str, str]:
    """Ids of the recommendations among the options, which are kept as those of /recommend are."""
    ids = {}
    for asked, found in zip(options, comparison.outcomes, strict=True):
        if found.answer is None or not isinstance(asked.request, RecommendRequest):
            continue
        identity, canonical = identity_of(asked.request, directory.market.version, today)
        kept_answer(asked.request, identity, canonical, found.question, found.answer, directory, answers)
        ids[found.name] = identity
    return ids
