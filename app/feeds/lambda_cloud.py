"""Lambda's instance types: prices, and the regions with capacity now.

Source: docs.lambda.ai/api/cloud, read 2026-11-25. Prices are integer cents per machine and equal in all regions. A
region that the list of a type lacks is sold out there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.feeds.client import FeedError
from app.feeds.prices import (
    Feed,
    FetchedPart,
    Source,
    StatedPrice,
    amount,
    count_of,
    integer,
    ram_bytes_of,
    read_all,
    text,
)
from app.sizing.columns import GIB


def read_part(source: Source) -> FetchedPart | None:
    """Returns every type in every region that the answer names."""
    fetched = source.client.fetch_whole(
        f"{source.url}/api/v1/instance-types", headers={"authorization": f"Bearer {source.key}"}
    )
    document = fetched.json()
    types = document.get("data") if isinstance(document, dict) else None
    if not isinstance(types, dict):
        raise FeedError("The format has changed: data is no object.")
    regions = sorted(
        {
            region["name"]
            for each in types.values()
            if isinstance(each, dict)
            for region in each.get("regions_with_capacity_available") or ()
            if isinstance(region, dict) and isinstance(region.get("name"), str)
        }
    )
    prices = read_all(types.values(), lambda each: convert(each, regions or ["unspecified"]))
    return FetchedPart(prices, "", fetched.sha256)


def convert(entry: Mapping[str, Any], regions: list[str]) -> Iterator[StatedPrice]:
    """Yields a type in each region, with its capacity there; nothing for types without accelerators."""
    about, specs = entry["instance_type"], entry["instance_type"]["specs"]
    if amount(specs["gpus"]) == 0:
        return
    available = {text(region["name"]) for region in entry["regions_with_capacity_available"]}
    cents = amount(about["price_cents_per_hour"])
    for region in regions:
        yield StatedPrice(
            provider="lambda",
            region=text(region),
            instance_type=text(about["name"]),
            accelerator=text(about["gpu_description"]),
            count=count_of(specs["gpus"]),
            pricing_model="on_demand",
            usd_per_hour=cents / 100,
            vcpus=integer(specs["vcpus"]),
            ram_bytes=ram_bytes_of(specs["memory_gib"], GIB),
            state="available" if region in available else "none",
        )


FEED = Feed(
    name="lambda",
    url="https://cloud.lambda.ai",
    parts=("instance-types",),
    read=read_part,
    needs_key=True,
    provider="lambda",
)
