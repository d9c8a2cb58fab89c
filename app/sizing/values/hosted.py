"""What a million tokens of a model cost where somebody else runs it, and what a workload costs there: plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostedPrice:
    """A host's price of a model, USD per million tokens. Cached input costs as much as other input where it has no
    price of its own.
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
    """What a workload costs at one host; of a service by the month, of work that ends in all."""

    price: HostedPrice
    usd_per_million_tokens: float  # of this workload's, whatever they are
    usd_per_month: float | None = None
    usd_total: float | None = None


@dataclass(frozen=True, slots=True)
class HostedApi:
    """The same traffic from an API beside machines of one's own; cheapest host first."""

    text: str
    hosts: tuple[HostedCost, ...]
    pays_from_requests_per_s: float | None = None  # on average, from which on machines of one's own cost less
