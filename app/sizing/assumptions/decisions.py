"""Assumptions about the cost of owning and running machines."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class DecisionsAssumptions:
    # Money and energy
    horizon_months: float = assumption(
        36,
        low=1,
        high=240,
        unit="months",
        reason="period over which hardware is paid for",
        source="assumed: 3 years",
        as_of="2026-11",
    )
    electricity_usd_per_kwh: float = assumption(
        0.12,
        low=0,
        high=10,
        unit="USD/kWh",
        reason="electricity price",
        source="assumed: between US and EU prices",
        as_of="2026-11",
    )
    pue: float = assumption(
        1.3,
        low=1,
        high=5,
        unit="1",
        reason="power usage effectiveness of the data center",
        source="assumed: 1.1 for new sites, 1.56 on average",
        as_of="2024-07",
    )
    rent_decline_per_year: float = assumption(
        0.03,
        low=0,
        high=0.9,
        unit="1",
        reason="yearly decline of on-demand prices, in /compare",
        source="mean of 39 price histories, 2022-26",
        as_of="2026-10",
    )
    resale_decline_per_year: float = assumption(
        0.35,
        low=0,
        high=0.99,
        unit="1",
        reason="yearly loss of resale value, in /compare",
        source="assumed: no resale prices are recorded",
        as_of="2026-11",
    )
    # Owned machines
    list_price_position: float = assumption(
        1.0,
        low=0.0,
        high=1.0,
        unit="1",
        reason="position of the paid price in the list price range",
        source="assumed: upper end",
        as_of="2026-11",
    )
    host_power_w: float = assumption(
        150,
        low=20,
        high=1000,
        unit="W",
        reason="smallest host power per accelerator",
        source="assumed: two CPUs for eight accelerators",
        as_of="2026-11",
    )
    host_power_fraction: float = assumption(
        0.75,
        low=0.1,
        high=1.5,
        unit="1",
        reason="power of host, network and fans as a share of accelerator power",
        source="median of 25 eight-way servers",
        as_of="2026-11",
    )
    largest_host_accelerators: float = assumption(
        16,
        low=1,
        high=1024,
        unit="accelerators",
        reason="most accelerators per host if no system is listed",
        source="assumed: the largest PCIe servers",
        as_of="2026-11",
    )
    socket_power_w: float = assumption(
        350,
        low=50,
        high=800,
        unit="W",
        reason="power of a device without a published figure",
        source="assumed: a server CPU",
        as_of="2026-11",
    )
    load_power_fraction: float = assumption(
        0.75,
        low=0.2,
        high=1.0,
        unit="1",
        reason="mean power draw as a share of rated power",
        source="assumed",
        as_of="2026-11",
    )
    maintenance_fraction_per_year: float = assumption(
        0.05,
        low=0,
        high=0.3,
        unit="1/year",
        reason="yearly maintenance cost as a share of the purchase price",
        source="assumed: usual contracts",
        as_of="2026-11",
    )
    facility_usd_per_kw_month: float = assumption(
        184,
        low=0,
        high=600,
        unit="USD/kW/month",
        reason="colocation price without electricity",
        source="CBRE, H2 2024",
        as_of="2025-02",
    )
