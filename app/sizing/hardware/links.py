"""How accelerators reach one another: links inside a machine, networks between them, collectives over both."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.formula import formula
from app.sizing.hardware.parts import Accelerator, Link, System
from app.sizing.units import GBIT

LINKS = (Link.NONE, Link.PCIE, Link.SCALE_UP)

# One direction of a x16 slot of generation 4: 16 GT/s on 16 lanes (PCI Express Base Specification 4.0). What a slot has
# of which the catalogue says nothing, and the way of offloaded optimizer states to the host and back.
PCIE_BYTES_PER_S = 32e9


def machine_link(accelerator: Accelerator, *, count: float, system: System | None = None) -> tuple[Link, float, float]:
    """The link inside a machine: its kind, bytes per second each way, and how many accelerators share it.

    What the system says counts; without one, accelerators are linked as they usually are.
    """
    if system is not None:
        link, domain = system.link, system.scaleup_domain_size or 1.0
    else:
        whole = float(accelerator.scaleup_domain_size)
        domain = whole if accelerator.link_spans_machines else min(count, whole)
        alone = count <= 1 and not accelerator.link_spans_machines
        link = Link.NONE if alone else accelerator.machine_link
    if link is Link.NONE:
        return link, 0.0, 1.0
    if link is Link.PCIE:
        return link, accelerator.slot_bytes_per_s, count
    return link, accelerator.scaleup_bytes_per_s, domain


def known_network_bytes_per_s(network_bytes_per_s: Column, assumed: Assumptions) -> Column:
    """Networks between machines, the usual one where the catalogue knows none."""
    unknown = np.isnan(network_bytes_per_s)
    if not unknown.any():
        return network_bytes_per_s
    return np.where(unknown, assumed.unknown_network_gbit_per_s * GBIT, network_bytes_per_s)


@formula(unit="s", source="Patarasuk and Yuan 2009; NCCL's bus-bandwidth convention")
def all_reduce_s(message_bytes: Column, ranks: Column, bytes_per_s: Column) -> Column:
    """Bytes of a ring all-reduce over the link: 2 (n - 1) / n of the message crosses it; latency comes on top.

    Source: Patarasuk and Yuan 2009; NCCL's bus-bandwidth convention.
    Limits: rings; switches that add on the way need half.
    Check:
        >>> round(all_reduce_s(1e6, 8.0, 337.5e9) * 1e6, 2)
        5.19
    """
    return 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s
