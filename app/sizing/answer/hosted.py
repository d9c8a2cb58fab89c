"""Build or buy: the price of the same traffic from a hosted API, compared with self-hosting."""

from __future__ import annotations

from app.sizing.answer.money import format_usd
from app.sizing.decisions.hosted import allows_hosted_api, break_even_rate_per_s, hosted_costs
from app.sizing.product_names import provider_name
from app.sizing.question import Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.units import HOURS_PER_MONTH, LEAST_PER_S, SECONDS_PER_HOUR
from app.sizing.values.hosted import HostedApi, HostedCost
from app.sizing.words import format_number
from app.sizing.workload import InferenceWorkload, Load

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
    return needed if needed <= (own.performance.requests_per_s_capacity or 0.0) else None


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
    fixed = "" if cost is None or cost.usd_per_day is None else " without autoscaling"
    if theirs >= ours:
        below = ""
        if pays_from is not None:
            below = f" Break-even: below an average of {format_number(pays_from)} requests/s, the API costs less."
        return (
            f"Cheaper self-hosted{fixed}: {format_usd(ours)}{per}. The cheapest API is {name} at "
            f"{format_usd(theirs)}{per}.{below}"
        )
    later = "" if workload.load is not Load.OPEN else " Self-hosting costs more even at full utilization."
    if pays_from is not None:
        later = f" Break-even: above an average of {format_number(pays_from)} requests/s, self-hosting costs less."
    return f"Cheaper as an API: {name} at {format_usd(theirs)}{per} (self-hosted{fixed}: {format_usd(ours)}).{later}"


def _usd_per_month(usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else usd_per_hour * HOURS_PER_MONTH
