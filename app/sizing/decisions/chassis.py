"""Price of a machine without a quote, estimated part by part: accelerators, chassis, processors and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.tables import AcceleratorColumns, Machines
from app.sizing.units import GIB


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
