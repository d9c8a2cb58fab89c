"""Prices a stored answer again with today's catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import orjson
from pydantic import ValidationError

from app.api.answering import UnsupportedStoredRequest, catalog_json
from app.api.questions import build_estimate_question
from app.api.schemas.conversion import estimate_json
from app.api.schemas.requests import EstimateRequest
from app.api.schemas.supply import estimate_supply
from app.catalog.directory import CatalogIndex
from app.catalog.snapshot import CatalogStore
from app.errors import AppError
from app.export.goods import build_bill
from app.export.lines import Bill
from app.export.money import Settlement
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Question
from app.sizing.result import Estimate

Document = Mapping[str, Any]
LISTING = ("provider", "region", "instance_type")
MACHINES = ("system", "nodes")


@dataclass(frozen=True, slots=True)
class MachinesToday:
    """Today's bill for the machines of a stored answer; `bill` is None if they have no price, and `text` says why."""

    bill: Bill | None
    text: str


def machines_today(
    stored: Document, rank: int, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> MachinesToday:
    """Returns today's price of the option at `rank`: with its original offer, or without it if the offer has ended."""
    deployment = stored["recommendations"][rank - 1]["deployment"]
    refused = ""
    for which, listing in enumerate(relaxed_deployments(deployment)):
        try:
            question, result = _estimate_today(stored, listing, catalog_index, catalog_store, today)
        except AppError as error:
            refused = refused or error.detail
            continue
        if result.cost is not None and result.cost.usd_per_hour is not None:
            text = "" if which == 0 else "The original offer has ended. These are the cheapest equivalent machines."
            return MachinesToday(_build_bill(stored, question, result, catalog_index, today), text)
    return MachinesToday(None, refused or "No current price exists for these machines.")


def relaxed_deployments(deployment: Document) -> Iterator[dict[str, Any]]:
    """Yields a deployment with its original offer, then with any provider, then with any pricing model."""
    yield {**deployment}
    yield drop_offer_fields(deployment, LISTING)
    yield drop_offer_fields(deployment, (*LISTING, "pricing_model"))


def drop_offer_fields(deployment: Document, of_offer: tuple[str, ...]) -> dict[str, Any]:
    """Returns a deployment, including its pools, without the given offer fields and without its system."""
    kept = {name: value for name, value in deployment.items() if name not in MACHINES}
    if deployment.get("offer") is not None:
        kept["offer"] = {name: value for name, value in deployment["offer"].items() if name not in of_offer}
    if deployment.get("pools") is not None:
        kept["pools"] = {name: drop_offer_fields(pool, of_offer) for name, pool in deployment["pools"].items()}
    return kept


def _estimate_today(
    stored: Document, deployment: Document, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> tuple[Question, Estimate]:
    stored_request = stored["request"]
    body = {name: stored_request[name] for name in ("workload", "economics", "assumptions") if name in stored_request}
    sure = {name: value for name, value in stored_request.get("constraints", {}).items() if name == "confidence"}
    try:
        whole = {**body, "deployment": deployment, "constraints": sure}
        request = EstimateRequest.model_validate_json(orjson.dumps(whole), strict=True)
    except ValidationError:
        raise UnsupportedStoredRequest("This version of the service no longer accepts the stored deployment.") from None
    question, named = build_estimate_question(request, catalog_index, catalog_store, today)
    return question, estimate_deployment(question, named, catalog_index.catalog)


def _build_bill(
    stored: Document, question: Question, result: Estimate, catalog_index: CatalogIndex, today: date
) -> Bill:
    """Returns the bill of a deployment as today's answer would show it."""
    catalog = catalog_index.catalog
    document = {
        "id": stored["id"],
        "created_at": catalog.created_at,
        "as_of": today.isoformat(),
        "catalog": catalog_json(catalog),
        "request": stored["request"],
        "recommendations": [estimate_json(result, trace=False)],
    }
    supply = orjson.loads(orjson.dumps(estimate_supply(result, question, catalog, catalog_index.purchasing)))
    return replace(build_bill(document, supply, 1, Settlement()), rank=1)
