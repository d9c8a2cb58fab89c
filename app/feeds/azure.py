"""Azure's Retail Prices API: pages of meters.

Source: learn.microsoft.com/rest/api/cost-management/retail-prices, version 2023-01-01-preview, read 2026-11-25. A
reservation states the price of its whole term. Windows, dedicated hosts, cloud services and low priority are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from app.feeds.client import FeedError, read_pages
from app.feeds.prices import Feed, FetchedPart, RowReader, Source, StatedPrice, amount, day_of, entries, text

VERSION = "2023-01-01-preview"
HOURS_OF_YEAR = 8760.0
TERMS = {"1 Year": ("1y", 1), "3 Years": ("3y", 3)}
EXCLUDED_PRODUCTS = ("Windows", "Dedicated", "Cloud Services", "CloudServices")


def first_page(url: str, price_type: str) -> str:
    """Returns the address of the first page of the virtual machines with accelerators."""
    wanted = f"serviceName eq 'Virtual Machines' and priceType eq '{price_type}' and contains(armSkuName, 'Standard_N')"
    return f"{url}/api/retail/prices?" + urlencode({"api-version": VERSION, "$filter": wanted}, quote_via=quote)


def read_part(source: Source) -> FetchedPart | None:
    """Returns all prices of one type: Consumption, with spot and savings plans, or Reservation."""
    digest, reader, newest = hashlib.sha256(), RowReader(convert), dict[tuple[str, ...], tuple[Any, StatedPrice]]()

    def read_page(url: str) -> str | None:
        fetched = source.client.fetch_whole(url)
        digest.update(fetched.sha256.encode())
        document = fetched.json()
        items = entries(document, "Items")
        for item in items:
            for price in reader.read([item]):
                key = price.region, price.instance_type, price.pricing_model
                rank = bool(item.get("isPrimaryMeterRegion")), price.effective_from or ""
                if key not in newest or rank > newest[key][0]:
                    newest[key] = rank, price
        link = document.get("NextPageLink")
        if link is not None and not isinstance(link, str):
            raise FeedError("The format has changed: NextPageLink is no text.")
        return link

    read_pages(first_page(source.url, source.part), read_page)
    reader.finish()
    return FetchedPart([price for _, price in newest.values()], "", digest.hexdigest())


def convert(item: Mapping[str, Any]) -> Iterator[StatedPrice]:
    """Yields the prices of a meter: on demand or spot, with the savings plans; or one reservation."""
    product, sku = text(item["productName"]), text(item["skuName"])
    others = any(word in product for word in EXCLUDED_PRODUCTS) or product.endswith(" Win")
    if others or sku.endswith("Low Priority") or item["unitOfMeasure"] != "1 Hour" or item["currencyCode"] != "USD":
        return
    if not text(item["armSkuName"]).startswith("Standard_N"):
        return
    price, is_spot = amount(item["retailPrice"]), sku.endswith(" Spot")
    model, hours = "spot" if is_spot else "on_demand", 1.0
    if item["type"] == "Reservation":
        length, years = TERMS[item["reservationTerm"]]
        model, hours = f"reserved_{length}", HOURS_OF_YEAR * years
    elif item["type"] != "Consumption":
        return
    yield _price_of(item, model, price, hours)
    for plan in () if is_spot else item.get("savingsPlan") or ():
        yield _price_of(item, f"committed_{TERMS[plan['term']][0]}", amount(plan["retailPrice"]), 1.0)


def _price_of(item: Mapping[str, Any], model: str, stated: float, hours: float) -> StatedPrice:
    return StatedPrice(
        provider="azure",
        region=text(item["armRegionName"]),
        instance_type=text(item["armSkuName"]),
        pricing_model=model,
        usd_per_hour=stated / hours,
        native_amount=stated,
        basis="instance_hour" if hours == 1 else "instance_term",
        effective_from=day_of(item["effectiveStartDate"]),
    )


FEED = Feed(name="azure", url="https://prices.azure.com", parts=("Consumption", "Reservation"), read=read_part)
