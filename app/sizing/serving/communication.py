"""Collectives and transfers: latency plus bytes over an achieved bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.links import LINKS, known_network_bytes_per_s
from app.sizing.hardware.parts import Link
from app.sizing.serving.plans import Plans


@dataclass(frozen=True, slots=True)
class LinkUse(Columns):
    """The links a replica's devices talk over."""

    pcie: Mask  # inside a machine; the rest have a scale-up link
    link_bytes_per_s: Column
    across: Mask  # pipeline stages lie in different machines
    network_bytes_per_s: Column
    exchange_share: float  # of either, that tokens on their way to experts achieve


@dataclass(frozen=True, slots=True)
class LinkSpeed(Columns):
    """What collectives and hand-overs achieve on those links."""

    collective_latency_s: Column
    collective_bytes_per_s: Column
    hop_latency_s: Column
    hop_bytes_per_s: Column
    network_latency_s: Column  # whether or not anything crosses it


def link_use(plans: Plans, assumed: Assumptions) -> LinkUse:
    """Links of every plan."""
    node, rows = plans.machines.table.node, plans.machines.rows
    across = (plans.nodes_per_replica > 1) & (plans.accelerators_per_replica > plans.scale_up_domain)
    network = known_network_bytes_per_s(node.network_bytes_per_s[rows], assumed)
    pcie, share = node.link[rows] == LINKS.index(Link.PCIE), assumed.exchange_bandwidth_share
    return LinkUse(pcie, node.link_bytes_per_s[rows], across, network, share)


@formula(unit="s", source="fitted to measurements")
def collective_latency_s(link: LinkUse, achieved: Achieved) -> Column:
    """Latency of one collective inside a machine.

    Source: calibration. Limits: one value for all sizes of group.
    """
    return np.where(link.pcie, achieved.pcie_latency_s, achieved.scale_up_latency_s)


@formula(unit="B/s", source="fitted to measurements")
def collective_bytes_per_s(link: LinkUse, achieved: Achieved) -> Column:
    """What a collective achieves of the link inside a machine; a lone device never asks.

    Source: calibration. Limits: large messages; small ones are a matter of latency.
    """
    fraction = np.where(link.pcie, achieved.pcie_bandwidth_fraction, achieved.scale_up_bandwidth_fraction)
    return np.where(link.link_bytes_per_s > 0, link.link_bytes_per_s * fraction, np.inf)


@formula(unit="s", source="fitted to measurements")
def hop_latency_s(link: LinkUse, achieved: Achieved, collective_latency_s: Column) -> Column:
    """Latency of one hand-over between pipeline stages. Source: calibration. Limits: idle links."""
    return np.where(link.across, achieved.network_latency_s, collective_latency_s)


@formula(unit="B/s", source="fitted to measurements")
def hop_bytes_per_s(link: LinkUse, achieved: Achieved, collective_bytes_per_s: Column) -> Column:
    """What a hand-over between pipeline stages achieves. Source: calibration. Limits: idle links."""
    return np.where(link.across, link.network_bytes_per_s * achieved.network_bandwidth_fraction, collective_bytes_per_s)


def link_speed(link: LinkUse, achieved: Achieved) -> LinkSpeed:
    """What every plan's links achieve."""
    latency, rate = collective_latency_s(link, achieved), collective_bytes_per_s(link, achieved)
    hop_s, hop_rate = hop_latency_s(link, achieved, latency), hop_bytes_per_s(link, achieved, rate)
    return LinkSpeed(latency, rate, hop_s, hop_rate, achieved.network_latency_s)
