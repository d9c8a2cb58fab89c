"""How cards are divided among several models, and adapters beside one."""

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
        reason="stay loaded beside a base, where nobody says",
        source="SGLang's max-loras-per-batch, its LoRA page",
        as_of="2026-11",
    )
    packed_memory_share: float = assumption(
        0.95,
        low=0.5,
        high=1.0,
        unit="1",
        reason="of a shared card's memory, all engines together",
        source="chosen: room for drivers and fragments",
        as_of="2026-11",
    )
    packed_time_share: float = assumption(
        0.95,
        low=0.3,
        high=1.0,
        unit="1",
        reason="of a shared card's time, all models together",
        source="chosen: the rest is lost to switching",
        as_of="2026-11",
    )
    packed_types: float = assumption(
        3,
        low=1,
        high=50,
        unit="types",
        reason="of accelerator whose cards are tried for all models",
        source="chosen: those best for the first model alone",
        as_of="2026-11",
    )
    packing_step_share: float = assumption(
        0.05,
        low=0.02,
        high=0.5,
        unit="1",
        reason="steps in which shares of a card are given",
        source="chosen: finer steps save little",
        as_of="2026-11",
    )
    slice_memory_fraction: float = assumption(
        0.95,
        low=0.8,
        high=1.0,
        unit="1",
        reason="of its part of a card's memory that a slice has",
        source="nvidia-smi mig -lgip, A100: 9.5 of 10 GiB",
        as_of="2026-11",
    )
    slice_compute_fraction: float = assumption(
        0.85,
        low=0.6,
        high=1.0,
        unit="1",
        reason="of its part of a card's compute that a slice has",
        source="nvidia-smi mig -lgip, H100: 16 of 132 / 7 SMs",
        as_of="2026-11",
    )
