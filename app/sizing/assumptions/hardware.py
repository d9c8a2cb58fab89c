"""What devices give to who uses them."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class HardwareAssumptions:
    # Memory that may be taken
    batch_memory_fraction: float = assumption(
        0.92,
        low=0.5,
        high=0.98,
        unit="1",
        reason="share of device memory that single-pass serving takes",
        source="chosen: leaves room for peaks",
        as_of="2026-11",
    )
    small_engine_memory_fraction: float = assumption(
        0.98,
        low=0.5,
        high=1.0,
        unit="1",
        reason="share of device memory that llama.cpp-like engines fill",
        source="chosen: llama.cpp allocates what it needs",
        as_of="2026-11",
    )
    unified_memory_fraction: float = assumption(
        0.75,
        low=0.5,
        high=0.95,
        unit="1",
        reason="share of unified memory the system leaves to the accelerator",
        source="chosen: about what macOS leaves a GPU",
        as_of="2024-06",
    )
    visible_memory_fraction: float = assumption(
        0.994,
        low=0.9,
        high=1.0,
        unit="1",
        reason="memory an engine sees over what the driver reports",
        source="start-up logs (H100: 79.18 of 79.65 GiB)",
        as_of="2026-11",
    )
    unreported_memory_fraction: float = assumption(
        0.98,
        low=0.9,
        high=1.0,
        unit="1",
        reason="memory an engine sees over the label, without a driver reading",
        source="RTX 4090: 23.5 of 24 GiB",
        as_of="2026-11",
    )

    # Networks
    unknown_network_gbit_per_s: float = assumption(
        100,
        low=1,
        high=3200,
        unit="Gbit/s",
        reason="network of one accelerator where the machine's is not known",
        source="chosen: usual in nodes of eight",
        as_of="2026-11",
    )
