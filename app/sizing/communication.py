"""Collectives and transfers: latency plus bytes over an achieved bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.achieved import Achieved
from app.sizing.columns import Column, Columns, Mask
from app.sizing.hardware import Link
from app.sizing.market import LINKS
from app.sizing.plan import Plans


@dataclass(frozen=True, slots=True)
class LinkUse(Columns):
    """The links a replica's devices talk over."""

    pcie: Mask  # inside a machine; the rest have a scale-up link
    link_bytes_per_s: Column
    across: Mask  # pipeline stages lie in different machines
    network_bytes_per_s: Column

    def latency_s(self, k: Achieved) -> Column:
        """Of one collective inside a machine."""
        return np.where(self.pcie, k.pcie_latency_s, k.scale_up_latency_s)

    def bytes_per_s(self, k: Achieved) -> Column:
        """What a collective achieves inside a machine; a lone device never asks."""
        fraction = np.where(self.pcie, k.pcie_bandwidth_fraction, k.scale_up_bandwidth_fraction)
        return np.where(self.link_bytes_per_s > 0, self.link_bytes_per_s * fraction, 1e15)

    def hop_latency_s(self, k: Achieved) -> Column:
        """Of one hand-over between pipeline stages."""
        return np.where(self.across, k.network_latency_s, self.latency_s(k))

    def hop_bytes_per_s(self, k: Achieved) -> Column:
        return np.where(self.across, self.network_bytes_per_s * k.network_bandwidth_fraction, self.bytes_per_s(k))


# Of one accelerator between machines whose network the catalogue does not know: 100 Gbit/s, usual in nodes of eight.
UNKNOWN_NETWORK_BYTES_PER_S = 12.5e9


def link_use(plans: Plans) -> LinkUse:
    """Links of every plan."""
    m = plans.c.m
    across = (plans.nodes_per_replica > 1) & (plans.accelerators_per_replica > m.domain)
    network = np.where(np.isnan(m.network_bytes_per_s), UNKNOWN_NETWORK_BYTES_PER_S, m.network_bytes_per_s)
    return LinkUse(m.link == LINKS.index(Link.PCIE), m.link_bytes_per_s, across, network)


def all_reduce_s(message_bytes: Column, ranks: Column, bytes_per_s: Column) -> Column:
    """Bytes of a ring all-reduce over the link: 2 (n - 1) / n of the message crosses it; latency comes on top.

    Source: Patarasuk and Yuan 2009; NCCL's bus-bandwidth convention.
    Check: 1 MB over 8 ranks at 337.5 GB/s: 1.75e6 / 337.5e9 = 5.2 us.
    """
    return 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s
