"""Adapters on a shared base: in words, and as engines are told of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.sizing.hardware.benchmarks import Places
from app.sizing.model.adapted import ADAPTER_ELEMENT_BYTES, loaded_adapters, served_adapter_params
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.result import Reason
from app.sizing.units import GIB
from app.sizing.words import counted

# Ranks that vLLM sets room aside for: vllm/config/lora.py of 0.33.0, read 2026-11-23.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def adapter_places(model: ModelArchitecture) -> Places:
    """How many adapters stay loaded and the rank that room is set aside for; nothing without any."""
    beside = loaded_adapters(model)
    if beside is None:
        return {}
    base = replace(model, tensors=tuple(tensor for tensor in model.tensors if tensor is not beside))
    rank = round(beside.params / beside.copies / served_adapter_params(base, 1))
    return {"adapters": beside.copies, "adapter_rank": next((each for each in RANKS if each >= rank), rank)}


def adapter_reasons(model: ModelArchitecture) -> Iterator[Reason]:
    """What the adapters beside a base take, where there are any."""
    beside = loaded_adapters(model)
    if beside is not None:
        taken = beside.params * ADAPTER_ELEMENT_BYTES / GIB
        share = beside.multiplied / (model.matmul_params - beside.multiplied)
        text = (
            f"{counted(beside.copies, 'adapter')} loaded beside the base: {taken:.2f} GiB of every replica, and "
            f"{share:.1%} more arithmetic for a token."
        )
        yield Reason("adapters", text, "adapters_gib", taken, "GiB")
