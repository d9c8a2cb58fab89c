"""A recommendation as a document: its identity, what it says, how it is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date
from typing import Any

import orjson
from pydantic import ValidationError

from app.api.doubts import doubts
from app.api.questions import recommend_question
from app.api.schemas.conversion import answer_json, notice_json
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.api.schemas.supply import supply_json
from app.api.sized import Document, json_bytes, within_size
from app.catalog.directory import Directory
from app.catalog.filing import Filing
from app.catalog.recommendations import AnswerStore, Kept
from app.catalog.snapshot import SnapshotStore
from app.compiled import engine_version
from app.errors import Unanswerable
from app.export.goods import title_of
from app.sizing.question import Question
from app.sizing.recommend import recommend
from app.sizing.result import Answer
from app.sizing.snapshot import Snapshot
from app.work import stage

NOT_STORED = {"Headroom-Stored": "false"}


class NoLongerAsked(Unanswerable):
    """A stored request that this version of the service does not take any more."""

    code = "request-no-longer-taken"


def identity_of(request: RecommendRequest, snapshot: str, today: date) -> tuple[str, bytes]:
    """Digest of the request, the snapshot, the day and the engine; the canonical request beside it. How an answer is
    shown and ranked by default is the same request where it is spelled out; a figure that is asked for is told as
    asked. What the caller files it under sets requests apart, as each is approved and ordered by itself; no figure of
    the answer follows from it.
    """
    said, usual = request.model_dump(mode="json", exclude_unset=True), RecommendRequest.model_fields
    told = {name: value for name, value in said.items() if value != usual[name].default}
    day = (request.as_of or today).isoformat()
    canonical = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(b"|".join((engine_version().encode(), snapshot.encode(), day.encode(), canonical)))
    return f"rec_{digest.hexdigest()[:28]}", canonical


def request_of(stored: Mapping[str, Any], **changes: Any) -> RecommendRequest:
    """The request of a stored answer, with fields replaced, or left out by None. Raises NoLongerAsked."""
    said = {name: value for name, value in {**stored["request"], **changes}.items() if value is not None}
    try:
        return RecommendRequest.model_validate_json(orjson.dumps(said), strict=True)
    except ValidationError:
        raise NoLongerAsked("This version of the service does not take the request of this answer any more.") from None


def answer_to(
    request: RecommendRequest, directory: Directory, snapshots: SnapshotStore, answers: AnswerStore, today: date
) -> Kept:
    """The stored answer to a request, or a new one."""
    market = directory.market
    identity, canonical = identity_of(request, market.version, today)
    known = answers.known(identity)
    if known is not None:
        return Kept(known, stored=True)

    with stage("read"):
        question = recommend_question(request, directory, snapshots, today)

    answer = recommend(question, market)

    return kept_answer(request, identity, canonical, question, answer, directory, answers)


def kept_answer(
    request: RecommendRequest,
    identity: str,
    canonical: bytes,
    question: Question,
    answer: Answer,
    directory: Directory,
    answers: AnswerStore,
) -> Kept:
    """A new answer as it is sent, stored under its identity with what its bills need."""
    market = directory.market
    with stage("words"):
        document = answer_json(
            answer,
            identity=identity,
            created_at=market.created_at,
            catalog=catalog_json(market),
            as_of=question.today,
            request=request.model_dump(mode="json", exclude_unset=True),
            trace=request.trace,
        )
        document = with_doubts(document, request)
        by_default = request.rejected_limit is None and not request.trace
        body = within_size(document) if by_default else json_bytes(document)
        supply = supply_json(question, answer, market, directory.purchasing)
    filing = Filing(
        label=request.label,
        reference=request.reference,
        cost_centre=request.cost_centre,
        model=question.workload.model.name,
        **_first(supply),
    )
    with stage("store"):
        return answers.keep(
            identity, snapshot=market.version, request=canonical, body=body, supply=json_bytes(supply), filing=filing
        )


def _first(supply: Document) -> dict[str, str | None]:
    """The first rank in few words; nothing where nothing was feasible."""
    lots = supply["ranks"][0] if supply["ranks"] else []
    types = dict.fromkeys(lot["accelerator"]["sku"] for lot in lots)
    return {"accelerators": " ".join(types) or None, "option": title_of(lots) or None}


def catalog_json(market: Snapshot) -> dict[str, str]:
    """Which catalogue an answer rests on."""
    return {"snapshot": market.version, "prices_as_of": market.prices_as_of}


def with_doubts(document: Document, request: RecommendRequest | EstimateRequest) -> Document:
    """The answer with what of the request looks as if another unit was meant, before all other warnings."""
    found = [notice_json(doubt) for doubt in doubts(request)]
    return {**document, "warnings": [*found, *document.get("warnings", [])]} if found else document
