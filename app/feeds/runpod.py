"""RunPod's GraphQL API: prices per accelerator, and how many are left.

Source: docs.runpod.io/sdks/graphql, read 2026-11-25. A community price is a marketplace's price on demand, not spot.
Errors arrive with status 200.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.feeds.client import FeedError
from app.feeds.prices import ACCELERATOR_HOUR, Feed, FetchedPart, Source, StatedPrice, amount, entries, read_all, text

QUERY = (
    "{ gpuTypes { id displayName memoryInGb securePrice communityPrice secureSpotPrice communitySpotPrice "
    "lowestPrice(input: {gpuCount: 1}) { stockStatus } } }"
)
# Price, whether of the marketplace, and pricing model.
PRICES = (
    ("securePrice", False, "on_demand"),
    ("communityPrice", True, "on_demand"),
    ("secureSpotPrice", False, "spot"),
    ("communitySpotPrice", True, "spot"),
)
STOCK = {None: "none", "High": "available", "Medium": "available", "Low": "low"}


def read_part(source: Source) -> FetchedPart | None:
    """Returns the prices of one accelerator of each type."""
    headers = {"authorization": f"Bearer {source.key}"}
    fetched = source.client.fetch_whole(f"{source.url}/graphql", headers=headers, body={"query": QUERY})
    document = fetched.json()
    if not isinstance(document, dict) or document.get("errors"):
        raise FeedError("The API answered with errors.")
    return FetchedPart(read_all(entries(document, "data", "gpuTypes"), convert), "", fetched.sha256)


def convert(entry: Mapping[str, Any]) -> Iterator[StatedPrice]:
    """Yields the prices of a type; a price of 0 or null means that it is not sold so."""
    stock = entry["lowestPrice"]["stockStatus"]
    for name, community, model in PRICES:
        if not entry[name]:
            continue
        price = amount(entry[name])
        yield StatedPrice(
            provider="runpod",
            region="unspecified",
            instance_type=f"1x {text(entry['displayName'])[:80]} ({'community' if community else 'secure'})",
            accelerator=text(entry["id"]),
            count=1,
            pricing_model=model,
            usd_per_hour=price,
            basis=ACCELERATOR_HOUR,
            tier="marketplace" if community else "standard",
            state=STOCK.get(stock, "unknown"),
        )


FEED = Feed(name="runpod", url="https://api.runpod.io", parts=("gpu-types",), read=read_part, needs_key=True)
