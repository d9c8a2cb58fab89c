"""What owning a machine costs: its price, its power, and both per hour."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.question import Economics
from app.sizing.snapshot import Machines, Market


def owned_usd_per_hour(
    purchase_usd: Column, draw_w: Column, server: Mask, assumed: Assumptions, economics: Economics
) -> Column:
    """What an owned machine costs per hour: purchase over the horizon, upkeep, floor and power.

    No resale value is counted. Check: 100 000 USD over 36 months is 3.81 USD per hour before upkeep.
    """
    hours = economics.horizon_months * 730.0
    upkeep = purchase_usd * assumed.maintenance_fraction_per_year / 8760.0
    floor = np.where(server, draw_w / 1e3 * assumed.facility_usd_per_kw_month / 730.0, 0.0)
    power = draw_w / 1e3 * economics.pue * economics.electricity_usd_per_kwh
    return purchase_usd / hours + upkeep + floor + power


def machine_power_w(market: Market, m: Machines, assumed: Assumptions) -> Column:
    """Rated power of a whole machine: its own, or its accelerators' and a host's share.

    A figure that does not exceed the accelerators' own is a bare board's, not a machine's.
    """
    device = market.columns.power_w[m.accelerator]
    device = np.where(np.isnan(device), assumed.socket_power_w, device)
    board = np.isnan(m.power_w) | (m.power_w <= m.accelerators_per_node * device)
    host = np.maximum(assumed.host_power_w, assumed.host_power_fraction * device)
    return np.where(board, m.accelerators_per_node * (device + host), m.power_w)


def purchase_usd(market: Market, m: Machines, list_price_usd: Column, assumed: Assumptions) -> Column:
    """Purchase price of an owned machine: its list price, or accelerators plus a stated host."""
    low, high = market.columns.price_low_usd[m.accelerator], market.columns.price_high_usd[m.accelerator]
    part = low + assumed.list_price_position * (high - low)
    desktop = m.workstation & market.columns.desktop[m.accelerator]
    host = np.where(desktop, assumed.workstation_host_usd, assumed.server_host_usd)
    return np.where(np.isnan(list_price_usd), part * m.accelerators_per_node + host, list_price_usd)
