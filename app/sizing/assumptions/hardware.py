"""Assumptions about device and host memory, software support, networks, prices of parts, and partly known models."""

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
        reason="share of device memory for single-pass serving",
        source="assumed: leaves room for peaks",
    )
    small_engine_memory_fraction: float = assumption(
        0.98,
        low=0.5,
        high=1.0,
        reason="share of device memory for llama.cpp-like engines",
        source="assumed: no reserve",
    )
    unified_memory_fraction: float = assumption(
        0.75,
        low=0.5,
        high=0.95,
        reason="share of unified memory that the accelerator may use",
        source="assumed: as in macOS",
        as_of="2024-06",
    )
    visible_memory_fraction: float = assumption(
        0.994,
        low=0.9,
        high=1.0,
        reason="visible memory over the memory the driver reports",
        source="start-up logs",
    )
    unreported_memory_fraction: float = assumption(
        0.98,
        low=0.9,
        high=1.0,
        reason="visible memory over the nominal memory size",
        source="RTX 4090: 23.5 of 24 GiB",
    )

    # Software
    expected_support_widening: float = assumption(
        1.3,
        low=1.0,
        high=3.0,
        reason="wider prediction interval if support is only expected",
        source="assumed: between other engines' results and the engine's own",
    )

    # Networks
    unknown_network_gbit_per_s: float = assumption(
        100,
        low=1,
        high=3200,
        unit="Gbit/s",
        reason="network rate per accelerator if none is listed",
        source="assumed: nodes with eight accelerators",
    )

    # Cards in the slots of a machine
    pcie_slot_gb_per_s: float = assumption(
        128,
        low=0.5,
        high=128,
        unit="GB/s",
        reason="largest rate of the host's PCIe slots, each way",
        source="no limit; x16 of PCIe 3.0 has 16, of 4.0 32, of 5.0 64",
    )
    peerless_copies: float = assumption(
        2,
        low=0,
        high=4,
        reason="host memory accesses per byte without peer access",
        source="one write and one read; 0 for a driver with peer access",
    )
    nvlink_bridges: float = assumption(
        1,
        low=0,
        high=1,
        reason="0 if cards have none of their machine's bridges",
        source="assumed: as the record of the machine says",
    )
    eager_launch: float = assumption(
        0,
        low=0,
        high=1,
        reason="1 if engines start without captured graphs",
        source="assumed: the engines' default",
    )
    power_limit_share: float = assumption(
        1,
        low=0.3,
        high=1,
        reason="power limit of accelerators over rated power",
        source="assumed: no limit is set",
    )
    power_limit_exponent: float = assumption(
        0.33,
        low=0.1,
        high=1,
        reason="exponent of the matrix rate over the power limit",
        source="dynamic power rises with the cube of the clock",
    )


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
    )
    server_host_most_gib: float = assumption(
        1536,
        low=64,
        high=8192,
        unit="GiB",
        reason="largest memory of an assumed server host",
        source="assumed: twelve modules of 128 GB",
    )

    # Memory bandwidth of one socket
    desktop_host_gb_per_s: float = assumption(
        89.6,
        low=20,
        high=300,
        unit="GB/s",
        reason="memory bandwidth of an unnamed desktop CPU",
        source="two channels of DDR5-5600",
    )
    server_host_gb_per_s: float = assumption(
        307.2,
        low=60,
        high=1000,
        unit="GB/s",
        reason="memory bandwidth per socket of an unnamed server",
        source="eight channels of DDR5-4800: Xeon 8480+",
    )
    rented_host_share: float = assumption(
        0.25,
        low=0.05,
        high=1,
        reason="CPU socket share that comes with a rented accelerator",
        source="assumed: two sockets for eight accelerators",
    )
    host_bandwidth_fraction: float = assumption(
        0.5,
        low=0.1,
        high=0.95,
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
        reason="share of the slot rate reached when weights are copied",
        source="assumed: copies of whole layers",
    )


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
    )
    large_chassis_usd: float = assumption(
        14000,
        low=4000,
        high=60000,
        unit="USD",
        reason="air-cooled server chassis for up to eight cards",
        source="assumed: 4U servers without cards",
    )
    hot_chassis_factor: float = assumption(
        2.6,
        low=1,
        high=6,
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
    )
    cores_per_accelerator: float = assumption(
        8,
        low=1,
        high=64,
        unit="cores",
        reason="CPU cores bought per accelerator",
        source="assumed: eight-GPU servers ship with 48 to 128 CPU cores",
    )
    desktop_core_usd: float = assumption(
        40,
        low=10,
        high=300,
        unit="USD",
        reason="desktop CPU price per core",
        source="assumed: 16 cores at 600 USD",
    )
    server_core_usd: float = assumption(
        120,
        low=30,
        high=400,
        unit="USD",
        reason="server CPU price per core",
        source="EPYC 9654: 96 cores at 11,500 USD",
    )
    host_memory_ratio: float = assumption(
        1.0,
        low=0.25,
        high=8,
        reason="smallest host memory over accelerator memory",
        source="assumed: a checkpoint fits twice",
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
        reason="network price with two switch tiers over one",
        source="34,000 USD per machine",
        as_of="2024-08",
    )
    three_tier_network_factor: float = assumption(
        3.53,
        low=1,
        high=8,
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
    )


@dataclass(frozen=True)
class ModelAssumptions:
    # Sample models of unknown layer structure
    sample_flops_per_activation: float = assumption(
        1000,
        low=50,
        high=20000,
        unit="FLOP",
        reason="FLOPs per activation element that a pass writes",
        source="between ResNet-50 (740) and ViT-B/16 (1,200)",
    )
    sample_kept_over_live: float = assumption(
        2.5,
        low=1,
        high=50,
        reason="activations kept for backward over live activations",
        source="assumed: convolution, norm and activation",
    )
    sample_layers: float = assumption(
        50,
        low=1,
        high=1000,
        unit="layers",
        reason="layers of a network of which only the FLOPs are known",
        source="ResNet-50 (arXiv:1512.03385)",
        as_of="2015-12",
    )
