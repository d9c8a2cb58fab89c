"""Builds, identifies and stores recommendations."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date
from typing import Any

import orjson
from pydantic import ValidationError

from app.api.doubts import input_warnings
from app.api.questions import build_recommend_question
from app.api.schemas.conversion import answer_json, notice_json
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.api.schemas.supply import supply_json
from app.api.sized import Document, fit_to_size, json_bytes
from app.catalog.directory import CatalogIndex
from app.catalog.filing import Filing
from app.catalog.recommendations import AnswerStore, StoredAnswer
from app.catalog.snapshot import CatalogStore
from app.compiled import engine_version
from app.errors import Unanswerable
from app.export.goods import option_title
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.snapshot import Catalog
from app.work import stage

NOT_STORED = {"Headroom-Stored": "false"}


class UnsupportedStoredRequest(Unanswerable):
    """Raised for a stored request that this version of the service no longer accepts."""

    code = "request-no-longer-taken"


def identify_request(request: RecommendRequest, snapshot: str, today: date) -> tuple[str, bytes]:
    """Returns the id of a recommendation and the canonical request, as JSON bytes.

    The id is a digest of engine, catalog version, day and canonical request. The canonical request contains the fields
    that differ from their defaults, so a default that is spelled out does not change the id. A figure written in
    another way does change it, because answers echo the request as sent. Labels and references are included: each filed
    answer is approved and ordered on its own, although no figure depends on them.
    """
    explicit, known = request.model_dump(mode="json", exclude_unset=True), RecommendRequest.model_fields
    changed = {name: value for name, value in explicit.items() if value != known[name].default}
    day = (request.as_of or today).isoformat()
    canonical = orjson.dumps(changed, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(b"|".join((engine_version().encode(), snapshot.encode(), day.encode(), canonical)))
    return f"rec_{digest.hexdigest()[:28]}", canonical


def load_stored_request(stored: Mapping[str, Any], **changes: Any) -> RecommendRequest:
    """Returns the request of a stored answer, with `changes` applied; a change to None removes the field. Raises
    UnsupportedStoredRequest.
    """
    fields = {name: value for name, value in {**stored["request"], **changes}.items() if value is not None}
    try:
        return RecommendRequest.model_validate_json(orjson.dumps(fields), strict=True)
    except ValidationError:
        raise UnsupportedStoredRequest(
            "This version of the service no longer accepts the stored request of this answer."
        ) from None


def find_or_compute_answer(
    request: RecommendRequest,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    answers: AnswerStore,
    today: date,
) -> StoredAnswer:
    """Returns the stored answer to a request, or computes and stores a new one."""
    catalog = catalog_index.catalog
    identity, canonical = identify_request(request, catalog.version, today)
    known = answers.find_answer(identity)
    if known is not None:
        return StoredAnswer(known, stored=True)

    with stage("read"):
        question = build_recommend_question(request, catalog_index, catalog_store, today)

    answer = recommend_hardware(question, catalog)

    return store_answer(request, identity, canonical, question, answer, catalog_index, answers)


def store_answer(
    request: RecommendRequest,
    identity: str,
    canonical: bytes,
    question: Question,
    answer: Answer,
    catalog_index: CatalogIndex,
    answers: AnswerStore,
) -> StoredAnswer:
    """Builds a new answer and stores it under its id, together with the data that bills of materials need."""
    catalog = catalog_index.catalog
    with stage("words"):
        document = answer_json(
            answer,
            identity=identity,
            created_at=catalog.created_at,
            catalog=catalog_json(catalog),
            as_of=question.today,
            request=request.model_dump(mode="json", exclude_unset=True),
            trace=request.trace,
        )
        document = with_input_warnings(document, request)
        by_default = request.rejected_limit is None and not request.trace
        body = fit_to_size(document) if by_default else json_bytes(document)
        supply = supply_json(question, answer, catalog, catalog_index.purchasing)
    filing = Filing(
        label=request.label,
        reference=request.reference,
        cost_centre=request.cost_centre,
        model=question.workload.model.name,
        **_first_rank_summary(supply),
    )
    with stage("store"):
        return answers.store_answer(
            identity, snapshot=catalog.version, request=canonical, body=body, supply=json_bytes(supply), filing=filing
        )


def _first_rank_summary(supply: Document) -> dict[str, str | None]:
    """Returns accelerators and title of the first-ranked option for the filing list; None where no option is
    feasible.
    """
    lots = supply["ranks"][0] if supply["ranks"] else []
    types = dict.fromkeys(lot["accelerator"]["sku"] for lot in lots)
    return {"accelerators": " ".join(types) or None, "option": option_title(lots) or None}


def catalog_json(catalog: Catalog) -> dict[str, str]:
    """Returns the catalog version and price date that an answer is based on."""
    return {"snapshot": catalog.version, "prices_as_of": catalog.prices_as_of}


def with_input_warnings(document: Document, request: RecommendRequest | EstimateRequest) -> Document:
    """Adds the warnings about suspicious input values before all other warnings of an answer."""
    warnings = [notice_json(doubt) for doubt in input_warnings(request)]
    return {**document, "warnings": [*warnings, *document.get("warnings", [])]} if warnings else document
