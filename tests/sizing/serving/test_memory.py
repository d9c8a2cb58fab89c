"""Memory of a serving device, worked by hand."""

from __future__ import annotations

import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.serving.memory import activation_bytes, padded_share, weights_bytes_per_accelerator
from app.sizing.units import GIB
from tests.examples import LLAMA_8B, LLAMA_70B, col


def test_weights_are_split_evenly() -> None:
    total = col(LLAMA_70B.weights_bytes(WEIGHT_FORMATS["bf16"]))
    # 131.417 GiB / 8 * 1.005
    assert weights_bytes_per_accelerator(total, col(0), 0.0, col(8), Assumptions())[0] / GIB == pytest.approx(
        16.509, abs=1e-3
    )


def test_activation_workspace() -> None:
    live = activation_bytes(LLAMA_8B, col(8192), col(64), col(3.8), col(1), col(1), Assumptions())[0] / GIB
    # 1.5 * (8192 * 6 * 14336 + 4 * 8192 * 4096) bytes: more than the logits of 64 sequences
    assert live == pytest.approx(1.5 * (704_643_072 + 134_217_728) / GIB)
    sampled = activation_bytes(LLAMA_8B, col(8192), col(1024), col(3.8), col(1), col(1), Assumptions())[0] / GIB
    # 3.8 * 1024 * 128256 * 4 bytes; vLLM 0.19 on an H100 reports 1.89 GiB
    assert sampled == pytest.approx(1.859, abs=1e-3)


def test_padding_of_mxfp4_experts() -> None:
    assert padded_share(2880) == pytest.approx(3072 / 2880 - 1)
    assert padded_share(4096) == 0
