"""Cost of owning a machine: its purchase price, its power, and the hourly cost of both."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask, column_names
from app.sizing.decisions.chassis import Parts, estimate_parts, machine_parts_usd
from app.sizing.formula import formula
from app.sizing.hardware.tables import AcceleratorColumns, Machines
from app.sizing.question import Economics
from app.sizing.units import HOURS_PER_MONTH, HOURS_PER_YEAR


@formula(unit="h")
def horizon_hours(economics: Economics) -> float:
    """Hours over which purchases are spread.

    Parameters:
        economics: economics of the request: horizon in months.
    Limits: a month is a twelfth of a year of 365 days.
    Check:
        >>> horizon_hours(Economics(horizon_months=36))
        26280.0
    """
    return economics.horizon_months * HOURS_PER_MONTH


@formula(unit="USD/h")
def purchase_usd_per_hour(machine_purchase_usd: Column, horizon_hours: float) -> Column:
    """Purchase price spread evenly over the horizon.

    Parameters:
        machine_purchase_usd: purchase price of one machine, USD.
        horizon_hours: hours of the horizon.
    Limits: no resale value, no cost of capital.
    Check:
        >>> round(purchase_usd_per_hour(100_000.0, 26_280.0), 2)
        3.81
    """
    return machine_purchase_usd / horizon_hours


@formula(unit="USD/h", source="definition; the share is an assumption")
def upkeep_usd_per_hour(machine_purchase_usd: Column, assumed: Assumptions) -> Column:
    """Hourly cost of support and spare parts: a yearly share of the purchase price.

    Parameters:
        machine_purchase_usd: purchase price of one machine, USD.
        assumed: assumptions: maintenance per year as a share of the purchase.
    Limits: excludes repair by the buyer's own staff.
    Check:
        >>> round(upkeep_usd_per_hour(100_000.0, Assumptions()), 3)
        0.571
    """
    return machine_purchase_usd * assumed.maintenance_fraction_per_year / HOURS_PER_YEAR


@formula(unit="USD/h", source="definition; the price is an assumption")
def floor_usd_per_hour(draw_w: Column, server: Mask, assumed: Assumptions) -> Column:
    """Data center floor space of a server, priced by its power; 0 for a workstation.

    Parameters:
        draw_w: mean power of the machine under load, W.
        server: whether the machine is a server.
        assumed: assumptions: facility price per kW and month.
    Limits: electricity is billed separately, per kWh.
    Check:
        >>> round(float(floor_usd_per_hour(7_500.0, True, Assumptions())), 2)
        1.89
    """
    return np.where(server, draw_w / 1e3 * assumed.facility_usd_per_kw_month / HOURS_PER_MONTH, 0.0)


@formula(unit="USD/h", source="definition of PUE, The Green Grid")
def power_usd_per_hour(draw_w: Column, economics: Economics) -> Column:
    """Electricity of a machine under load, including the building's overhead.

    Parameters:
        draw_w: mean power of the machine under load, W.
        economics: economics of the request: PUE and the electricity tariff.
    Limits: mean power in all hours of the horizon.
    Check:
        >>> round(power_usd_per_hour(7_500.0, Economics(electricity_usd_per_kwh=0.12, pue=1.3)), 2)
        1.17
    """
    return draw_w / 1e3 * economics.pue * economics.electricity_usd_per_kwh


@formula(unit="USD/h")
def machine_usd_per_hour(
    purchase_usd_per_hour: Column, upkeep_usd_per_hour: Column, floor_usd_per_hour: Column, power_usd_per_hour: Column
) -> Column:
    """Hourly cost of an owned machine.

    Parameters:
        purchase_usd_per_hour: purchase spread over the horizon, USD/h.
        upkeep_usd_per_hour: support and spare parts, USD/h.
        floor_usd_per_hour: data center floor space, USD/h.
        power_usd_per_hour: electricity, USD/h.
    Limits: excludes racks and the network between machines.
    Check:
        >>> round(machine_usd_per_hour(3.81, 0.57, 1.89, 1.17), 2)
        7.44
    """
    return purchase_usd_per_hour + upkeep_usd_per_hour + floor_usd_per_hour + power_usd_per_hour


def owned_usd_per_hour(
    machine_purchase_usd: Column, draw_w: Column, server: Mask, assumed: Assumptions, economics: Economics
) -> Column:
    """Hourly cost of an owned machine: purchase over the horizon, maintenance, floor space and power."""
    return machine_usd_per_hour(
        purchase_usd_per_hour(machine_purchase_usd, horizon_hours(economics)),
        upkeep_usd_per_hour(machine_purchase_usd, assumed),
        floor_usd_per_hour(draw_w, server, assumed),
        power_usd_per_hour(draw_w, economics),
    )


@formula(unit="W", source="median of the power ratings of 25 servers with eight accelerators")
def parts_power_w(accelerators_per_node: Column, accelerator_power_w: Column, assumed: Assumptions) -> Column:
    """Rated power of a machine whose own rating is unknown: that of its accelerators plus a host's share for each.

    Parameters:
        accelerators_per_node: accelerators in the machine.
        accelerator_power_w: rated power of one accelerator, W.
        assumed: assumptions: host power per accelerator, in W and as a share of the accelerator's power.
    Limits: less accurate for hosts of one or two accelerators.
    Check:
        >>> float(parts_power_w(8.0, 700.0, Assumptions()))
        9800.0
    """
    host_w = np.maximum(assumed.host_power_w, assumed.host_power_fraction * accelerator_power_w)
    return accelerators_per_node * (accelerator_power_w + host_w)


@formula(unit="W", source="definition; the share is an assumption")
def draw_w(rated_w: Column, assumed: Assumptions) -> Column:
    """Mean power of a machine under load.

    Parameters:
        rated_w: rated power of the machine, W.
        assumed: assumptions: power under load as a share of the rated power.
    Limits: an idle machine draws a third to a half of this.
    Check:
        >>> draw_w(10_000.0, Assumptions())
        7500.0
    """
    return rated_w * assumed.load_power_fraction


def rated_power_w(machines: Machines, types: AcceleratorColumns, assumed: Assumptions) -> Column:
    """Rated power of whole machines: the system's rating, or the sum of its parts.

    A rating that does not exceed that of the accelerators belongs to a bare board, not to a machine. Chips that are
    whole machines have no separate host.
    """
    row, count = machines.accelerator, machines.accelerators_per_node
    accelerator_w = np.where(np.isnan(types.power_w[row]), assumed.socket_power_w, types.power_w[row])
    together = parts_power_w(count, accelerator_w, assumed)
    board = np.isnan(machines.power_w) | (machines.power_w <= count * accelerator_w)
    hostless = np.fmax(machines.power_w, count * types.power_w[row])
    hostless = np.where(np.isnan(hostless), count * accelerator_w, hostless)
    return np.where(types.whole_machine[row], hostless, np.where(board, together * machines.share, machines.power_w))


def machine_purchase_usd(parts: Parts, list_price_usd: Column) -> Column:
    """Purchase price of owned machines: the system's price, or the sum of its parts."""
    return np.where(np.isnan(list_price_usd), machine_parts_usd(parts), list_price_usd)


def derived_parts(
    machines: Machines, types: AcceleratorColumns, ram_bytes: Column, derived: Mask, assumed: Assumptions
) -> Parts:
    """Parts of the machines whose price is `derived` from them; NaN for the others."""
    parts = Parts.empty_rows(len(machines))
    if derived.any():
        found = estimate_parts(machines.take(derived), types, ram_bytes[derived], assumed)
        for name in column_names(Parts):
            getattr(parts, name)[derived] = getattr(found, name)
    return parts
