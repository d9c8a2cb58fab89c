"""Ancillary purchases for owned machines: the network between them, their racks, and extra host memory."""

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
class AncillaryCosts(Columns):
    """Ancillary purchases of a whole deployment, in USD; 0 for rented machines, whose rent includes them."""

    network_usd: Column  # network between the machines, USD
    racks_usd: Column  # racks and power strips, USD
    more_memory_usd: Column  # host memory beyond that of the machines' price, USD


@formula(unit="USD/(Gbit/s)", source="public cost sheet of H100 clusters, August 2024")
def network_usd_per_gbit(linked_nodes: Column, names_network: Mask, assumed: Assumptions) -> Column:
    """Price of the network between machines per Gbit/s: switches, cables and optics by the number of switch tiers, plus
    network cards where the system's data sheet names none.

    Parameters:
        linked_nodes: machines that one network joins.
        names_network: whether the system's data sheet names its network; if not, network cards are added.
        assumed: assumptions: switch ports, prices per Gbit/s and tier factors.
    Limits: full bisection bandwidth, with each port of a machine on a switch of its own rail; Ethernet is 20 to 40 %
    cheaper.
    Check: eight ports of 400 Gbit/s cost 34,000 USD in two tiers.
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
    """Price of the network between owned machines that work on one job; 0 for rented machines, whose rent includes it.

    Parameters:
        nodes: machines of the deployment.
        linked_nodes: machines that one network joins.
        node_gbit_per_s: network bandwidth of one machine, Gbit/s.
        network_usd_per_gbit: price of the network, USD per Gbit/s.
        owned: whether the machines are bought.
    Limits: excludes the network from users to single machines.
    Check:
        >>> float(network_usd(4.0, 4.0, 3200.0, 4.7, True))
        60160.0
    """
    return np.where(owned & (linked_nodes > 1), nodes * node_gbit_per_s * network_usd_per_gbit, 0.0)


@formula(unit="USD", source="definition; the price is an assumption")
def racks_usd(nodes: Column, rated_w: Column, server: Mask, owned: Mask, assumed: Assumptions) -> Column:
    """Price of racks and power strips for owned servers, by their rated power.

    Parameters:
        nodes: machines of the deployment.
        rated_w: rated power of one machine, W.
        server: whether the machine is a server; a workstation needs no rack.
        owned: whether the machines are bought.
        assumed: assumptions: rack price per kW.
    Limits: liquid cooling outside the machine is part of the floor-space price.
    Check:
        >>> float(racks_usd(2.0, 10_000.0, True, True, Assumptions()))
        4000.0
    """
    return np.where(owned & server, nodes * rated_w / 1e3 * assumed.rack_usd_per_kw, 0.0)


@formula(unit="USD")
def ancillary_usd(network_usd: Column, racks_usd: Column, more_memory_usd: Column) -> Column:
    """Price of all ancillary purchases.

    Parameters:
        network_usd: network between the machines, USD.
        racks_usd: racks and power strips, USD.
        more_memory_usd: extra host memory, USD.
    Limits: excludes storage.
    Check:
        >>> ancillary_usd(60_160.0, 4_000.0, 0.0)
        64160.0
    """
    return network_usd + racks_usd + more_memory_usd


def node_gbit_per_s(found: Candidates, assumed: Assumptions) -> Column:
    """Network bandwidth of a whole machine, Gbit/s."""
    each = known_network_bytes_per_s(found.node.network_bytes_per_s, assumed)
    return found.node.accelerators_per_node * each / GBIT


def network_price(found: Candidates, linked_nodes: Column, assumed: Assumptions) -> Column:
    """Price of the network that joins machines, USD per Gbit/s."""
    return network_usd_per_gbit(linked_nodes, ~np.isnan(found.node.network_bytes_per_s), assumed)


def estimate_ancillary_costs(
    found: Candidates, nodes: Column, linked_nodes: Column, host_bytes: Column | float, assumed: Assumptions
) -> AncillaryCosts:
    """Ancillary purchases for `nodes` machines, joined by networks of `linked_nodes` machines each.

    `host_bytes` is the host memory that the plan uses on each machine.
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
    return AncillaryCosts(network, racks_usd(nodes, found.rated_w, ~found.node.workstation, owned, assumed), memory)
