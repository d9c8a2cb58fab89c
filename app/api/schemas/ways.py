"""Schemas of alternatives: other ways to acquire the same machines, cheaper machines, and hosted APIs."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, rounded_fields
from app.api.schemas.names import PriceKindName, WayName
from app.sizing.values.hosted import HostedApi, HostedCost
from app.sizing.values.ways import Alternative, Cheaper


class AlternativeShown(ResponseModel):
    """The same number of the same accelerators, acquired in another way."""

    way: WayName = Field(description="How it is acquired: on_demand, committed_1y, committed_3y, spot or owned.")
    provider: str
    region: str
    usd_per_hour: float
    purchase_usd: float | None = Field(None, description="Purchase cost, if owned.")
    kind: PriceKindName = Field(description="Kind of price.")
    observed: str
    break_even_month: float | None = Field(
        None,
        description="Month from which owning has cost less than this rental, or than the recommended rental if this "
        "option is owned. Null if there is none within the horizon; absent if no purchase price is known.",
    )
    risk: str | None = None


class CheaperShown(ResponseModel):
    """An option that would cost less than the first recommendation if you accept one more condition."""

    if_: str = Field(alias="if")
    accelerator: str
    total_accelerators: int
    provider: str
    usd_per_hour: float
    usd_total: float | None = Field(None, description="Total cost of finite work.")
    saves_share: float = Field(description="Share of the first recommendation's cost for the same work.")
    kind: PriceKindName = Field(description="Kind of price.")
    observed: str
    risk: str


class HostShown(ResponseModel):
    """An API provider that hosts the model and charges by the token."""

    provider: str
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_million_cached_input: float | None = None
    usd_per_million_tokens: float = Field(
        description="Cost per million tokens of this traffic, input and output together."
    )
    usd_per_month: float | None = None
    usd_total: float | None = Field(None, description="Total cost of finite work.")


class HostedApiShown(ResponseModel):
    """Cost of the same traffic at the cheapest API providers of the model, which charge by the token."""

    text: str
    hosts: list[HostShown]
    pays_from_requests_per_s: float | None = Field(
        None, description="Mean load above which your own machines cost less than the cheapest API provider."
    )
    source: str
    observed: str


def hosted_json(api: HostedApi) -> dict[str, Any]:
    """The cheapest API providers and their prices as JSON."""
    return {
        "text": api.text,
        "hosts": [_host_json(host) for host in api.hosts],
        **rounded_fields(pays_from_requests_per_s=api.pays_from_requests_per_s),
        "source": api.hosts[0].price.source.split(" ")[0],
        "observed": api.hosts[0].price.observed,
    }


def _host_json(host: HostedCost) -> dict[str, Any]:
    price = host.price
    return rounded_fields(
        provider=price.provider,
        usd_per_million_input=price.usd_per_million_input,
        usd_per_million_output=price.usd_per_million_output,
        usd_per_million_cached_input=price.usd_per_million_cached_input,
        usd_per_million_tokens=host.usd_per_million_tokens,
        usd_per_month=host.usd_per_month,
        usd_total=host.usd_total,
    )


def alternative_json(a: Alternative) -> dict[str, Any]:
    """Another way to acquire the same accelerators as JSON."""
    shown = rounded_fields(
        way=a.way.value,
        provider=a.provider,
        region=a.region,
        usd_per_hour=a.usd_per_hour,
        purchase_usd=a.purchase_usd,
        kind=a.kind.value,
        observed=a.observed,
    )
    if a.ownable:
        shown["break_even_month"] = None if a.break_even_month is None else round(a.break_even_month, 1)
    return {**shown, **rounded_fields(risk=a.risk or None)}


def cheaper_json(c: Cheaper) -> dict[str, Any]:
    """A cheaper option and its condition as JSON."""
    return {
        "if": c.accepting,
        **rounded_fields(
            accelerator=c.accelerator,
            total_accelerators=c.total_accelerators,
            provider=c.provider,
            usd_per_hour=c.usd_per_hour,
            usd_total=c.usd_total,
            saves_share=round(c.saves_share, 3),
            kind=c.kind.value,
            observed=c.observed,
            risk=c.risk,
        ),
    }
