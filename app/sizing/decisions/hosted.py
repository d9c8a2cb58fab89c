"""Cost of a workload at a hosted API, and the load above which the buyer's own machines cost less."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.sizing.formula import formula
from app.sizing.hardware.parts import Environment
from app.sizing.question import Constraints
from app.sizing.units import HOURS_PER_MONTH, LEAST_PER_S, SECONDS_PER_HOUR
from app.sizing.values.hosted import HostedCost, HostedPrice
from app.sizing.workload import InferenceWorkload

HOSTS_SHOWN = 3


@formula(unit="USD", source="definition")
def hosted_usd_per_million(
    usd_per_million_input: float,
    usd_per_million_cached_input: float,
    usd_per_million_output: float,
    input_tokens: float,
    output_tokens: float,
    cached_prefix_fraction: float,
) -> float:
    """Price of a million tokens of a workload at a host that prices input, cached input and output tokens separately.

    Parameters:
        usd_per_million_input: price of a million uncached input tokens, USD.
        usd_per_million_cached_input: price of a million cached input tokens, USD.
        usd_per_million_output: price of a million output tokens, USD.
        input_tokens: mean input tokens of a request.
        output_tokens: mean output tokens of a request.
        cached_prefix_fraction: share of the input tokens that the prefix cache holds.
    Limits: assumes the host's prefix cache hits as often as the buyer's own.
    Check: three input tokens per output token, a third of the input cached.
        >>> round(hosted_usd_per_million(1.0, 0.1, 4.0, 750.0, 250.0, 1 / 3), 3)
        1.525
    """
    fresh = usd_per_million_input * (1 - cached_prefix_fraction)
    prompt = input_tokens * (fresh + usd_per_million_cached_input * cached_prefix_fraction)
    return (prompt + output_tokens * usd_per_million_output) / (input_tokens + output_tokens)


@formula(unit="USD/month", source="definition")
def hosted_usd_per_month(hosted_usd_per_million: float, tokens_per_s: float) -> float:
    """Monthly cost of the traffic at a host.

    Parameters:
        hosted_usd_per_million: price of a million tokens of the workload, USD.
        tokens_per_s: mean input and output tokens per second.
    Limits: mean load in all hours of the month; no volume discount.
    Check: 1,000 tokens/s at 0.5 USD per million.
        >>> hosted_usd_per_month(0.5, 1000.0)
        1314.0
    """
    return hosted_usd_per_million / 1e6 * tokens_per_s * SECONDS_PER_HOUR * HOURS_PER_MONTH


@formula(unit="USD", source="definition")
def hosted_usd_total(hosted_usd_per_million: float, volume_requests: float, tokens_per_request: float) -> float:
    """Cost of a job of known volume at a host.

    Parameters:
        hosted_usd_per_million: price of a million tokens of the workload, USD.
        volume_requests: requests of the job.
        tokens_per_request: mean input and output tokens of a request.
    Limits: no discount for volume or for batch processing.
    Check: a million requests of 2,200 tokens at 0.05 USD per million tokens.
        >>> round(hosted_usd_total(0.05, 1e6, 2200.0), 2)
        110.0
    """
    return hosted_usd_per_million / 1e6 * volume_requests * tokens_per_request


@formula(unit="requests/s", source="definition")
def break_even_rate_per_s(usd_per_hour: float, hosted_usd_per_million: float, tokens_per_request: float) -> float:
    """Mean load above which machines paid by the hour cost less than a host paid by the token.

    Parameters:
        usd_per_hour: hourly cost of the machines, USD/h.
        hosted_usd_per_million: price of a million tokens of the workload at the host, USD.
        tokens_per_request: mean input and output tokens of a request.
    Limits: assumes the same machines at every load, which may exceed their capacity.
    Check: 36 USD/h against 1,000 tokens per request at 1 USD per million.
        >>> round(break_even_rate_per_s(36.0, 1.0, 1000.0), 6)
        10.0
    """
    return (
        usd_per_hour
        / SECONDS_PER_HOUR
        / float(np.maximum(hosted_usd_per_million / 1e6 * tokens_per_request, LEAST_PER_S))
    )


def allows_hosted_api(limits: Constraints) -> bool:
    """Whether the constraints permit a hosted API, whose location is unknown.

    Regions, providers and on-premises machines that the request names rule it out.
    """
    own = limits.environments and Environment.CLOUD not in limits.environments
    return not (own or limits.regions or limits.providers)


def hosted_costs(
    workload: InferenceWorkload, prices: Iterable[HostedPrice], tokens_per_s: float | None
) -> tuple[HostedCost, ...]:
    """Cost of a workload at the cheapest hosts; per month where the traffic is known."""
    found = [_hosted_cost(workload, price, tokens_per_s) for price in prices]
    return tuple(sorted(found, key=lambda c: (c.usd_per_million_tokens, c.price.provider))[:HOSTS_SHOWN])


def _hosted_cost(workload: InferenceWorkload, price: HostedPrice, tokens_per_s: float | None) -> HostedCost:
    cached = price.usd_per_million_cached_input
    per_million = hosted_usd_per_million(
        price.usd_per_million_input,
        price.usd_per_million_input if cached is None else cached,
        price.usd_per_million_output,
        workload.input_tokens.mean,
        workload.output_tokens.mean,
        workload.cached_prefix_fraction,
    )
    if workload.volume_requests is not None:
        total = hosted_usd_total(per_million, workload.volume_requests, workload.tokens_per_request)
        return HostedCost(price, per_million, usd_total=total)
    if tokens_per_s is None:
        return HostedCost(price, per_million)
    return HostedCost(price, per_million, usd_per_month=hosted_usd_per_month(per_million, tokens_per_s))
