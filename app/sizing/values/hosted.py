"""Prices of hosted model APIs per million tokens, and the cost of a workload there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostedPrice:
    """Price of a model at a host, in USD per million tokens. Cached input without a price of its own costs as much as
    other input.
    """

    model: str
    provider: str
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_million_cached_input: float | None
    source: str
    observed: str


@dataclass(frozen=True, slots=True)
class HostedCost:
    """Cost of a workload at one host: per month for a service, in total for work that ends."""

    price: HostedPrice
    usd_per_million_tokens: float  # price per million tokens of this workload's mix of tokens
    usd_per_month: float | None = None
    usd_total: float | None = None


@dataclass(frozen=True, slots=True)
class HostedApi:
    """Comparison of hosted APIs with the recommended machines, cheapest host first."""

    text: str
    hosts: tuple[HostedCost, ...]
    pays_from_requests_per_s: float | None = None  # mean rate from which the recommended machines cost less
