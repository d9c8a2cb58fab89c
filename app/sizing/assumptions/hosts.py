"""What a host does with the weights that lie in its memory: how much it takes, reads and multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class HostAssumptions:
    # Memory of hosts that are put together for a plan
    desktop_host_most_gib: float = assumption(
        192,
        low=16,
        high=1024,
        unit="GiB",
        reason="most memory of a desktop that is put together",
        source="chosen: four modules of 48 GB",
        as_of="2026-11",
    )
    server_host_most_gib: float = assumption(
        1536,
        low=64,
        high=8192,
        unit="GiB",
        reason="most memory of a server that is put together",
        source="chosen: twelve modules of 128 GB",
        as_of="2026-11",
    )

    # Memory bandwidth, of one socket
    desktop_host_gb_per_s: float = assumption(
        89.6,
        low=20,
        high=300,
        unit="GB/s",
        reason="memory bandwidth of an unnamed desktop",
        source="two channels of DDR5-5600",
        as_of="2026-11",
    )
    server_host_gb_per_s: float = assumption(
        307.2,
        low=60,
        high=1000,
        unit="GB/s",
        reason="memory bandwidth of an unnamed server's socket",
        source="eight channels of DDR5-4800: Xeon 8480+",
        as_of="2026-11",
    )
    rented_host_share: float = assumption(
        0.25,
        low=0.05,
        high=1,
        unit="1",
        reason="of a socket, beside each rented accelerator",
        source="chosen: two sockets beside eight",
        as_of="2026-11",
    )
    host_bandwidth_fraction: float = assumption(
        0.5,
        low=0.1,
        high=0.95,
        unit="1",
        reason="of a socket's bandwidth, reading weights",
        source="KTransformers: 8.7 tokens/s at 307 GB/s",
        as_of="2025-02",
    )

    # Arithmetic, as reached, of one socket
    desktop_host_tflops: float = assumption(
        0.7,
        low=0.1,
        high=10,
        unit="TFLOP/s",
        reason="matrices on a desktop's processor",
        source="chosen: a third of 32 cores",
        as_of="2026-11",
    )
    server_host_tflops: float = assumption(
        2.2,
        low=0.3,
        high=40,
        unit="TFLOP/s",
        reason="matrices on a server's socket",
        source="KTransformers: prompts at 54 tokens/s",
        as_of="2025-02",
    )
    host_link_fraction: float = assumption(
        0.7,
        low=0.2,
        high=0.95,
        unit="1",
        reason="of a slot's rate, moving weights for prompts",
        source="chosen: copies of whole layers",
        as_of="2026-11",
    )
