"""Achieved shares of what a data sheet gives."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.hardware.achieved import SHARES, Factor, apply_factor, ideal_coefficients
from app.sizing.hardware.engines import engine_named


def test_a_share_never_reaches_its_rate() -> None:
    assert apply_factor("linear_memory_fraction", 0.8, 0.5) == pytest.approx(2 / 3)
    assert apply_factor("linear_memory_fraction", 0.8, 1e9) < 1
    assert apply_factor("step_overhead_s", 0.001, 3.0) == pytest.approx(0.003)
    assert "prefill_compute_fraction" in SHARES


def test_factors_apply_where_all_their_keys_agree() -> None:
    factor = Factor("layer_overhead_s", "captured", "vllm", "*", "*", "amd", "*", "*", 2.0, 10, "s")
    at = {
        "runtime": "captured",
        "engine": "vllm",
        "generation": "today",
        "kernels": "untabulated",
        "vendor": "amd",
        "family": "amd_cdna3",
    }
    assert factor.applies_to(**at, format_class="fp8")
    assert not factor.applies_to(**at | {"vendor": "nvidia"}, format_class="fp8")
    assert tuple(engine_named(e).runtime for e in ("ollama", "sglang", "transformers")) == ("ggml", "captured", "eager")
    assert engine_named("vllm").generation_at("0.6.3") == "before"
    assert (
        engine_named("vllm").generation_at("0.11.2.dev690+g67475a6e8")
        == engine_named("vllm").generation_at(None)
        == "today"
    )
    assert engine_named("tensorrt-llm").generation_at(None, "2024-11") == "before"


def test_an_ideal_device_achieves_every_rate_and_waits_for_nothing() -> None:
    found = ideal_coefficients(2)
    for name in found.__slots__:
        value = getattr(found, name).tolist()
        whole = name in SHARES
        assert value == [1, 1] if whole else value in ([0, 0], [2, 2], [50, 50], [np.inf, np.inf]), name
    assert found.read_bytes_per_clock.tolist() == [np.inf, np.inf]
    assert found.roofline_exponent.tolist() == [50, 50]
