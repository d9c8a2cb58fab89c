"""Models sold only as a service are recognized by name; for published ones hosts have prices per million tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import median
from typing import Any

import pytest
from sqlalchemy.orm import Session

from app.catalog.files import read_rows
from app.catalog.hosted import find_hosted_only, hosted_models
from app.catalog.names import fold_name
from app.catalog.queries import list_hosted_prices
from app.catalog.seed import hosted_price_values, model_entries
from app.db import make_engine


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("gpt-4o", "OpenAI"),
        ("GPT 4o mini", "OpenAI"),
        ("openai/gpt-5.2", "OpenAI"),
        ("o3-mini", "OpenAI"),
        ("claude-sonnet-4-5", "Anthropic"),
        ("anthropic/claude-3.5-sonnet", "Anthropic"),
        ("Gemini 2.5 Pro", "Google"),
        ("grok-4", "xAI"),
        ("mistral-medium-2508", "Mistral AI"),
        ("text-embedding-3-large", "OpenAI"),
    ],
)
def test_a_model_that_is_only_sold_as_a_service_is_known_by_its_maker(name: str, maker: str) -> None:
    found = find_hosted_only(name)
    assert found is not None and found.maker == maker


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-j-6b", "gemma-3-27b-it", "grok-1", "mistral-small", "o2", ""])
def test_published_weights_and_unknown_names_are_not_reported_as_services(name: str) -> None:
    assert find_hosted_only(name) is None


def test_no_model_of_the_catalog_is_reported_as_a_service() -> None:
    names = {name for entry in model_entries() for name in (entry["hf_id"], *entry["aliases"])}
    assert sorted(name for name in names if find_hosted_only(name) is not None) == []


def test_every_pattern_is_written_as_names_are_compared() -> None:
    assert all(fold_name(m.name.removesuffix("*")) == m.name.removesuffix("*").rstrip("-") for m in hosted_models())


PRICES = [hosted_price_values(row) for row in read_rows("hosted_prices.csv")]


def usual_usd(price: Mapping[str, Any]) -> float:
    """A million tokens, three in for each that comes out."""
    return float((3 * price["usd_per_million_input"] + price["usd_per_million_output"]) / 4)


def test_every_hosted_price_is_of_a_model_of_the_catalogue_and_has_its_source_and_date() -> None:
    kinds = {entry["hf_id"]: entry["modality"] for entry in model_entries()}
    for price in PRICES:
        assert kinds[price["model"]] in ("text", "vision-language", "embedding", "reranker")
        assert price["source"] and re.fullmatch(r"20\d\d-\d\d-\d\d", price["observed"])
        assert (price["usd_per_million_output"] == 0) == (kinds[price["model"]] in ("embedding", "reranker"))


def test_hosted_prices_are_in_their_unit_and_no_host_is_far_off_the_others() -> None:
    """A price per token, per thousand or in cents would stand out by ten or more."""
    by_model: dict[str, list[float]] = {}
    for price in PRICES:
        assert 0.005 <= price["usd_per_million_input"] <= 15
        assert price["usd_per_million_output"] <= 12 * price["usd_per_million_input"]
        assert (price["usd_per_million_cached_input"] or 0) <= price["usd_per_million_input"]
        by_model.setdefault(price["model"], []).append(usual_usd(price))
    assert all(median(usd) / 6 <= each <= median(usd) * 4 for usd in by_model.values() for each in usd)


def test_a_larger_model_of_a_family_costs_no_less_to_have_run() -> None:
    cheapest = {
        name: min(usual_usd(p) for p in PRICES if p["model"] == name)
        for name in ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct", "deepseek-ai/DeepSeek-R1")
    }
    assert list(cheapest.values()) == sorted(cheapest.values())


def test_the_market_has_them(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        found = list_hosted_prices(session)
    engine.dispose()
    assert len(found) == len(PRICES)
    assert {p.provider for p in found if p.model == "openai/gpt-oss-120b"} >= {"together", "fireworks", "groq"}
