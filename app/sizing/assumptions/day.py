"""Assumptions about the daily load of a service, the start of a replica, and autoscaling."""

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
        reason="busiest hour if only the peak-to-average ratio is given",
        source="assumed: early afternoon",
        as_of="2026-11",
    )
    # Start of a replica
    machine_start_s: float = assumption(
        120,
        low=0,
        high=3600,
        unit="s",
        reason="time until a rented machine runs containers",
        source="cloud providers: 60 to 120 s, plus 20 to 40 s for drivers",
        as_of="2026-11",
    )
    image_gb: float = assumption(
        12,
        low=0.1,
        high=60,
        unit="GB",
        reason="compressed container image of an engine",
        source="vLLM issue 27154: about 12 GB; SGLang issue 3673: 11 GB",
        as_of="2025-10",
    )
    large_image_gb: float = assumption(
        16.2,
        low=0.1,
        high=60,
        unit="GB",
        reason="compressed container image with a whole toolkit",
        source="TensorRT-LLM issue 8270: 16.24 GB",
        as_of="2025-10",
    )
    small_image_gb: float = assumption(
        2.5,
        low=0.01,
        high=20,
        unit="GB",
        reason="compressed container image of llama.cpp and similar",
        source="assumed: CUDA libraries and one binary",
        as_of="2026-11",
    )
    image_pull_gb_per_s: float = assumption(
        0.2,
        low=0.01,
        high=5,
        unit="GB/s",
        reason="rate at which a machine pulls and unpacks an image",
        source="assumed: 12 GB in one minute",
        as_of="2026-11",
    )
    registry_gb_per_s: float = assumption(
        5,
        low=0.05,
        high=500,
        unit="GB/s",
        reason="total rate of the container registry for all machines",
        source="assumed: 40 Gbit/s",
        as_of="2026-11",
    )
    weight_store_gb_per_s: float = assumption(
        12.5,
        low=0.05,
        high=1000,
        unit="GB/s",
        reason="total rate of the weight storage for all machines",
        source="assumed: 100 Gbit/s",
        as_of="2026-11",
    )
    # Scaling out and in, idle machines, failures
    autoscaler_reaction_s: float = assumption(
        30,
        low=0,
        high=900,
        unit="s",
        reason="time from a load change to a scaling decision",
        source="Kubernetes: polls every 15 s, metrics as old again",
        as_of="2026-11",
    )
    scale_in_delay_s: float = assumption(
        300,
        low=0,
        high=7200,
        unit="s",
        reason="time that a replica no longer needed is kept",
        source="Kubernetes: stabilization window",
        as_of="2026-11",
    )
    scale_to_zero_after_s: float = assumption(
        300,
        low=1,
        high=86400,
        unit="s",
        reason="time without requests before the last replica stops",
        source="assumed: same as the scale-in delay",
        as_of="2026-11",
    )
    idle_power_share: float = assumption(
        0.4,
        low=0.05,
        high=1,
        unit="1",
        reason="power of an idle machine, share of power under load",
        source="assumed: between a third and a half",
        as_of="2026-11",
    )
    failure_detection_s: float = assumption(
        30,
        low=0,
        high=900,
        unit="s",
        reason="time from a failure to the start of a new replica",
        source="Kubernetes: three probes, 10 s apart",
        as_of="2026-11",
    )
