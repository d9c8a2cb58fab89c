"""LoRA adapters on a shared base model: their cost as text, and their settings for engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.sizing.hardware.benchmarks import Places
from app.sizing.model.adapted import ADAPTER_ELEMENT_BYTES, loaded_adapters, served_adapter_params
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.result import Reason
from app.sizing.units import GIB
from app.sizing.words import format_count, percent

# Maximum ranks for which vLLM reserves memory: vllm/config/lora.py of 0.33.0, read 2026-11-23.
VLLM_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def adapter_settings(model: ModelArchitecture) -> Places:
    """Number of loaded adapters and the rank for which memory is reserved; empty without adapters."""
    loaded = loaded_adapters(model)
    if loaded is None:
        return {}
    base = replace(model, tensors=tuple(tensor for tensor in model.tensors if tensor is not loaded))
    rank = round(loaded.params / loaded.copies / served_adapter_params(base, 1))
    return {"adapters": loaded.copies, "adapter_rank": next((each for each in VLLM_LORA_RANKS if each >= rank), rank)}


def adapter_reasons(model: ModelArchitecture) -> Iterator[Reason]:
    """Memory and compute that loaded adapters add, where there are any."""
    loaded = loaded_adapters(model)
    if loaded is not None:
        taken = loaded.params * ADAPTER_ELEMENT_BYTES / GIB
        share = loaded.multiplied_elements / (model.matmul_params - loaded.multiplied_elements)
        text = (
            f"With {format_count(loaded.copies, 'adapter')} loaded, each replica needs {taken:.2f} GiB more memory and "
            f"{percent(share, 1)} more compute per token."
        )
        yield Reason("adapters", text, "adapters_gib", taken, "GiB")
