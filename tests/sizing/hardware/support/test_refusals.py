"""The rule that keeps work from an accelerator: of several the one that comes last."""

from __future__ import annotations

from app.sizing.hardware.support.records import Work
from app.sizing.hardware.support.refusals import find_refusal, no_engine_text
from app.sizing.hardware.support.verdicts import SupportEvidence
from app.sizing.model.tasks import ModelTask
from tests.catalogued import catalogued, support

DOCUMENTS = SupportEvidence(support())


def test_the_last_rule_is_reported() -> None:
    t4, serving = catalogued("nvidia-t4"), Work("inference")
    found = find_refusal(t4, ("tensorrt-llm", "vllm"), ("fp8",), serving, DOCUMENTS)
    assert found is not None
    assert "FP8 requires 8.9" in found.rule
    runs = find_refusal(t4, (), ("fp8", "fp16"), serving, DOCUMENTS)
    assert runs is not None
    assert runs.is_supported


def test_a_chip_that_nothing_is_built_for_says_so() -> None:
    lpu = catalogued("groq-lpu-v1")
    pictures = Work("sample_inference", task=ModelTask.VISION)
    assert find_refusal(lpu, (), ("fp16",), pictures, DOCUMENTS) is None
    assert no_engine_text(lpu, pictures) == "No known engine serves vision models on the Groq runtime."
