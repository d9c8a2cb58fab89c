"""Prices of nine providers as gpuhunt collects them: a ZIP of one CSV per provider.

Source: format 3 of the catalog of gpuhunt 0.1.34 (github.com/dstackai/gpuhunt), read 2026-11-25. Spot prices of OCI
are half of the on-demand prices by rule there, so they are left out.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping

from app.feeds.client import MAX_BYTES, FeedError
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
from app.sizing.columns import GB

COLUMNS = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot")
MAX_CSV_BYTES = 4 * MAX_BYTES
# What zipfile raises for damaged archives.
DAMAGED = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError, OSError)
VERSION = re.compile(r"\d{8}-\d{1,8}")
PROVIDERS = {"lambdalabs": "lambda"}


def read_part(source: Source) -> FetchedPart | None:
    """Returns the prices of one provider; None if its version is the one of the last read."""
    base = f"{source.url}/v3/{source.part}"
    version = source.client.fetch_whole(f"{base}/version", max_bytes=200).text().strip()
    if not VERSION.fullmatch(version):
        raise FeedError("The version is no date with a number.")
    if version == source.version:
        return None
    if source.version and version < source.version:
        raise FeedError(f"The version went back from {source.version} to {version}.")
    archive = source.client.fetch_whole(f"{base}/{version}/catalog.zip")
    provider = PROVIDERS.get(source.part, source.part)
    try:
        with zipfile.ZipFile(archive.file) as opened:
            name = f"{source.part}.csv"
            if opened.getinfo(name).file_size > MAX_CSV_BYTES:
                raise FeedError(f"{name} is larger than {MAX_CSV_BYTES // 2**20} MiB, the limit.")
            with opened.open(name) as file:
                rows = csv_rows(text_lines(file), COLUMNS)
                prices = read_all(rows, lambda row: convert(provider, row))
    except DAMAGED as error:
        raise FeedError(f"The archive is damaged or has no {source.part}.csv.") from error
    return FetchedPart(prices, version, archive.sha256)


def convert(provider: str, row: Mapping[str, str]) -> Iterator[StatedPrice]:
    """Yields the price of a row; nothing for machines without accelerators."""
    if not row["gpu_name"] or amount(row["gpu_count"] or 0) == 0:
        return
    is_spot = {"True": True, "False": False}[row["spot"]]
    if is_spot and provider == "oci":
        return
    memory, price = row["gpu_memory"], amount(row["price"])
    name = f"{text(row['gpu_name'])} {amount(memory):g}GB" if memory else text(row["gpu_name"])
    yield StatedPrice(
        provider=provider,
        region=text(row["location"]),
        instance_type=text(row["instance_name"]),
        accelerator=name,
        count=count_of(row["gpu_count"]),
        pricing_model="spot" if is_spot else "on_demand",
        usd_per_hour=price,
        vcpus=integer(row["cpu"]),
        ram_bytes=ram_bytes_of(row["memory"], GB),
    )


FEED = Feed(
    name="gpuhunt",
    url="https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com",
    parts=("aws", "azure", "gcp", "lambdalabs", "nebius", "oci", "runpod", "verda", "cloudrift"),
    read=read_part,
    aggregate=True,
)
