"""Oracle's price list: accelerators per hour by part number, the same in every commercial region.

Source: the cetools API of apexapps.oracle.com, read 2026-11-25. A part number is the instance type, as in the catalog.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from app.feeds.client import FeedError, read_pages
from app.feeds.prices import ACCELERATOR_HOUR, Feed, FetchedPart, RowReader, Source, StatedPrice, amount, entries, text


def read_part(source: Source) -> FetchedPart | None:
    """Returns the prices of all accelerators."""
    digest, reader, prices = hashlib.sha256(), RowReader(convert), list[StatedPrice]()

    def read_page(url: str) -> str | None:
        fetched = source.client.fetch_whole(url)
        digest.update(fetched.sha256.encode())
        document = fetched.json()
        prices.extend(reader.read(entries(document, "items")))
        links = document.get("links") or []
        following = [link.get("href") for link in links if isinstance(link, dict) and link.get("rel") == "next"]
        if following and not isinstance(following[0], str):
            raise FeedError("The format has changed: the next link is no text.")
        return following[0] if following else None

    read_pages(f"{source.url}/pls/apex/cetools/api/v1/products/?currencyCode=USD", read_page)
    reader.finish()
    return FetchedPart(prices, "", digest.hexdigest())


def convert(item: Mapping[str, Any]) -> Iterator[StatedPrice]:
    """Yields the price of an accelerator: that of the last tier above zero."""
    if text(item["metricName"]) != "GPU Per Hour":
        return
    usd = [each for each in item["currencyCodeLocalizations"] if each["currencyCode"] == "USD"][0]  # noqa: RUF015
    tiers = [amount(p["value"]) for p in usd["prices"] if p["model"] == "PAY_AS_YOU_GO"]
    price = next((value for value in reversed(tiers) if value > 0), tiers[-1])
    yield StatedPrice(
        provider="oci",
        region="global",
        instance_type=text(item["partNumber"]),
        accelerator=text(item["displayName"]).rpartition(" - ")[2],
        count=1,
        pricing_model="on_demand",
        usd_per_hour=price,
        basis=ACCELERATOR_HOUR,
    )


FEED = Feed(name="oci", url="https://apexapps.oracle.com", parts=("products",), read=read_part, provider="oci")
