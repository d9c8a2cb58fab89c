"""Shadeform's instance types: a broker's prices over several clouds, and where they are available.

Source: docs.shadeform.ai/api-reference/instances/instances-types, read 2026-11-25. Prices are integer cents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.feeds.prices import (
    Feed,
    FetchedPart,
    Source,
    StatedPrice,
    amount,
    count_of,
    entries,
    integer,
    ram_bytes_of,
    read_all,
    text,
)
from app.sizing.columns import GIB


def read_part(source: Source) -> FetchedPart | None:
    """Returns every type in every region."""
    fetched = source.client.fetch_whole(f"{source.url}/v1/instances/types", headers={"x-api-key": source.key})
    return FetchedPart(read_all(entries(fetched.json(), "instance_types"), convert), "", fetched.sha256)


def convert(entry: Mapping[str, Any]) -> Iterator[StatedPrice]:
    """Yields a type in each of its regions, with its capacity there."""
    about, cents = entry["configuration"], amount(entry["hourly_price"])
    memory = f"{amount(about['vram_per_gpu_in_gb']):g}GB"
    name = text(about["gpu_type"]).split("_")[0]
    for place in entry["availability"]:
        yield StatedPrice(
            provider="shadeform",
            region=text(place["region"]),
            instance_type=text(f"{entry['cloud']}_{entry['shade_instance_type']}"),
            accelerator=text(f"{name} {memory} {about.get('interconnect') or ''}"),
            count=count_of(about["num_gpus"]),
            pricing_model="on_demand",
            usd_per_hour=cents / 100,
            vcpus=integer(about["vcpus"]),
            ram_bytes=ram_bytes_of(about["memory_in_gb"], GIB),
            state={True: "available", False: "none"}[place["available"]],
        )


FEED = Feed(name="shadeform", url="https://api.shadeform.ai", parts=("types",), read=read_part, needs_key=True)
