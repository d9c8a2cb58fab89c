"""Other ways to the same end on the wire: the same traffic from an API."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, present
from app.sizing.hosted import HostedApi, HostedCost


class HostShown(Shown):
    provider: str
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_million_cached_input: float | None = None
    usd_per_million_tokens: float = Field(description="Of this traffic's, in and out together.")
    usd_per_month: float | None = None
    usd_total: float | None = Field(None, description="Of work that ends.")
    observed: str


class HostedApiShown(Shown):
    """What the same traffic costs at the cheapest hosts of the model, which are paid by the token."""

    text: str
    hosts: list[HostShown]
    pays_from_requests_per_s: float | None = Field(
        None, description="Mean load from which on the machines cost less than the cheapest host."
    )
    source: str


def hosted_json(found: HostedApi) -> dict[str, Any]:
    """The cheapest hosts and what they ask."""
    return {
        "text": found.text,
        "hosts": [_host_json(host) for host in found.hosts],
        **present(pays_from_requests_per_s=found.pays_from_requests_per_s),
        "source": found.hosts[0].price.source,
    }


def _host_json(host: HostedCost) -> dict[str, Any]:
    price = host.price
    return present(
        provider=price.provider,
        usd_per_million_input=price.usd_per_million_input,
        usd_per_million_output=price.usd_per_million_output,
        usd_per_million_cached_input=price.usd_per_million_cached_input,
        usd_per_million_tokens=host.usd_per_million_tokens,
        usd_per_month=host.usd_per_month,
        usd_total=host.usd_total,
        observed=price.observed,
    )
