"""Money in an answer: the cost of a finalist, where its price comes from, and dollars in words."""

from __future__ import annotations

import math

import numpy as np

from app.sizing.columns import one
from app.sizing.decisions.cost import Cost, does_work, kwh_per_million, usd_per_million
from app.sizing.decisions.sold import Sold
from app.sizing.hardware.prices import IN_WORDS, PriceKind
from app.sizing.question import Deployment
from app.sizing.result import CostSummary, Estimate, Part, Reason
from app.sizing.units import HOURS_PER_DAY, HOURS_PER_MONTH
from app.sizing.words import counted, figure
from app.sizing.workload import InferenceWorkload


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def million_of(workload: InferenceWorkload) -> str:
    """Of what a million is priced: every token that goes in or comes out, or samples."""
    if workload.model.sample is not None:
        return "samples"
    return "input tokens" if workload.output_tokens.mean < 1 else "input and output tokens"


def cost_summary(
    sold: Sold,
    cost: Cost,
    *,
    units_per_s: float,
    usd_total: float | None,
    per_million: str,
    million_of: str | None = None,
    bill: tuple[Part, ...] = (),
) -> CostSummary:
    """The money of a one-row table; `million_of` says in words of what a million is, where its name does not. The bill
    ends with the rate over which money and energy are spread.
    """
    hourly = one(cost.usd_per_hour)
    priced = math.isfinite(hourly)
    units = np.array([units_per_s])
    return CostSummary(
        usd_per_hour=finite(hourly),
        usd_per_month=hourly * HOURS_PER_MONTH if priced else None,
        usd_per_million=one(usd_per_million(cost.usd_per_hour, units)) if priced and does_work(units_per_s) else None,
        usd_total=usd_total,
        purchase_usd=finite(one(cost.purchase_usd)),
        power_w=one(cost.power_w),
        kwh_per_million=one(kwh_per_million(cost.power_w, units)) if does_work(units_per_s) else None,
        tco_usd=finite(one(cost.tco_usd)),
        price=sold.price,
        per_million=per_million,
        million_of=million_of or per_million,
        parts=(*bill, Part(f"{per_million}_per_s", units_per_s)),
    )


def price_reason(summary: CostSummary, deployment: Deployment) -> tuple[Reason, ...]:
    """What is paid, for how many machines, who stands behind the price and when it was seen."""
    if summary.usd_per_hour is None or summary.price is None:
        text = "The catalogue has no price for this accelerator: cost is left out."
        return (Reason("price", text, "usd_per_hour", 0.0, "USD/h"),)
    machines, terms = counted(deployment.nodes or 0, "machine"), summary.price.terms
    backing = f"{IN_WORDS[terms.kind]}, seen {terms.observed}{_less(summary.price.discount)}."
    if summary.purchase_usd is not None:
        text = (
            f"{machines} bought for {summary.purchase_usd:,.0f} USD: {summary.usd_per_hour:,.2f} USD per hour over the "
            f"horizon with power, floor space and upkeep, no resale counted; {backing}"
        )
        if terms.kind is PriceKind.RECKONED:
            text += (
                " Nobody quotes the whole machine: accelerators at list price with an assumed chassis, processors and "
                "memory; ask for a quote."
            )
    else:
        region = "" if deployment.region == "unspecified" else f" in {deployment.region}"
        text = (
            f"{machines} ({deployment.instance_type}) at {deployment.provider}{region}, "
            f"{summary.price.pricing_model.replace('_', ' ')}: {summary.usd_per_hour:,.2f} USD per hour; {backing}"
        )
        if summary.price.upfront_usd is not None:
            text += f" {usd(summary.price.upfront_usd)} of it are paid at the start, per machine."
    return (Reason("price", text, "usd_per_hour", summary.usd_per_hour, "USD/h"),)


def _less(discount: float) -> str:
    """A discount in words."""
    return f", less {figure(discount * 100)} % as you said" if discount else ""


def usd(value: float) -> str:
    """Dollars as a buyer writes them: whole above a hundred, cents above ten cents, three digits below."""
    if value >= 100:
        return f"{value:,.0f} USD"
    return f"{value:,.2f} USD" if value >= 0.1 or value <= 0 else f"{figure(value)} USD"


def surely_usd(estimate: Estimate) -> float | None:
    """USD of a run on these accelerators with the confidence asked, which runs are ranked by; None where it is another
    number of them that holds with it.
    """
    assurance = estimate.assurance
    if assurance is None:
        return None
    asked = next((level for level in assurance.by_level if level.confidence == assurance.asked), None)
    if asked is None or asked.total_accelerators != estimate.deployment.total_accelerators:
        return None
    return asked.usd_total


def mean_usd_per_hour(cost: CostSummary | None) -> float | None:
    """What an hour costs in the mean of a day."""
    if cost is None or cost.usd_per_day is None:
        return None if cost is None else cost.usd_per_hour
    return cost.usd_per_day / HOURS_PER_DAY


def price_words(estimate: Estimate) -> str:
    cost = estimate.cost
    if cost is None or cost.usd_per_hour is None:
        return "no price is known"
    if cost.usd_total is not None:
        expected, sure, assurance = usd(cost.usd_total), surely_usd(estimate), estimate.assurance
        surely = ""
        if sure is not None and assurance is not None and usd(sure) != expected:
            surely = f", {usd(sure)} at {assurance.asked:.0%} confidence"
        return f"{expected} for the run{surely} ({usd(cost.usd_per_hour)} per hour)"
    per = "" if cost.usd_per_million is None else f", {usd(cost.usd_per_million)} per million {cost.million_of}"
    day = "" if cost.usd_per_day is None else f" at the peak, {usd(cost.usd_per_day)} per day"
    return f"{usd(cost.usd_per_hour)} per hour{day}{per}"
