"""Formats a file states, and what they leave wide."""

from __future__ import annotations

from typing import Any

import pytest

from app.sizing.columns import GIB
from app.sizing.facts import InvalidFact
from app.sizing.model.counting.configuration import read_defaults
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tensors import Part
from tests.examples import LLAMA_8B_CONFIG
from tests.sizing.model.counting.bases import counted


@pytest.mark.parametrize(
    ("stated", "format_name", "bits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8.00195),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-awq", 4.15625),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4-gptq", 4.625),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8", 8.1875),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "nf4",
            4 + 8 / 64 + 32 / (64 * 256),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
            8.0,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
            },
            "int4-awq",
            4.5,
        ),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, "nvfp4", 4.5),
    ],
)
def test_stated_quantisation_is_honoured(stated: dict[str, Any], format_name: str, bits: float) -> None:
    plain = read_architecture(LLAMA_8B_CONFIG, name="x")
    model = read_architecture({**LLAMA_8B_CONFIG, "quantization_config": stated}, name="x")
    assert model.native_format == format_name
    linear, rest = plain.linear_params, plain.total_params - plain.linear_params
    assert model.published_bytes() * 8 == pytest.approx(linear * bits + rest * 16, rel=1e-4)


def test_what_a_checkpoint_left_wide_stays_wide() -> None:
    model = counted("moonshotai/Kimi-K2.5")
    whole = sum(t.params for t in model.tensors if t.quantized and t.part is not Part.ROUTED_EXPERTS)
    assert model.native_format == "int4-awq"
    assert model.published_bytes() == pytest.approx(
        (model.routed_params * 4.5 + (model.total_params - model.routed_params) * 16) / 8, rel=1e-6
    )
    assert model.weights_bytes(WEIGHT_FORMATS["int4-awq"]) > model.routed_params * 4.5 / 8 + 2 * whole


def test_int8_keeps_a_scale_for_each_row() -> None:
    model = read_architecture(LLAMA_8B_CONFIG, name="x")
    rows = sum(t.outputs * t.count for t in model.tensors if t.quantized)
    wide = model.total_params - model.linear_params
    assert model.weights_bytes(WEIGHT_FORMATS["int8"]) == model.linear_params + 4 * rows + 2 * wide
    assert model.weights_bytes(WEIGHT_FORMATS["int8"]) / GIB == pytest.approx(8.4627, abs=1e-3)


def test_defaults_are_sizes_and_switches_and_may_be_those_of_a_row_above() -> None:
    rows = [
        {"model_type": "text", "like": "", "hidden_size": "64", "tie_word_embeddings": "true", "head_dim": ""},
        {"model_type": "wrapper", "like": "text", "hidden_size": "", "tie_word_embeddings": "", "head_dim": ""},
    ]
    text = {"hidden_size": 64, "tie_word_embeddings": True}
    assert read_defaults(rows) == {"text": text, "wrapper": text}
    for wrong in ({"like": "none"}, {"like": "text", "head_dim": "8"}):
        with pytest.raises(InvalidFact, match=r"model_defaults\.csv, row 3: 'like' must name a row above"):
            read_defaults([rows[0], {**rows[1], **wrong}])
    with pytest.raises(InvalidFact, match=r"model_defaults\.csv, row 2: 'wide' is not a number"):
        read_defaults([{**rows[0], "hidden_size": "wide"}])
