"""What owning and running machines comes to."""

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
        reason="over which hardware is paid for",
        source="chosen: 3 years",
        as_of="2026-11",
    )
    electricity_usd_per_kwh: float = assumption(
        0.12,
        low=0,
        high=10,
        unit="USD/kWh",
        reason="price of electricity",
        source="chosen: US to EU",
        as_of="2026-11",
    )
    pue: float = assumption(
        1.3,
        low=1,
        high=5,
        unit="1",
        reason="facility's power over the machines'",
        source="chosen: 1.1 new, 1.56 usual",
        as_of="2024-07",
    )
    rent_decline_per_year: float = assumption(
        0.03,
        low=0,
        high=0.9,
        unit="1",
        reason="by which rents on demand fall, in /compare",
        source="mean of 39 price histories, 2022-26",
        as_of="2026-10",
    )
    resale_decline_per_year: float = assumption(
        0.35,
        low=0,
        high=0.99,
        unit="1",
        reason="of its value a bought machine loses, in /compare",
        source="chosen: no market is recorded",
        as_of="2026-11",
    )
    # Owned machines
    list_price_position: float = assumption(
        1.0,
        low=0.0,
        high=1.0,
        unit="1",
        reason="where in a price range one buys",
        source="chosen: cautious end",
        as_of="2026-11",
    )
    host_power_w: float = assumption(
        150,
        low=20,
        high=1000,
        unit="W",
        reason="least host power per accelerator",
        source="chosen: two CPUs over eight",
        as_of="2026-11",
    )
    host_power_fraction: float = assumption(
        0.75,
        low=0.1,
        high=1.5,
        unit="1",
        reason="host, network, fans over accelerators' power",
        source="median of 25 eight-way servers",
        as_of="2026-11",
    )
    largest_host_accelerators: float = assumption(
        16,
        low=1,
        high=1024,
        unit="accelerators",
        reason="most on one host, unlisted",
        source="chosen: the largest PCIe servers",
        as_of="2026-11",
    )
    socket_power_w: float = assumption(
        350,
        low=50,
        high=800,
        unit="W",
        reason="power of a device, unpublished",
        source="chosen: a server CPU's",
        as_of="2026-11",
    )
    load_power_fraction: float = assumption(
        0.75,
        low=0.2,
        high=1.0,
        unit="1",
        reason="mean draw over the rated power",
        source="chosen",
        as_of="2026-11",
    )
    maintenance_fraction_per_year: float = assumption(
        0.05,
        low=0,
        high=0.3,
        unit="1/year",
        reason="upkeep over purchase, yearly",
        source="chosen: usual contracts",
        as_of="2026-11",
    )
    facility_usd_per_kw_month: float = assumption(
        184,
        low=0,
        high=600,
        unit="USD/kW/month",
        reason="colocation, power apart",
        source="CBRE, H2 2024",
        as_of="2025-02",
    )
