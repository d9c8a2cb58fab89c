"""Cost of a recommendation, the origin of its price, amounts as text, and the price of a hosted API."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from app.sizing.columns import HOURS_PER_DAY, HOURS_PER_MONTH, LEAST_PER_S, SECONDS_PER_HOUR, Column, one
from app.sizing.decisions.acquisition import SoldMachine
from app.sizing.decisions.cost import (
    Cost,
    allows_hosted_api,
    break_even_rate_per_s,
    carbon_kg,
    carbon_kg_per_million,
    has_measurable_throughput,
    hosted_costs,
    kwh_per_million,
    usd_per_million,
)
from app.sizing.decisions.places import list_countries
from app.sizing.hardware.grids import Grid
from app.sizing.hardware.parts import PRICE_KIND_TEXTS, PriceKind
from app.sizing.question import Deployment, Economics, Question
from app.sizing.result import Carbon, CostSummary, Estimate, HostedApi, HostedCost, Notice, Part, Reason
from app.sizing.snapshot import Catalog
from app.sizing.words import describe_pricing, format_count, format_money, format_number, percent, provider_name
from app.sizing.workload import InferenceWorkload, Load


def finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def priced_unit(workload: InferenceWorkload) -> str:
    """Unit that the price per million counts: samples, or input and output tokens."""
    if workload.model.sample is not None:
        return "samples"
    return "input tokens" if workload.output_tokens.mean < 1 else "input and output tokens"


def cost_summary(
    sold: SoldMachine,
    cost: Cost,
    *,
    units_per_s: float,
    usd_total: float | None,
    per_million: str,
    million_of: str | None = None,
    economics: Economics,
    run_s: float | None = None,
    bill: tuple[Part, ...] = (),
    mean: Cost | None = None,
) -> CostSummary:
    """Cost and energy of a one-row table.

    Parameters:
        units_per_s: rate over which cost and energy are spread; it is also the last line of the bill.
        per_million: unit of the price per million, as part of a field name.
        million_of: the same unit as text, where it differs.
        run_s: duration of work that ends, s.
        mean: cost and power as means of a day, where the workload states its hours.
    """
    paid = cost if mean is None else mean
    hourly, power, units = one(paid.usd_per_hour), one(paid.power_w), np.array([units_per_s])
    priced = math.isfinite(hourly)
    per_million_kwh = kwh_per_million(paid.power_w, units) if has_measurable_throughput(units_per_s) else None
    return CostSummary(
        usd_per_hour=finite_or_none(hourly),
        usd_per_month=hourly * HOURS_PER_MONTH if priced else None,
        usd_per_million=one(usd_per_million(paid.usd_per_hour, units))
        if priced and has_measurable_throughput(units_per_s)
        else None,
        usd_total=usd_total,
        purchase_usd=finite_or_none(one(cost.purchase_usd)),
        power_w=one(cost.power_w),
        kwh_per_million=None if per_million_kwh is None else one(per_million_kwh),
        tco_usd=finite_or_none(one(paid.tco_usd)),
        price=sold.price,
        per_million=per_million,
        million_of=million_of or per_million,
        parts=(*bill, Part(f"{per_million}_per_s", units_per_s)),
        usd_per_day=hourly * HOURS_PER_DAY if priced and mean is not None else None,
        peak_usd_per_hour=None if mean is None else finite_or_none(one(cost.usd_per_hour)),
        average_power_w=None if mean is None else power,
        carbon=summarize_carbon(sold, paid.power_w, per_million_kwh, economics, run_s),
    )


def summarize_carbon(
    sold: SoldMachine, power_w: Column, kwh_per_million: Column | None, economics: Economics, run_s: float | None
) -> Carbon | None:
    """Greenhouse gases of a month, or of a run of `run_s` seconds; None where the grid is unknown."""
    if sold.grid is None:
        return None
    hours = HOURS_PER_MONTH if run_s is None else run_s / SECONDS_PER_HOUR
    each = None
    if kwh_per_million is not None:
        each = one(carbon_kg_per_million(kwh_per_million, sold.grid.g_per_kwh, economics))
    kg = one(carbon_kg(power_w, hours, sold.grid.g_per_kwh, economics))
    return Carbon(kg, each, "month" if run_s is None else "run", (sold.grid,))


def carbon_reasons(question: Question, estimate: Estimate) -> tuple[Reason, ...]:
    """What the greenhouse gases of a deployment rest on, or why they are not calculated; where the request is about
    them.
    """
    cost, economics = estimate.cost, question.economics
    if cost is None or not (question.constraints.weighs_carbon or economics.country):
        return ()
    if cost.carbon is None:
        text = (
            "Carbon is not calculated, because the country of these machines is not known or has no published grid "
            "intensity. Choose offers with a region; for owned machines, set economics.country."
        )
        return (Reason("carbon", text, "carbon_kg", 0.0, "kg"),)
    grids = " and ".join(describe_grid(grid) for grid in cost.carbon.grids)
    text = (
        f"Carbon: about {format_number(cost.carbon.kg)} kg of CO2e per {cost.carbon.period}, from "
        f"{format_number(cost.mean_power_w / 1e3)} kW with a PUE of {format_number(economics.pue)} on the grid of "
        f"{grids}. Scope 2, location-based; the manufacture of the machines is not included."
    )
    return (Reason("carbon", text, "carbon_kg", cost.carbon.kg, "kg"),)


def with_carbon_reasons(question: Question, estimate: Estimate) -> Estimate:
    """The estimate with the reasons about its greenhouse gases."""
    return replace(estimate, explanation=(*estimate.explanation, *carbon_reasons(question, estimate)))


def electricity_price_assumed(question: Question) -> Notice | None:
    """Notice that the price of electricity is assumed, where the request names a country without a known price."""
    economics = question.economics
    if economics.country is None or economics.country_price is not None:
        return None
    if economics.electricity_usd_per_kwh != question.assumptions.electricity_usd_per_kwh:
        return None
    text = (
        f"The industrial electricity price of {economics.country} is not known; "
        f"{format_number(economics.electricity_usd_per_kwh)} USD/kWh is assumed. Set economics.electricity_usd_per_kwh."
    )
    return Notice("electricity_price", text)


def describe_grid(grid: Grid) -> str:
    """A grid with its intensity and what that counts: "Sweden (36 g/kWh in 2024, lifecycle)"."""
    return f"{grid.name} ({format_number(grid.g_per_kwh)} g/kWh in {grid.year}, {grid.basis.value})"


def price_reason(summary: CostSummary, deployment: Deployment) -> tuple[Reason, ...]:
    """Price of the machines, its seller or basis, and its date."""
    if summary.usd_per_hour is None or summary.price is None:
        text = "The catalog has no price for this accelerator, so no cost is calculated."
        return (Reason("price", text, "usd_per_hour", 0.0, "USD/h"),)
    machines, terms = format_count(deployment.nodes or 0, "machine"), summary.price.terms
    backing = (
        f"Price basis: {PRICE_KIND_TEXTS[terms.kind]}, as of "
        f"{terms.observed}{_describe_discount(summary.price.discount)}."
    )
    if deployment.uses_inventory:
        if summary.purchase_usd:
            use = f"including their value of {format_usd(summary.purchase_usd)}, spread over the horizon"
        else:
            use = "for operation; what you paid is not counted"
        text = f"{machines} of yours: {describe_hourly_cost(summary)} {use}."
    elif summary.purchase_usd is not None:
        text = (
            f"Purchase of {machines} for {format_usd(summary.purchase_usd)}. This is {describe_hourly_cost(summary)} "
            f"over the horizon, including power, floor space and maintenance; resale value is not counted. {backing}"
        )
        if terms.kind is PriceKind.ESTIMATE:
            text += (
                " The machine price is estimated from parts: accelerators at list price plus an assumed chassis, "
                "processors and memory. Ask for a quote."
            )
        if summary.price.lead_time is not None:
            reported = summary.price.lead_time.describe()
            text += f" {reported[0].upper()}{reported[1:]}."
    else:
        region = "" if deployment.region == "unspecified" else f" in {deployment.region}"
        if summary.price.countries:
            region = f" in {list_countries(frozenset(summary.price.countries))}"
        text = (
            f"{machines} of type {deployment.instance_type} from {provider_name(deployment.provider or '')}{region}, "
            f"{describe_pricing(summary.price.pricing_model)}: {describe_hourly_cost(summary)}. {backing}"
        )
        if summary.price.upfront_usd is not None:
            text += f" This includes an upfront payment of {summary.price.upfront_usd:,.0f} USD per machine."
    return (Reason("price", text, "usd_per_hour", summary.usd_per_hour, "USD/h"),)


def _describe_discount(discount: float) -> str:
    """The caller's discount as text."""
    return f", minus your discount of {format_number(discount * 100)} %" if discount else ""


