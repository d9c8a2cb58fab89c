"""Judges whether a stored plan still holds at today's catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from app.api.answering import StoredDocument, UnsupportedStoredRequest, estimate_today, is_owned, load_stored_request
from app.api.questions import build_recommend_question
from app.api.schemas.answers import group_deployment_json
from app.api.schemas.conversion import estimate_json
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError
from app.export.lines import MIXED_FLEET
from app.export.repricing import RankedOption, fleet_option, ranked_options
from app.export.standing import (
    Standing,
    age_findings,
    cheaper_finding,
    is_cheaper,
    offer_findings,
    unchanged_finding,
)
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate


def judge_standing(
    stored: StoredDocument, rank: int, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> Standing:
    """Returns the standing of the plan at `rank`, or of the mixed fleet, which the answer must have."""
    names = {a.slug: a.name for a in catalog_index.catalog.accelerators}
    if rank == MIXED_FLEET:
        plan, now, priced = _price_fleet(stored, catalog_index, catalog_store, today, names)
    else:
        plan, now, priced = _price_rank(stored, rank, catalog_index, catalog_store, today, names)
    asked, cheapest = _answer_today(stored, catalog_index, catalog_store, today, names)
    share = asked.assumptions.near_tie_share
    reference = plan if now is None else now
    if cheapest is not None and not is_cheaper(cheapest, reference, share):
        cheapest = None
    findings = [*offer_findings(plan, now)]
    limit = asked.constraints.max_price_age_days or asked.assumptions.stale_price_days
    for current in priced:
        findings += age_findings(None if current.cost is None else current.cost.price, limit)
    if cheapest is not None:
        findings.append(cheaper_finding(cheapest, reference, share))
    return Standing(plan, now, cheapest, tuple(findings or [unchanged_finding(plan)]))


# A plan as stored, the same at today's price of exactly its offers, and today's estimates of the machines for sale.
PricedPlan = tuple[RankedOption, RankedOption | None, Sequence[Estimate]]


def _price_rank(
    stored: StoredDocument,
    rank: int,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
    names: Mapping[str, str],
) -> PricedPlan:
    ranked = stored["recommendations"][rank - 1]
    plan = ranked_options({"recommendations": [ranked]}, names)[0]
    if is_owned(ranked["deployment"]):
        return plan, plan, ()
    current = _price_plan(stored, ranked["deployment"], 1.0, catalog_index, catalog_store, today)
    return (plan, None, ()) if current is None else (plan, _option_of(current, rank, names), (current,))


def _price_fleet(
    stored: StoredDocument,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
    names: Mapping[str, str],
) -> PricedPlan:
    """The mixed fleet: its owned groups keep their cost."""
    groups, current = stored["mixed_fleet"]["groups"], list[Estimate]()
    plan = fleet_option(stored["mixed_fleet"], names)
    usd_per_hour = 0.0
    for group in groups:
        if group["owned"]:
            usd_per_hour += group["usd_per_hour"]
            continue
        found = _price_plan(stored, group["deployment"], group["share"], catalog_index, catalog_store, today)
        if found is None or found.cost is None or found.cost.usd_per_hour is None:
            return plan, None, ()
        usd_per_hour += found.cost.usd_per_hour
        current.append(found)
    return plan, replace(plan, amount=usd_per_hour), current


def _price_plan(
    stored: StoredDocument,
    deployment: StoredDocument,
    share: float,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
) -> Estimate | None:
    """Returns today's estimate of a plan with exactly its offers at a share of the load; None if an offer has ended."""
    try:
        found = estimate_today(stored, deployment, catalog_index, catalog_store, today, share)[1]
    except UnsupportedStoredRequest:
        raise
    except AppError:
        return None
    return found if found.cost is not None and found.cost.usd_per_hour is not None else None


def _answer_today(
    stored: StoredDocument,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
    names: Mapping[str, str],
) -> tuple[Question, RankedOption | None]:
    """Returns the stored question, and the plan that ranks first for it today, or the mixed fleet that costs less; None
    if no plan meets the limits, or if the answer sought the largest load, which another plan would carry at another
    cost.
    """
    request = load_stored_request(stored, as_of=None)
    question = build_recommend_question(request, catalog_index, catalog_store, today)
    if request.maximize is not None:
        return question, None
    answer = recommend_hardware(replace(question, first_only=True), catalog_index.catalog)
    if answer.mixed_fleet is not None:
        fleet = answer.mixed_fleet
        groups = [{"deployment": group_deployment_json(group.first.estimate.deployment)} for group in fleet.groups]
        return question, fleet_option({"groups": groups, "usd_per_hour": fleet.usd_per_hour}, names)
    first = next((_option_of(r.estimate, 1, names) for r in answer.recommendations), None)
    return question, first


def _option_of(estimate: Estimate, rank: int, names: Mapping[str, str]) -> RankedOption:
    document = {"rank": rank, **estimate_json(estimate, trace=False, neighbours=0, simulated=False)}
    return ranked_options({"recommendations": [document]}, names)[0]
