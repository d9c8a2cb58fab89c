"""Longer windows that model cards publish."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.errors import Unanswerable
from app.sizing.model.long_context import EXTENSIONS, describe_extension
from app.sizing.workload.inference import reject_long_context
from tests.examples import LLAMA_8B


@pytest.mark.parametrize("name", EXTENSIONS)
def test_every_extension_is_longer_than_the_window_of_the_catalog(name: str) -> None:
    assert f"model card {name}," in EXTENSIONS[name].source
    assert EXTENSIONS[name].tokens == 131_072


def test_a_context_beyond_the_window_names_the_scaling_and_its_limit() -> None:
    model = replace(LLAMA_8B, name="Qwen/Qwen3-32B", max_context_tokens=40_960)
    with pytest.raises(Unanswerable, match=r"YaRN with factor 4 for at most 131,072 tokens\. To size that, send"):
        reject_long_context(model, 60_000, "needed", "traffic/input_tokens")
    with pytest.raises(Unanswerable, match=r"131,072 tokens, which is not enough either\."):
        reject_long_context(model, 200_000, "needed", "traffic/input_tokens")
    assert describe_extension(LLAMA_8B.name, 1e6) == ""
