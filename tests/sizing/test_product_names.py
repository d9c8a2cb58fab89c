"""Names in sentences cover the catalog: every engine, provider and API host has one."""

from __future__ import annotations

import csv
from pathlib import Path

from app.sizing.product_names import (
    API_HOSTS,
    PRODUCTS,
    PROVIDERS,
    format_name,
    product_name,
    provider_name,
)

DATA = Path(__file__).parents[2] / "app" / "catalog" / "data"
# Written in lower case by their makers, too.
AS_WRITTEN = {"torchax", "verl"}


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_providers_are_those_of_the_catalog() -> None:
    assert {row["provider"]: row["name"] for row in rows("providers.csv")} == PROVIDERS


def test_every_engine_has_a_name() -> None:
    engines = {row["engine"] for row in rows("engine_support.csv")}
    assert engines - AS_WRITTEN <= PRODUCTS.keys()
    assert all(product_name(engine) == engine for engine in AS_WRITTEN)


def test_every_api_host_has_one_name() -> None:
    hosts = {row["provider"] for row in rows("hosted_prices.csv")}
    assert hosts <= PROVIDERS.keys() | API_HOSTS.keys()
    assert not PROVIDERS.keys() & API_HOSTS.keys()


def test_unknown_slugs_stay_as_they_are() -> None:
    assert (product_name("vllm"), product_name("own-engine")) == ("vLLM", "own-engine")
    assert (provider_name("lambda"), provider_name("deepinfra"), provider_name("own")) == (
        "Lambda",
        "DeepInfra",
        "own",
    )
    assert (format_name("fp8"), format_name("int4-awq")) == ("FP8", "INT4-AWQ")
