"""What stands around and between accelerators that are bought: chassis, processors, memory, racks and networks."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class MachineAssumptions:
    # Machines that nobody quotes
    desktop_chassis_usd: float = assumption(
        1000,
        low=200,
        high=5000,
        unit="USD",
        reason="case, board, power supply of one desktop card",
        source="chosen: parts lists of desktops",
        as_of="2026-11",
    )
    tower_chassis_usd: float = assumption(
        2000,
        low=500,
        high=10000,
        unit="USD",
        reason="the same of two desktop cards",
        source="two RTX 5090: 11,200 whole, 8,198 of it cards",
        as_of="2026-08",
    )
    small_chassis_usd: float = assumption(
        6000,
        low=1500,
        high=25000,
        unit="USD",
        reason="the same of up to four cards or two sockets",
        source="chosen: between a tower and eight cards",
        as_of="2026-11",
    )
    large_chassis_usd: float = assumption(
        14000,
        low=4000,
        high=60000,
        unit="USD",
        reason="the same of up to eight, cooled by air",
        source="chosen: 4U servers without cards",
        as_of="2026-11",
    )
    hot_chassis_factor: float = assumption(
        2.6,
        low=1,
        high=6,
        unit="1",
        reason="liquid or wide chassis over air-cooled",
        source="4U liquid for eight RTX 5090: from 36,000",
        as_of="2026-08",
    )
    air_cooled_card_w: float = assumption(
        400,
        low=150,
        high=1500,
        unit="W",
        reason="desktop cards above it do not stand close",
        source="chosen: two-slot cards stay below",
        as_of="2026-11",
    )
    cores_per_accelerator: float = assumption(
        8,
        low=1,
        high=64,
        unit="cores",
        reason="processor cores bought for each",
        source="chosen: 48 to 128 beside eight are sold",
        as_of="2026-11",
    )
    desktop_core_usd: float = assumption(
        40,
        low=10,
        high=300,
        unit="USD",
        reason="desktop processor, per core",
        source="chosen: 16 cores at 600",
        as_of="2026-11",
    )
    server_core_usd: float = assumption(
        120,
        low=30,
        high=400,
        unit="USD",
        reason="server processor, per core",
        source="EPYC 9654: 96 cores at 11,500",
        as_of="2026-11",
    )
    host_memory_ratio: float = assumption(
        1.0,
        low=0.25,
        high=8,
        unit="1",
        reason="host memory over accelerators', at least",
        source="chosen: a checkpoint fits twice",
        as_of="2026-11",
    )
    desktop_memory_usd_per_gib: float = assumption(
        10,
        low=2,
        high=60,
        unit="USD/GiB",
        reason="desktop memory",
        source="DDR5 modules, December 2025",
        as_of="2025-12",
    )
    server_memory_usd_per_gib: float = assumption(
        27,
        low=3,
        high=100,
        unit="USD/GiB",
        reason="server memory",
        source="DDR5 RDIMM, spot: 27 to 37",
        as_of="2026-06",
    )

    # Beside machines
    rack_usd_per_kw: float = assumption(
        200,
        low=0,
        high=3000,
        unit="USD/kW",
        reason="cabinet and power strips of servers",
        source="chosen: 4,000 for 20 kW",
        as_of="2026-11",
    )
    network_usd_per_gbit: float = assumption(
        4.7,
        low=0,
        high=50,
        unit="USD/(Gbit/s)",
        reason="switches, cables, optics: one tier",
        source="15,000 per machine of eight 400G ports",
        as_of="2024-08",
    )
    switch_ports: float = assumption(
        64,
        low=8,
        high=1024,
        unit="ports",
        reason="of a switch: machines that one tier joins",
        source="400G switches",
        as_of="2024-08",
    )
    two_tier_network_factor: float = assumption(
        2.27,
        low=1,
        high=5,
        unit="1",
        reason="two tiers of switches over one",
        source="34,000 per machine",
        as_of="2024-08",
    )
    three_tier_network_factor: float = assumption(
        3.53,
        low=1,
        high=8,
        unit="1",
        reason="three tiers of switches over one",
        source="53,000 per machine",
        as_of="2024-08",
    )
    network_card_usd_per_gbit: float = assumption(
        3.75,
        low=0,
        high=20,
        unit="USD/(Gbit/s)",
        reason="network cards, where the machine names none",
        source="12,000 for eight of 400G",
        as_of="2026-11",
    )
