"""Google's Cloud Billing Catalog: prices of cores, memory and accelerators, which add up to machines.

Source: cloud.google.com/billing/docs/reference/rest/v1/services.skus, read 2026-11-25. Only machine families whose
price has no other part: those with local SSDs in them are left out, because their SSDs are priced on their own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from app.feeds.client import FeedError, read_pages
from app.feeds.prices import (
    Feed,
    FetchedPart,
    Machine,
    Source,
    StatedPrice,
    amount,
    entries,
    text,
)
from app.sizing.columns import GIB

SERVICE = "6F81-5844-456A"  # Compute Engine
NANO = 1e-9
FAMILIES = {
    "a2-highgpu": ("A2", "Nvidia Tesla A100"),
    "a2-megagpu": ("A2", "Nvidia Tesla A100"),
    "g2-standard": ("G2", "Nvidia L4"),
}
OTHER_TERMS = re.compile(r"DWS|Calendar|Reserved|slice|Sole Tenancy|Custom|Premium|Commitment|80GB", re.IGNORECASE)
PART = re.compile(r"^(?:Spot Preemptible )?(?P<what>.+?) (?:running|attached to .+ running) in ")


def read_part(source: Source) -> FetchedPart | None:
    """Returns the prices of the machines of the catalog whose parts all have a price."""
    digest, rates = hashlib.sha256(), dict[tuple[str, str, str], tuple[float, str]]()
    counted = [0, 0]

    def read_page(url: str) -> str | None:
        # The key travels in a header, so that no address in a log or an error contains it.
        fetched = source.client.fetch_whole(url, headers={"x-goog-api-key": source.key})
        digest.update(fetched.sha256.encode())
        document = fetched.json()
        for sku in entries(document, "skus"):
            counted[0] += 1
            try:
                rates.update(part_rates(sku))
            except (KeyError, TypeError, ValueError, AttributeError, IndexError):
                counted[1] += 1
        token = document.get("nextPageToken")
        if token and not isinstance(token, str):
            raise FeedError("The format has changed: nextPageToken is no text.")
        return page_url(source.url, token) if token else None

    read_pages(page_url(source.url, ""), read_page)
    if not counted[0] or counted[1] > 0.05 * counted[0]:
        raise FeedError(f"{counted[1]:,} of {counted[0]:,} entries are malformed: the format has changed.")
    return FetchedPart(list(add_up(source.machines, rates)), "", digest.hexdigest())


def page_url(url: str, token: str) -> str:
    """Returns the address of a page."""
    query = {"pageSize": "5000", "currencyCode": "USD"} | ({"pageToken": token} if token else {})
    return f"{url}/v1/services/{SERVICE}/skus?{urlencode(query, quote_via=quote)}"


def part_rates(sku: Mapping[str, Any]) -> dict[tuple[str, str, str], tuple[float, str]]:
    """Returns the USD per hour of a core, a GiB or an accelerator by (part, region, pricing model), with its day."""
    description, usage = text(sku["description"][:120]), sku["category"]["usageType"]
    match = PART.match(description)
    if match is None or OTHER_TERMS.search(description) or usage not in ("OnDemand", "Preemptible"):
        return {}
    # Some spot entries carry the usage type of on demand: the words decide.
    model = "spot" if usage == "Preemptible" or description.startswith("Spot Preemptible") else "on_demand"
    info = sku["pricingInfo"][-1]
    tier = info["pricingExpression"]["tieredRates"][-1]["unitPrice"]
    if tier["currencyCode"] != "USD":
        return {}
    rate = amount(tier["units"]) + amount(tier["nanos"]) * NANO
    day = text(info["effectiveTime"])[:10]
    return {(match["what"].removesuffix(" GPU"), text(region), model): (rate, day) for region in sku["serviceRegions"]}


def add_up(
    machines: Iterable[Machine], rates: Mapping[tuple[str, str, str], tuple[float, str]]
) -> Iterator[StatedPrice]:
    """Yields the price of each machine in each region where all its parts have one."""
    places = sorted({(region, model) for _, region, model in rates})
    for machine in machines:
        parts = FAMILIES.get(machine.instance_type.rpartition("-")[0])
        if parts is None or machine.vcpus is None or machine.ram_bytes is None:
            continue
        series, accelerator = parts
        names = (f"{series} Instance Core", f"{series} Instance Ram", accelerator)
        quantities = (float(machine.vcpus), machine.ram_bytes / GIB, machine.count)
        for region, model in places:
            found = [rates.get((name, region, model)) for name in names]
            if any(rate is None or rate[0] <= 0 for rate in found):
                continue
            price = sum(rate[0] * n for rate, n in zip(found, quantities, strict=True) if rate is not None)
            yield StatedPrice(
                provider="gcp",
                region=region,
                instance_type=machine.instance_type,
                accelerator="",
                count=0,
                pricing_model=model,
                usd_per_hour=price,
                native_amount=price,
                basis="sum_of_parts",
                effective_from=max(rate[1] for rate in found if rate is not None),
            )


FEED = Feed(
    name="gcp",
    url="https://cloudbilling.googleapis.com",
    parts=("compute",),
    read=read_part,
    needs_key=True,
    provider="gcp",
)
