"""Memory on the wire: of the fullest accelerator, and of the host where weights lie there."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, rounded, shown_as
from app.api.schemas.names import PeakMomentName
from app.sizing.result import DeviceMemory
from app.sizing.units import GIB


class MemoryPartsShown(Shown):
    """GiB on the fullest accelerator; the parts sum to the total."""

    weights: float
    kv_cache: float
    activations: float
    overhead: float
    gradients: float
    optimizer: float
    total: float
    capacity: float
    usable: float


class HostMemoryShown(Shown):
    """GiB of its host's memory, of one replica."""

    model_config = shown_as({"weights": 18.2936, "cache": 0.1129, "usable": 153.6})

    weights: float
    cache: float = Field(description="Of one sequence of the longest context, of the layers whose weights lie there.")
    usable: float


class MomentsShown(Shown):
    """GiB on the fullest accelerator at each moment of a training step; the highest is the total."""

    model_config = shown_as({"loss": 60.1, "backward": 58.7, "gradients": 43.9, "update": 43.8})

    loss: float = Field(description="Forward ends: every activation, and the logits.")
    backward: float = Field(description="Backward begins: nothing is let go yet, and a layer is recomputed.")
    gradients: float = Field(description="Backward ends: all gradients.")
    update: float = Field(description="The optimizer steps.")


class ActivationPartsShown(Shown):
    """GiB of what the activations are at the highest moment; they sum to it."""

    model_config = shown_as({"kept": 17.1, "working": 0.1, "logits": 5.9, "gathered": 2.4, "update": 0.0})

    kept: float = Field(description="For backward, of all micro-batches in flight.")
    working: float = Field(description="Of the layer at work, or of the last norm.")
    logits: float
    gathered: float = Field(description="Weights gathered or converted for use.")
    update: float = Field(description="Temporaries of the optimizer.")


class MemoryShown(Shown):
    """What lies in memory, on the fullest accelerator and on the host."""

    per_accelerator_gib: MemoryPartsShown
    kv_cache_tokens: int | None = None
    max_concurrent_sequences: int | None = Field(
        None, description="Of the longest context, per replica, beside the prefixes of idle sessions."
    )
    prefix_cache_gib: float | None = Field(
        None, description="Of the cache of one accelerator, what prefixes of idle sessions fill at the load."
    )
    idle_sessions: float | None = Field(None, description="Whose prefixes a replica keeps between turns at the load.")
    host_gib: HostMemoryShown | None = None
    peak_moment: PeakMomentName | None = Field(None, description="Of a training step, when an accelerator holds most.")
    moments_gib: MomentsShown | None = None
    activation_parts_gib: ActivationPartsShown | None = None


def memory_json(m: DeviceMemory) -> dict[str, Any]:
    """Where memory goes."""
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
    told: dict[str, Any] = {"per_accelerator_gib": shown, **{k: int(v) for k, v in counts.items() if v is not None}}
    if m.prefix_cache_bytes is not None and m.idle_sessions is not None:
        told |= {"prefix_cache_gib": rounded(m.prefix_cache_bytes / GIB), "idle_sessions": rounded(m.idle_sessions)}
    if m.moments_bytes is not None:
        told["peak_moment"] = max(m.moments_bytes, key=m.moments_bytes.__getitem__)
        for name, parts_of in (("moments", m.moments_bytes), ("activation_parts", m.activation_parts_bytes or {})):
            told[f"{name}_gib"] = {k: round(v / GIB, 2) for k, v in parts_of.items()}
    host = {"weights": m.host_weights_bytes, "cache": m.host_cache_bytes, "usable": m.host_usable_bytes}
    if m.host_weights_bytes is not None:
        told["host_gib"] = {k: round(v / GIB, 4) for k, v in host.items() if v is not None}
    return told
