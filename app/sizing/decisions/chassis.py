"""What stands around accelerators in a machine that nobody quoted: chassis, processors and memory, part by part."""

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
    """What one machine is put together from, in USD; all NaN where its own price is known, and where it is rented."""

    accelerators_usd: Column
    chassis_usd: Column
    processors_usd: Column
    memory_bytes: Column  # of the host, as it is priced
    memory_usd_per_gib: Column  # 0: it comes with the machine

    def at(self, paid: Column) -> Parts:
        """The same at a share of the price of each."""
        return replace(
            self,
            accelerators_usd=self.accelerators_usd * paid,
            chassis_usd=self.chassis_usd * paid,
            processors_usd=self.processors_usd * paid,
            memory_usd_per_gib=self.memory_usd_per_gib * paid,
        )

    @classmethod
    def none(cls, count: int) -> Parts:
        """Of machines that have a price of their own."""
        return cls(*(np.full(count, np.nan) for _ in range(5)))


@formula(unit="USD")
def part_usd(price_low_usd: Column, price_high_usd: Column, assumed: Assumptions) -> Column:
    """Price of one accelerator, from its range of list prices.

    Source: definition; where in the range is an assumption.
    Limits: list prices; large orders pay less.
    Check:
        >>> part_usd(20_000.0, 30_000.0, Assumptions(list_price_position=0.5))
        25000.0
    """
    return price_low_usd + assumed.list_price_position * (price_high_usd - price_low_usd)


@formula(unit="USD")
def chassis_usd(accelerators_per_node: Column, accelerator_power_w: Column, desk: Mask, assumed: Assumptions) -> Column:
    """Case, board, power supplies and cooling of a machine, by how many accelerators it carries; more than eight stand
    in several. Desktop cards blow their heat aside: hot ones, more than two of them, take a liquid-cooled or wide one.

    Source: definition; the prices are assumptions.
    Limits: desktop cards in a desktop or tower only up to two; switches between boards come with the boards.
    Check: eight desktop cards of 575 W, as a liquid-cooled 4U chassis.
        >>> float(chassis_usd(8.0, 575.0, True, Assumptions()))
        36400.0
    """
    desktop = np.where(accelerators_per_node <= 1, assumed.desktop_chassis_usd, assumed.tower_chassis_usd)
    large = np.ceil(accelerators_per_node / 8) * assumed.large_chassis_usd
    server = np.where(accelerators_per_node <= 4, assumed.small_chassis_usd, large)
    hot = np.where(desk & (accelerator_power_w > assumed.air_cooled_card_w), assumed.hot_chassis_factor, 1.0)
    return np.where(desk & (accelerators_per_node <= 2), desktop, server * hot)


@formula(unit="USD")
def processors_usd(accelerators_per_node: Column, desk: Mask, assumed: Assumptions) -> Column:
    """Processors that feed a machine's accelerators; a desktop's where it carries no more than four desktop cards.

    Source: definition; cores of each and their price are assumptions.
    Limits: of the same make for every load.
    Check:
        >>> float(processors_usd(8.0, False, Assumptions()))
        7680.0
    """
    core_usd = np.where(desk & (accelerators_per_node <= 4), assumed.desktop_core_usd, assumed.server_core_usd)
    return accelerators_per_node * assumed.cores_per_accelerator * core_usd


@formula(unit="bytes")
def priced_memory_bytes(
    ram_bytes: Column, accelerators_per_node: Column, memory_bytes: Column, assumed: Assumptions
) -> Column:
    """Memory of a host as it is priced: its own, or as much as its accelerators have.

    Source: definition; the share is an assumption.
    Limits: what a plan needs beyond it is priced with the plan.
    Check:
        >>> float(priced_memory_bytes(float("nan"), 8.0, 80e9, Assumptions()))
        640000000000.0
    """
    own = np.maximum(ram_bytes, 0.0)
    usual = accelerators_per_node * memory_bytes * assumed.host_memory_ratio
    return np.where(ram_bytes > 0, own, usual)


@formula(unit="USD")
def memory_usd(memory_bytes: Column, memory_usd_per_gib: Column) -> Column:
    """Price of a host's memory.

    Source: definition; the price is an assumption.
    Limits: prices of memory doubled more than once in 2026.
    Check:
        >>> memory_usd(1024.0 * GIB, 27.0)
        27648.0
    """
    return memory_bytes / GIB * memory_usd_per_gib


@formula(unit="USD")
def parts_usd(accelerators_usd: Column, chassis_usd: Column, processors_usd: Column, memory_usd: Column) -> Column:
    """Price of a machine that is put together.

    Source: definition.
    Limits: work of who puts it together and their warranty are not in it.
    Check:
        >>> parts_usd(240_000.0, 14_000.0, 7_680.0, 27_648.0)
        289328.0
    """
    return accelerators_usd + chassis_usd + processors_usd + memory_usd


def parts_of(machines: Machines, types: AcceleratorColumns, ram_bytes: Column, assumed: Assumptions) -> Parts:
    """What machines are put together from. Chips that are whole machines come with everything."""
    row, count = machines.accelerator, machines.accelerators_per_node
    each = part_usd(types.price_low_usd[row], types.price_high_usd[row], assumed)
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


def together_usd(parts: Parts) -> Column:
    """Price of machines that are put together; NaN where their own is known."""
    memory = memory_usd(parts.memory_bytes, parts.memory_usd_per_gib)
    return parts_usd(parts.accelerators_usd, parts.chassis_usd, parts.processors_usd, memory)


@formula(unit="USD")
def more_memory_usd(needed_bytes: Column, memory_bytes: Column, memory_usd_per_gib: Column) -> Column:
    """Price of what a plan needs of a host's memory beyond what is in the price of the machine.

    Source: definition.
    Limits: of machines put together; of a quoted one it is known what it has.
    Check:
        >>> float(more_memory_usd(1_000.0 * GIB, 640.0 * GIB, 27.0))
        9720.0
    """
    return np.maximum(0.0, needed_bytes - memory_bytes) / GIB * memory_usd_per_gib
