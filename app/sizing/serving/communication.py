"""Collectives and transfers: latency plus bytes over an achieved bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.links import LINKS, UNKNOWN_NETWORK_BYTES_PER_S
from app.sizing.hardware.parts import Link
from app.sizing.serving.plans import Plans


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


def link_use(plans: Plans) -> LinkUse:
    """Links of every plan."""
    m = plans.node
    across = (plans.nodes_per_replica > 1) & (plans.accelerators_per_replica > m.scale_up_domain)
    network = np.where(np.isnan(m.network_bytes_per_s), UNKNOWN_NETWORK_BYTES_PER_S, m.network_bytes_per_s)
    return LinkUse(m.link == LINKS.index(Link.PCIE), m.link_bytes_per_s, across, network)
