"""Names in sentences cover the catalog: every engine, provider and API host has one. Numbers and counts in
sentences.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.facts import read_rows
from app.sizing.words import (
    API_HOSTS,
    PRODUCTS,
    PROVIDERS,
    format_count,
    format_distinct_numbers,
    format_duration,
    format_large_number,
    format_name,
    format_number,
    product_name,
    provider_name,
    round_up_to_digits,
)

DATA = Path(__file__).parents[2] / "app" / "catalog" / "data"
# Written in lower case by their makers, too.
AS_WRITTEN = {"torchax", "verl"}


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_provider_and_product_has_one_name() -> None:
    for names in (PRODUCTS, PROVIDERS, API_HOSTS):
        assert all(slug and name for slug, name in names.items())
    assert [len(read_rows(f"{table}.csv")) for table in ("products", "providers", "api_hosts")] == [
        len(names) for names in (PRODUCTS, PROVIDERS, API_HOSTS)
    ]


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


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (1, "1"),
        (2.5, "2.5"),
        (13.9, "13.9"),
        (0.1234, "0.123"),
        (0.000012345, "0.0000123"),
        (100.4, "100"),
        (99.97, "100"),
        (9.999, "10"),
        (2000, "2,000"),
        (123_456.7, "123,457"),
        (1e20, "100,000,000,000,000,000,000"),
        (-2504.4, "-2,504"),
        (-0.5, "-0.5"),
    ],
)
def test_a_number_has_three_digits_and_no_exponent(value: float, words: str) -> None:
    assert format_number(value) == words


@given(st.floats(1e-9, 1e15))
def test_a_number_is_read_back_within_its_digits(value: float) -> None:
    text = format_number(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=5.1e-3)


def test_very_large_numbers_are_said() -> None:
    assert format_large_number(15.6e12) == "15.6 trillion"
    assert format_large_number(1e9) == "1 billion"
    assert format_large_number(2.5e6) == "2.5 million"
    assert format_large_number(999_999) == "999,999"


def test_one_thing_is_singular() -> None:
    assert [format_count(n, "machine") for n in (0, 1, 2, 1024.0)] == [
        "0 machines",
        "1 machine",
        "2 machines",
        "1,024 machines",
    ]


@given(st.floats(1e-6, 1e12))
def test_a_rounded_limit_does_and_is_near(value: float) -> None:
    assert value * (1 - 1e-9) <= round_up_to_digits(value) <= value * 1.01


def test_a_limit_of_three_digits_stays() -> None:
    assert [round_up_to_digits(v) for v in (104_000, 4.2, 24, 61.0, 0.3, 1839.2)] == [104_000, 4.2, 24, 61, 0.3, 1840]
    assert round_up_to_digits(0) == 0


def test_two_numbers_are_shown_as_different() -> None:
    assert format_distinct_numbers(2.004, 2.0) == ("2.004", "2")
    assert format_distinct_numbers(14.4, 15.0) == ("14.4", "15")
    assert format_distinct_numbers(2000.04, 2000.0) == ("2,000.04", "2,000")
    assert format_distinct_numbers(5.0, 5.0) == ("5", "5")


def test_durations_are_days_or_hours() -> None:
    assert [format_duration(days) for days in (14, 2, 1.5, 1 / 24, 106.4)] == [
        "14 days",
        "2 days",
        "36 hours",
        "1 hour",
        "106 days",
    ]
