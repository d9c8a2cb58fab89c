"""Judges whether a stored plan still holds at today's catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from app.api.answering import StoredDocument, UnsupportedStoredRequest, estimate_today, load_stored_request
from app.api.questions import build_recommend_question
from app.api.schemas.answers import group_deployment_json
from app.api.schemas.conversion import estimate_json
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError
from app.export.lines import MIXED_FLEET
from app.export.repricing import RankedOption, ranked_options
from app.export.standing import (
    Standing,
    age_findings,
    cheaper_finding,
    is_cheaper,
    offer_findings,
    unchanged_finding,
)
from app.sizing.hardware.listings import INVENTORY
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate, MixedFleet


def judge_standing(
    stored: StoredDocument, rank: int, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> Standing:
    """Returns the standing of the plan at `rank`, which the answer must have."""
    names = {a.slug: a.name for a in catalog_index.catalog.accelerators}
    ranked = stored["recommendations"][rank - 1]
    plan = ranked_options({"recommendations": [ranked]}, names)[0]
    question, current = _price_plan(stored, ranked["deployment"], catalog_index, catalog_store, today)
    now = plan if _is_own(ranked["deployment"]) else None
    if current is not None:
        now = _option_of(current, rank, names)
    asked, cheapest = _answer_today(stored, catalog_index, catalog_store, today, names)
    share = asked.assumptions.near_tie_share
    reference = plan if now is None else now
    if cheapest is not None and not is_cheaper(cheapest, reference, share):
        cheapest = None
    findings = [*offer_findings(plan, now)]
    if current is not None and current.cost is not None and question is not None:
        limit = asked.constraints.max_price_age_days or question.assumptions.stale_price_days
        findings += age_findings(current.cost.price, limit)
    if cheapest is not None:
        findings.append(cheaper_finding(cheapest, reference, share))
    return Standing(plan, now, cheapest, tuple(findings or [unchanged_finding(plan)]))


def _is_own(deployment: StoredDocument) -> bool:
    """Returns whether a plan runs on hardware that the caller owns, which no seller can withdraw."""
    return (deployment.get("offer") or {}).get("provider") == INVENTORY


def _price_plan(
    stored: StoredDocument,
    deployment: StoredDocument,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
) -> tuple[Question | None, Estimate | None]:
    """Returns today's estimate of a plan with exactly its offers, and its question; None if an offer has ended."""
    if _is_own(deployment):
        return None, None
    try:
        question, found = estimate_today(stored, deployment, catalog_index, catalog_store, today)
    except UnsupportedStoredRequest:
        raise
    except AppError:
        return None, None
    priced = found.cost is not None and found.cost.usd_per_hour is not None
    return (question, found) if priced else (None, None)


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
        return question, _fleet_option(answer.mixed_fleet, names)
    first = next((_option_of(r.estimate, 1, names) for r in answer.recommendations), None)
    return question, first


def _fleet_option(fleet: MixedFleet, names: Mapping[str, str]) -> RankedOption:
    groups = {str(place): group_deployment_json(g.first.estimate.deployment) for place, g in enumerate(fleet.groups)}
    cost = {"usd_per_hour": fleet.usd_per_hour}
    document = {"rank": MIXED_FLEET, "deployment": {"accelerator": "", "pools": groups}, "cost": cost}
    return ranked_options({"recommendations": [document]}, names)[0]


def _option_of(estimate: Estimate, rank: int, names: Mapping[str, str]) -> RankedOption:
    document = {"rank": rank, **estimate_json(estimate, trace=False, neighbours=0, simulated=False)}
    return ranked_options({"recommendations": [document]}, names)[0]