def format_usd(value: float) -> str:
    """Amount in USD: four significant digits from 100 up, cents from 0.10 up, three significant digits below."""
    if value >= 100:
        return f"{format_money(value)} USD"
    return f"{value:,.2f} USD" if value >= 0.1 or value <= 0 else f"{format_number(value)} USD"


def confident_usd(estimate: Estimate) -> float | None:
    """USD of a run on these accelerators at the requested confidence, by which runs are ranked.

    None if the requested confidence needs another number of accelerators.
    """
    assurance = estimate.assurance
    if assurance is None:
        return None
    asked = next((level for level in assurance.by_level if level.confidence == assurance.asked), None)
    if asked is None or asked.total_accelerators != estimate.deployment.total_accelerators:
        return None
    return asked.usd_total


def describe_price(estimate: Estimate) -> str:
    """Price in one clause: "40.00 USD/h, 0.25 USD per million tokens", "4,800 USD for the run (40.00 USD/h)"."""
    cost = estimate.cost
    if cost is None or cost.usd_per_hour is None:
        return "no known price"
    if cost.usd_total is not None:
        expected, sure, assurance = format_usd(cost.usd_total), confident_usd(estimate), estimate.assurance
        surely = ""
        if sure is not None and assurance is not None and format_usd(sure) != expected:
            surely = f", {format_usd(sure)} at {percent(assurance.asked)} confidence"
        return f"{expected} for the run{surely} ({format_usd(cost.usd_per_hour)}/h)"
    each = "" if cost.usd_per_million is None else f", {describe_unit_price(cost.usd_per_million, cost)}"
    return f"{describe_hourly_cost(cost)}{each}"


