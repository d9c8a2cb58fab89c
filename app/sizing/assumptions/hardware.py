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
        reason="of device memory, to single-pass serving",
        source="chosen: leaves room for peaks",
        as_of="2026-11",
    )
    small_engine_memory_fraction: float = assumption(
        0.98,
        low=0.5,
        high=1.0,
        unit="1",
        reason="of device memory, to llama.cpp-like engines",
        source="chosen: no reserve",
        as_of="2026-11",
    )
    unified_memory_fraction: float = assumption(
        0.75,
        low=0.5,
        high=0.95,
        unit="1",
        reason="of unified memory, to the accelerator",
        source="chosen: as macOS",
        as_of="2024-06",
    )
    visible_memory_fraction: float = assumption(
        0.994,
        low=0.9,
        high=1.0,
        unit="1",
        reason="memory seen over the driver's figure",
        source="start-up logs",
        as_of="2026-11",
    )
    unreported_memory_fraction: float = assumption(
        0.98,
        low=0.9,
        high=1.0,
        unit="1",
        reason="memory seen over the label",
        source="RTX 4090: 23.5 of 24 GiB",
        as_of="2026-11",
    )

    # Software
    expected_support_widening: float = assumption(
        1.3,
        low=1.0,
        high=3.0,
        unit="1",
        reason="log width of intervals where only rules say it runs",
        source="chosen: between others' engines and one's own",
        as_of="2026-11",
    )

    # Networks
    unknown_network_gbit_per_s: float = assumption(
        100,
        low=1,
        high=3200,
        unit="Gbit/s",
        reason="network of an accelerator, unlisted",
        source="chosen: nodes of eight",
        as_of="2026-11",
    )
