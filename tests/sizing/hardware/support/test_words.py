"""What software does, in words."""

from __future__ import annotations

import pytest

from app.sizing.hardware.support.records import Work
from app.sizing.hardware.support.words import unsupported_text, work_name
from app.sizing.model.tasks import ModelTask


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (Work("inference"), "serving"),
        (Work("training", "full"), "training"),
        (Work("fine_tuning", "full"), "full fine-tuning"),
        (Work("fine_tuning", "lora"), "LoRA fine-tuning"),
    ],
)
def test_ways_in_words(work: Work, words: str) -> None:
    assert work_name(work) == words


def test_refusals_name_the_kind_of_model() -> None:
    assert unsupported_text("", Work("sample_inference", task=ModelTask.RERANKER)) == "No known engine serves rerankers"
    assert unsupported_text("megatron", Work("training", "full")).startswith(
        "Megatron-LM does not support training of text"
    )
