"""What is bought beside owned machines: the network between them, their racks, and memory that a plan needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.decisions.chassis import more_memory_usd
from app.sizing.decisions.machines import Candidates
from app.sizing.formula import formula
from app.sizing.hardware.links import known_network_bytes_per_s
from app.sizing.units import GBIT


@dataclass(frozen=True, slots=True)
class Beside(Columns):
    """Of a whole deployment, in USD; 0 of rented machines, which have theirs in the rent."""

    network_usd: Column
    racks_usd: Column
    more_memory_usd: Column


@formula(unit="USD/(Gbit/s)")
def network_usd_per_gbit(linked_nodes: Column, names_network: Mask, assumed: Assumptions) -> Column:
    """Switches, cables and optics of a network, by the tiers that its machines take; cards, where they name none.

    Source: public cost sheet of H100 clusters, August 2024: a port of each machine on a switch of its own rail.
    Limits: full bandwidth between all; Ethernet is a fifth to two fifths cheaper.
    Check: 34,000 USD for eight ports of 400 Gbit/s, in two tiers.
        >>> round(float(network_usd_per_gbit(128.0, True, Assumptions())) * 3200)
        34141
    """
    ports = assumed.switch_ports
    many = np.where(
        linked_nodes <= ports * ports / 2, assumed.two_tier_network_factor, assumed.three_tier_network_factor
    )
    tiers = np.where(linked_nodes <= ports, 1.0, many)
    return assumed.network_usd_per_gbit * tiers + np.where(names_network, 0.0, assumed.network_card_usd_per_gbit)


@formula(unit="USD")
def network_usd(
    nodes: Column, linked_nodes: Column, node_gbit_per_s: Column, network_usd_per_gbit: Column, owned: Mask
) -> Column:
    """Network between owned machines that work as one; rented ones have theirs in the rent.

    Source: definition.
    Limits: the way from users to single machines is not in it.
    Check:
        >>> float(network_usd(4.0, 4.0, 3200.0, 4.7, True))
        60160.0
    """
    return np.where(owned & (linked_nodes > 1), nodes * node_gbit_per_s * network_usd_per_gbit, 0.0)


@formula(unit="USD")
def racks_usd(nodes: Column, rated_w: Column, server: Mask, owned: Mask, assumed: Assumptions) -> Column:
    """Cabinets and power strips of owned servers, by the power that they may draw.

    Source: definition; the price is an assumption.
    Limits: cooling by liquid beyond the machine is part of the floor's price.
    Check:
        >>> float(racks_usd(2.0, 10_000.0, True, True, Assumptions()))
        4000.0
    """
    return np.where(owned & server, nodes * rated_w / 1e3 * assumed.rack_usd_per_kw, 0.0)


@formula(unit="USD")
def beside_usd(network_usd: Column, racks_usd: Column, more_memory_usd: Column) -> Column:
    """Everything bought beside the machines.

    Source: definition.
    Limits: storage is not in it.
    Check:
        >>> beside_usd(60_160.0, 4_000.0, 0.0)
        64160.0
    """
    return network_usd + racks_usd + more_memory_usd


def node_gbit_per_s(found: Candidates, assumed: Assumptions) -> Column:
    """Network of a whole machine."""
    each = known_network_bytes_per_s(found.node.network_bytes_per_s, assumed)
    return found.node.accelerators_per_node * each / GBIT


def network_price(found: Candidates, linked_nodes: Column, assumed: Assumptions) -> Column:
    """USD per Gbit/s of the network that joins machines."""
    return network_usd_per_gbit(linked_nodes, ~np.isnan(found.node.network_bytes_per_s), assumed)


def beside_of(
    found: Candidates, nodes: Column, linked_nodes: Column, host_bytes: Column | float, assumed: Assumptions
) -> Beside:
    """What is bought beside `nodes` machines, of which a network joins so many at a time; `host_bytes` is what a plan
    takes of each machine's memory.
    """
    owned, none = ~np.isnan(found.purchase_usd), np.zeros(len(found))
    network = none
    if (linked_nodes > 1).any():
        rate, price = node_gbit_per_s(found, assumed), network_price(found, linked_nodes, assumed)
        network = network_usd(nodes, linked_nodes, rate, price, owned)
    memory, needed = none, np.asarray(host_bytes) / assumed.host_memory_share
    if np.any(needed > 0):
        of = found.parts
        memory = nodes * np.nan_to_num(more_memory_usd(needed, of.memory_bytes, of.memory_usd_per_gib))
    return Beside(network, racks_usd(nodes, found.rated_w, ~found.node.workstation, owned, assumed), memory)
