"""GET /catalog/...: the catalog in pages, with filters and meanings; POST /catalog/models/inspect and /runnable; and
GET /accuracy.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response

from app.api.body import parse_body
from app.api.deps import (
    Held,
    LongSlot,
    RawBody,
    RawPastedBody,
    Sessions,
    ShortSlot,
    Snapshots,
    Today,
    resolve_model,
)
from app.api.naming import NameResolver, resolve_filters
from app.api.openapi import body_schema, problem_responses
from app.api.problems import unknown_cursor
from app.api.runnable import compute_runnable_models
from app.api.schemas import catalog as wire
from app.api.schemas import lists
from app.api.schemas.catalog import Page
from app.api.schemas.inspect import InspectResponse, inspection_json
from app.api.schemas.lists import AccuracyResponse, SupportAnswer, SupportQuery, SupportShown, accuracy_json
from app.api.schemas.market import MarketQuery, MarketResponse, market_json
from app.api.schemas.model import ImageSize
from app.api.schemas.requests import InspectRequest
from app.api.schemas.runnable import RunnableRequest, RunnableResponse
from app.catalog.lists import LISTS, list_page
from app.catalog.market import summarize_market
from app.catalog.queries import calibration_notes
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import moved_pointers
from app.sizing.accuracy import report_on
from app.sizing.assumptions import Assumptions
from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.stacks import PairQuery, answer_pair
from app.sizing.model.counts import example_contexts
from app.sizing.model.tasks import ModelTask
from app.sizing.snapshot import Catalog
from app.sizing.workload import adapted_matrices

accuracy_router = APIRouter(tags=["accuracy"])


@lru_cache(maxsize=1)
def accuracy_body(catalog: Catalog) -> bytes:
    """Returns the response for one catalog version. It is cached because it is large and the same for every client."""
    return orjson.dumps(accuracy_json(catalog.version, report_on(catalog.evidence.rows), calibration_notes()))


@accuracy_router.get(
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


router = APIRouter(prefix="/catalog", tags=["catalogue"])
LIST_PROBLEMS = problem_responses(400, 422, 503)


def decode_cursor(cursor: str | None, *, whole: bool, priced: bool = False) -> Any:
    """Returns the last key of the previous page; in a list by price, the last price and key. Raises MalformedRequest
    for a cursor that this service did not issue.
    """
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("utf-8")
        price, _, text = text.rpartition(" ") if priced else ("", "", text)
        last = int(text) if whole else text
        at = float(price) if priced else 0.0
    except (ValueError, UnicodeError, binascii.Error):
        raise unknown_cursor() from None
    if "\x00" in text or (isinstance(last, int) and not 0 <= last < 2**63):
        raise unknown_cursor()
    return (at, last) if priced else last


def _list_response(
    sessions: Sessions,
    catalog_store: Snapshots,
    filters: wire.Page,
    what: str,
    convert: wire.RowJson,
) -> Response:
    directory = catalog_store.directory()
    given = filters.model_dump(exclude={"limit", "cursor", "q", "sort"})
    search, sort = getattr(filters, "q", None), getattr(filters, "sort", None)
    last = decode_cursor(filters.cursor, whole=LISTS[what].has_integer_keys, priced=sort is not None)
    with sessions() as session:
        among = resolve_filters(session, what, given, directory)
        if what == "accelerators" and search is not None:
            among["slug"], search = directory.search_accelerators(search), None
        rows, following = list_page(
            session, what, allowed_values=among, name_query=search, after=last, limit=filters.limit, sort=sort
        )
        items = [convert(r) for r in rows]
    return page_response(items, following)


def page_response(items: Sequence[Any], following: str | None) -> Response:
    """Returns items with the cursor of the next page. Clients must revalidate the response on each use."""
    cursor = None if following is None else base64.urlsafe_b64encode(following.encode()).decode().rstrip("=")
    body = orjson.dumps({"items": items, "next_cursor": cursor})
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-cache"})


@router.get(
    "/accelerators",
    operation_id="listAccelerators",
    summary="List accelerator types",
    response_model=wire.AcceleratorList,
    responses=LIST_PROBLEMS,
)
def list_accelerators(
    filters: Annotated[wire.AcceleratorFilter, Query()], sessions: Sessions, catalog_store: Snapshots
) -> Response:
    """Lists accelerator types with dense compute rates, usable memory, interconnect, power and price range."""
    return _list_response(sessions, catalog_store, filters, "accelerators", wire.accelerator_json)


@router.get(
    "/systems",
    operation_id="listSystems",
    summary="List servers and workstations with accelerators",
    response_model=wire.SystemList,
    responses=LIST_PROBLEMS,
)
def list_systems(
    filters: Annotated[wire.SystemFilter, Query()], sessions: Sessions, catalog_store: Snapshots
) -> Response:
    """Lists servers, workstations, instance types and pod slices that contain accelerators."""
    return _list_response(sessions, catalog_store, filters, "systems", wire.system_json)


@router.get(
    "/offers",
    operation_id="listOffers",
    summary="List current hourly prices",
    response_model=wire.OfferList,
    responses=LIST_PROBLEMS,
)
def list_offers(
    filters: Annotated[wire.OfferFilter, Query()], sessions: Sessions, catalog_store: Snapshots
) -> Response:
    """Lists current prices by provider, region, instance type and pricing model."""
    return _list_response(sessions, catalog_store, filters, "offers", wire.offer_json)


@router.get(
    "/prices",
    operation_id="listPrices",
    summary="List price history",
    response_model=wire.PriceList,
    responses=LIST_PROBLEMS,
)
def list_prices(
    filters: Annotated[wire.PriceFilter, Query()], sessions: Sessions, catalog_store: Snapshots
) -> Response:
    """Lists earlier prices as observed at the time."""
    return _list_response(sessions, catalog_store, filters, "prices", wire.price_json)


@router.get(
    "/market",
    operation_id="market",
    summary="Get hourly prices by accelerator, class, provider, region or pricing model",
    response_model=MarketResponse,
    responses=problem_responses(422, 503),
)
def get_market(query: Annotated[MarketQuery, Query()], sessions: Sessions, catalog_store: Snapshots) -> Response:
    """Returns the lowest, median and highest price per accelerator and hour of each group, what compute, memory and
    bandwidth cost, and the trend within 30 and 90 days. Prices come from the current offers, observations of price
    feeds and the price history.
    """
    directory = catalog_store.directory()
    given = query.model_dump(exclude={"by", "accelerator_class"})
    if query.pricing_model is None and query.by != "pricing_model":
        given["pricing_model"] = PricingModel.ON_DEMAND.value
    with sessions() as session:
        wanted = resolve_filters(session, "offers", given, directory)
        market = summarize_market(session, directory.catalog, query.by, wanted, query.accelerator_class)
    body = market_json(query.by, directory.catalog.prices_as_of, market)
    return Response(orjson.dumps(body), media_type="application/json", headers={"Cache-Control": "no-cache"})


@router.get(
    "/models",
    operation_id="listModels",
    summary="List models and their aliases",
    response_model=wire.ModelList,
    responses=LIST_PROBLEMS,
)
def list_models(
    filters: Annotated[wire.ModelFilter, Query()], sessions: Sessions, catalog_store: Snapshots
) -> Response:
    """Lists models with their parameter counts and the aliases under which they can be requested."""
    return _list_response(sessions, catalog_store, filters, "models", wire.model_json)


@router.get(
    "/engines",
    operation_id="listEngines",
    summary="List engines by accelerator family and format",
    response_model=wire.EngineList,
    responses=LIST_PROBLEMS,
)
def list_engines(
    filters: Annotated[wire.EngineFilter, Query()], sessions: Sessions, catalog_store: Snapshots
) -> Response:
    """Lists engines and frameworks by accelerator family and phase, with the formats that they support end to end."""
    return _list_response(sessions, catalog_store, filters, "engines", wire.engine_json)


@router.get(
    "/assumptions",
    operation_id="listAssumptions",
    summary="List all assumptions",
    response_model=wire.AssumptionList,
    responses=problem_responses(400, 422),
)
def list_assumptions(page: Annotated[wire.Page, Query()]) -> Response:
    """Lists every assumed number with range, reason, source and date. To replace one in a request, set it by name in
    `assumptions`.
    """
    last = decode_cursor(page.cursor, whole=False) or ""
    items = [a for a in Assumptions.list_all() if str(a["name"]) > last]
    shown = items[: page.limit]
    more = len(items) > page.limit
    return page_response(shown, str(shown[-1]["name"]) if more else None)


@router.post(
    "/models/inspect",
    operation_id="inspectModel",
    summary="Count parameters, memory and FLOPs of a model",
    response_model=InspectResponse,
    openapi_extra=body_schema(InspectRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
)
async def inspect_model(raw: RawPastedBody, catalog_store: Snapshots, turn: ShortSlot) -> Response:
    """Returns all counts of a model given by name, by pasted configuration or by size."""
    return await turn.answer_shared(compute_inspection, raw, catalog_store)


def compute_inspection(raw: bytes, catalog_store: CatalogStore) -> Response:
    request = parse_body(raw, InspectRequest)
    catalog_store.catalog()
    assumed = Assumptions()
    model = resolve_model(request.model, catalog_store, assumed, pointer="#/model")
    with moved_pointers("#/workload/", "#/"):
        if request.sample is not None:
            model = request.sample.apply_to(model)
        targets = adapted_matrices(model, request.lora.target_modules)
    image = request.image or ImageSize(width=1024, height=1024)
    shown = inspection_json(
        model,
        contexts=request.context_tokens or example_contexts(model),
        rank=request.lora.rank or int(assumed.default_lora_rank),
        targets=targets,
        magnitudes=request.lora.use_dora,
        image=(image.width, image.height),
    )
    return Response(orjson.dumps(shown), media_type="application/json")


@router.post(
    "/models/runnable",
    operation_id="runnableModels",
    summary="List the models that your machines can run",
    response_model=RunnableResponse,
    openapi_extra=body_schema(RunnableRequest),
    responses=problem_responses(400, 404, 413, 415, 422, 429, 503),
)
async def list_runnable_models(
    raw: RawBody, catalog_store: Snapshots, turn: LongSlot, today: Today, held: Held
) -> Response:
    """Lists the language models of the catalog that machines of yours can serve and fine-tune, with the fastest way to
    do so and its speed, those with the most parameters first.
    """
    return await turn.answer_shared(compute_runnable_models, raw, catalog_store, today, held)


def _list_page(
    page: Page, catalog_index: CatalogIndex, key: str, items: Callable[[CatalogIndex], lists.Items]
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
    response_model=lists.ProviderList,
    responses=LIST_PROBLEMS,
)
def list_providers(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists the providers that rent out or sell machines: the values of constraints.providers and of a deployment's
    offer.
    """
    return _list_page(page, catalog_store.directory(), "provider", lists.providers_json)


