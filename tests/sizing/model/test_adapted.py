"""Loaded adapters of a base model: their bytes in every format, and one of them for each token."""

from __future__ import annotations

import pytest

from app.sizing.model.adapted import loaded_adapters, served_adapter_params, with_adapters
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.formats import WEIGHT_FORMATS
from tests.examples import LLAMA_8B, registered

MIXTURE, MXFP4 = registered("Qwen/Qwen3-30B-A3B"), registered("openai/gpt-oss-120b")


@pytest.mark.parametrize("stored", ["bf16", "fp8", "int4-awq", "mxfp4"])
@pytest.mark.parametrize("model", [LLAMA_8B, MIXTURE, MXFP4], ids=lambda m: m.name)
def test_loaded_adapters_take_two_bytes_an_element_whatever_the_base_is_in(
    model: ModelArchitecture, stored: str
) -> None:
    adapted, weights = with_adapters(model, rank=16, loaded=5), WEIGHT_FORMATS[stored]
    more = adapted.weights_bytes(weights) - model.weights_bytes(weights)
    assert more == pytest.approx(5 * 2 * served_adapter_params(model, 16))


def test_an_adapter_by_hand() -> None:
    # per layer: q and o 2 x 16 x (4096 + 4096), k and v 2 x 16 x (4096 + 1024), three of the MLP 16 x (4096 + 14336)
    layer = 2 * 16 * 8192 + 2 * 16 * 5120 + 3 * 16 * 18432
    assert served_adapter_params(LLAMA_8B, 16) == 32 * layer
    adapted = loaded_adapters(with_adapters(LLAMA_8B, rank=16, loaded=3))
    assert adapted is not None
    assert (adapted.copies, adapted.multiplied_elements) == (3, 32 * layer)
    assert loaded_adapters(LLAMA_8B) is None


def test_routed_experts_have_none() -> None:
    assert served_adapter_params(MIXTURE, 16) < MIXTURE.lora_params(16, "all-linear") / 10
