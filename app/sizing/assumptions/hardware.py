"""Assumptions about usable device memory, software support and unlisted networks."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class HardwareAssumptions:
    # Usable memory
    batch_memory_fraction: float = assumption(
        0.92,
        low=0.5,
        high=0.98,
        unit="1",
        reason="share of device memory for single-pass serving",
        source="assumed: leaves room for peaks",
        as_of="2026-11",
    )
    small_engine_memory_fraction: float = assumption(
        0.98,
        low=0.5,
        high=1.0,
        unit="1",
        reason="share of device memory for llama.cpp-like engines",
        source="assumed: no reserve",
        as_of="2026-11",
    )
    unified_memory_fraction: float = assumption(
        0.75,
        low=0.5,
        high=0.95,
        unit="1",
        reason="share of unified memory that the accelerator may use",
        source="assumed: as in macOS",
        as_of="2024-06",
    )
    visible_memory_fraction: float = assumption(
        0.994,
        low=0.9,
        high=1.0,
        unit="1",
        reason="visible memory over the memory the driver reports",
        source="start-up logs",
        as_of="2026-11",
    )
    unreported_memory_fraction: float = assumption(
        0.98,
        low=0.9,
        high=1.0,
        unit="1",
        reason="visible memory over the nominal memory size",
        source="RTX 4090: 23.5 of 24 GiB",
        as_of="2026-11",
    )

    # Software
    expected_support_widening: float = assumption(
        1.3,
        low=1.0,
        high=3.0,
        unit="1",
        reason="wider prediction interval if support is only expected",
        source="assumed: between other engines' results and the engine's own",
        as_of="2026-11",
    )

    # Networks
    unknown_network_gbit_per_s: float = assumption(
        100,
        low=1,
        high=3200,
        unit="Gbit/s",
        reason="network rate per accelerator if none is listed",
        source="assumed: nodes with eight accelerators",
        as_of="2026-11",
    )