@router.get(
    "/regions",
    operation_id="listRegions",
    summary="List provider regions",
    response_model=lists.RegionList,
    responses=LIST_PROBLEMS,
)
def list_regions(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists the providers' regions with their country: the values of constraints.regions."""
    return _list_page(page, catalog_store.directory(), "region", lists.regions_json)


@router.get(
    "/frameworks",
    operation_id="listFrameworks",
    summary="List training frameworks",
    response_model=lists.FrameworkList,
    responses=LIST_PROBLEMS,
)
def list_frameworks(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists training frameworks with their methods, runtimes and supported kinds of model."""
    return _list_page(page, catalog_store.directory(), "framework", lists.frameworks_json)


@router.get(
    "/schedulers",
    operation_id="listSchedulers",
    summary="List default scheduler settings of serving engines",
    response_model=lists.SchedulerList,
    responses=LIST_PROBLEMS,
)
def list_schedulers(page: Annotated[Page, Query()], catalog_store: Snapshots) -> Response:
    """Lists the default scheduler settings of each engine version: step sizes, policy, preemption and source."""
    return _list_page(page, catalog_store.directory(), "engine", lists.schedulers_json)


@router.get(
    "/support",
    operation_id="support",
    summary="Check support of an engine on an accelerator",
    response_model=SupportAnswer,
    responses=problem_responses(404, 422, 503),
)
def get_support(query: Annotated[SupportQuery, Query()], catalog_store: Snapshots) -> Response:
    """Returns whether the software runs: `documented` (a source says so), `expected` (derived from rules) or `refused`
    (a rule forbids it). Omitted filters (format, phase, method, kind of model) return every value.
    """
    naming = NameResolver(catalog_store.directory())
    engine, named = (
        naming.resolve_engine(query.engine, "engine"),
        naming.resolve_accelerator(query.accelerator, "accelerator"),
    )
    naming.raise_problems()
    assert named is not None
    catalog, (slug,) = naming.catalog, named.accelerators
    task = None if query.kind is None else ModelTask(query.kind)
    asked = PairQuery(catalog.accelerator_index[slug], engine, query.format, query.phase, query.method, task)
    items = [SupportShown.as_json(f) for f in answer_pair(asked, catalog.software)]
    body = {"accelerator": slug, "engine": engine, "items": items}
    return Response(orjson.dumps(body), media_type="application/json")
