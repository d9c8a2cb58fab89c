"""The next smaller model of a family."""

from __future__ import annotations

import pytest

from app.catalog.families import strip_size
from app.catalog.snapshot import CatalogStore


@pytest.mark.parametrize(
    ("identity", "smaller"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-llama/Llama-3.1-405B", "meta-llama/Llama-3.1-70B"),
        ("meta-llama/Llama-3.1-8B-Instruct", None),
        ("deepseek-ai/DeepSeek-V3", None),
        ("no-such-org/nothing-7b", None),
    ],
)
def test_the_next_smaller_of_a_family_is_named_alike(
    catalog_store: CatalogStore, identity: str, smaller: str | None
) -> None:
    assert catalog_store.smaller_model(identity) == smaller


def test_names_differ_by_size_alone() -> None:
    assert strip_size("Qwen/Qwen3-30B-A3B") == strip_size("Qwen/Qwen3-235B-A22B")
    assert strip_size("mistralai/Mixtral-8x7B-v0.1") == strip_size("mistralai/Mixtral-8x22B-v0.1")
    assert strip_size("Qwen/Qwen2.5-7B-Instruct") != strip_size("Qwen/Qwen2.5-7B")
    assert strip_size("Qwen/Qwen2.5-VL-7B") != strip_size("Qwen/Qwen2.5-7B")
