"""How many replicas, spares and machines a load needs, so that what is to be survived is survived.

Machines stand in zones, and replicas on machines, as evenly as they go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula, unrecorded
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import InferenceWorkload, Load, Redundancy

# Keeps a whole number of replicas from becoming one more.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Fleet(Columns):
    """Replicas that carry the load, spares, and the machines that hold them."""

    replicas: Column
    spare_replicas: Column
    nodes: Column
    accelerators: Column  # paid for: whole machines are rented and bought


@formula(unit="replicas")
def replicas_for_rate(peak_per_s: Column | float, sure_capacity_per_s: Column, target_utilization: float) -> Column:
    """Replicas so that each carries at most the target share of its capacity within the SLO.

    Source: definition.
    Limits: requests spread evenly over replicas.
    Check:
        >>> float(replicas_for_rate(10.0, 5.2, 0.7))
        3.0
    """
    needed = peak_per_s / np.maximum(sure_capacity_per_s * target_utilization, LEAST_PER_S)
    return np.maximum(1.0, np.ceil(needed - ROUNDING))


@formula(unit="replicas")
def replicas_for_requests(in_flight: float, slo_batch: Column) -> Column:
    """Replicas that hold a fixed number of requests at once, none more than meets the SLO.

    Source: definition.
    Limits: requests spread evenly over replicas.
    Check:
        >>> float(replicas_for_requests(100.0, 48.0))
        3.0
    """
    return np.maximum(1.0, np.ceil(in_flight / np.maximum(1.0, np.floor(slo_batch))))


def replicas_needed(workload: InferenceWorkload, capacity_per_s: Column, slo_batch: Column) -> Column:
    """Replicas that carry a load: a rate of requests, or a number at once."""
    if workload.load is Load.OPEN:
        return replicas_for_rate(workload.peak_per_s, capacity_per_s, workload.target_utilization)
    return replicas_for_requests(workload.in_flight, slo_batch)


@formula(unit="machines")
def nodes_per_replica(accelerators_per_replica: Column, accelerators_per_node: Column) -> Column:
    """Machines one replica spans.

    Source: counted.
    Limits: whole machines.
    Check:
        >>> float(nodes_per_replica(16.0, 8.0))
        2.0
    """
    return np.ceil(accelerators_per_replica / accelerators_per_node)


@formula(unit="replicas")
def replicas_per_node(accelerators_per_replica: Column, accelerators_per_node: Column) -> Column:
    """Replicas one machine holds; 1 where a replica spans several.

    Source: counted.
    Limits: no replica shares an accelerator.
    Check:
        >>> float(replicas_per_node(2.0, 8.0))
        4.0
    """
    return np.maximum(1.0, np.floor(accelerators_per_node / accelerators_per_replica))


@formula(unit="hosts")
def hosts_needed(replicas: Column, replicas_per_node: Column) -> Column:
    """Hosts that hold so many replicas; a host is a machine, or the machines that one replica spans.

    Source: counted.
    Limits: a machine carries replicas of one deployment only.
    Check:
        >>> float(hosts_needed(5.0, 4.0))  # five replicas of 2 accelerators in machines of 8
        2.0
    """
    return np.ceil(replicas / replicas_per_node)


@formula(unit="hosts")
def hosts_over_zones(hosts_needed: Column, zones: float, zones_lost: float) -> Column:
    """Hosts of which those needed are left when zones are lost, spread over zones as evenly as they go.

    Source: definition.
    Limits: a zone may have one host more than another.
    Check:
        >>> float(hosts_over_zones(3.0, 3.0, 1.0))  # 2, 2 and 1: any two zones hold three
        5.0
    """
    return hosts_needed + zones_lost * np.ceil(hosts_needed / (zones - zones_lost))


@formula(unit="replicas")
def least_replicas(replicas: Column, domains_lost: float, times: float) -> Column:
    """Replicas with spares wherever they stand: each domain takes one at least, and 2n keeps twice as many.

    Source: definition.
    Limits: an accelerator lost is a replica lost.
    Check:
        >>> float(least_replicas(5.0, 1.0, 1.0))
        6.0
    """
    return np.maximum(replicas + domains_lost, times * replicas)


@formula(unit="hosts")
def hosts_promised(
    hosts_needed: Column,
    hosts_over_zones: Column,
    least_replicas: Column,
    replicas_per_node: Column,
    machines_lost: float,
    zones: float,
) -> Column:
    """The fewest hosts that hold the replicas needed when what may be lost is lost, one in every zone at least.

    Source: definition.
    Limits: machines or a zone are lost, not both at once.
    Check:
        >>> float(hosts_promised(2.0, 4.0, 6.0, 4.0, 1.0, 2.0))  # five replicas, four to a machine, over two zones
        4.0
    """
    spare = np.maximum(hosts_needed + machines_lost, np.ceil(least_replicas / replicas_per_node))
    return np.maximum(np.maximum(spare, hosts_over_zones), zones)


@formula(unit="1")
def most_held(things: Column, shares: Column | float, taken: float) -> Column:
    """The most of some things that `taken` of so many shares hold, all as even as they go.

    Source: counted.
    Limits: whole things.
    Check:
        >>> float(most_held(5.0, 3.0, 1.0))  # 2, 2 and 1
        2.0
    """
    return taken * np.floor(things / shares) + np.minimum(taken, things - shares * np.floor(things / shares))


@formula(unit="hosts")
def hosts_lost(hosts: Column, machines_lost: float, zones: float, zones_lost: float) -> Column:
    """The most hosts that may be lost at once: one with each machine, or those of the fullest zones.

    Source: definition.
    Limits: hosts spread over zones as evenly as they go.
    Check:
        >>> float(hosts_lost(5.0, 1.0, 3.0, 1.0))
        2.0
    """
    lost: Column = np.maximum(machines_lost, most_held(hosts, zones, zones_lost))
    return lost


@formula(unit="replicas")
def spares_promised(
    replicas: Column, hosts: Column, hosts_lost: Column, least_replicas: Column, replicas_per_node: Column, zones: float
) -> Column:
    """The fewest spares that keep what is promised: as many as the lost hosts held, as far as there is room; no zone
    stands empty.

    Source: definition.
    Limits: replicas spread over hosts as evenly as they go.
    Check:
        >>> float(spares_promised(5.0, 3.0, 1.0, 6.0, 4.0, 1.0))  # 3, 3 and 2: any two hosts hold five
        3.0
    """
    on_lost = hosts_lost * np.ceil(replicas / np.maximum(1, hosts - hosts_lost))
    placed = np.maximum(np.maximum(replicas + on_lost, least_replicas), np.minimum(hosts, zones))
    spares: Column = np.minimum(placed, hosts * replicas_per_node) - replicas
    return np.maximum(0, spares)


def lost_with_zones(placed: Column, hosts: Column, zones: float, zones_lost: float) -> Column:
    """The most replicas that so many zones take with them: those of their hosts, and their share of the odd ones."""
    each = np.floor(placed / hosts)
    lost: Column = each * most_held(hosts, zones, zones_lost) + most_held(placed - hosts * each, zones, zones_lost)
    return lost


def replicas_left(redundancy: Redundancy, placed: Column, hosts: Column) -> Column:
    """Replicas of all placed that stay whatever may be lost is lost."""
    lost = np.maximum(float(redundancy.lost), most_held(placed, hosts, float(redundancy.machines_lost)))
    if redundancy.zones_lost:
        gone = lost_with_zones(placed, hosts, float(redundancy.zones), float(redundancy.zones_lost))
        lost = np.maximum(lost, gone)
    left: Column = np.maximum(0.0, placed - lost)
    return left


def replicas_held(redundancy: Redundancy, placed: Column, hosts: Column) -> Column:
    """Replicas of given hardware that the load may count on; all of them where none would be left."""
    if not redundancy.lost:
        return placed
    with unrecorded():
        left = replicas_left(redundancy, placed, hosts)
    left = np.minimum(left, np.floor(placed / 2)) if redundancy.double else left
    return np.where(left >= 1, left, placed)


@formula(unit="machines")
def nodes(hosts: Column, nodes_per_replica: Column) -> Column:
    """Machines of all hosts: one each, or as many as a replica spans.

    Source: counted.
    Limits: whole machines.
    Check:
        >>> float(nodes(3.0, 2.0))
        6.0
    """
    return hosts * nodes_per_replica


def fleet(
    redundancy: Redundancy,
    accelerators_per_replica: Column,
    accelerators_per_node: Column,
    replicas: Column,
    *,
    spares: Column | None = None,
    machines: Column | None = None,
) -> Fleet:
    """Spares and machines so that any loss that is to be survived leaves `replicas`, and the accelerators that are
    paid for with them; spares and machines that a caller fixed are taken as they are.
    """
    zones, zones_lost = float(redundancy.zones), float(redundancy.zones_lost)
    machines_lost, times = float(redundancy.machines_lost), 2.0 if redundancy.double else 1.0
    across = nodes_per_replica(accelerators_per_replica, accelerators_per_node)
    inside = replicas_per_node(accelerators_per_replica, accelerators_per_node)
    needed = hosts_needed(replicas, inside)
    over_zones = hosts_over_zones(needed, zones, zones_lost)
    least = least_replicas(replicas, float(redundancy.lost), times)
    hosts = hosts_promised(needed, over_zones, least, inside, machines_lost, zones)
    if machines is not None or spares is not None:
        placed = replicas if spares is None else replicas + spares
        wanted = np.minimum(hosts, placed) if machines is None else np.floor(machines / across)
        hosts = np.maximum(wanted, np.ceil(placed / inside))
    lost = hosts_lost(hosts, machines_lost, zones, zones_lost)
    chosen = spares_promised(replicas, hosts, lost, least, inside, zones)
    bought = nodes(hosts, across)
    return Fleet(replicas, chosen if spares is None else spares, bought, bought * accelerators_per_node)
