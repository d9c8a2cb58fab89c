"""Which models of the catalog an inventory, or hardware for sale within limits, can run, for what, and how fast."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from fastapi.responses import Response
from pydantic import TypeAdapter

from app.api.answering import json_bytes
from app.api.body import parse_body
from app.api.checks import check_constraints
from app.api.largest_model import list_language_models
from app.api.naming import resolve_recommend_names
from app.api.problems import unknown_cursor
from app.api.questions import build_recommend_question, index_on_day, with_limited_rents, with_stored_inventory
from app.api.schemas.requests import RecommendRequest, WorkloadSpec
from app.api.schemas.runnable import RunnableRequest, Use, runnable_model_json
from app.catalog.holdings import Holdings
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError, Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.hardware.parts import OwnedHardware
from app.sizing.inventory import owned_memory_bytes, refuse_exclusion, restrict_to_inventory, stocked_catalog
from app.sizing.question import Objective
from app.sizing.recommend import recommend_from
from app.sizing.result import Estimate
from app.sizing.serving.plans import least_weights_bytes
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload
from app.work import count_work

MOST_PAGE_WORK = 700.0  # of the searches of one page; those of its first model may take more
TUNED_TOKENS = 1e6  # of the fine-tuning runs whose speed is shown: little enough for the usual deadline
WORKLOAD: TypeAdapter[Any] = TypeAdapter(WorkloadSpec)


def compute_runnable_models(raw: bytes, catalog_store: CatalogStore, today: date, holdings: Holdings) -> Response:
    """Computes one page of the models that an inventory or limits allow, those with the most parameters first.

    A page ends early where its searches take MOST_PAGE_WORK, so it may have fewer items than the limit.
    """
    request = parse_body(raw, RunnableRequest)
    index = index_on_day(catalog_store.directory(holdings.tenant), None, today, holdings)
    template = with_inventory(request, holdings)
    inventory = check_request(template, index)
    stocked = stocked_catalog(index.catalog, inventory, today.isoformat()) if inventory else index.catalog
    room_bytes = owned_memory_bytes(stocked, Assumptions()) if inventory else math.inf
    owned = Counter[str]()
    for one in inventory:
        owned[one.accelerator] += one.count
    items, cursor, done, most = list[dict[str, Any]](), request.cursor, 0.0, 0.0
    for facts in list_candidates(request, catalog_store):
        if len(items) == request.limit or done + most > MOST_PAGE_WORK:
            break
        found = dict[Use, Estimate]()
        with count_work(math.inf) as account:
            for use in Use:
                asked = template.model_copy(update=use_fields(request, facts["hf_id"], use))
                best = find_best(asked, index, catalog_store, today, stocked, room_bytes, found.get(Use.ONE_STREAM))
                if best is not None:
                    found[use] = fill_machines(best, owned) if use is Use.THROUGHPUT else best
                if not found:
                    break  # no other use needs less memory
        cursor, done, most = facts["hf_id"], done + account.done, max(most, account.done)
        if found:
            items.append(runnable_model_json(facts, found))
    else:
        cursor = None
    return Response(json_bytes({"items": items, "next_cursor": cursor}), media_type="application/json")


def fill_machines(estimate: Estimate, owned: Mapping[str, int]) -> Estimate:
    """Returns a service without limits on all owned machines of its type: replicas side by side add up."""
    d, speed = estimate.deployment, estimate.performance
    times = owned.get(d.accelerator, 0) // (d.total_accelerators or 1)
    if times < 2 or speed is None or speed.output_tokens_per_s is None or d.replicas is None:
        return estimate
    low, high = speed.interval.low * times, speed.interval.high * times
    more = replace(
        speed,
        output_tokens_per_s=speed.output_tokens_per_s * times,
        interval=replace(speed.interval, low=low, high=high),
    )
    fleet = replace(d, replicas=d.replicas * times, total_accelerators=(d.total_accelerators or 0) * times)
    return replace(estimate, deployment=fleet, performance=more)


def list_candidates(request: RunnableRequest, catalog_store: CatalogStore) -> list[Mapping[str, Any]]:
    """Returns the registry entries of the models to try, those with the most parameters first. Raises MalformedRequest
    for a cursor that names no model.
    """
    words = (request.q or "").casefold().split()
    ordered = list_language_models(catalog_store)
    if request.cursor is not None:
        ids = [facts["hf_id"] for facts in ordered]
        if request.cursor not in ids:
            raise unknown_cursor()
        ordered = ordered[ids.index(request.cursor) + 1 :]
    return [facts for facts in ordered if all(word in facts["hf_id"].casefold() for word in words)]


def with_inventory(request: RunnableRequest, holdings: Holdings) -> RecommendRequest:
    """Returns a request for one stream of any model on the inventory alone; without one, on hardware for sale. Raises
    Unanswerable if there is neither an inventory nor a limit.
    """
    template = RecommendRequest(workload=use_fields(request, "any", Use.ONE_STREAM)["workload"], limit=1, include=[])
    given = {"inventory": request.inventory, "constraints": request.constraints}
    template = with_stored_inventory(template.model_copy(update=given), holdings)
    if not template.inventory and template.is_limited:
        return with_limited_rents(template)
    if not template.inventory:
        detail = (
            "There is no hardware to run models on. List yours, store it with POST /catalog/inventory, or set "
            "max_purchase_usd, max_usd_per_hour, max_power_kw or max_accelerators in constraints."
        )
        raise Unanswerable(detail, errors=[{"pointer": "#/inventory", "detail": detail}])
    alone = template.constraints.model_copy(update={"inventory": "only"})
    return template.model_copy(update={"constraints": alone})


def check_request(template: RecommendRequest, index: CatalogIndex) -> tuple[OwnedHardware, ...]:
    """Returns the inventory. Raises the errors of inventory and constraints, which are the same for every model."""
    named, by_pattern, inventory = resolve_recommend_names(template, index)
    check_constraints(named.constraints, template.constraints, by_pattern, index)
    return inventory


def use_fields(request: RunnableRequest, model: str, use: Use) -> dict[str, Any]:
    """Returns the fields of a request that recommends the fastest way to use a model."""
    lengths = {"input_tokens": request.input_tokens, "output_tokens": request.output_tokens}
    if use is Use.ONE_STREAM:
        served = {"traffic": {**lengths, "batch": 1}, "slo": {"tpot_ms": 1e3 / request.min_tokens_per_s}}
        body = {"phase": "inference", "model": model, **served}
    elif use is Use.THROUGHPUT:
        body = {"phase": "inference", "model": model, "traffic": {**lengths, "offline": True}}
    else:
        run = {"training_tokens": TUNED_TOKENS, "sequence_length": request.sequence_length}
        body = {"phase": "fine_tuning", "model": model, "method": use.value, **run}
    objective = Objective.THROUGHPUT if use is Use.THROUGHPUT else Objective.LATENCY
    return {"workload": WORKLOAD.validate_python(body), "objective": objective.value}


def find_best(
    asked: RecommendRequest,
    index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
    stocked: Catalog,
    room_bytes: float,
    stream: Estimate | None,
) -> Estimate | None:
    """Returns the fastest deployment on the inventory or, without one, within the limits; None if
    nothing can run this. Raises Unanswerable if the constraints exclude the inventory.

    Parameters:
        stocked: the catalog with the machines of the inventory alone; without one, the whole catalog.
        room_bytes: upper bound of what all these machines hold, B.
        stream: the deployment for one stream, whose weight format is tried if no usual one fits.
    """
    try:
        question = build_recommend_question(asked, index, catalog_store, today)
    except AppError:
        return None  # the model has no such use, or takes no sequence of this length
    own = restrict_to_inventory(question, index.catalog) if question.inventory else question
    if own is None:
        refuse_exclusion(question, index.catalog)
        return None
    if stream is None and least_weights_bytes(own.workload.model, own.constraints) > room_bytes:
        return None
    variants = [replace(own, first_only=True)]
    if stream is not None and isinstance(own.workload, InferenceWorkload):
        limits = replace(own.constraints, weight_formats=(stream.deployment.weight_format or "",))
        variants.append(replace(variants[0], constraints=limits))
    for variant in variants:
        try:
            found = recommend_from(variant, stocked)
        except AppError:
            break
        if found.recommendations:
            return found.recommendations[0].estimate
    return None
