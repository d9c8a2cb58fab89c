"""POST, GET and DELETE /measurements: the user's own benchmarks and training runs, which move predictions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from app.api.access import KnownCaller
from app.api.answering import json_bytes
from app.api.deps import LongSlot, RawResultFile, Sessions, Snapshots, Tenant, Today
from app.api.measuring import MeasuredCatalogs, compute_upload, remove_measurement
from app.api.openapi import problem_responses
from app.api.routes.catalog import decode_cursor, page_response
from app.api.schemas.catalog import Page
from app.api.schemas.measurements import (
    MeasurementList,
    MeasurementQuery,
    MeasurementResult,
    MeasurementShown,
    measurement_json,
)
from app.api.writes import IdempotencyKey, Write
from app.catalog.measuring import get_measurement, list_measurements


async def _get_measured_catalogs(request: Request) -> MeasuredCatalogs:
    catalogs: MeasuredCatalogs = request.app.state.measured_catalogs
    return catalogs


Catalogs = Annotated[MeasuredCatalogs, Depends(_get_measured_catalogs)]
MeasurementId = Annotated[str, Path(pattern=r"^meas_[0-9a-f]{28}$", description="Id of the measurement.")]
FILE = {
    "requestBody": {
        "required": True,
        "description": "The file as the tool wrote it.",
        "content": {
            "application/json": {"schema": {}},
            "application/x-ndjson": {"schema": {"type": "string"}},
            "text/plain": {"schema": {"type": "string"}},
        },
    }
}
router = APIRouter(tags=["measurements"])


@router.post(
    "/measurements",
    operation_id="uploadMeasurement",
    response_model=MeasurementResult,
    openapi_extra=FILE,
    responses=problem_responses(400, 404, 409, 413, 415, 422, 429, 503),
    summary="Upload the result of a benchmark or a training log",
)
async def post_measurement(
    request: Request,
    raw: RawResultFile,
    query: Annotated[MeasurementQuery, Query()],
    sessions: Sessions,
    catalog_store: Snapshots,
    catalogs: Catalogs,
    turn: LongSlot,
    caller: KnownCaller,
    today: Today,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Recognizes the file by its content, compares each run with its prediction, and stores it. From then on it moves
    predictions of the same stack, and by distance those of its neighbors. If the file does not state something, the
    problem lists the parameters to add. A second upload of the same content is the same measurement.
    """
    write = Write.of(request, caller, idempotency_key, raw)
    answer = await turn.answer_exclusively(compute_upload, raw, query, sessions, catalog_store, write, today)
    if not query.dry_run:
        catalogs.forget(caller.tenant)
    return answer


@router.get(
    "/measurements",
    operation_id="listMeasurements",
    response_model=MeasurementList,
    responses=problem_responses(400, 422, 503),
    summary="List your measurements",
)
def list_own_measurements(page: Annotated[Page, Query()], sessions: Sessions, tenant: Tenant) -> Response:
    """Lists the stored measurements with their predictions, in the order of their ids."""
    last = decode_cursor(page.cursor, whole=False) or ""
    with sessions() as session:
        found = list_measurements(session, tenant, after=last, limit=page.limit + 1)
    shown = found[: page.limit]
    more = len(found) > page.limit
    return page_response([measurement_json(each) for each in shown], shown[-1].measurement.identity if more else None)


@router.get(
    "/measurements/{id}",
    operation_id="getMeasurement",
    response_model=MeasurementShown,
    responses=problem_responses(404, 422, 503),
    summary="Get a measurement",
)
def get_own_measurement(id: MeasurementId, sessions: Sessions, tenant: Tenant) -> Response:
    """Returns one measurement with the run that the file states and its prediction."""
    with sessions() as session:
        document = measurement_json(get_measurement(session, tenant, id))
    return Response(json_bytes(document), media_type="application/json")


@router.delete(
    "/measurements/{id}",
    operation_id="deleteMeasurement",
    status_code=204,
    response_class=Response,
    responses=problem_responses(404, 422, 503),
    summary="Delete a measurement",
)
async def delete_own_measurement(
    request: Request,
    id: MeasurementId,
    sessions: Sessions,
    catalogs: Catalogs,
    caller: KnownCaller,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Deletes a measurement. Its effect ends: answers are again those without it, with the same ids."""
    write = Write.of(request, caller, idempotency_key)
    response = await run_in_threadpool(remove_measurement, sessions, write, id)
    catalogs.forget(caller.tenant)
    return response
