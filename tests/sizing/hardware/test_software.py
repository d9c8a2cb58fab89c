"""What software does is looked up once."""

from __future__ import annotations

from app.sizing.hardware.support.records import Level, Work
from app.sizing.model.tasks import ModelTask
from tests.sizing.small import BIG, DESK, SMALL

BIG_ROW, DESK_ROW = (SMALL.accelerator_index[a.slug] for a in (BIG, DESK))


def test_the_same_is_answered_again() -> None:
    work = Work("training", "full")
    assert SMALL.software.trainers("bf16", work) is SMALL.software.trainers("bf16", work)
    asked = DESK_ROW, ("tensorrt-llm",), frozenset({"fp8"}), Work("inference")
    first = SMALL.software.refusal_reason(*asked)
    assert first == "TensorRT-LLM has no known build for ROCm or Vulkan."
    assert SMALL.software.refusal_reason(*asked) is first


def test_verdicts_of_a_catalogue_read_its_own_evidence() -> None:
    assert SMALL.software.verdict(BIG_ROW, "vllm", "bf16", Work("inference")).level is Level.DOCUMENTED
    embeddings = Work("sample_inference", task=ModelTask.EMBEDDING)
    assert SMALL.software.verdict(BIG_ROW, "vllm", "bf16", embeddings).level is Level.EXPECTED
    assert SMALL.software.refusal_reason(BIG_ROW, ("vllm",), frozenset({"bf16"}), embeddings) == ""
