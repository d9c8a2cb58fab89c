"""Build or buy: the same traffic from an API beside the machines of an answer, in one sentence."""

from __future__ import annotations

from app.sizing.answer.money import usd
from app.sizing.decisions.hosted import hosted_costs, open_to_hosts, pays_from_per_s
from app.sizing.question import Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Snapshot
from app.sizing.units import HOURS_PER_MONTH, LEAST_PER_S, SECONDS_PER_HOUR
from app.sizing.values.hosted import HostedApi, HostedCost
from app.sizing.words import figure
from app.sizing.workload import InferenceWorkload, Load

THEIRS = "Speed, limits and where data goes are the host's."


def hosted_api(question: Question, market: Snapshot, estimate: Estimate | None) -> HostedApi | None:
    """What the cheapest hosts ask for the same traffic, beside this deployment where there is one; None where nobody
    hosts the model or the question rules hosts out.
    """
    workload = question.workload
    if not isinstance(workload, InferenceWorkload) or not open_to_hosts(question.constraints):
        return None
    prices = market.hosted.get(workload.model.name, ())
    if not prices or workload.model.sample is not None:
        return None
    own = estimate if estimate is not None and estimate.fits else None
    hosts = hosted_costs(workload, prices, tokens_served_per_s(workload, own))
    pays_from = _pays_from(workload, own, hosts[0])
    return HostedApi(f"{_beside(workload, own, hosts[0], pays_from)} {THEIRS}", hosts, pays_from)


def tokens_served_per_s(workload: InferenceWorkload, own: Estimate | None) -> float | None:
    """Tokens of the traffic, in and out: of a rate its mean, else what the deployment's price is spread over."""
    if workload.load is Load.OPEN:
        return workload.average_per_s * workload.tokens_per_request
    if own is None or own.cost is None or not own.cost.usd_per_hour or not own.cost.usd_per_million:
        return None
    return own.cost.usd_per_hour / SECONDS_PER_HOUR / max(own.cost.usd_per_million, LEAST_PER_S) * 1e6


def _pays_from(workload: InferenceWorkload, own: Estimate | None, host: HostedCost) -> float | None:
    """Requests per second on average from which on the machines cost less; None where they do not carry so many."""
    if workload.load is not Load.OPEN or own is None or own.cost is None or own.cost.usd_per_hour is None:
        return None
    assert own.performance is not None
    needed = pays_from_per_s(own.cost.usd_per_hour, host.usd_per_million_tokens, workload.tokens_per_request)
    return needed if needed <= (own.performance.requests_per_s_capacity or 0.0) else None


def _beside(workload: InferenceWorkload, own: Estimate | None, host: HostedCost, pays_from: float | None) -> str:
    """What the cheapest host and the machines ask, and which of the two costs less."""
    at, per = host.price.provider, "" if host.usd_total is not None else " a month"
    theirs = host.usd_total if host.usd_total is not None else host.usd_per_month
    cost = None if own is None else own.cost
    ours = None if cost is None else cost.usd_total if workload.ends else _monthly(cost.usd_per_hour)
    if theirs is None:
        return f"{at} asks {usd(host.usd_per_million_tokens)} per million tokens of this traffic."
    if ours is None:
        return f"{at} does this for {usd(theirs)}{per}."
    if theirs >= ours:
        below = "" if pays_from is None else f" Below {figure(pays_from)} requests/s on average the API costs less."
        return f"Build: {usd(ours)}{per} against {usd(theirs)} at {at}, the cheapest API.{below}"
    later = "" if workload.load is not Load.OPEN else " Even full, these machines cost more."
    if pays_from is not None:
        later = f" Above {figure(pays_from)} requests/s on average these machines cost less."
    return f"Buy: {at} does this for {usd(theirs)}{per} against {usd(ours)}.{later}"


def _monthly(usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else usd_per_hour * HOURS_PER_MONTH
