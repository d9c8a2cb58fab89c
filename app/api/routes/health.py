"""Liveness, readiness and metrics. No request here calls another host."""

from __future__ import annotations

import asyncio

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from app import telemetry
from app.api.deps import Snapshots
from app.api.openapi import problem_responses
from app.api.problems import problem_response
from app.api.schemas.lists import AliveShown, ReadyShown

STARTUP_CHECKS, STARTUP_CHECK_INTERVAL_S = 250, 0.02  # number and interval (in seconds) of checks for the first catalog

router = APIRouter(tags=["operations"])
log = structlog.get_logger("headroom")


@router.get("/livez", operation_id="livez", response_model=AliveShown, summary="Check process liveness")
async def livez() -> JSONResponse:
    """Returns ok if the process runs. Uses no I/O and no thread."""
    return JSONResponse({"status": "ok"})


@router.get(
    "/readyz",
    operation_id="readyz",
    response_model=ReadyShown,
    responses=problem_responses(503),
    summary="Check service readiness",
)
async def readyz(request: Request, catalog_store: Snapshots) -> Response:
    """Returns ok if the process can take traffic: a catalog is loaded and its database answered the last query."""
    if getattr(request.state, "draining", False):
        detail = "This process is shutting down and accepts no new requests."
        return problem_response(503, code="draining", detail=detail, headers={"Retry-After": "2"})
    for _ in range(STARTUP_CHECKS):
        if not catalog_store.catalog_status().is_loading:
            break
        await asyncio.sleep(STARTUP_CHECK_INTERVAL_S)
    standing = catalog_store.catalog_status()
    if standing.catalog is None or standing.problem:
        log.warning("not_ready", cause=standing.problem)
        detail = f"The catalog is not ready: {standing.problem}."
        return problem_response(503, code="not-ready", detail=detail, headers={"Retry-After": "2"})
    state = {"status": "ready", "snapshot": standing.catalog.version, "prices_as_of": standing.catalog.prices_as_of}
    return JSONResponse(state)


NOT_KEPT = {"Cache-Control": "no-store"}


async def get_metrics() -> Response:
    """Returns the metrics of all workers, whichever answers. A separate thread reads them; requests do not wait."""
    text = await asyncio.to_thread(telemetry.prometheus_text)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4, headers=NOT_KEPT)


def install_metrics(app: FastAPI, *, on: bool) -> None:
    """Serves /metrics if the settings enable it. It is for operators and not part of the API document."""
    if on:
        app.get("/metrics", include_in_schema=False)(get_metrics)