DEAR_SAMPLE_USD = 0.01  # a sample that costs this or more is priced alone, not by the million


def describe_unit_price(usd_per_million: float, cost: CostSummary) -> str:
    """Price per million units, or of one sample where a sample is dear.

    Examples: "0.25 USD per million tokens", "1.25 USD per sample".
    """
    usd = usd_per_million / 1e6
    if cost.per_million == "samples" and usd >= DEAR_SAMPLE_USD:
        return f"{format_usd(usd)} per sample"
    return f"{format_usd(usd_per_million)} per million {cost.million_of}"


def describe_hourly_cost(cost: CostSummary) -> str:
    """Cost per hour; where it varies over a day, also its mean per day and its maximum.

    Example: "21.20 USD/h on average (509 USD per day, 40.00 USD/h at peak)".
    """
    hourly = f"{format_usd(cost.usd_per_hour or 0.0)}/h"
    if cost.usd_per_day is None or cost.peak_usd_per_hour is None:
        return hourly
    if format_usd(cost.peak_usd_per_hour) == format_usd(cost.usd_per_hour or 0.0):
        return f"{hourly} ({format_usd(cost.usd_per_day)} per day)"
    return (
        f"{hourly} on average ({format_usd(cost.usd_per_day)} per day, {format_usd(cost.peak_usd_per_hour)}/h at peak)"
    )


