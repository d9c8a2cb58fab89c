"""POST /recommendations/{id}/reprice: a stored answer at today's prices."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response

from app.api.answering import NOT_STORED, find_or_compute_answer, load_stored_request
from app.api.body import reject_body
from app.api.deps import Answers, ShortSlot, Snapshots, Today
from app.api.openapi import problem_responses
from app.api.repricing import machines_today
from app.api.schemas.repricing import RepriceQuery, RepriceResponse, repriced_json
from app.api.sized import json_bytes
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import CatalogStore
from app.export.first_place import explain_first, has_same_first, ranked_options
from app.export.goods import build_bill
from app.export.money import Settlement

router = APIRouter(tags=["sizing"])


@router.post(
    "/recommendations/{id}/reprice",
    operation_id="repriceRecommendation",
    response_model=RepriceResponse,
    responses=problem_responses(400, 404, 422, 429, 503),
    dependencies=[Depends(reject_body)],
    summary="Price a stored answer again",
)
async def post_reprice(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    asked: Annotated[RepriceQuery, Query()],
    answers: Answers,
    catalog_store: Snapshots,
    turn: ShortSlot,
    today: Today,
) -> Response:
    """Returns today's price of the stored option, line by line with the reason for each change, and today's answer to
    the same request, which is stored. The old answer and its status do not change. Repeated calls on one day return the
    same result. The call takes no body.
    """
    return await turn.answer_shared(compute_repricing, id, asked.rank, answers, catalog_store, today)


def compute_repricing(
    identity: str, rank: int, answers: AnswerStore, catalog_store: CatalogStore, today: date
) -> Response:
    """Prices the machines of a stored answer again and answers its request again."""
    stored, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(identity))
    directory = catalog_store.directory()
    machines = {}
    if stored["recommendations"] or rank > 1:
        then = build_bill(stored, supply, rank, Settlement())
        machines = {"machines": repriced_json(then, machines_today(stored, rank, directory, catalog_store, today))}

    kept = find_or_compute_answer(load_stored_request(stored, as_of=None), directory, catalog_store, answers, today)

    now = orjson.loads(kept.body)
    names = {a.slug: a.name for a in directory.catalog.accelerators}
    document = {
        "id": identity,
        "as_of": {"then": stored["as_of"], "now": today.isoformat()},
        "catalog": {"then": stored["catalog"], "now": now["catalog"]},
        **machines,
        "today": {
            "id": now["id"],
            "changed": not has_same_first(ranked_options(stored, names), ranked_options(now, names)),
            "why": list(explain_first(stored, now, names)),
        },
    }
    headers = None if kept.stored else NOT_STORED
    return Response(json_bytes(document), media_type="application/json", headers=headers)
