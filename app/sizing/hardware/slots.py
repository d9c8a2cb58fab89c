"""Links and power of cards as a machine has them: slots, copies through host memory, bridges and power limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GB, Column, Mask
from app.sizing.formula import formula
from app.sizing.hardware.parts import LINKS, Link
from app.sizing.hardware.tables import AcceleratorColumns, Machines


@formula(unit="B/s", source="PCI Express Base Specification; NCCL's transport through shared host memory")
def pcie_bytes_per_s(
    slot_bytes_per_s: Column, peer_access: Mask, accelerators: Column, host_bytes_per_s: Column, assumed: Assumptions
) -> Column:
    """Nominal bandwidth between the cards of a machine over PCIe, each way.

    Without peer access, a byte that one card sends to another is written to host memory and read from it, and all
    cards of the machine share that memory.

    Parameters:
        slot_bytes_per_s: bandwidth of the card's own PCIe interface, B/s each way.
        peer_access: whether cards read each other's memory directly.
        accelerators: cards in the machine.
        host_bytes_per_s: memory bandwidth of the host, B/s.
    Limits: all cards send at the same time, as in a ring.
    Check: four cards of PCIe 4.0 x16 on a desktop with 89.6 GB/s of memory bandwidth, without and with peer access.
        >>> slots = col(32e9, 32e9), np.array([False, True]), col(4, 4), col(89.6e9, 89.6e9)
        >>> pcie_bytes_per_s(*slots, Assumptions()).tolist()
        [11200000000.0, 32000000000.0]
    """
    copies = np.where(peer_access, 0.0, assumed.peerless_copies)
    through_host = np.where(copies > 0, host_bytes_per_s / np.maximum(copies * accelerators, 1e-9), np.inf)
    return np.minimum(np.minimum(slot_bytes_per_s, assumed.pcie_slot_gb_per_s * GB), through_host)


@formula(unit="1", source="dynamic power is proportional to clock times voltage squared")
def power_limited_share(rated_power_ratio: Column, assumed: Assumptions) -> Column:
    """Sustained matrix rate under the power limit, relative to the family's reference chip at rated power.

    Matrix kernels would draw more than the rated power at full clock, so the limit lowers the clock. Memory bandwidth
    stays the same.

    Parameters:
        rated_power_ratio: rated power per matrix operation over that of the family's reference chip, 1.
    Limits: moderate limits; far below half of the rated power, clocks fall faster.
    Check: the reference chip limited to 300 W of 450 W; two with 1.17 and twice the power for its rate.
        >>> power_limited_share(col(1), Assumptions(power_limit_share=300 / 450)).round(3).tolist()
        [0.875]
        >>> power_limited_share(col(1400 / 1200, 2), Assumptions()).round(3).tolist()
        [1.052, 1.1]
    """
    share: Column = (assumed.power_limit_share * rated_power_ratio) ** assumed.power_limit_exponent
    return np.minimum(share, assumed.power_boost_share)


def installed_machines(
    node: Machines, types: AcceleratorColumns, host_bytes_per_s: Column, assumed: Assumptions
) -> Machines:
    """Machines with the link bandwidth that their slots and host memory allow, and without bridges if so stated."""
    kind, count = node.accelerator, node.accelerators_per_node
    unbridged = types.bridge_connector[kind] & (node.link == LINKS.index(Link.SCALE_UP)) & (assumed.nvlink_bridges < 1)
    pcie = unbridged | (node.link == LINKS.index(Link.PCIE))
    if not pcie.any():
        return node
    slot = np.where(unbridged, types.slot_bytes_per_s[kind], node.link_bytes_per_s)
    rate = pcie_bytes_per_s(slot, types.peer_access[kind], count, host_bytes_per_s, assumed)
    return replace(
        node,
        link=np.where(unbridged, LINKS.index(Link.PCIE), node.link),
        link_bytes_per_s=np.where(pcie, rate, node.link_bytes_per_s),
        scale_up_domain=np.where(unbridged, count, node.scale_up_domain),
    )