HOST_CAVEAT = "Check the API provider's speed, rate limits and data location."


def compare_hosted_api(question: Question, catalog: Catalog, estimate: Estimate | None) -> HostedApi | None:
    """Prices of hosted APIs for the same traffic, compared with this deployment where there is one.

    None if no host offers the model or the question excludes hosts.
    """
    workload = question.workload
    if not isinstance(workload, InferenceWorkload) or not allows_hosted_api(question.constraints):
        return None
    prices = catalog.hosted.get(workload.model.name, ())
    if not prices or workload.model.sample is not None:
        return None
    own = estimate if estimate is not None and estimate.fits else None
    hosts = hosted_costs(workload, prices, tokens_served_per_s(workload, own))
    pays_from = _break_even_per_s(workload, own, hosts[0])
    return HostedApi(f"{_compare_prices(workload, own, hosts[0], pays_from)} {HOST_CAVEAT}", hosts, pays_from)


def tokens_served_per_s(workload: InferenceWorkload, own: Estimate | None) -> float | None:
    """Input and output tokens per second: of a request rate its mean, else the rate that the deployment serves."""
    if workload.load is Load.OPEN:
        return workload.average_per_s * workload.tokens_per_request
    if own is None or own.cost is None or not own.cost.usd_per_hour or not own.cost.usd_per_million:
        return None
    return own.cost.usd_per_hour / SECONDS_PER_HOUR / max(own.cost.usd_per_million, LEAST_PER_S) * 1e6


def _break_even_per_s(workload: InferenceWorkload, own: Estimate | None, host: HostedCost) -> float | None:
    """Break-even rate in requests/s on average; None if the deployment cannot serve that rate."""
    if workload.load is not Load.OPEN or own is None or own.cost is None or own.cost.usd_per_hour is None:
        return None
    assert own.performance is not None
    needed = break_even_rate_per_s(own.cost.usd_per_hour, host.usd_per_million_tokens, workload.tokens_per_request)
    paid_share = own.cost.usd_per_hour / (own.cost.full_usd_per_hour or own.cost.usd_per_hour)
    return needed if needed <= (own.performance.requests_per_s_capacity or 0.0) * paid_share else None


def _compare_prices(
    workload: InferenceWorkload, own: Estimate | None, host: HostedCost, pays_from: float | None
) -> str:
    """Price of the cheapest host and of self-hosting, and which of the two costs less."""
    name, per = provider_name(host.price.provider), "" if host.usd_total is not None else " per month"
    theirs = host.usd_total if host.usd_total is not None else host.usd_per_month
    cost = None if own is None else own.cost
    ours = None if cost is None else cost.usd_total if workload.is_finite else _usd_per_month(cost.usd_per_hour)
    if theirs is None:
        return f"API price at {name}: {format_usd(host.usd_per_million_tokens)} per million tokens of this traffic."
    if ours is None:
        return f"API price at {name}: {format_usd(theirs)}{per}."
    follows = "" if cost is None or cost.usd_per_day is None else " with autoscaling"
    if theirs >= ours:
        below = ""
        if pays_from is not None:
            below = f" Break-even: below an average of {format_number(pays_from)} requests/s, the API costs less."
        return (
            f"Cheaper self-hosted{follows}: {format_usd(ours)}{per}. The cheapest API is {name} at "
            f"{format_usd(theirs)}{per}.{below}"
        )
    later = "" if workload.load is not Load.OPEN else " Self-hosting costs more even at full utilization."
    if pays_from is not None:
        later = f" Break-even: above an average of {format_number(pays_from)} requests/s, self-hosting costs less."
    return f"Cheaper as an API: {name} at {format_usd(theirs)}{per} (self-hosted{follows}: {format_usd(ours)}).{later}"


def _usd_per_month(usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else usd_per_hour * HOURS_PER_MONTH
