"""Models that are sold as a service only are told by name; published ones are not."""

from __future__ import annotations

import pytest

from app.catalog.hosted import hosted_models, hosted_only
from app.catalog.names import folded
from app.catalog.seed import model_entries


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
    found = hosted_only(name)
    assert found is not None and found.maker == maker


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-j-6b", "gemma-3-27b-it", "grok-1", "mistral-small", "o2", ""])
def test_published_weights_and_unknown_names_are_not_told_as_services(name: str) -> None:
    assert hosted_only(name) is None


def test_no_model_of_the_catalogue_is_told_as_a_service() -> None:
    names = {name for entry in model_entries() for name in (entry["hf_id"], *entry["aliases"])}
    assert sorted(name for name in names if hosted_only(name) is not None) == []


def test_every_pattern_is_written_as_names_are_compared() -> None:
    assert all(folded(m.name.removesuffix("*")) == m.name.removesuffix("*").rstrip("-") for m in hosted_models())
