"""Converts answers of the sizing engine to the JSON that is sent.

Answers are built as plain dictionaries and serialized directly, because building a validated object for every fact
costs more than the search. Each field is converted as its schema declares it. Tests validate each answer against its
schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.api.schemas.answers import (
    EstimateShown,
    NearestShown,
    PerformanceShown,
    RecommendResponse,
    metric_definitions,
)
from app.api.schemas.base import round_value
from app.api.schemas.filing import lots_json, starts_json
from app.catalog.purchasing import Purchasing
from app.sizing.inventory import stocked_catalog
from app.sizing.question import Question
from app.sizing.result import Answer, Estimate, MixedFleet
from app.sizing.snapshot import Catalog
from app.sizing.whatif.mixed import at_share


def estimate_json(e: Estimate, *, trace: bool, neighbours: int = 3, simulated: bool = True) -> dict[str, Any]:
    """An estimate as JSON; `simulated` adds the simulation results, if there are any."""
    given: dict[str, Any] = {"nearest_measurements": [NearestShown.as_json(n) for n in e.nearest[:neighbours]]}
    if e.performance is not None and not simulated:
        given["performance"] = PerformanceShown.as_json(e.performance, without=("simulation", "load_curve"))
    without = (*(() if trace else ("trace",)), *(() if neighbours > 1 else ("metrics",)))
    return EstimateShown.as_json(e, given=given, without=without)


def answer_json(
    answer: Answer,
    *,
    identity: str,
    created_at: str,
    catalog: Mapping[str, str],
    as_of: str,
    request: Mapping[str, Any],
    trace: bool,
) -> dict[str, Any]:
    """A whole recommendation as it is sent and stored."""
    metrics = metric_definitions(answer.recommendations[0].estimate) if answer.recommendations else None
    given = {
        "id": identity,
        "created_at": created_at,
        "catalog": dict(catalog),
        "as_of": as_of,
        "request": dict(request),
        "recommendations": [
            {
                "rank": r.rank,
                "score": round_value(r.score),
                **estimate_json(r.estimate, trace=trace, neighbours=1, simulated=r.rank == 1),
            }
            for r in answer.recommendations
        ],
        **({} if metrics is None else {"metrics": metrics}),
    }
    return RecommendResponse.as_json(answer, given=given)


def fleet_json(question: Question, fleet: MixedFleet, catalog: Catalog, purchasing: Purchasing) -> list[dict[str, Any]]:
    """The groups of a mixed fleet with their lots and launch configurations, each at its share of the load."""
    stocked = stocked_catalog(catalog, question.inventory, question.today)
    groups = []
    for group in fleet.groups:
        own, estimate = (stocked if group.owned else catalog), group.first.estimate
        groups.append(
            {
                "option": estimate_json(estimate, trace=False, neighbours=0, simulated=False),
                "lots": lots_json(estimate, question, own, purchasing),
                "starts": starts_json(at_share(question, group.share), estimate, own),
                "owned": group.owned,
                "share": group.share,
            }
        )
    return groups
