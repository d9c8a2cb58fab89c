"""Cost of owning a machine: its purchase price, quoted or estimated by parts, its power, and the cost per hour."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, HOURS_PER_MONTH, HOURS_PER_YEAR, Column, Columns, Mask, column_names
from app.sizing.formula import formula
from app.sizing.hardware.tables import AcceleratorColumns, Machines
from app.sizing.question import Economics


@dataclass(frozen=True, slots=True)
class Parts(Columns):
    """Parts of one machine and their prices, in USD; all NaN where the machine is rented or has a price of its own."""

    accelerators_usd: Column  # all accelerators of the machine, USD
    chassis_usd: Column  # case, board, power supplies and cooling, USD
    processors_usd: Column  # host processors, USD
    memory_bytes: Column  # host memory included in the price, bytes
    memory_usd_per_gib: Column  # price of host memory, USD per GiB; 0 where the machine includes it

    def at_paid_share(self, paid: Column) -> Parts:
        """The parts with every price multiplied by the share that the buyer pays."""
        return replace(
            self,
            accelerators_usd=self.accelerators_usd * paid,
            chassis_usd=self.chassis_usd * paid,
            processors_usd=self.processors_usd * paid,
            memory_usd_per_gib=self.memory_usd_per_gib * paid,
        )

    @classmethod
    def empty_rows(cls, count: int) -> Parts:
        """`count` rows of NaN: machines that have a price of their own."""
        return cls(*(np.full(count, np.nan) for _ in range(5)))


@formula(unit="USD", source="definition; the position within the range is an assumption")
def accelerator_unit_usd(price_low_usd: Column, price_high_usd: Column, assumed: Assumptions) -> Column:
    """Price of one accelerator within its range of list prices.

    Parameters:
        price_low_usd: lowest list price, USD.
        price_high_usd: highest list price, USD.
        assumed: assumptions: position within the range, from 0 to 1.
    Limits: list prices; large orders pay less.
    Check:
        >>> accelerator_unit_usd(20_000.0, 30_000.0, Assumptions(list_price_position=0.5))
        25000.0
    """
    return price_low_usd + assumed.list_price_position * (price_high_usd - price_low_usd)


@formula(unit="USD", source="definition; the prices are assumptions")
def chassis_usd(
    accelerators_per_node: Column, accelerator_power_w: Column, is_desktop_card: Mask, assumed: Assumptions
) -> Column:
    """Price of a machine's case, board, power supplies and cooling, by the number of accelerators.

    More than eight accelerators need several chassis. Desktop cards exhaust heat sideways: more than two hot ones
    need a liquid-cooled or wider chassis.

    Parameters:
        accelerators_per_node: accelerators in the machine.
        accelerator_power_w: rated power of one accelerator, W.
        is_desktop_card: whether the accelerators are desktop cards.
        assumed: assumptions: chassis prices, power of an air-cooled card and the factor for hot cards.
    Limits: a desktop or tower holds at most two desktop cards; the boards' price includes the switches between
    boards.
    Check: eight desktop cards of 575 W in a liquid-cooled 4U chassis.
        >>> float(chassis_usd(8.0, 575.0, True, Assumptions()))
        36400.0
    """
    desktop = np.where(accelerators_per_node <= 1, assumed.desktop_chassis_usd, assumed.tower_chassis_usd)
    large = np.ceil(accelerators_per_node / 8) * assumed.large_chassis_usd
    server = np.where(accelerators_per_node <= 4, assumed.small_chassis_usd, large)
    hot = np.where(is_desktop_card & (accelerator_power_w > assumed.air_cooled_card_w), assumed.hot_chassis_factor, 1.0)
    return np.where(is_desktop_card & (accelerators_per_node <= 2), desktop, server * hot)


@formula(unit="USD", source="definition; cores per accelerator and their price are assumptions")
def processors_usd(accelerators_per_node: Column, is_desktop_card: Mask, assumed: Assumptions) -> Column:
    """Price of a machine's host processors; desktop processors where it carries at most four desktop cards.

    Parameters:
        accelerators_per_node: accelerators in the machine.
        is_desktop_card: whether the accelerators are desktop cards.
        assumed: assumptions: cores per accelerator and the price of a core.
    Limits: the same processors for every workload.
    Check:
        >>> float(processors_usd(8.0, False, Assumptions()))
        7680.0
    """
    core_usd = np.where(
        is_desktop_card & (accelerators_per_node <= 4), assumed.desktop_core_usd, assumed.server_core_usd
    )
    return accelerators_per_node * assumed.cores_per_accelerator * core_usd


@formula(unit="bytes", source="definition; the ratio is an assumption")
def priced_memory_bytes(
    ram_bytes: Column, accelerators_per_node: Column, memory_bytes: Column, assumed: Assumptions
) -> Column:
    """Host memory that the machine's price includes: its known size, or a multiple of the accelerators' memory.

    Parameters:
        ram_bytes: host memory of the machine, bytes; NaN if unknown.
        accelerators_per_node: accelerators in the machine.
        memory_bytes: memory of one accelerator, bytes.
        assumed: assumptions: host memory per byte of accelerator memory.
    Limits: memory that a plan needs beyond this is priced with the plan.
    Check:
        >>> float(priced_memory_bytes(float("nan"), 8.0, 80e9, Assumptions()))
        640000000000.0
    """
    own = np.maximum(ram_bytes, 0.0)
    usual = accelerators_per_node * memory_bytes * assumed.host_memory_ratio
    return np.where(ram_bytes > 0, own, usual)


@formula(unit="USD", source="definition; the price is an assumption")
def memory_usd(memory_bytes: Column, memory_usd_per_gib: Column) -> Column:
    """Price of a host's memory.

    Parameters:
        memory_bytes: host memory, bytes.
        memory_usd_per_gib: price of memory, USD per GiB.
    Limits: memory prices doubled more than once in 2026.
    Check:
        >>> memory_usd(1024.0 * GIB, 27.0)
        27648.0
    """
    return memory_bytes / GIB * memory_usd_per_gib


@formula(unit="USD")
def assembled_machine_usd(
    accelerators_usd: Column, chassis_usd: Column, processors_usd: Column, memory_usd: Column
) -> Column:
    """Price of a machine assembled from parts.

    Parameters:
        accelerators_usd: all accelerators, USD.
        chassis_usd: case, board, power supplies and cooling, USD.
        processors_usd: host processors, USD.
        memory_usd: host memory, USD.
    Limits: excludes the integrator's labor and warranty.
    Check:
        >>> assembled_machine_usd(240_000.0, 14_000.0, 7_680.0, 27_648.0)
        289328.0
    """
    return accelerators_usd + chassis_usd + processors_usd + memory_usd


def estimate_parts(machines: Machines, types: AcceleratorColumns, ram_bytes: Column, assumed: Assumptions) -> Parts:
    """Estimated parts of each machine; chips that are whole machines include everything."""
    row, count = machines.accelerator, machines.accelerators_per_node
    each = accelerator_unit_usd(types.price_low_usd[row], types.price_high_usd[row], assumed)
    power = np.where(np.isnan(types.power_w[row]), assumed.socket_power_w, types.power_w[row])
    desk, whole = machines.workstation & types.desktop[row], types.whole_machine[row]
    small = desk & (count <= 4)
    memory = np.nan_to_num(priced_memory_bytes(ram_bytes, count, np.nan_to_num(machines.memory_bytes), assumed))
    per_gib = np.where(small, assumed.desktop_memory_usd_per_gib, assumed.server_memory_usd_per_gib)
    feeds = ~whole & ~types.processor[row]  # sockets are processors themselves
    return Parts(
        accelerators_usd=count * each,
        chassis_usd=np.where(whole, 0.0, chassis_usd(count, power, desk, assumed)),
        processors_usd=np.where(feeds, processors_usd(count, desk, assumed), 0.0),
        memory_bytes=memory,
        memory_usd_per_gib=np.where(whole, 0.0, per_gib),
    )


def machine_parts_usd(parts: Parts) -> Column:
    """Price of machines assembled from parts; NaN where a machine has a price of its own."""
    memory = memory_usd(parts.memory_bytes, parts.memory_usd_per_gib)
    return assembled_machine_usd(parts.accelerators_usd, parts.chassis_usd, parts.processors_usd, memory)


@formula(unit="USD")
def more_memory_usd(needed_bytes: Column, memory_bytes: Column, memory_usd_per_gib: Column) -> Column:
    """Price of the host memory that a plan needs beyond the memory included in the machine's price.

    Parameters:
        needed_bytes: host memory that the plan needs, bytes.
        memory_bytes: host memory included in the machine's price, bytes.
        memory_usd_per_gib: price of memory, USD per GiB.
    Limits: machines assembled from parts only; a quoted machine has a known memory size.
    Check:
        >>> float(more_memory_usd(1_000.0 * GIB, 640.0 * GIB, 27.0))
        9720.0
    """
    return np.maximum(0.0, needed_bytes - memory_bytes) / GIB * memory_usd_per_gib


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
    whole machines have no separate host, so a power limit is one of the whole machine.
    """
    row, count = machines.accelerator, machines.accelerators_per_node
    accelerator_w = np.where(np.isnan(types.power_w[row]), assumed.socket_power_w, types.power_w[row])
    together = parts_power_w(count, accelerator_w, assumed)
    board = np.isnan(machines.power_w) | (machines.power_w <= count * accelerator_w)
    hostless = np.fmax(machines.power_w, count * types.power_w[row])
    hostless = np.where(np.isnan(hostless), count * accelerator_w, hostless)
    saved = (1 - assumed.power_limit_share) * count * accelerator_w * machines.share
    limited = np.where(board, together * machines.share, machines.power_w) - saved
    return np.where(types.whole_machine[row], hostless * assumed.power_limit_share, limited)


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
