"""Assumptions about host memory and host CPUs when weights are offloaded to the host."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class HostAssumptions:
    # Memory of assumed hosts
    desktop_host_most_gib: float = assumption(
        192,
        low=16,
        high=1024,
        unit="GiB",
        reason="largest memory of an assumed desktop host",
        source="assumed: four modules of 48 GB",
        as_of="2026-11",
    )
    server_host_most_gib: float = assumption(
        1536,
        low=64,
        high=8192,
        unit="GiB",
        reason="largest memory of an assumed server host",
        source="assumed: twelve modules of 128 GB",
        as_of="2026-11",
    )

    # Memory bandwidth of one socket
    desktop_host_gb_per_s: float = assumption(
        89.6,
        low=20,
        high=300,
        unit="GB/s",
        reason="memory bandwidth of an unnamed desktop CPU",
        source="two channels of DDR5-5600",
        as_of="2026-11",
    )
    server_host_gb_per_s: float = assumption(
        307.2,
        low=60,
        high=1000,
        unit="GB/s",
        reason="memory bandwidth per socket of an unnamed server",
        source="eight channels of DDR5-4800: Xeon 8480+",
        as_of="2026-11",
    )
    rented_host_share: float = assumption(
        0.25,
        low=0.05,
        high=1,
        unit="1",
        reason="CPU socket share that comes with a rented accelerator",
        source="assumed: two sockets for eight accelerators",
        as_of="2026-11",
    )
    host_bandwidth_fraction: float = assumption(
        0.5,
        low=0.1,
        high=0.95,
        unit="1",
        reason="share of socket bandwidth reached when reading weights",
        source="KTransformers: 8.7 tokens/s at 307 GB/s",
        as_of="2025-02",
    )

    # Achieved matrix rate of one socket
    desktop_host_tflops: float = assumption(
        0.7,
        low=0.1,
        high=10,
        unit="TFLOP/s",
        reason="matrix rate of a desktop CPU",
        source="assumed: a third of the peak of 32 cores",
        as_of="2026-11",
    )
    server_host_tflops: float = assumption(
        2.2,
        low=0.3,
        high=40,
        unit="TFLOP/s",
        reason="matrix rate of a server CPU, per socket",
        source="KTransformers: prefill at 54 tokens/s",
        as_of="2025-02",
    )
    host_link_fraction: float = assumption(
        0.7,
        low=0.2,
        high=0.95,
        unit="1",
        reason="share of the slot rate reached when weights are copied",
        source="assumed: copies of whole layers",
        as_of="2026-11",
    )
