"""GET /catalog/providers, /regions, /frameworks and /schedulers, below /catalog: lists of names and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from app.api.deps import Snapshots
from app.api.openapi import problems
from app.api.routes.catalog import after, page_of
from app.api.schemas import lists as wire
from app.api.schemas import schedulers
from app.api.schemas.catalog import Page
from app.catalog.directory import Directory

router = APIRouter(prefix="/catalog", tags=["catalogue"])
LIST_PROBLEMS = problems(400, 422, 503)


def _page(page: Page, directory: Directory, key: str, items: Callable[[Directory], wire.Items]) -> Response:
    """One page of a list in the order of a key."""
    last = after(page.cursor, whole=False)
    rest = [item for item in items(directory) if last is None or str(item[key]) > last]
    shown = rest[: page.limit]
    return page_of(shown, str(shown[-1][key]) if len(rest) > page.limit else None)


@router.get(
    "/providers",
    operation_id="listProviders",
    summary="Who rents machines out or sells them",
    response_model=wire.ProviderList,
    responses=LIST_PROBLEMS,
)
def list_providers(page: Annotated[Page, Query()], snapshots: Snapshots) -> Response:
    """Who rents machines out or sells them: what constraints.providers and offers may name."""
    return _page(page, snapshots.directory(), "provider", wire.providers_json)


@router.get(
    "/regions",
    operation_id="listRegions",
    summary="Where machines are rented out",
    response_model=wire.RegionList,
    responses=LIST_PROBLEMS,
)
def list_regions(page: Annotated[Page, Query()], snapshots: Snapshots) -> Response:
    """Regions as providers name them, with their country: what constraints.regions may name."""
    return _page(page, snapshots.directory(), "region", wire.regions_json)


@router.get(
    "/frameworks",
    operation_id="listFrameworks",
    summary="Training frameworks and how they keep memory",
    response_model=wire.FrameworkList,
    responses=LIST_PROBLEMS,
)
def list_frameworks(page: Annotated[Page, Query()], snapshots: Snapshots) -> Response:
    """What trains: methods, runtimes and kinds of model of each framework."""
    return _page(page, snapshots.directory(), "framework", wire.frameworks_json)


@router.get(
    "/schedulers",
    operation_id="listSchedulers",
    summary="How serving engines schedule by themselves",
    response_model=schedulers.SchedulerList,
    responses=LIST_PROBLEMS,
)
def list_schedulers(page: Annotated[Page, Query()], snapshots: Snapshots) -> Response:
    """How engines schedule when nothing is set, by version: step sizes, policy, preemption, and where it was read."""
    return _page(page, snapshots.directory(), "engine", schedulers.schedulers_json)
