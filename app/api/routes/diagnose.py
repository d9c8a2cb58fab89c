"""POST /diagnose."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from fastapi.responses import Response

from app.api.body import parse_body
from app.api.deps import LongSlot, RawPastedBody, Snapshots, Today
from app.api.openapi import body_schema, problem_responses
from app.api.pasted import read_observation
from app.api.questions import build_estimate_question
from app.api.schemas.diagnose import DiagnoseRequest, DiagnoseResponse, diagnosis_json
from app.api.schemas.pasted import PASTED_FIELDS
from app.api.sized import json_bytes
from app.catalog.snapshot import CatalogStore
from app.errors import Unanswerable
from app.sizing.diagnosis.diagnose import diagnose

router = APIRouter(tags=["sizing"])


@router.post(
    "/diagnose",
    operation_id="diagnose",
    response_model=DiagnoseResponse,
    openapi_extra=body_schema(DiagnoseRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
    summary="Diagnose a running service or training run",
)
async def post_diagnose(raw: RawPastedBody, catalog_store: Snapshots, turn: LongSlot, today: Today) -> Response:
    """Compares observed figures of a service or training run with those expected of its hardware at the same load.
    Returns findings ranked by cost, each with evidence, likely cause, recommended change and purchases to avoid.
    """
    return await turn.answer_shared(compute_diagnosis, raw, catalog_store, today)


def compute_diagnosis(raw: bytes, catalog_store: CatalogStore, today: date) -> Response:
    """Computes the diagnosis of one deployment."""
    request = parse_body(raw, DiagnoseRequest, PASTED_FIELDS)
    check_observed(request)
    directory = catalog_store.directory()
    question, deployment = build_estimate_question(request, directory, catalog_store, today)
    pasted = read_observation(request.observed, question, deployment, directory.catalog)
    diagnosis = diagnose(question, deployment, directory.catalog, pasted.observed)
    return Response(json_bytes({**diagnosis_json(diagnosis), **pasted.response_fields}), media_type="application/json")


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
