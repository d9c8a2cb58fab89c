"""Collectives and transfers: latency plus bytes over an achieved bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.links import LINKS, all_reduce_s, known_network_bytes_per_s
from app.sizing.hardware.parts import Link
from app.sizing.serving.plans import Plans


@dataclass(frozen=True, slots=True)
class LinkUse(Columns):
    """The links a replica's devices talk over."""

    pcie: Mask  # inside a machine; the rest have a scale-up link
    link_bytes_per_s: Column
    across: Mask  # pipeline stages lie in different machines
    network_bytes_per_s: Column
    linked_ranks: Column  # tensor-parallel ranks that share a link; the others are reached over the network
    exchange_share: float  # of either, that tokens on their way to experts achieve


@dataclass(frozen=True, slots=True)
class LinkSpeed(Columns):
    """What collectives and hand-overs achieve on those links."""

    collective_latency_s: Column
    collective_bytes_per_s: Column
    hop_latency_s: Column
    hop_bytes_per_s: Column
    network_latency_s: Column  # whether or not anything crosses it
    network_bytes_per_s: Column


def link_use(plans: Plans, assumed: Assumptions) -> LinkUse:
    """Links of every plan."""
    node, rows = plans.machines.table.node, plans.machines.rows
    across = (plans.nodes_per_replica > 1) & (plans.accelerators_per_replica > plans.scale_up_domain)
    network = known_network_bytes_per_s(node.network_bytes_per_s[rows], assumed)
    pcie, share = node.link[rows] == LINKS.index(Link.PCIE), assumed.exchange_bandwidth_share
    return LinkUse(pcie, node.link_bytes_per_s[rows], across, network, plans.linked_ranks, share)


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


@formula(unit="s", source="Patarasuk and Yuan 2009 (ring all-reduce)")
def passed_s(
    reductions: Column, message_bytes: Column, pipeline_parallel: Column, link: LinkUse, speed: LinkSpeed
) -> Column:
    """Bytes of a sequence's token, or of a whole prompt, over the links: two all-reduces per layer, of which an
    exchange of experts' tokens takes the place of one, and a hand-over between pipeline stages.

    Source: Shoeybi et al. 2019 (arXiv:1909.08053). Limits: collectives do not overlap with computing.
    """
    reduced = all_reduce_s(message_bytes, link.linked_ranks, speed.collective_bytes_per_s)
    hops = pipeline_parallel - 1
    return np.where(link.linked_ranks > 1, reductions * reduced, 0.0) + hops * message_bytes / speed.hop_bytes_per_s


@formula(unit="s", source="fitted to measurements")
def waited_s(reductions: Column, pipeline_parallel: Column, link: LinkUse, speed: LinkSpeed) -> Column:
    """Latency of the collectives and hand-overs of one step. Source: calibration. Limits: idle links."""
    reduced = np.where(link.linked_ranks > 1, reductions * speed.collective_latency_s, 0.0)
    return reduced + (pipeline_parallel - 1) * speed.hop_latency_s


@formula(unit="s", source="Patarasuk and Yuan 2009, in two steps: inside machines, then between them")
def across_reduce_s(
    reductions: Column,
    message_bytes: Column,
    tensor_parallel: Column,
    linked_ranks: Column,
    network_bytes_per_s: Column,
) -> Column:
    """Bytes of all-reduces over the network, after each machine has added its own: every accelerator carries its part
    of the sum over its own port.

    Source: Patarasuk and Yuan 2009. Limits: rings between machines; nothing is computed meanwhile.
    Check: a token of 16 KB over two machines of eight, at 45 GB/s each, twice in 80 layers.
        >>> round(one(across_reduce_s(col(160), col(16384), col(16), col(8), col(45e9))) * 1e6, 2)  # 2 KB a time
        7.28
    """
    machines = tensor_parallel / linked_ranks
    return reductions * 2 * (machines - 1) / machines * message_bytes / linked_ranks / network_bytes_per_s


@formula(unit="s", source="a tree of machines, up and down")
def across_latency_s(
    reductions: Column, tensor_parallel: Column, linked_ranks: Column, network_latency_s: Column
) -> Column:
    """Latency of a step's all-reduces between machines, after that inside them.

    Source: NCCL's trees of small messages, up and down. Limits: one value for all hops.
    Check: four machines are two levels, passed up and down.
        >>> round(one(across_latency_s(col(1), col(32), col(8), col(15e-6))) * 1e6)
        60
    """
    return reductions * 2 * np.log2(tensor_parallel / linked_ranks) * network_latency_s


def link_speed(link: LinkUse, achieved: Achieved) -> LinkSpeed:
    """What every plan's links achieve."""
    latency, rate = collective_latency_s(link, achieved), collective_bytes_per_s(link, achieved)
    hop_s, hop_rate = hop_latency_s(link, achieved, latency), hop_bytes_per_s(link, achieved, rate)
    network_rate = link.network_bytes_per_s * achieved.network_bandwidth_fraction
    return LinkSpeed(latency, rate, hop_s, hop_rate, achieved.network_latency_s, network_rate)


def passed_and_waited(
    reductions: Column,
    message_bytes: Column,
    tensor_parallel: Column,
    pipeline_parallel: Column,
    link: LinkUse,
    speed: LinkSpeed,
) -> tuple[Column, Column]:
    """Seconds of a message over links, and over networks where tensor-parallel ranks lie in several machines; and the
    latency of all that, whatever the message.
    """
    passed = passed_s(reductions, message_bytes, pipeline_parallel, link, speed)
    waited = waited_s(reductions, pipeline_parallel, link, speed)
    if (tensor_parallel > link.linked_ranks).any():
        group = tensor_parallel, link.linked_ranks
        passed = passed + across_reduce_s(reductions, message_bytes, *group, speed.network_bytes_per_s)
        waited = waited + across_latency_s(reductions, *group, speed.network_latency_s)
    return passed, waited
