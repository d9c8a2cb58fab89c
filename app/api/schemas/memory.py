"""Schemas of memory use: of the fullest accelerator, and of the host if it holds weights."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, round_value, with_examples
from app.api.schemas.names import PeakMomentName
from app.sizing.result import DeviceMemory
from app.sizing.units import GIB


class MemoryPartsShown(ResponseModel):
    """Memory of the fullest accelerator in GiB; the components sum to the total."""

    weights: float
    kv_cache: float
    activations: float
    overhead: float
    gradients: float
    optimizer: float
    total: float
    capacity: float
    usable: float


class HostMemoryShown(ResponseModel):
    """Host memory of one replica in GiB."""

    model_config = with_examples({"weights": 18.2936, "cache": 0.1129, "usable": 153.6})

    weights: float
    cache: float = Field(
        description="KV cache of one sequence of the longest context, for the layers with weights in host memory."
    )
    usable: float


class MomentsShown(ResponseModel):
    """Memory of the fullest accelerator in GiB at each moment of a training step; the highest is the total."""

    model_config = with_examples({"loss": 60.1, "backward": 58.7, "gradients": 43.9, "update": 43.8})

    loss: float = Field(description="End of the forward pass: every activation, and the logits.")
    backward: float = Field(
        description="Start of the backward pass: nothing is freed yet, and one layer is recomputed."
    )
    gradients: float = Field(description="End of the backward pass: all gradients.")
    update: float = Field(description="Optimizer step: update of the weights.")


class ActivationPartsShown(ResponseModel):
    """Components of the activations in GiB at the peak of a training step; they sum to the activations."""

    model_config = with_examples({"kept": 17.1, "working": 0.1, "logits": 5.9, "gathered": 2.4, "update": 0.0})

    kept: float = Field(description="Kept for the backward pass, for all micro-batches in flight.")
    working: float = Field(description="Working memory of the current layer, or of the last norm.")
    logits: float
    gathered: float = Field(description="Weights that were all-gathered or converted for use.")
    update: float = Field(description="Temporary tensors of the optimizer.")


class MemoryShown(ResponseModel):
    """Memory use of the fullest accelerator and of the host."""

    per_accelerator_gib: MemoryPartsShown
    kv_cache_tokens: int | None = None
    max_concurrent_sequences: int | None = Field(
        None,
        description="Sequences of the longest context per replica that fit next to the prefixes of idle sessions.",
    )
    prefix_cache_gib: float | None = Field(
        None, description="Part of one accelerator's KV cache that prefixes of idle sessions fill at this load."
    )
    idle_sessions: float | None = Field(
        None, description="Idle sessions whose prefixes a replica keeps between turns at this load."
    )
    host_gib: HostMemoryShown | None = None
    peak_moment: PeakMomentName | None = Field(
        None, description="Moment of a training step with the highest memory use."
    )
    moments_gib: MomentsShown | None = None
    activation_parts_gib: ActivationPartsShown | None = None


def memory_json(m: DeviceMemory) -> dict[str, Any]:
    """Memory use as JSON."""
    parts = {
        "weights": m.weights_bytes,
        "kv_cache": m.kv_cache_bytes,
        "activations": m.activation_bytes,
        "overhead": m.overhead_bytes,
        "gradients": m.gradient_bytes,
        "optimizer": m.optimizer_bytes,
        "total": m.total_bytes,
        "capacity": m.capacity_bytes,
        "usable": m.usable_bytes,
    }
    shown = {k: round(v / GIB, 4) for k, v in parts.items()}
    shown["total"] = round(sum(v for k, v in shown.items() if k not in ("total", "capacity", "usable")), 4)
    counts = {"kv_cache_tokens": m.kv_cache_tokens, "max_concurrent_sequences": m.max_concurrent_sequences}
    values: dict[str, Any] = {"per_accelerator_gib": shown, **{k: int(v) for k, v in counts.items() if v is not None}}
    if m.prefix_cache_bytes is not None and m.idle_sessions is not None:
        values |= {
            "prefix_cache_gib": round_value(m.prefix_cache_bytes / GIB),
            "idle_sessions": round_value(m.idle_sessions),
        }
    if m.moments_bytes is not None:
        values["peak_moment"] = max(m.moments_bytes, key=m.moments_bytes.__getitem__)
        for name, parts_of in (("moments", m.moments_bytes), ("activation_parts", m.activation_parts_bytes or {})):
            values[f"{name}_gib"] = {k: round(v / GIB, 2) for k, v in parts_of.items()}
    host = {"weights": m.host_weights_bytes, "cache": m.host_cache_bytes, "usable": m.host_usable_bytes}
    if m.host_weights_bytes is not None:
        values["host_gib"] = {k: round(v / GIB, 4) for k, v in host.items() if v is not None}
    return values
