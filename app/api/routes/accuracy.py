"""GET /accuracy: prediction errors against published measurements."""

from __future__ import annotations

from functools import lru_cache

import orjson
from fastapi import APIRouter
from fastapi.responses import Response

from app.api.deps import Snapshots
from app.api.openapi import problem_responses
from app.api.schemas.accuracy import AccuracyResponse, accuracy_json
from app.calibration.report import report_on
from app.catalog.queries import calibration_notes
from app.sizing.snapshot import Catalog

router = APIRouter(tags=["accuracy"])


@lru_cache(maxsize=1)
def accuracy_body(catalog: Catalog) -> bytes:
    """Returns the response for one catalog version. It is cached because it is large and the same for every client."""
    return orjson.dumps(accuracy_json(catalog.version, report_on(catalog.evidence.rows), calibration_notes()))


@router.get(
    "/accuracy",
    operation_id="accuracy",
    response_model=AccuracyResponse,
    responses=problem_responses(503),
    summary="Get prediction errors against published measurements",
)
def get_accuracy(catalog_store: Snapshots) -> Response:
    """Returns prediction errors by metric, engine, accelerator family, format, model size, load and source. Each figure
    is given twice: for sources that were not used in calibration, and in sample. The response also includes the bias,
    the share of results inside their 80 % interval, and the rows with the largest errors.
    """
    return Response(
        accuracy_body(catalog_store.catalog()), media_type="application/json", headers={"Cache-Control": "no-cache"}
    )
