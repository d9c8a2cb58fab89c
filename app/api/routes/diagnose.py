"""POST /diagnose."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from fastapi.responses import Response

from app.api.body import parsed
from app.api.deps import AtLongTurn, RawPastedBody, Snapshots, Today
from app.api.openapi import body_of, problems
from app.api.pasted import observed_of
from app.api.questions import estimate_question
from app.api.schemas.diagnose import DiagnoseRequest, DiagnoseResponse, diagnosis_json
from app.api.schemas.pasted import PASTED
from app.api.sized import json_bytes
from app.catalog.snapshot import SnapshotStore
from app.errors import Unanswerable
from app.sizing.diagnosis.diagnose import diagnose

router = APIRouter(tags=["sizing"])


@router.post(
    "/diagnose",
    operation_id="diagnose",
    response_model=DiagnoseResponse,
    openapi_extra=body_of(DiagnoseRequest),
    responses=problems(400, 404, 413, 415, 422, 429, 503),
    summary="What is wrong with what runs, and what it costs",
)
async def post_diagnose(raw: RawPastedBody, snapshots: Snapshots, turn: AtLongTurn, today: Today) -> Response:
    """What was observed of a service or a run beside what is expected of its hardware at that load: findings ranked by
    what they cost, each with its evidence, its likely cause, what to change, and what not to buy.
    """
    return await turn.shared(diagnosed, raw, snapshots, today)


def diagnosed(raw: bytes, snapshots: SnapshotStore, today: date) -> Response:
    """One deployment, diagnosed."""
    request = parsed(raw, DiagnoseRequest, PASTED)
    check_observed(request)
    directory = snapshots.directory()
    question, deployment = estimate_question(request, directory, snapshots, today)
    pasted = observed_of(request.observed, question, deployment, directory.market)
    found = diagnose(question, deployment, directory.market, pasted.observed)
    return Response(json_bytes({**diagnosis_json(found), **pasted.shown}), media_type="application/json")


def check_observed(request: DiagnoseRequest) -> None:
    """Refuse what does not go together."""
    serves = request.workload.phase == "inference"
    other = "training" if serves else "service"
    if getattr(request.observed, other) is not None:
        detail = f"observed.{other} does not go with phase {request.workload.phase}."
        raise Unanswerable(detail, errors=[{"pointer": f"#/observed/{other}", "detail": detail}])
    if request.maximize is not None:
        detail = "maximize goes with /estimate: what runs has its size."
        raise Unanswerable(detail, errors=[{"pointer": "#/maximize", "detail": detail}])
