"""GET /catalog/providers, /regions, /frameworks and /schedulers: names that requests accept, and their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from app.api.deps import Snapshots
from app.api.openapi import problem_responses
from app.api.routes.catalog import decode_cursor, page_response
from app.api.schemas import lists as wire
from app.api.schemas import schedulers
from app.api.schemas.catalog import Page
from app.catalog.directory import CatalogIndex

router = APIRouter(prefix="/catalog", tags=["catalogue"])
LIST_PROBLEMS = problem_responses(400, 422, 503)


def _list_page(
    page: Page, catalog_index: CatalogIndex, key: str, items: Callable[[CatalogIndex], wire.Items]
) -> Response:
    """Returns one page of a list, ordered by `key`."""
    last = decode_cursor(page.cursor, whole=False)
    rest = [item for item in items(catalog_index) if last is None or str(item[key]) > last]
    shown = rest[: page.limit]
    return page_response(shown, str(shown[-1][key]) if len(rest) > page.limit else None)


@router.get(
    "/providers",
    operation_id="listProviders",
    summary="List hardware providers",
    response_model=wire.ProviderList,
    responses=LIST_PROBLEMS,
)
def list_providers(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists the providers that rent out or sell machines: the values of constraints.providers and of a deployment's
    offer.
    """
    return _list_page(page, catalog_store.directory(), "provider", wire.providers_json)


@router.get(
    "/regions",
    operation_id="listRegions",
    summary="List provider regions",
    response_model=wire.RegionList,
    responses=LIST_PROBLEMS,
)
def list_regions(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists the providers' regions with their country: the values of constraints.regions."""
    return _list_page(page, catalog_store.directory(), "region", wire.regions_json)


@router.get(
    "/frameworks",
    operation_id="listFrameworks",
    summary="List training frameworks",
    response_model=wire.FrameworkList,
    responses=LIST_PROBLEMS,
)
def list_frameworks(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists training frameworks with their methods, runtimes and supported kinds of model."""
    return _list_page(page, catalog_store.directory(), "framework", wire.frameworks_json)


@router.get(
    "/schedulers",
    operation_id="listSchedulers",
    summary="List default scheduler settings of serving engines",
    response_model=schedulers.SchedulerList,
    responses=LIST_PROBLEMS,
)
def list_schedulers(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists the default scheduler settings of each engine version: step sizes, policy, preemption and source."""
    return _list_page(page, catalog_store.directory(), "engine", schedulers.schedulers_json)
