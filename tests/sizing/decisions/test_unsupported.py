"""Types without software for the work are rejected with a rule, phase and method."""

from __future__ import annotations

import numpy as np

from app.sizing.decisions.rejections import NullRejections, Rejections
from app.sizing.decisions.unsupported import SupportFilter
from app.sizing.hardware.support.records import Work
from tests.sizing.small import SMALL

NO_FRAMEWORK = SupportFilter(SMALL, (), frozenset({"nf4"}), Work("fine_tuning", "qlora", precision="bf16"))
TENSORRT_LLM = SupportFilter(SMALL, ("tensorrt-llm",), frozenset({"fp8"}), Work("inference"))


def test_types_without_software_fall_out_with_what_is_missing() -> None:
    everything, none = np.arange(len(SMALL.accelerators)), np.zeros(0, dtype=np.int64)
    rejections = Rejections(SMALL.accelerators)
    NO_FRAMEWORK.reject_unsupported(rejections, everything, everything[1:])
    (found,) = rejections.by_accelerator.values()
    assert found.code == "no_framework"
    assert "QLoRA fine-tuning" in found.text
    named = Rejections(SMALL.accelerators)
    TENSORRT_LLM.reject_unsupported(named, everything, none)
    assert {r.code for r in named.by_accelerator.values()} == {"no_engine"}
    assert all(r.text.startswith("TensorRT-LLM does not serve") for r in named.by_accelerator.values())
    desk = named.by_accelerator[SMALL.accelerator_index["bolt-desk"]]
    assert desk.rule == "TensorRT-LLM has no known build for ROCm or Vulkan."


def test_unused_reasons_are_not_looked_up() -> None:
    unread = NullRejections(SMALL.accelerators)
    TENSORRT_LLM.reject_unsupported(unread, np.arange(2), np.zeros(0, dtype=np.int64))
    assert not unread.by_accelerator
