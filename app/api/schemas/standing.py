"""Schemas of GET /recommendations/{id}/standing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.api.schemas.answers import CatalogShown
from app.api.schemas.base import Component, ResponseModel, with_examples
from app.api.schemas.origins import From, ResultModel
from app.export.repricing import RankedOption
from app.export.standing import Finding, Standing

PLAN = {"rank": 1, "option": "8 x NVIDIA H200 SXM 141GB", "usd_per_hour": 28.8, "provider": "lambda"}
CHEAPER = {"rank": 1, "option": "8 x AMD Instinct MI300X", "usd_per_hour": 24.0, "provider": "vultr"}
FINDING = {
    "code": "cheaper_plan",
    "text": "8 x AMD Instinct MI300X from Vultr meets the same request today at 24.00 USD/h, 17 % less than ...",
    "then": 28.8,
    "now": 24.0,
}
CATALOG = {"snapshot": "614f6a1a7f1b2af2", "prices_as_of": "2026-08-22"}
FOUND = {
    "id": "rec_0123456789abcdef0123456789ab",
    "as_of": {"then": "2026-08-25", "now": "2026-11-20"},
    "catalog": {"then": CATALOG, "now": CATALOG},
    "holds": True,
    "plan": PLAN,
    "today": PLAN,
    "cheaper": CHEAPER,
    "findings": [FINDING],
}


class PlanShown(ResultModel, of=RankedOption):
    """A plan of a stored answer, or of today, with its cost."""

    model_config = with_examples(PLAN)

    rank: int = Field(description="Rank of the plan in its answer.")
    option: Annotated[str, From("text")] = Field(description="Counts and names of its accelerators.")
    usd_per_hour: Annotated[float | None, From("amount", when=lambda plan: plan.unit == "USD/h", decimals=2)] = Field(
        None, description="Absent for work that ends."
    )
    usd_total: Annotated[float | None, From("amount", when=lambda plan: plan.unit == "USD", decimals=2)] = Field(
        None, description="Cost of work that ends; absent for a service."
    )
    provider: str


class PlanFindingShown(ResultModel, of=Finding):
    """One change of a plan, in words and numbers."""

    model_config = with_examples(FINDING)

    code: Annotated[
        Literal["unchanged", "price_changed", "offer_gone", "price_expired", "cheaper_plan"],
        Component("PlanChange"),
        From("change"),
    ] = Field(
        description="price_expired: the price is older than max_price_age_days of the request, or than the assumption "
        "stale_price_days."
    )
    text: str
    then: float | None = Field(
        None, description="Cost then, or of the stored plan today; for an age, its limit in days."
    )
    now: float | None = Field(None, description="Cost today, or of the cheaper plan; for an age, the days.")


class StandingResponse(ResponseModel):
    """Whether a stored plan still holds at today's catalog."""

    model_config = with_examples(FOUND)

    id: str
    as_of: dict[Literal["then", "now"], str] = Field(description="Days that are compared.")
    catalog: dict[Literal["then", "now"], CatalogShown] = Field(description="Catalogs that are compared.")
    holds: bool = Field(description="Whether the offers are still sold, at no higher price that has not expired.")
    plan: PlanShown = Field(description="The plan as stored.")
    today: PlanShown | None = Field(
        None, description="The same plan at today's price of exactly its offers; absent if one has ended."
    )
    cheaper: PlanShown | None = Field(
        None, description="The plan that ranks first for the same request today, if it costs clearly less."
    )
    findings: list[PlanFindingShown] = Field(description="What has changed, in words and numbers.")


def standing_json(standing: Standing) -> dict[str, Any]:
    """The standing of a plan as JSON, without the days and catalogs that it compares."""
    plans = {"plan": standing.plan, "today": standing.today, "cheaper": standing.cheaper}
    return {
        "holds": standing.holds,
        **{name: PlanShown.as_json(plan) for name, plan in plans.items() if plan is not None},
        "findings": [PlanFindingShown.as_json(finding) for finding in standing.findings],
    }
