"""A day of a service: its shape, what starting a replica takes, and how machines are added and given back."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class DayAssumptions:
    smooth_day_peak_hour: float = assumption(
        14,
        low=0,
        high=23,
        unit="h",
        reason="busiest hour where only peak to average is told",
        source="chosen: after noon",
        as_of="2026-11",
    )
    # What a fresh replica waits for
    machine_start_s: float = assumption(
        120,
        low=0,
        high=3600,
        unit="s",
        reason="a rented machine until it runs containers",
        source="clouds: 60 to 120 s, drivers 20 to 40",
        as_of="2026-11",
    )
    image_gb: float = assumption(
        12,
        low=0.1,
        high=60,
        unit="GB",
        reason="compressed image of an engine",
        source="vLLM issue 27154: about 12; SGLang 3673: 11",
        as_of="2025-10",
    )
    large_image_gb: float = assumption(
        16.2,
        low=0.1,
        high=60,
        unit="GB",
        reason="the same where a whole toolkit comes along",
        source="TensorRT-LLM issue 8270: 16.24",
        as_of="2025-10",
    )
    small_image_gb: float = assumption(
        2.5,
        low=0.01,
        high=20,
        unit="GB",
        reason="the same of llama.cpp and the like",
        source="chosen: CUDA libraries and a binary",
        as_of="2026-11",
    )
    image_pull_gb_per_s: float = assumption(
        0.2,
        low=0.01,
        high=5,
        unit="GB/s",
        reason="a machine fetches and unpacks an image",
        source="chosen: 12 GB in a minute",
        as_of="2026-11",
    )
    registry_gb_per_s: float = assumption(
        5,
        low=0.05,
        high=500,
        unit="GB/s",
        reason="a registry gives to all machines at once",
        source="chosen: 40 Gbit/s",
        as_of="2026-11",
    )
    weight_store_gb_per_s: float = assumption(
        12.5,
        low=0.05,
        high=1000,
        unit="GB/s",
        reason="storage of weights gives to all machines at once",
        source="chosen: 100 Gbit/s",
        as_of="2026-11",
    )
    # When replicas are added and given back
    autoscaler_reaction_s: float = assumption(
        30,
        low=0,
        high=900,
        unit="s",
        reason="from a change of load to an order of replicas",
        source="Kubernetes: every 15 s, and metrics as old",
        as_of="2026-11",
    )
    scale_in_delay_s: float = assumption(
        300,
        low=0,
        high=7200,
        unit="s",
        reason="a replica is kept after it was last needed",
        source="Kubernetes' stabilization window",
        as_of="2026-11",
    )
    scale_to_zero_after_s: float = assumption(
        300,
        low=1,
        high=86400,
        unit="s",
        reason="without a request before the last replica stops",
        source="chosen: as long as any is kept",
        as_of="2026-11",
    )
    idle_power_share: float = assumption(
        0.4,
        low=0.05,
        high=1,
        unit="1",
        reason="power of an idle machine over that under load",
        source="chosen: a third to a half",
        as_of="2026-11",
    )
    failure_detection_s: float = assumption(
        30,
        low=0,
        high=900,
        unit="s",
        reason="from a failure to the order of a new replica",
        source="Kubernetes: three probes, 10 s apart",
        as_of="2026-11",
    )
