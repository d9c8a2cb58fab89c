"""Prices as SkyPilot's catalog lists them: one CSV per cloud, with a row per zone.

Source: schema v8 of the catalog of SkyPilot (github.com/skypilot-org/skypilot-catalog), read 2026-11-25. GCP is left
out: its hosts and its accelerators are separate rows there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.feeds.prices import (
    Feed,
    FetchedPart,
    Source,
    StatedPrice,
    amount,
    count_of,
    csv_rows,
    integer,
    ram_bytes_of,
    read_all,
    text,
    text_lines,
)
from app.sizing.columns import GIB

COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "SpotPrice", "Region")


def read_part(source: Source) -> FetchedPart | None:
    """Returns the prices of one cloud; None if its file has not changed."""
    fetched = source.client.fetch(f"{source.url}/catalogs/v8/{source.part}/vms.csv", etag=source.etag)
    if fetched is None:
        return None
    prices = read_all(csv_rows(text_lines(fetched.file), COLUMNS), lambda row: convert(source.part, row))
    return FetchedPart(prices, fetched.etag or "", fetched.sha256, fetched.etag)


def convert(provider: str, row: Mapping[str, str]) -> Iterator[StatedPrice]:
    """Yields the on-demand and the spot price of a row; nothing for machines without accelerators."""
    if not row["AcceleratorName"]:
        return
    for column, model in (("Price", "on_demand"), ("SpotPrice", "spot")):
        if not row[column]:
            continue
        price = amount(row[column])
        yield StatedPrice(
            provider=provider,
            region=text(row["Region"]),
            instance_type=text(row["InstanceType"]),
            accelerator=re.sub(r"[-_](\d+GB)", r" \1", text(row["AcceleratorName"])),
            count=count_of(row["AcceleratorCount"]),
            pricing_model=model,
            usd_per_hour=price,
            vcpus=integer(row["vCPUs"]),
            ram_bytes=ram_bytes_of(row["MemoryGiB"], GIB),
        )


FEED = Feed(
    name="skypilot",
    url="https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master",
    parts=("aws", "azure", "lambda", "nebius", "shadeform"),
    read=read_part,
    aggregate=True,
)
