"""Assumptions about sharing cards between models and about LoRA adapters per base model."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class PackingAssumptions:
    default_loaded_adapters: float = assumption(
        8,
        low=1,
        high=4096,
        unit="adapters",
        reason="LoRA adapters loaded with the base model by default",
        source="SGLang LoRA page: max-loras-per-batch",
        as_of="2026-11",
    )
    packed_memory_share: float = assumption(
        0.95,
        low=0.5,
        high=1.0,
        unit="1",
        reason="share of a shared card's memory for all engines",
        source="assumed: leaves room for drivers and fragmentation",
        as_of="2026-11",
    )
    packed_time_share: float = assumption(
        0.95,
        low=0.3,
        high=1.0,
        unit="1",
        reason="share of a shared card's time for all models",
        source="assumed: the rest is lost to switching",
        as_of="2026-11",
    )
    packed_types: float = assumption(
        3,
        low=1,
        high=50,
        unit="types",
        reason="accelerator types tried when all models share cards",
        source="assumed: the types that are best for the first model",
        as_of="2026-11",
    )
    packing_step_share: float = assumption(
        0.05,
        low=0.02,
        high=0.5,
        unit="1",
        reason="step size of the shares of a card",
        source="assumed: finer steps save little",
        as_of="2026-11",
    )
    slice_memory_fraction: float = assumption(
        0.95,
        low=0.8,
        high=1.0,
        unit="1",
        reason="usable share of a MIG slice's memory",
        source="nvidia-smi mig -lgip, A100: 9.5 of 10 GiB",
        as_of="2026-11",
    )
    slice_compute_fraction: float = assumption(
        0.85,
        low=0.6,
        high=1.0,
        unit="1",
        reason="usable share of a MIG slice's compute",
        source="nvidia-smi mig -lgip, H100: 16 of 132 / 7 SMs",
        as_of="2026-11",
    )
