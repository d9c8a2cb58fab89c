"""Assumed prices of machine parts: chassis, processors, memory, racks and networks."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class MachineAssumptions:
    # Machines without a quote
    desktop_chassis_usd: float = assumption(
        1000,
        low=200,
        high=5000,
        unit="USD",
        reason="desktop case, board and power supply for one card",
        source="assumed: parts lists of desktops",
        as_of="2026-11",
    )
    tower_chassis_usd: float = assumption(
        2000,
        low=500,
        high=10000,
        unit="USD",
        reason="desktop case, board and power supply for two cards",
        source="system with two RTX 5090: 11,200 USD, of which cards 8,198",
        as_of="2026-08",
    )
    small_chassis_usd: float = assumption(
        6000,
        low=1500,
        high=25000,
        unit="USD",
        reason="server chassis for up to four cards or two sockets",
        source="assumed: between a tower and a chassis for eight cards",
        as_of="2026-11",
    )
    large_chassis_usd: float = assumption(
        14000,
        low=4000,
        high=60000,
        unit="USD",
        reason="air-cooled server chassis for up to eight cards",
        source="assumed: 4U servers without cards",
        as_of="2026-11",
    )
    hot_chassis_factor: float = assumption(
        2.6,
        low=1,
        high=6,
        unit="1",
        reason="price of a liquid-cooled or wide chassis over air-cooled",
        source="liquid-cooled 4U server for eight RTX 5090: from 36,000 USD",
        as_of="2026-08",
    )
    air_cooled_card_w: float = assumption(
        400,
        low=150,
        high=1500,
        unit="W",
        reason="power above which desktop cards need a wider chassis",
        source="assumed: two-slot cards stay below",
        as_of="2026-11",
    )
    cores_per_accelerator: float = assumption(
        8,
        low=1,
        high=64,
        unit="cores",
        reason="CPU cores bought per accelerator",
        source="assumed: eight-GPU servers ship with 48 to 128 CPU cores",
        as_of="2026-11",
    )
    desktop_core_usd: float = assumption(
        40,
        low=10,
        high=300,
        unit="USD",
        reason="desktop CPU price per core",
        source="assumed: 16 cores at 600 USD",
        as_of="2026-11",
    )
    server_core_usd: float = assumption(
        120,
        low=30,
        high=400,
        unit="USD",
        reason="server CPU price per core",
        source="EPYC 9654: 96 cores at 11,500 USD",
        as_of="2026-11",
    )
    host_memory_ratio: float = assumption(
        1.0,
        low=0.25,
        high=8,
        unit="1",
        reason="smallest host memory over accelerator memory",
        source="assumed: a checkpoint fits twice",
        as_of="2026-11",
    )
    desktop_memory_usd_per_gib: float = assumption(
        10,
        low=2,
        high=60,
        unit="USD/GiB",
        reason="desktop memory price",
        source="DDR5 modules, December 2025",
        as_of="2025-12",
    )
    server_memory_usd_per_gib: float = assumption(
        27,
        low=3,
        high=100,
        unit="USD/GiB",
        reason="server memory price",
        source="DDR5 RDIMM spot prices: 27 to 37 USD/GiB",
        as_of="2026-06",
    )

    # Racks and networks
    rack_usd_per_kw: float = assumption(
        200,
        low=0,
        high=3000,
        unit="USD/kW",
        reason="price of rack and power distribution for servers",
        source="assumed: 4,000 USD for 20 kW",
        as_of="2026-11",
    )
    network_usd_per_gbit: float = assumption(
        4.7,
        low=0,
        high=50,
        unit="USD/(Gbit/s)",
        reason="price of switches, cables and optics, one switch tier",
        source="15,000 USD per machine with eight 400G ports",
        as_of="2024-08",
    )
    switch_ports: float = assumption(
        64,
        low=8,
        high=1024,
        unit="ports",
        reason="ports per switch: most machines that one tier connects",
        source="400G switches",
        as_of="2024-08",
    )
    two_tier_network_factor: float = assumption(
        2.27,
        low=1,
        high=5,
        unit="1",
        reason="network price with two switch tiers over one",
        source="34,000 USD per machine",
        as_of="2024-08",
    )
    three_tier_network_factor: float = assumption(
        3.53,
        low=1,
        high=8,
        unit="1",
        reason="network price with three switch tiers over one",
        source="53,000 USD per machine",
        as_of="2024-08",
    )
    network_card_usd_per_gbit: float = assumption(
        3.75,
        low=0,
        high=20,
        unit="USD/(Gbit/s)",
        reason="network card price if the machine lists none",
        source="12,000 USD for eight 400G cards",
        as_of="2026-11",
    )
