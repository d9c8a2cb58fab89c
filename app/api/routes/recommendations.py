"""POST /recommend, /estimate, /compare and /diagnose; a stored answer, its sensitivity, and its price today."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from email.utils import format_datetime
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Path, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from app.api.answering import (
    NOT_STORED,
    catalog_json,
    find_or_compute_answer,
    fleet_today,
    identify_request,
    json_bytes,
    load_stored_request,
    machines_today,
    relevant_identity,
    store_answer,
    with_input_warnings,
)
from app.api.body import parse_body, parse_document, reject_body
from app.api.cost import compare_cpu_s, estimate_cpu_s, is_compared_briefly, recommend_cpu_s
from app.api.deps import Answers, Held, LongSlot, RawBody, RawPastedBody, ShortSlot, Snapshots, Today
from app.api.openapi import body_schema, problem_responses
from app.api.pasted import read_observation
from app.api.questions import (
    RequestedOption,
    build_estimate_question,
    build_options,
    complete_request,
    index_on_day,
    option_error,
)
from app.api.schemas.answers import EstimateShown, RecommendResponse
from app.api.schemas.compare import CompareRequest, CompareResponse, comparison_json
from app.api.schemas.conversion import estimate_json
from app.api.schemas.diagnose import PASTED_FIELDS, DiagnoseRequest, DiagnoseResponse, diagnosis_json
from app.api.schemas.repricing import RepriceQuery, RepriceResponse, repriced_json
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.api.schemas.sensitivity import SensitivityShown
from app.api.schemas.standing import StandingResponse, standing_json
from app.api.sensitivity import find_sensitivity
from app.api.standing import judge_standing
from app.catalog.holdings import Holdings
from app.catalog.recommendations import TenantAnswers
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError, Unanswerable
from app.export.lines import FILING_FIELDS, MIXED_FLEET, Settlement, build_bill, plan_rank
from app.export.repricing import explain_first, has_same_first, ranked_options
from app.sizing.compare import Comparison, compare_outcomes
from app.sizing.decisions.machines import with_relevant_measurements
from app.sizing.diagnosis.diagnose import diagnose
from app.sizing.estimate import estimate_deployment
from app.sizing.outcomes import MOST_WORK, Outcome, evaluate_option
from app.sizing.snapshot import Catalog
from app.sizing.whatif.limits import share_relaxed_plans
from app.work import count_work

router = APIRouter(tags=["sizing"])

BRIEF_OPTIONS = (
    "The stored answers leave out sensitivity, cheaper_if, load_curve, alternatives and day, because many expensive "
    "options are compared; post the request of one to /recommend without include to get them."
)
STORE = (
    "`false` for a preview: the answer is computed but not stored, so its id cannot be fetched, it is in no list, and "
    "it counts towards no limit of filed answers. An answer that is stored already is returned as it is."
)
MOST_READ_BYTES = 65536  # of a body that is read to estimate its cost


@router.post(
    "/compare",
    operation_id="compare",
    response_model=CompareResponse,
    openapi_extra=body_schema(CompareRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Compare deployments, constraints or phases",
)
async def post_compare(
    raw: RawBody, answers: Answers, catalog_store: Snapshots, turn: LongSlot, today: Today, held: Held
) -> Response:
    """Compares one workload on several deployments or under several constraints, or one model in several phases. The
    response lists every figure side by side, the factors that explain each difference in cost, and the month in which
    buying, renting, committing or a hosted API becomes the cheapest. Recommended options are stored as by POST
    /recommend.
    """
    cost_s = await run_in_threadpool(lambda: compare_cpu_s(parse_body(raw, CompareRequest)))
    return await turn.costing(cost_s).answer_shared(compute_comparison, raw, answers, catalog_store, today, held)


def compute_comparison(
    raw: bytes, answers: TenantAnswers, catalog_store: CatalogStore, today: date, holdings: Holdings
) -> Response:
    request = parse_body(raw, CompareRequest)
    check_filing(request, answers)
    directory = index_on_day(catalog_store.directory(holdings.tenant), request.as_of, today, holdings)
    catalog = directory.catalog
    is_brief = is_compared_briefly(request)
    document = {**parse_document(raw), **({"include": []} if is_brief else {})}
    options = build_options(document, request, directory, catalog_store, today, holdings)

    with count_work(MOST_WORK, stops=True), share_relaxed_plans():
        outcomes = [evaluate_requested_option(asked, catalog) for asked in options]
        comparison = compare_outcomes(outcomes, catalog, phases=request.phases is not None)
    if is_brief:
        comparison = replace(comparison, summary=f"{comparison.summary} {BRIEF_OPTIONS}")

    ids = store_recommendations(options, comparison, directory, answers, today, holdings)
    head = {"catalog": catalog_json(catalog), "as_of": (request.as_of or today).isoformat()}
    return Response(json_bytes({**head, **comparison_json(comparison, ids)}), media_type="application/json")


def evaluate_requested_option(asked: RequestedOption, catalog: Catalog) -> Outcome:
    """Returns the result of one option. Errors name the option."""
    try:
        option = asked.option
        fixed = option.deployment is not None
        return evaluate_option(option, catalog if fixed else with_relevant_measurements(option.question, catalog))
    except AppError as error:
        raise option_error(error, asked.option.name, asked.pointer, asked.own) from None


def store_recommendations(
    options: list[RequestedOption],
    comparison: Comparison,
    catalog_index: CatalogIndex,
    answers: TenantAnswers,
    today: date,
    holdings: Holdings,
) -> dict[str, str]:
    """Stores the recommended options as POST /recommend does and returns their ids by option name."""
    ids = {}
    for asked, result in zip(options, comparison.outcomes, strict=True):
        if result.answer is None or not isinstance(asked.request, RecommendRequest):
            continue
        relevant = with_relevant_measurements(result.question, catalog_index.catalog).identity
        identity, canonical = identify_request(asked.request, relevant, today, holdings)
        store_answer(asked.request, identity, canonical, result.question, result.answer, catalog_index, answers)
        ids[result.name] = identity
    return ids


@router.post(
    "/diagnose",
    operation_id="diagnose",
    response_model=DiagnoseResponse,
    openapi_extra=body_schema(DiagnoseRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Diagnose a running service or training run",
)
async def post_diagnose(
    raw: RawPastedBody, catalog_store: Snapshots, turn: LongSlot, today: Today, held: Held
) -> Response:
    """Compares observed figures of a service or training run with those expected of its hardware at the same load.
    Returns findings ranked by cost, each with evidence, likely cause, recommended change and purchases to avoid.
    """
    return await turn.answer_shared(compute_diagnosis, raw, catalog_store, today, held)


def compute_diagnosis(raw: bytes, catalog_store: CatalogStore, today: date, holdings: Holdings) -> Response:
    request = parse_body(raw, DiagnoseRequest, PASTED_FIELDS)
    check_observed(request)
    # Expected values ignore own measurements: a slow run must not become the expectation.
    directory = index_on_day(catalog_store.published(), request.as_of, today, holdings)
    question, deployment = build_estimate_question(request, directory, catalog_store, today)
    pasted = read_observation(request.observed, question, deployment, directory.catalog)
    diagnosis = diagnose(question, deployment, directory.catalog, pasted.observed)
    answer = diagnosis_json(diagnosis)
    notes = [*pasted.response_fields.get("notes", []), *answer.get("notes", [])]
    noted = {"notes": notes} if notes or pasted.reading is not None else {}
    return Response(json_bytes({**answer, **pasted.response_fields, **noted}), media_type="application/json")


def check_observed(request: DiagnoseRequest) -> None:
    """Raises Unanswerable for fields that do not apply to the phase or to this call."""
    serves = request.workload.phase == "inference"
    other = "training" if serves else "service"
    if getattr(request.observed, other) is not None:
        detail = f"observed.{other} does not apply to phase {request.workload.phase}. Omit it."
        raise Unanswerable(detail, errors=[{"pointer": f"#/observed/{other}", "detail": detail}])
    if request.maximize is not None:
        detail = "maximize applies to POST /estimate only. Omit it."
        raise Unanswerable(detail, errors=[{"pointer": "#/maximize", "detail": detail}])


@router.post(
    "/recommend",
    operation_id="recommend",
    response_model=RecommendResponse,
    openapi_extra=body_schema(RecommendRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Recommend hardware for a workload",
)
async def post_recommend(
    raw: RawBody,
    answers: Answers,
    catalog_store: Snapshots,
    turn: ShortSlot,
    today: Today,
    held: Held,
    store: Annotated[bool, Query(description=STORE)] = True,
) -> Response:
    """Returns ranked hardware options with quantity, layout, performance, cost and confidence, and the reasons for
    every rejected option. The answer is stored under its id. The same request on the same catalog version and day
    returns the same bytes.
    """
    found = await run_in_threadpool(find_known_recommendation, raw, answers, catalog_store, today, held)
    if isinstance(found, Response):
        return found
    turn = turn.costing(found)
    return await turn.answer_shared(compute_recommendation, raw, answers, catalog_store, today, held, store=store)


def find_known_recommendation(
    raw: bytes, answers: TenantAnswers, catalog_store: CatalogStore, today: date, holdings: Holdings
) -> Response | float:
    """Returns the stored answer to a request, or the estimated CPU seconds of a new one. It takes about a millisecond,
    so it does not wait in the queue of new questions, nor for a catalog that is being loaded.
    """
    request, index = parse_body(raw, RecommendRequest), catalog_store.loaded_directory(answers.tenant)
    if index is None or (index.catalog.measured is not None and not isinstance(request.workload.model, str)):
        # Being loaded; or measurements count, and a model is to be read before it is known which.
        return recommend_cpu_s(request)
    asked = complete_request(request, holdings)
    relevant = relevant_identity(asked, index, catalog_store, today, holdings)
    body = answers.find_answer(identify_request(asked, relevant, today, holdings)[0])
    return recommend_cpu_s(request) if body is None else Response(body, media_type="application/json")


def compute_recommendation(
    raw: bytes,
    answers: TenantAnswers,
    catalog_store: CatalogStore,
    today: date,
    holdings: Holdings,
    *,
    store: bool = True,
) -> Response:
    """Returns the stored answer to a request, or computes a new one."""
    request = parse_body(raw, RecommendRequest)
    if store:
        check_filing(request, answers)
    index = catalog_store.directory(holdings.tenant)
    kept = find_or_compute_answer(request, index, catalog_store, answers, today, holdings, store=store)
    return Response(kept.body, media_type="application/json", headers=NOT_STORED if not kept.stored else None)


def check_filing(request: RecommendRequest | CompareRequest, answers: TenantAnswers) -> None:
    """Raises FilingLimited for a request whose answer is kept for good, if its caller may file nothing more."""
    if any(getattr(request, name) is not None for name in FILING_FIELDS):
        answers.store.quota.check_caller()


@router.post(
    "/estimate",
    operation_id="estimate",
    response_model=EstimateShown,
    openapi_extra=body_schema(EstimateRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Estimate one deployment",
)
async def post_estimate(
    raw: RawPastedBody, catalog_store: Snapshots, turn: ShortSlot, today: Today, held: Held
) -> Response:
    """Returns memory, throughput, latency, energy and cost of a workload on one deployment. A deployment copied from a
    recommendation reproduces its figures. Settings that you omit are chosen for you and returned.
    """
    is_short = len(raw) <= MOST_READ_BYTES  # reading a longer body is work for the queue
    cost_s = await run_in_threadpool(lambda: estimate_cpu_s(parse_body(raw, EstimateRequest))) if is_short else None
    return await turn.costing(cost_s).answer_shared(compute_estimate, raw, catalog_store, today, held)


def compute_estimate(raw: bytes, catalog_store: CatalogStore, today: date, holdings: Holdings) -> Response:
    request = parse_body(raw, EstimateRequest)
    directory = index_on_day(catalog_store.directory(holdings.tenant), request.as_of, today, holdings)
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
        "Cache-Control": "private, immutable, max-age=31536000",
    }
    return Response(body, media_type="application/json", headers=headers)


@router.post(
    "/recommendations/{id}/reprice",
    operation_id="repriceRecommendation",
    response_model=RepriceResponse,
    responses=problem_responses(400, 404, 422, 429, 503),
    dependencies=[Depends(reject_body)],
    summary="Price a stored answer again",
)
async def post_reprice(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    asked: Annotated[RepriceQuery, Query()],
    answers: Answers,
    catalog_store: Snapshots,
    turn: ShortSlot,
    today: Today,
    held: Held,
) -> Response:
    """Returns today's price of the stored option, line by line with the reason for each change, and today's answer to
    the same request, which is stored. The old answer and its status do not change. Repeated calls on one day return the
    same result. The call takes no body.
    """
    return await turn.answer_shared(compute_repricing, id, asked.rank, answers, catalog_store, today, held)


def compute_repricing(
    identity: str,
    asked: int | None,
    answers: TenantAnswers,
    catalog_store: CatalogStore,
    today: date,
    holdings: Holdings,
) -> Response:
    """Prices the machines of a stored answer again and answers its request again."""
    stored, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(identity))
    directory = index_on_day(catalog_store.directory(holdings.tenant), None, today, holdings)
    machines, rank = {}, plan_rank(stored, asked)
    if stored["recommendations"] or rank != 1:
        then = build_bill(stored, supply, rank, Settlement())
        if rank == MIXED_FLEET:
            priced = fleet_today(stored, supply, directory, catalog_store, today)
        else:
            priced = machines_today(stored, rank, directory, catalog_store, today)
        machines = {"machines": repriced_json(then, priced)}

    request = load_stored_request(stored, as_of=None)
    check_filing(request, answers)
    kept = find_or_compute_answer(request, directory, catalog_store, answers, today, holdings)

    now = orjson.loads(kept.body)
    names = {a.slug: a.name for a in directory.catalog.accelerators}
    document = {
        "id": identity,
        "as_of": {"then": stored["as_of"], "now": today.isoformat()},
        "catalog": {"then": stored["catalog"], "now": now["catalog"]},
        **machines,
        "today": {
            "id": now["id"],
            "changed": not has_same_first(ranked_options(stored, names), ranked_options(now, names)),
            "why": list(explain_first(stored, now, names)),
        },
    }
    headers = None if kept.stored else NOT_STORED
    return Response(json_bytes(document), media_type="application/json", headers=headers)


@router.get(
    "/recommendations/{id}/standing",
    operation_id="getStanding",
    response_model=StandingResponse,
    responses=problem_responses(404, 422, 429, 503),
    summary="Check whether a stored plan still holds",
)
async def get_standing(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    asked: Annotated[RepriceQuery, Query()],
    answers: Answers,
    catalog_store: Snapshots,
    turn: ShortSlot,
    today: Today,
    held: Held,
) -> Response:
    """Compares a stored plan with today's catalog: the price of exactly its offers, offers that have ended, prices that
    are too old, and a cheaper plan for the same request. Nothing is stored or changed.
    """
    return await turn.answer_shared(compute_standing, id, asked.rank, answers, catalog_store, today, held)


def compute_standing(
    identity: str,
    asked: int | None,
    answers: TenantAnswers,
    catalog_store: CatalogStore,
    today: date,
    holdings: Holdings,
) -> Response:
    """Judges the plan at a rank of a stored answer at today's catalog."""
    stored, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(identity))
    rank = plan_rank(stored, asked)
    build_bill(stored, supply, rank, Settlement())  # an answer without this rank has no plan to judge
    directory = index_on_day(catalog_store.directory(holdings.tenant), None, today, holdings)
    document = {
        "id": identity,
        "as_of": {"then": stored["as_of"], "now": today.isoformat()},
        "catalog": {"then": stored["catalog"], "now": catalog_json(directory.catalog)},
        **standing_json(judge_standing(stored, rank, directory, catalog_store, today)),
    }
    return Response(json_bytes(document), media_type="application/json", headers={"Cache-Control": "no-cache"})


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
    held: Held,
    start: Annotated[int, Query(ge=0, le=999, description="`next` of the call before. Default: from the first.")] = 0,
) -> Response:
    """Tests cheaper patterns that the request left open. Then varies load, lengths, limits, confidence, prices and
    formats one at a time and finds the smallest change that makes another accelerator type rank first. A call takes one
    to two seconds; `next` says where it stopped. Uses the prices in force on the date of the answer.
    """
    return await turn.answer_shared(compute_sensitivity, id, start, answers, catalog_store, held)


def compute_sensitivity(
    identity: str, start: int, answers: TenantAnswers, catalog_store: CatalogStore, holdings: Holdings
) -> Response:
    """Computes the breakpoints, stable ranges and savings of a stored answer."""
    stored = orjson.loads(answers.get_answer(identity)[0])
    request = load_stored_request(stored)
    today = date.fromisoformat(stored["as_of"])
    directory = index_on_day(catalog_store.directory(holdings.tenant), request.as_of, today, holdings)
    behind = [r["deployment"]["accelerator"] for r in stored["recommendations"][1:]]
    maximum = (stored.get("maximum") or {}).get("value")
    found = find_sensitivity(identity, request, behind, today, directory, catalog_store, start, maximum)
    head = {"id": identity, "catalog": catalog_json(directory.catalog)}
    return Response(json_bytes(SensitivityShown.as_json(found, given=head)), media_type="application/json")
