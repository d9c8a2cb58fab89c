"""Other ways to the same end on the wire: the same machines had otherwise, cheaper ones, an API."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, present
from app.api.schemas.names import PriceKindName, WayName
from app.sizing.values.hosted import HostedApi, HostedCost
from app.sizing.values.ways import Alternative, Cheaper


class AlternativeShown(Shown):
    """The same number of the same accelerators, had another way."""

    way: WayName = Field(description="on_demand, committed_1y, committed_3y, spot or owned.")
    provider: str
    region: str
    usd_per_hour: float
    purchase_usd: float | None = Field(None, description="Of owned ones.")
    kind: PriceKindName = Field(description="Who stands behind the price.")
    observed: str
    break_even_month: float | None = Field(
        None,
        description="Month from which on owning has cost less than this rent; of an owned one, than the rent "
        "recommended. Null where it never has within the horizon; absent where no price to own is known.",
    )
    risk: str | None = None


class CheaperShown(Shown):
    """What would cost less than the first recommendation if something more were accepted."""

    if_: str = Field(alias="if")
    accelerator: str
    total_accelerators: int
    provider: str
    usd_per_hour: float
    usd_total: float | None = Field(None, description="Of work that ends.")
    saves_share: float = Field(description="Of what the first recommendation costs for the same work.")
    kind: PriceKindName = Field(description="Who stands behind the price.")
    observed: str
    risk: str


class HostShown(Shown):
    """A host of the model, which is paid by the token."""

    provider: str
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_million_cached_input: float | None = None
    usd_per_million_tokens: float = Field(description="Of this traffic's, in and out together.")
    usd_per_month: float | None = None
    usd_total: float | None = Field(None, description="Of work that ends.")


class HostedApiShown(Shown):
    """What the same traffic costs at the cheapest hosts of the model, which are paid by the token."""

    text: str
    hosts: list[HostShown]
    pays_from_requests_per_s: float | None = Field(
        None, description="Mean load from which on the machines cost less than the cheapest host."
    )
    source: str
    observed: str


def hosted_json(found: HostedApi) -> dict[str, Any]:
    """The cheapest hosts and what they ask."""
    return {
        "text": found.text,
        "hosts": [_host_json(host) for host in found.hosts],
        **present(pays_from_requests_per_s=found.pays_from_requests_per_s),
        "source": found.hosts[0].price.source.split(" ")[0],
        "observed": found.hosts[0].price.observed,
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
    )


def alternative_json(a: Alternative) -> dict[str, Any]:
    """Another way to have the same accelerators."""
    shown = present(
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
    return {**shown, **present(risk=a.risk or None)}


def cheaper_json(c: Cheaper) -> dict[str, Any]:
    """What would cost less, and what one takes on by it."""
    return {
        "if": c.accepting,
        **present(
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
