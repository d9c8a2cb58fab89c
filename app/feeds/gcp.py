"""Google's Cloud Billing Catalog: prices of cores, memory, accelerators and local SSDs, which add up to machines.

Source: cloud.google.com/billing/docs/reference/rest/v1/services.skus, read 2026-11-25; the names of the parts are those
of Cyclenerd/google-cloud-pricing-cost-calculator@08440e7 (build/mapping.csv). A4 machines have no parts there; TPUs are
left out because the list may state their one-year price as that on demand.
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
    RowReader,
    Source,
    StatedPrice,
    amount,
    day_of,
    entries,
    limit_prices,
    text,
)
from app.sizing.columns import GB, GIB

SERVICE = "6F81-5844-456A"  # Compute Engine
NANO = 1e-9
HOURS_OF_MONTH = 730.0  # to which Google converts
LOCAL_SSD = "SSD backed Local Storage"
# Series of the cores and memory, accelerator, and whether the machine has local SSDs that are priced on their own.
FAMILIES = {
    "a2-highgpu": ("A2", "Nvidia Tesla A100", False),
    "a2-megagpu": ("A2", "Nvidia Tesla A100", False),
    "a2-ultragpu": ("A2", "Nvidia Tesla A100 80GB", True),
    "a3-highgpu": ("A3", "Nvidia H100 80GB", True),
    "a3-megagpu": ("A3", "Nvidia H100 80GB Mega", True),
    "g2-standard": ("G2", "Nvidia L4", False),
    "g4-standard": ("G4", "RTX 6000 96GB", False),
}
OTHER_NAMES = {  # in some regions
    "Nvidia H100 Mega 80GB": "Nvidia H100 80GB Mega",
    "Nvidia H100 80GB Plus": "Nvidia H100 80GB Mega",
}
# Unit of each part. Entries of other terms, such as commitments and sole tenancy, have other names.
UNITS = {
    **{f"{series} Instance Core": "h" for series, _, _ in FAMILIES.values()},
    **{f"{series} Instance Ram": "GiBy.h" for series, _, _ in FAMILIES.values()},
    **{accelerator: "h" for _, accelerator, _ in FAMILIES.values()},
    LOCAL_SSD: "GiBy.mo",
}
PART = re.compile(
    r"^(?:Spot Preemptible )?(?P<what>.+?)(?: GPU)?(?: attached to Spot Preemptible VMs)?(?: running)?(?: in .+)?$"
)


def read_part(source: Source) -> FetchedPart | None:
    """Returns the prices of the machines of the catalog whose parts all have a price."""
    digest, reader, rates = hashlib.sha256(), RowReader(part_rates), dict[tuple[str, str, str], tuple[float, str]]()

    def read_page(url: str) -> str | None:
        # The key travels in a header, so that no address in a log or an error contains it.
        fetched = source.client.fetch_whole(url, headers={"x-goog-api-key": source.key})
        digest.update(fetched.sha256.encode())
        document = fetched.json()
        rates.update(reader.read(entries(document, "skus")))
        token = document.get("nextPageToken")
        if token and not isinstance(token, str):
            raise FeedError("The format has changed: nextPageToken is no text.")
        return page_url(source.url, token) if token else None

    read_pages(page_url(source.url, ""), read_page)
    reader.finish()
    return FetchedPart(list(limit_prices(add_up(source.machines, rates))), "", digest.hexdigest())


def page_url(url: str, token: str) -> str:
    query = {"pageSize": "5000", "currencyCode": "USD"} | ({"pageToken": token} if token else {})
    return f"{url}/v1/services/{SERVICE}/skus?{urlencode(query, quote_via=quote)}"


def part_rates(sku: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], tuple[float, str]]]:
    """Yields the USD per hour of a core, a GiB or an accelerator by (part, region, pricing model), with its day. Raises
    ValueError if a part has another unit.
    """
    description, usage = text(sku["description"][:120]), sku["category"]["usageType"]
    match = PART.match(description)
    part = "" if match is None else OTHER_NAMES.get(match["what"], match["what"])
    if part not in UNITS or usage not in ("OnDemand", "Preemptible"):
        return
    # Some spot entries carry the usage type of on demand: the words decide.
    model = "spot" if usage == "Preemptible" or "Spot Preemptible" in description else "on_demand"
    info = sku["pricingInfo"][-1]
    priced = info["pricingExpression"]
    tier = priced["tieredRates"][-1]["unitPrice"]
    if tier["currencyCode"] != "USD":
        return
    if priced["usageUnit"] != UNITS[part]:
        raise ValueError("another unit")
    rate = amount(tier["units"]) + amount(tier["nanos"]) * NANO
    rate /= HOURS_OF_MONTH if UNITS[part].endswith(".mo") else 1.0
    day = day_of(info["effectiveTime"]) or ""
    for region in sku["serviceRegions"]:
        yield (part, text(region), model), (rate, day)


def add_up(
    machines: Iterable[Machine], rates: Mapping[tuple[str, str, str], tuple[float, str]]
) -> Iterator[StatedPrice]:
    """Yields the price of each machine in each region where all its parts have one."""
    places = sorted({(region, model) for _, region, model in rates})
    for machine in machines:
        parts = FAMILIES.get(machine.instance_type.rpartition("-")[0])
        if parts is None or machine.vcpus is None or machine.ram_bytes is None:
            continue
        series, accelerator, has_storage = parts
        needed = {
            f"{series} Instance Core": float(machine.vcpus),
            f"{series} Instance Ram": machine.ram_bytes / GIB,
            accelerator: machine.count,
        }
        if has_storage:
            if machine.storage_bytes is None:
                continue
            needed[LOCAL_SSD] = machine.storage_bytes / GB  # the catalog counts a disk of 375 GiB as 375 GB
        for region, model in places:
            found = [(*rates.get((name, region, model), (0.0, "")), quantity) for name, quantity in needed.items()]
            if any(rate <= 0 for rate, _, _ in found):
                continue
            price = sum(rate * quantity for rate, _, quantity in found)
            yield StatedPrice(
                provider="gcp",
                region=region,
                instance_type=machine.instance_type,
                pricing_model=model,
                usd_per_hour=price,
                basis="sum_of_parts",
                effective_from=max(day for _, day, _ in found) or None,
            )


FEED = Feed(
    name="gcp",
    url="https://cloudbilling.googleapis.com",
    parts=("compute",),
    read=read_part,
    needs_key=True,
    provider="gcp",
)
