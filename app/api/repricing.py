"""A stored answer at prices of today: what its machines come to, and what would be recommended in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import orjson
from pydantic import ValidationError

from app.api.answering import NoLongerAsked, catalog_json
from app.api.questions import estimate_question
from app.api.schemas.conversion import estimate_json
from app.api.schemas.requests import EstimateRequest
from app.api.schemas.supply import estimate_supply
from app.catalog.directory import Directory
from app.catalog.snapshot import SnapshotStore
from app.errors import AppError
from app.export.goods import bill_of
from app.export.lines import Bill
from app.export.money import Settlement
from app.sizing.estimate import estimate
from app.sizing.question import Question
from app.sizing.result import Estimate

Document = Mapping[str, Any]
LISTING = ("provider", "region", "instance_type")
MACHINES = ("system", "nodes")


@dataclass(frozen=True, slots=True)
class MachinesToday:
    """The machines of then as they are had today: `bill` is None where nobody prices them, and `text` says so."""

    bill: Bill | None
    text: str


def machines_today(
    stored: Document, rank: int, directory: Directory, snapshots: SnapshotStore, today: date
) -> MachinesToday:
    """The option of a rank, with its offer; without it where that is no longer on sale."""
    deployment = stored["recommendations"][rank - 1]["deployment"]
    refused = ""
    for which, listing in enumerate(listings(deployment)):
        try:
            question, found = _judged(stored, listing, directory, snapshots, today)
        except AppError as error:
            refused = refused or error.detail
            continue
        if found.cost is not None and found.cost.usd_per_hour is not None:
            text = "" if which == 0 else "It is no longer sold as it was: these are the least expensive of the same."
            return MachinesToday(_bill(stored, question, found, directory, today), text)
    return MachinesToday(None, refused or "Nobody prices these machines today.")


def listings(deployment: Document) -> Iterator[dict[str, Any]]:
    """A deployment as it was had; had the same way from anybody; had any way."""
    yield {**deployment}
    yield without(deployment, LISTING)
    yield without(deployment, (*LISTING, "pricing_model"))


def without(deployment: Document, of_offer: tuple[str, ...]) -> dict[str, Any]:
    """A deployment, and each of its pools, without parts of their offer and without the machine that was sold so."""
    kept = {name: value for name, value in deployment.items() if name not in MACHINES}
    if deployment.get("offer") is not None:
        kept["offer"] = {name: value for name, value in deployment["offer"].items() if name not in of_offer}
    if deployment.get("pools") is not None:
        kept["pools"] = {name: without(pool, of_offer) for name, pool in deployment["pools"].items()}
    return kept


def _judged(
    stored: Document, deployment: Document, directory: Directory, snapshots: SnapshotStore, today: date
) -> tuple[Question, Estimate]:
    asked = stored["request"]
    body = {name: asked[name] for name in ("workload", "economics", "assumptions") if name in asked}
    sure = {name: value for name, value in asked.get("constraints", {}).items() if name == "confidence"}
    try:
        whole = {**body, "deployment": deployment, "constraints": sure}
        request = EstimateRequest.model_validate_json(orjson.dumps(whole), strict=True)
    except ValidationError:
        raise NoLongerAsked("This version of the service does not take the deployment of then any more.") from None
    question, named = estimate_question(request, directory, snapshots, today)
    return question, estimate(question, named, directory.market)


def _bill(stored: Document, question: Question, found: Estimate, directory: Directory, today: date) -> Bill:
    """The bill of a deployment as an answer of today would have it."""
    market = directory.market
    document = {
        "id": stored["id"],
        "created_at": market.created_at,
        "as_of": today.isoformat(),
        "catalog": catalog_json(market),
        "request": stored["request"],
        "recommendations": [estimate_json(found, trace=False)],
    }
    supply = orjson.loads(orjson.dumps(estimate_supply(found, question, market, directory.purchasing)))
    return replace(bill_of(document, supply, 1, Settlement()), rank=1)
