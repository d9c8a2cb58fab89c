"""GET /catalog/...: what exists and what it costs, with filters and pages; POST /catalog/models/inspect."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response

from app.api.body import parsed
from app.api.deps import AtTurn, RawBody, Sessions, Snapshots, resolve_model
from app.api.filters import values_of
from app.api.openapi import body_of, problems
from app.api.problems import unknown_cursor
from app.api.schemas import catalog as wire
from app.api.schemas.inspect import InspectResponse, inspection
from app.api.schemas.model import ImageSize
from app.api.schemas.requests import InspectRequest
from app.catalog.lists import LISTS, page
from app.catalog.snapshot import SnapshotStore
from app.sizing.assumptions import Assumptions
from app.sizing.model.counts import usual_contexts
from app.sizing.workload import adapted_matrices

router = APIRouter(prefix="/catalog", tags=["catalogue"])
LIST_PROBLEMS = problems(400, 422, 503)


def after(cursor: str | None, *, whole: bool) -> Any:
    """The last key of the page before; Malformed for a cursor this service did not give."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("utf-8")
        last = int(text) if whole else text
    except (ValueError, UnicodeError, binascii.Error):
        raise unknown_cursor() from None
    if "\x00" in text or (isinstance(last, int) and not 0 <= last < 2**63):
        raise unknown_cursor()
    return last


def _listed(
    sessions: Sessions,
    snapshots: Snapshots,
    filters: wire.Page,
    what: str,
    convert: wire.RowJson,
) -> Response:
    """One page as JSON."""
    directory = snapshots.directory()
    given = filters.model_dump(exclude={"limit", "cursor", "q"})
    search = getattr(filters, "q", None)
    last = after(filters.cursor, whole=LISTS[what].counts)
    with sessions() as session:
        among = values_of(session, what, given, directory)
        if what == "accelerators" and search is not None:
            among["slug"], search = directory.searched(search), None
        rows, following = page(session, what, among=among, named=search, after=last, limit=filters.limit)
        items = [convert(r) for r in rows]
    return page_of(items, following)


def page_of(items: Sequence[Any], following: str | None) -> Response:
    """Items with the cursor of the next page; a client asks each time whether they are what it has."""
    cursor = None if following is None else base64.urlsafe_b64encode(following.encode()).decode().rstrip("=")
    told = orjson.dumps({"items": items, "next_cursor": cursor})
    return Response(told, media_type="application/json", headers={"Cache-Control": "no-cache"})


@router.get(
    "/accelerators",
    operation_id="listAccelerators",
    summary="Accelerator types with rates, memory, links, power and price",
    response_model=wire.AcceleratorList,
    responses=LIST_PROBLEMS,
)
def list_accelerators(
    filters: Annotated[wire.AcceleratorFilter, Query()], sessions: Sessions, snapshots: Snapshots
) -> Response:
    """Accelerator types with dense rates, memory as reported, links, power and price range."""
    return _listed(sessions, snapshots, filters, "accelerators", wire.accelerator_json)


@router.get(
    "/systems",
    operation_id="listSystems",
    summary="Machines that carry accelerators",
    response_model=wire.SystemList,
    responses=LIST_PROBLEMS,
)
def list_systems(filters: Annotated[wire.SystemFilter, Query()], sessions: Sessions, snapshots: Snapshots) -> Response:
    """Servers, workstations, instance types and pod slices that carry accelerators."""
    return _listed(sessions, snapshots, filters, "systems", wire.system_json)


@router.get(
    "/offers",
    operation_id="listOffers",
    summary="Current prices by the hour",
    response_model=wire.OfferList,
    responses=LIST_PROBLEMS,
)
def list_offers(filters: Annotated[wire.OfferFilter, Query()], sessions: Sessions, snapshots: Snapshots) -> Response:
    """Current prices by provider, region, instance type and pricing model."""
    return _listed(sessions, snapshots, filters, "offers", wire.offer_json)


@router.get(
    "/prices",
    operation_id="listPrices",
    summary="Earlier prices as they were observed",
    response_model=wire.PriceList,
    responses=LIST_PROBLEMS,
)
def list_prices(filters: Annotated[wire.PriceFilter, Query()], sessions: Sessions, snapshots: Snapshots) -> Response:
    """Earlier prices as they were observed."""
    return _listed(sessions, snapshots, filters, "prices", wire.price_json)


@router.get(
    "/models",
    operation_id="listModels",
    summary="Models and the names they are found by",
    response_model=wire.ModelList,
    responses=LIST_PROBLEMS,
)
def list_models(filters: Annotated[wire.ModelFilter, Query()], sessions: Sessions, snapshots: Snapshots) -> Response:
    """Models with their parameter counts and the aliases people type."""
    return _listed(sessions, snapshots, filters, "models", wire.model_json)


@router.get(
    "/engines",
    operation_id="listEngines",
    summary="Which engines run where, with which formats",
    response_model=wire.EngineList,
    responses=LIST_PROBLEMS,
)
def list_engines(filters: Annotated[wire.EngineFilter, Query()], sessions: Sessions, snapshots: Snapshots) -> Response:
    """Engines and frameworks by accelerator family and phase, with the formats that run end to end."""
    return _listed(sessions, snapshots, filters, "engines", wire.engine_json)


@router.get(
    "/assumptions",
    operation_id="listAssumptions",
    summary="Every number that was chosen rather than derived",
    response_model=wire.AssumptionList,
    responses=problems(400, 422),
)
def list_assumptions(page: Annotated[wire.Page, Query()]) -> Response:
    """Every number the engine chose rather than derived: range, reason, source and date. A request replaces any of them
    under `assumptions`, by its name.
    """
    last = after(page.cursor, whole=False) or ""
    items = [a for a in Assumptions.all() if str(a["name"]) > last]
    shown = items[: page.limit]
    more = len(items) > page.limit
    return page_of(shown, str(shown[-1]["name"]) if more else None)


@router.post(
    "/models/inspect",
    operation_id="inspectModel",
    summary="Count the parameters, memory and FLOPs of a model",
    response_model=InspectResponse,
    openapi_extra=body_of(InspectRequest),
    responses=problems(400, 404, 413, 415, 422, 429, 503),
)
async def inspect_model(raw: RawBody, snapshots: Snapshots, turn: AtTurn) -> Response:
    """All counts of a model: a name, a pasted configuration, or a size."""
    return await turn.shared(inspected, raw, snapshots)


def inspected(raw: bytes, snapshots: SnapshotStore) -> Response:
    """What is counted of a model."""
    request = parsed(raw, InspectRequest)
    snapshots.market()
    assumed = Assumptions()
    model = resolve_model(request.model, snapshots, assumed, pointer="#/model")
    if request.sample is not None:
        model = request.sample.applied_to(model)
    targets = adapted_matrices(model, request.lora.target_modules)
    image = request.image or ImageSize(width=1024, height=1024)
    shown = inspection(
        model,
        contexts=request.context_tokens or usual_contexts(model),
        rank=request.lora.rank or int(assumed.default_lora_rank),
        targets=targets,
        image=(image.width, image.height),
    )
    return Response(orjson.dumps(shown), media_type="application/json")
