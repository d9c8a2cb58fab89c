"""POST /compare."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from fastapi.responses import Response

from app.api.answering import catalog_json, identify_request, store_answer
from app.api.body import parse_body, parse_document
from app.api.compared import RequestedOption, build_options, option_error
from app.api.deps import Answers, LongSlot, RawBody, Snapshots, Today
from app.api.openapi import body_schema, problem_responses
from app.api.schemas.compare import CompareRequest, CompareResponse, comparison_json
from app.api.schemas.requests import RecommendRequest
from app.api.sized import json_bytes
from app.catalog.directory import CatalogIndex
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import CatalogStore
from app.errors import AppError
from app.sizing.comparing.compare import Comparison, compare_outcomes
from app.sizing.comparing.outcomes import Outcome, evaluate_option
from app.sizing.snapshot import Catalog

router = APIRouter(tags=["sizing"])


@router.post(
    "/compare",
    operation_id="compare",
    response_model=CompareResponse,
    openapi_extra=body_schema(CompareRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Compare deployments, constraints or phases",
)
async def post_compare(
    raw: RawBody, answers: Answers, catalog_store: Snapshots, turn: LongSlot, today: Today
) -> Response:
    """Compares one workload on several deployments or under several constraints, or one model in several phases. The
    response lists every figure side by side, the factors that explain each difference in cost, and the month in which
    buying, renting, committing or a hosted API becomes the cheapest. Recommended options are stored as by POST
    /recommend.
    """
    return await turn.answer_shared(compute_comparison, raw, answers, catalog_store, today)


def compute_comparison(raw: bytes, answers: AnswerStore, catalog_store: CatalogStore, today: date) -> Response:
    """Computes and compares the options."""
    request = parse_body(raw, CompareRequest)
    directory = catalog_store.directory()
    catalog = directory.catalog
    options = build_options(parse_document(raw), request, directory, catalog_store, today)

    comparison = compare_outcomes(
        [evaluate_requested_option(asked, catalog) for asked in options], catalog, phases=request.phases is not None
    )

    ids = store_recommendations(options, comparison, directory, answers, today)
    head = {"catalog": catalog_json(catalog), "as_of": (request.as_of or today).isoformat()}
    return Response(json_bytes({**head, **comparison_json(comparison, ids)}), media_type="application/json")


def evaluate_requested_option(asked: RequestedOption, catalog: Catalog) -> Outcome:
    """Returns the result of one option. Errors name the option."""
    try:
        return evaluate_option(asked.option, catalog)
    except AppError as error:
        raise option_error(error, asked.option.name, asked.pointer, asked.own) from None


def store_recommendations(
    options: list[RequestedOption],
    comparison: Comparison,
    catalog_index: CatalogIndex,
    answers: AnswerStore,
    today: date,
) -> dict[str, str]:
    """Stores the recommended options as POST /recommend does and returns their ids by option name."""
    ids = {}
    for asked, result in zip(options, comparison.outcomes, strict=True):
        if result.answer is None or not isinstance(asked.request, RecommendRequest):
            continue
        identity, canonical = identify_request(asked.request, catalog_index.catalog.version, today)
        store_answer(asked.request, identity, canonical, result.question, result.answer, catalog_index, answers)
        ids[result.name] = identity
    return ids
