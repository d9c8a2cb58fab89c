"""What formats ask of a chip."""

from __future__ import annotations

from app.sizing.hardware.support.formats import UNITS, format_words, keeps_16_bit, least_capability, stored_as
from app.sizing.hardware.support.generations import GENERATIONS
from app.sizing.model.formats import WEIGHT_FORMATS


def test_formats_without_a_rate_ask_nothing_of_a_chip() -> None:
    assert {f.name for f in WEIGHT_FORMATS.values() if f.name in UNITS} == {
        f.name for f in WEIGHT_FORMATS.values() if f.rate
    }


def test_some_chip_multiplies_every_unit() -> None:
    assert set(UNITS.values()) <= {unit for g in GENERATIONS for unit in g.multiplies}


def test_least_capabilities_and_words() -> None:
    assert [least_capability(u) for u in ("fp16", "bf16", "fp8", "fp4")] == [6.0, 8.0, 8.9, 10.0]
    assert stored_as("bf16-true") == "bf16"
    assert [p for p in ("bf16", "bf16-true", "fp32", "fp8") if keeps_16_bit(p)] == ["bf16-true"]
    assert format_words("gguf-q4_k_m") == "GGUF Q4_K_M"
