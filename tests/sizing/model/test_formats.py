"""Formats of weights against published file sizes."""

from __future__ import annotations

import pytest

from app.catalog.seed import model_entries
from app.sizing.columns import GIB
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.formats import WEIGHT_FORMATS
from tests.examples import LLAMA_8B, LLAMA_70B

ENTRIES = {e["hf_id"]: e for e in model_entries()}


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("gguf-q4_k_m", 4.575),
        ("gguf-q8_0", 7.947),
        ("gguf-q6_k", 6.136),
        ("gguf-q5_k_m", 5.332),
        ("gguf-q2_k", 2.953),
        ("gguf-f16", 14.958),
    ],
)
def test_gguf_file_sizes_match_llama_cpps_table(name: str, gib: float) -> None:
    assert LLAMA_8B.weights_bytes(WEIGHT_FORMATS[name]) / GIB == pytest.approx(gib, rel=0.003)


def test_gguf_mixture_holds_for_another_size() -> None:
    assert LLAMA_70B.weights_bytes(WEIGHT_FORMATS["gguf-q4_k_m"]) / GIB == pytest.approx(39.554, rel=0.003)


def test_mxfp4_holds_the_linear_matrices_of_a_model_without_experts() -> None:
    # 68.45e9 elements of linear matrices in 4.25 bits; 1.05e9 of the head and as many of the embedding in 16
    held = LLAMA_70B.weights_bytes(WEIGHT_FORMATS["mxfp4"])
    assert held == pytest.approx(68.45e9 * 4.25 / 8 + 2 * 128256 * 8192 * 2, rel=0.002)


def test_native_mxfp4_keeps_attention_and_head_in_16_bit() -> None:
    for name, gib in (("openai/gpt-oss-20b", 12.82), ("openai/gpt-oss-120b", 60.77)):
        model = read_architecture(ENTRIES[name]["config"], name=name)
        assert model.native_format == "mxfp4"
        assert model.weights_bytes(WEIGHT_FORMATS["mxfp4"]) / GIB == pytest.approx(gib, rel=0.002)
