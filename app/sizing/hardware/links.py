"""Links between accelerators: inside a machine, between machines, and collectives over both."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.formula import formula
from app.sizing.hardware.parts import Accelerator, Link, System
from app.sizing.units import GBIT

LINKS = (Link.NONE, Link.PCIE, Link.SCALE_UP)

# One direction of a generation 4 x16 slot: 16 GT/s on 16 lanes (PCI Express Base Specification 4.0). Used for slots
# without a rate in the catalog, and for optimizer states that are offloaded to the host.
PCIE_BYTES_PER_S = 32e9


def machine_link(accelerator: Accelerator, *, count: float, system: System | None = None) -> tuple[Link, float, float]:
    """Link inside a machine: its kind, its bandwidth in bytes/s each way, and the number of accelerators that share it.

    The record of the system takes precedence; without one, the accelerator's usual link applies.
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
    """Network bandwidth between machines, bytes/s per accelerator; the assumed one if the catalog has none."""
    unknown = np.isnan(network_bytes_per_s)
    if not unknown.any():
        return network_bytes_per_s
    return np.where(unknown, assumed.unknown_network_gbit_per_s * GBIT, network_bytes_per_s)


@formula(unit="s", source="Patarasuk and Yuan 2009; NCCL's bus-bandwidth convention")
def all_reduce_s(message_bytes: Column, ranks: Column, bytes_per_s: Column) -> Column:
    """Transfer time of a ring all-reduce, without latency: 2 (n - 1) / n of the message crosses each link.

    Parameters:
        message_bytes: size of the reduced message, bytes.
        ranks: number of ranks in the ring.
        bytes_per_s: bandwidth of the link each way, bytes/s.
    Limits: ring all-reduce; switches that reduce in the network need half the time.
    Check: 1 MB over eight ranks at 337.5 GB/s takes 5.19 us.
        >>> round(all_reduce_s(1e6, 8.0, 337.5e9) * 1e6, 2)
        5.19
    """
    return 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s
