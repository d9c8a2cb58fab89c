"""Vast.ai's listings, summed up: the median price and the number of equal machines in a country.

Source: docs.vast.ai/api-reference/search, read 2026-11-25. A listing is one machine that comes and goes in hours, so no
single one is an offer. The lowest bid is the price of interruptible use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from app.feeds.prices import Feed, FetchedPart, Source, StatedPrice, amount, count_of, entries, read_all, text

MIB_PER_GB = 1024
COUNTRY = re.compile(r",\s*([A-Z]{2})$")
FILTERS = {"rentable": {"eq": True}, "rented": {"eq": False}, "num_gpus": {"gte": 1}, "limit": 3000}


def read_part(source: Source) -> FetchedPart | None:
    """Returns the median price of each kind of machine in each country."""
    fetched = source.client.fetch_whole(f"{source.url}/api/v0/bundles/", body=FILTERS)
    listings = defaultdict[StatedPrice, list[float]](list)
    for each in read_all(entries(fetched.json(), "offers"), convert):
        if each.usd_per_hour > 0:
            listings[replace(each, usd_per_hour=0.0)].append(each.usd_per_hour)
    prices = [
        replace(kind, usd_per_hour=median(found), state="available", quantity=len(found))
        for kind, found in listings.items()
    ]
    return FetchedPart(prices, "", fetched.sha256)


def convert(entry: Mapping[str, Any]) -> Iterator[StatedPrice]:
    """Yields the price of a listing on demand and interruptible."""
    match, count = COUNTRY.search(entry["geolocation"] or ""), count_of(entry["num_gpus"])
    name = f"{text(entry['gpu_name'])} {round(amount(entry['gpu_ram']) / MIB_PER_GB)}GB"
    for column, model in (("dph_base", "on_demand"), ("min_bid", "spot")):
        if entry[column] is None:
            continue
        price = amount(entry[column])
        yield StatedPrice(
            provider="vast",
            region=match[1] if match else "unspecified",
            instance_type=text(f"{count:g}x {entry['gpu_name']}"),
            accelerator=name,
            count=count,
            pricing_model=model,
            usd_per_hour=price,
            tier="marketplace",
        )


FEED = Feed(name="vast", url="https://console.vast.ai", parts=("bundles",), read=read_part)
