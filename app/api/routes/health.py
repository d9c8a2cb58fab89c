"""Liveness, readiness, metrics, API documentation and the web page. No request here calls another host."""

from __future__ import annotations

import asyncio
from importlib import resources

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from app import telemetry
from app.api.deps import Snapshots
from app.api.openapi import problem_responses
from app.api.problems import problem_index_page, problem_kinds, problem_page, problem_response
from app.api.schemas.lists import AliveShown, ReadyShown
from app.errors import NotFound

STARTUP_CHECKS, STARTUP_CHECK_INTERVAL_S = 250, 0.02  # number and interval (in seconds) of checks for the first catalog

router = APIRouter(tags=["operations"])
log = structlog.get_logger("headroom")

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Swagger UI uses inline styles.
DOCS_POLICY = CONTENT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")


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


def static_text(name: str) -> str:
    return resources.files("app.api").joinpath("static", name).read_text(encoding="utf-8")


def install_pages(app: FastAPI) -> None:
    """Serves /docs, the page and the problem pages from the package's own files."""
    app.mount("/static", StaticFiles(packages=[("app.api", "static")]), name="static")
    pages = {"/": static_text("index.html"), "/docs": static_text("docs.html")}

    def html_page(text: str, policy: str) -> HTMLResponse:
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    @app.get("/", include_in_schema=False)
    def show_index() -> HTMLResponse:
        return html_page(pages["/"], CONTENT_POLICY)

    @app.get("/docs", include_in_schema=False)
    def show_docs() -> HTMLResponse:
        return html_page(pages["/docs"], DOCS_POLICY)

    @app.get("/problems", include_in_schema=False)
    def all_problems() -> HTMLResponse:
        return html_page(problem_index_page(), CONTENT_POLICY)

    @app.get("/problems/{slug}", include_in_schema=False)
    def one_problem(slug: str) -> HTMLResponse:
        if slug not in problem_kinds():
            raise NotFound("Unknown problem type. /problems lists all types.")
        return html_page(problem_page(slug), CONTENT_POLICY)


NOT_KEPT = {"Cache-Control": "no-store"}


async def get_metrics() -> Response:
    """Returns the metrics of all workers, whichever worker answers. A separate thread reads them, so requests do not
    wait.
    """
    text = await asyncio.to_thread(telemetry.prometheus_text)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4, headers=NOT_KEPT)


def install_metrics(app: FastAPI, *, on: bool) -> None:
    """Serves /metrics if the settings enable it. It is for operators and not part of the API document."""
    if on:
        app.get("/metrics", include_in_schema=False)(get_metrics)
