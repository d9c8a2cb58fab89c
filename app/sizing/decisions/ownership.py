"""What owning a machine costs: its price, its power, and both per hour."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask, names_of
from app.sizing.decisions.chassis import Parts, parts_of, together_usd
from app.sizing.formula import formula
from app.sizing.hardware.tables import AcceleratorColumns, Machines
from app.sizing.question import Economics
from app.sizing.units import HOURS_PER_MONTH, HOURS_PER_YEAR


@formula(unit="h")
def horizon_hours(economics: Economics) -> float:
    """Hours over which hardware is paid for.

    Source: definition.
    Limits: a month is a twelfth of a year of 365 days.
    Check:
        >>> horizon_hours(Economics(horizon_months=36))
        26280.0
    """
    return economics.horizon_months * HOURS_PER_MONTH


@formula(unit="USD/h")
def purchase_usd_per_hour(machine_purchase_usd: Column, horizon_hours: float) -> Column:
    """A purchase spread evenly over the horizon.

    Source: definition.
    Limits: no resale value, no cost of capital.
    Check:
        >>> round(purchase_usd_per_hour(100_000.0, 26_280.0), 2)
        3.81
    """
    return machine_purchase_usd / horizon_hours


@formula(unit="USD/h")
def upkeep_usd_per_hour(machine_purchase_usd: Column, assumed: Assumptions) -> Column:
    """Support and spares, a share of the purchase every year.

    Source: definition; the share is an assumption.
    Limits: repair by one's own staff is not in it.
    Check:
        >>> round(upkeep_usd_per_hour(100_000.0, Assumptions()), 3)
        0.571
    """
    return machine_purchase_usd * assumed.maintenance_fraction_per_year / HOURS_PER_YEAR


@formula(unit="USD/h")
def floor_usd_per_hour(draw_w: Column, server: Mask, assumed: Assumptions) -> Column:
    """Space of a server in a data centre, priced by its power; a workstation stands for nothing.

    Source: definition; the price is an assumption.
    Limits: power is billed apart, per kWh.
    Check:
        >>> round(float(floor_usd_per_hour(7_500.0, True, Assumptions())), 2)
        1.89
    """
    return np.where(server, draw_w / 1e3 * assumed.facility_usd_per_kw_month / HOURS_PER_MONTH, 0.0)


@formula(unit="USD/h")
def power_usd_per_hour(draw_w: Column, economics: Economics) -> Column:
    """Electricity of a machine under load, what the building adds included.

    Source: definition; PUE after The Green Grid.
    Limits: the mean draw, all hours of the horizon.
    Check:
        >>> round(power_usd_per_hour(7_500.0, Economics(electricity_usd_per_kwh=0.12, pue=1.3)), 2)
        1.17
    """
    return draw_w / 1e3 * economics.pue * economics.electricity_usd_per_kwh


@formula(unit="USD/h")
def machine_usd_per_hour(
    purchase_usd_per_hour: Column, upkeep_usd_per_hour: Column, floor_usd_per_hour: Column, power_usd_per_hour: Column
) -> Column:
    """What an owned machine costs per hour.

    Source: definition.
    Limits: racks and the network between machines come on top.
    Check:
        >>> round(machine_usd_per_hour(3.81, 0.57, 1.89, 1.17), 2)
        7.44
    """
    return purchase_usd_per_hour + upkeep_usd_per_hour + floor_usd_per_hour + power_usd_per_hour


def owned_usd_per_hour(
    machine_purchase_usd: Column, draw_w: Column, server: Mask, assumed: Assumptions, economics: Economics
) -> Column:
    """What an owned machine costs per hour, part by part: purchase over the horizon, upkeep, floor and power."""
    return machine_usd_per_hour(
        purchase_usd_per_hour(machine_purchase_usd, horizon_hours(economics)),
        upkeep_usd_per_hour(machine_purchase_usd, assumed),
        floor_usd_per_hour(draw_w, server, assumed),
        power_usd_per_hour(draw_w, economics),
    )


@formula(unit="W")
def parts_power_w(accelerators_per_node: Column, accelerator_power_w: Column, assumed: Assumptions) -> Column:
    """Rated power of a machine of which only the accelerators' is known: theirs and a host's share each.

    Source: median of 25 eight-way servers' ratings.
    Limits: hosts of one or two accelerators differ more.
    Check:
        >>> float(parts_power_w(8.0, 700.0, Assumptions()))
        9800.0
    """
    host_w = np.maximum(assumed.host_power_w, assumed.host_power_fraction * accelerator_power_w)
    return accelerators_per_node * (accelerator_power_w + host_w)


@formula(unit="W")
def draw_w(rated_w: Column, assumed: Assumptions) -> Column:
    """Mean power of a machine under load.

    Source: definition; the share is an assumption.
    Limits: an idle machine draws a third to a half of it.
    Check:
        >>> draw_w(10_000.0, Assumptions())
        7500.0
    """
    return rated_w * assumed.load_power_fraction


def rated_power_w(machines: Machines, types: AcceleratorColumns, assumed: Assumptions) -> Column:
    """Rated power of whole machines: their own, or that of their parts.

    A figure that does not exceed the accelerators' own is a bare board's, not a machine's; chips that are whole
    machines have no host beside them.
    """
    row, count = machines.accelerator, machines.accelerators_per_node
    accelerator_w = np.where(np.isnan(types.power_w[row]), assumed.socket_power_w, types.power_w[row])
    together = parts_power_w(count, accelerator_w, assumed)
    board = np.isnan(machines.power_w) | (machines.power_w <= count * accelerator_w)
    alone = np.fmax(machines.power_w, count * types.power_w[row])
    alone = np.where(np.isnan(alone), count * accelerator_w, alone)
    return np.where(types.whole_machine[row], alone, np.where(board, together * machines.share, machines.power_w))


def machine_purchase_usd(parts: Parts, list_price_usd: Column) -> Column:
    """Purchase price of owned machines: their own, or that of what they are put together from."""
    return np.where(np.isnan(list_price_usd), together_usd(parts), list_price_usd)


def reckoned_parts(
    machines: Machines, types: AcceleratorColumns, ram_bytes: Column, reckoned: Mask, assumed: Assumptions
) -> Parts:
    """What machines are put together from; nothing of those that are not `reckoned`."""
    parts = Parts.none(len(machines))
    if reckoned.any():
        found = parts_of(machines.take(reckoned), types, ram_bytes[reckoned], assumed)
        for name in names_of(Parts):
            getattr(parts, name)[reckoned] = getattr(found, name)
    return parts
