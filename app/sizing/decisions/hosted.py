"""What traffic costs where somebody else runs the model, and from which load on machines of one's own cost less."""

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
    """A million tokens of a workload at a host that prices what goes in, what of it is cached, and what comes out.

    Limits: a host's cache keeps what one's own would.
    Check: three tokens in for each that comes out, a third of them cached.
        >>> round(hosted_usd_per_million(1.0, 0.1, 4.0, 750.0, 250.0, 1 / 3), 3)
        1.525
    """
    fresh = usd_per_million_input * (1 - cached_prefix_fraction)
    prompt = input_tokens * (fresh + usd_per_million_cached_input * cached_prefix_fraction)
    return (prompt + output_tokens * usd_per_million_output) / (input_tokens + output_tokens)


@formula(unit="USD/month", source="definition")
def hosted_usd_per_month(hosted_usd_per_million: float, tokens_per_s: float) -> float:
    """What a month of traffic costs at a host.

    Limits: the mean load, all hours of the month; nothing off for volume.
    Check: 1,000 tokens a second at 0.5 USD per million.
        >>> hosted_usd_per_month(0.5, 1000.0)
        1314.0
    """
    return hosted_usd_per_million / 1e6 * tokens_per_s * SECONDS_PER_HOUR * HOURS_PER_MONTH


@formula(unit="USD", source="definition")
def hosted_usd_total(hosted_usd_per_million: float, volume_requests: float, tokens_per_request: float) -> float:
    """What work that ends costs at a host.

    Limits: nothing off for volume or for answers that may wait.
    Check: a million requests of 2,200 tokens at 0.05 USD per million tokens.
        >>> round(hosted_usd_total(0.05, 1e6, 2200.0), 2)
        110.0
    """
    return hosted_usd_per_million / 1e6 * volume_requests * tokens_per_request


@formula(unit="requests/s", source="definition")
def pays_from_per_s(usd_per_hour: float, hosted_usd_per_million: float, tokens_per_request: float) -> float:
    """Mean load from which on machines that are paid by the hour cost less than a host that is paid by the token.

    Limits: the machines are the same at every load; they may not carry so much.
    Check: 36 USD an hour against 1,000 tokens a request at 1 USD per million.
        >>> round(pays_from_per_s(36.0, 1.0, 1000.0), 6)
        10.0
    """
    return (
        usd_per_hour
        / SECONDS_PER_HOUR
        / float(np.maximum(hosted_usd_per_million / 1e6 * tokens_per_request, LEAST_PER_S))
    )


def open_to_hosts(limits: Constraints) -> bool:
    """Whether a host may be named: nobody knows where one runs, so not beside regions, providers or machines of one's
    own that were asked for.
    """
    own = limits.environments and Environment.CLOUD not in limits.environments
    return not (own or limits.regions or limits.providers)


def hosted_costs(
    workload: InferenceWorkload, prices: Iterable[HostedPrice], tokens_per_s: float | None
) -> tuple[HostedCost, ...]:
    """What a workload costs at the cheapest hosts; by the month where it is known how much of it there is."""
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
