"""Liveness, readiness, the documentation and the page: nothing here asks another host."""

from __future__ import annotations

import asyncio
from importlib import resources

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from app.api.deps import Snapshots
from app.api.kinds import kinds, page_of, page_of_all
from app.api.openapi import problems
from app.api.problems import problem
from app.api.schemas.health import AliveShown, ReadyShown
from app.errors import NotFound

FIRST_LOOKS, LOOK_S = 250, 0.02  # how long and how often to see whether the first catalogue is there

router = APIRouter(tags=["operations"])
log = structlog.get_logger("headroom")

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Swagger UI writes styles into its elements.
DOCS_POLICY = CONTENT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")


@router.get("/livez", operation_id="livez", response_model=AliveShown, summary="The process answers")
async def livez() -> JSONResponse:
    """No input or output, and no thread: the process runs."""
    return JSONResponse({"status": "ok"})


@router.get(
    "/readyz",
    operation_id="readyz",
    response_model=ReadyShown,
    responses=problems(503),
    summary="A catalogue is loaded and the database answers",
)
async def readyz(request: Request, snapshots: Snapshots) -> Response:
    """Ready to take traffic: a catalogue is in memory and its database answered when it was last asked."""
    if getattr(request.state, "draining", False):
        detail = "This process is draining: it stops, and takes no new work."
        return problem(503, code="draining", detail=detail, headers={"Retry-After": "2"})
    for _ in range(FIRST_LOOKS):
        if not snapshots.standing().loading:
            break
        await asyncio.sleep(LOOK_S)
    found = snapshots.standing()
    if found.market is None or found.why_not:
        log.warning("not_ready", cause=found.why_not)
        detail = f"The catalogue cannot be relied on: {found.why_not}."
        return problem(503, code="not-ready", detail=detail, headers={"Retry-After": "2"})
    told = {"status": "ready", "snapshot": found.market.version, "prices_as_of": found.market.prices_as_of}
    return JSONResponse(told)


def static_text(name: str) -> str:
    return resources.files("app.api").joinpath("static", name).read_text(encoding="utf-8")


def install(app: FastAPI) -> None:
    """Serve /docs and the page from the package's own files."""
    app.mount("/static", StaticFiles(packages=[("app.api", "static")]), name="static")
    pages = {"/": static_text("index.html"), "/docs": static_text("docs.html")}

    def page(text: str, policy: str) -> HTMLResponse:
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    @app.get("/", include_in_schema=False)
    def index() -> HTMLResponse:
        return page(pages["/"], CONTENT_POLICY)

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return page(pages["/docs"], DOCS_POLICY)

    @app.get("/problems", include_in_schema=False)
    def all_problems() -> HTMLResponse:
        return page(page_of_all(), CONTENT_POLICY)

    @app.get("/problems/{slug}", include_in_schema=False)
    def one_problem(slug: str) -> HTMLResponse:
        if slug not in kinds():
            raise NotFound("There is no problem of this type; /problems lists all.")
        return page(page_of(slug), CONTENT_POLICY)
