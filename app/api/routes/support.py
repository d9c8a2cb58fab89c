"""GET /catalog/support: whether an engine or framework runs on an accelerator, the rule that applies and its source."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response

from app.api.deps import Snapshots
from app.api.naming import NameResolver
from app.api.openapi import problem_responses
from app.api.schemas.support import SupportAnswer, SupportQuery, support_json
from app.sizing.hardware.answered import PairQuery, answer_pair
from app.sizing.model.tasks import ModelTask

router = APIRouter(prefix="/catalog", tags=["catalogue"])


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
    items = [support_json(f) for f in answer_pair(asked, catalog.software)]
    body = {"accelerator": slug, "engine": engine, "items": items}
    return Response(orjson.dumps(body), media_type="application/json")
