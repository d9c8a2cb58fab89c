"""Replicas, spare replicas and machines that a load needs, including those that cover the losses to survive.

Machines are spread over zones, and replicas over machines, as evenly as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import LEAST_PER_S, ROUNDING, Column, Columns
from app.sizing.formula import formula, suspend_recording
from app.sizing.workload import InferenceWorkload, Load, Redundancy

# Tolerance below which a rounding error does not add a replica.


@dataclass(frozen=True, slots=True)
class Fleet(Columns):
    """Replicas that carry the load, spare replicas, and the machines that hold them."""

    replicas: Column  # replicas that carry the load
    spare_replicas: Column  # further replicas, which cover losses
    nodes: Column  # machines that hold all replicas
    accelerators: Column  # billed accelerators: all those of the machines


@formula(unit="requests/s", source="minimum of the rate within the limits and the planned share of the stable rate")
def planned_capacity_per_s(
    capacity_at_confidence_per_s: Column, stable_below_per_s: Column, rate_margin: Column, target_utilization: float
) -> Column:
    """Request rate that one replica is planned to carry.

    The limits and the reserve are two bounds, not two factors: a limit on the wait at the peak leaves a reserve of its
    own.

    Parameters:
        capacity_at_confidence_per_s: capacity of one replica within the SLO at the requested confidence, requests/s.
        stable_below_per_s: rate from which the queue never empties, requests/s.
        rate_margin: factor by which the rate may be lower than predicted at the confidence.
        target_utilization: highest planned share of the stable rate, from 0 to 1.
    Check:
        >>> round(float(planned_capacity_per_s(5.2, 8.0, 1.25, 0.7)), 2)
        4.48
    """
    return np.minimum(capacity_at_confidence_per_s, target_utilization * stable_below_per_s / rate_margin)


@formula(unit="replicas")
def replicas_for_rate(peak_per_s: Column | float, planned_capacity_per_s: Column) -> Column:
    """Replicas needed so that none gets more than it is planned to carry.

    Parameters:
        peak_per_s: request rate at the peak, requests/s.
        planned_capacity_per_s: request rate that one replica is planned to carry, requests/s.
    Limits: every replica gets the same share of the requests.
    Check:
        >>> float(replicas_for_rate(10.0, 3.64))
        3.0
    """
    return np.maximum(1.0, np.ceil(peak_per_s / np.maximum(planned_capacity_per_s, LEAST_PER_S) - ROUNDING))


@formula(unit="replicas")
def replicas_for_requests(in_flight: float, slo_batch: Column) -> Column:
    """Replicas needed to hold a fixed number of concurrent requests, none with a larger batch than meets the SLO.

    Parameters:
        in_flight: concurrent requests.
        slo_batch: largest batch of one replica that meets the SLO, requests.
    Limits: requests are spread evenly over the replicas.
    Check:
        >>> float(replicas_for_requests(100.0, 48.0))
        3.0
    """
    return np.maximum(1.0, np.ceil(in_flight / np.maximum(1.0, np.floor(slo_batch))))


def replicas_needed(workload: InferenceWorkload, capacity_per_s: Column, slo_batch: Column) -> Column:
    """Replicas that carry a load, which is a request rate or a number of concurrent requests."""
    if workload.load is Load.OPEN:
        return replicas_for_rate(workload.peak_per_s, capacity_per_s)
    return replicas_for_requests(workload.in_flight, slo_batch)


def max_usual_workstations(redundancy: Redundancy, assumed: Assumptions) -> float:
    """Workstations that a site usually runs for one service.

    Towers usually have one power supply and do not mount in a rack, so a redundant service does not rest on several.
    """
    return 1.0 if redundancy.domains_lost else assumed.usual_workstations


@formula(unit="machines")
def nodes_per_replica(accelerators_per_replica: Column, accelerators_per_node: Column) -> Column:
    """Machines that one replica spans.

    Parameters:
        accelerators_per_replica: accelerators of one replica.
        accelerators_per_node: accelerators in one machine.
    Check:
        >>> float(nodes_per_replica(16.0, 8.0))
        2.0
    """
    return np.ceil(accelerators_per_replica / accelerators_per_node)


@formula(unit="replicas")
def replicas_per_node(accelerators_per_replica: Column, accelerators_per_node: Column) -> Column:
    """Replicas that one machine holds; 1 where a replica spans several machines.

    Parameters:
        accelerators_per_replica: accelerators of one replica.
        accelerators_per_node: accelerators in one machine.
    Limits: replicas never share an accelerator.
    Check:
        >>> float(replicas_per_node(2.0, 8.0))
        4.0
    """
    return np.maximum(1.0, np.floor(accelerators_per_node / accelerators_per_replica))


@formula(unit="hosts")
def hosts_needed(replicas: Column, replicas_per_node: Column) -> Column:
    """Hosts that hold the replicas; a host is one machine, or the machines that one replica spans.

    Parameters:
        replicas: replicas to hold.
        replicas_per_node: replicas that one host holds.
    Limits: a machine carries replicas of one deployment only.
    Check: five replicas of 2 accelerators in machines of 8.
        >>> float(hosts_needed(5.0, 4.0))
        2.0
    """
    return np.ceil(replicas / replicas_per_node)


@formula(unit="hosts")
def hosts_over_zones(hosts_needed: Column, zones: float, zones_lost: float) -> Column:
    """Hosts, spread evenly over zones, of which the needed number remains when zones are lost.

    Parameters:
        hosts_needed: hosts that must remain.
        zones: zones over which the hosts are spread.
        zones_lost: zones that may be lost at once.
    Limits: the host counts of two zones differ by at most one.
    Check: with 2, 2 and 1 hosts, any two zones hold three.
        >>> float(hosts_over_zones(3.0, 3.0, 1.0))
        5.0
    """
    return hosts_needed + zones_lost * np.ceil(hosts_needed / (zones - zones_lost))


@formula(unit="replicas")
def min_replicas_with_spares(replicas: Column, domains_lost: float, replica_factor: float) -> Column:
    """Replicas including spares, wherever they run: at least one spare per failure domain; 2N doubles the replicas.

    Parameters:
        replicas: replicas that carry the load.
        domains_lost: failure domains that may be lost at once.
        replica_factor: total replicas per replica needed: 2 with 2N redundancy, else 1.
    Limits: a lost accelerator takes its replica down.
    Check:
        >>> float(min_replicas_with_spares(5.0, 1.0, 1.0))
        6.0
    """
    return np.maximum(replicas + domains_lost, replica_factor * replicas)


@formula(unit="hosts")
def hosts_for_redundancy(
    hosts_needed: Column,
    hosts_over_zones: Column,
    min_replicas_with_spares: Column,
    replicas_per_node: Column,
    machines_lost: float,
    zones: float,
) -> Column:
    """Fewest hosts that still hold the needed replicas after the planned losses, with at least one host in every zone.

    Parameters:
        hosts_needed: hosts that the replicas need without losses.
        hosts_over_zones: hosts of which enough remain when zones are lost.
        min_replicas_with_spares: replicas including spares.
        replicas_per_node: replicas that one host holds.
        machines_lost: machines that may be lost at once.
        zones: zones over which the hosts are spread.
    Limits: either machines or zones are lost, not both at once.
    Check: five replicas, four to a machine, over two zones.
        >>> float(hosts_for_redundancy(2.0, 4.0, 6.0, 4.0, 1.0, 2.0))
        4.0
    """
    spare = np.maximum(hosts_needed + machines_lost, np.ceil(min_replicas_with_spares / replicas_per_node))
    return np.maximum(np.maximum(spare, hosts_over_zones), zones)


@formula(unit="1")
def max_items_in_groups(items: Column, groups: Column | float, groups_taken: float) -> Column:
    """Largest number of items in any `groups_taken` of the groups over which they are spread evenly.

    Parameters:
        items: items to spread, for example replicas.
        groups: groups over which they are spread, for example hosts.
        groups_taken: groups that are counted.
    Limits: whole items.
    Check: 2, 2 and 1.
        >>> float(max_items_in_groups(5.0, 3.0, 1.0))
        2.0
    """
    return groups_taken * np.floor(items / groups) + np.minimum(groups_taken, items - groups * np.floor(items / groups))


@formula(unit="hosts")
def hosts_lost(hosts: Column, machines_lost: float, zones: float, zones_lost: float) -> Column:
    """Most hosts that may be lost at once: one per lost machine, or those of the fullest zones.

    Parameters:
        hosts: all hosts.
        machines_lost: machines that may be lost at once.
        zones: zones over which the hosts are spread.
        zones_lost: zones that may be lost at once.
    Limits: hosts are spread over zones as evenly as possible.
    Check:
        >>> float(hosts_lost(5.0, 1.0, 3.0, 1.0))
        2.0
    """
    lost: Column = np.maximum(machines_lost, max_items_in_groups(hosts, zones, zones_lost))
    return lost


@formula(unit="replicas")
def spares_for_redundancy(
    replicas: Column,
    hosts: Column,
    hosts_lost: Column,
    min_replicas_with_spares: Column,
    replicas_per_node: Column,
    zones: float,
) -> Column:
    """Fewest spare replicas for the planned losses: as many as the lost hosts held, as far as the machines have room.

    No zone is left without a replica.

    Parameters:
        replicas: replicas that carry the load.
        hosts: all hosts.
        hosts_lost: hosts that may be lost at once.
        min_replicas_with_spares: replicas including spares, wherever they run.
        replicas_per_node: replicas that one host holds.
        zones: zones over which the hosts are spread.
    Limits: replicas are spread over hosts as evenly as possible.
    Check: with 3, 3 and 2 replicas, any two hosts hold five.
        >>> float(spares_for_redundancy(5.0, 3.0, 1.0, 6.0, 4.0, 1.0))
        3.0
    """
    on_lost = hosts_lost * np.ceil(replicas / np.maximum(1, hosts - hosts_lost))
    placed = np.maximum(np.maximum(replicas + on_lost, min_replicas_with_spares), np.minimum(hosts, zones))
    spares: Column = np.minimum(placed, hosts * replicas_per_node) - replicas
    return np.maximum(0, spares)


def replicas_lost_with_zones(placed: Column, hosts: Column, zones: float, zones_lost: float) -> Column:
    """Most replicas lost with `zones_lost` zones: those spread evenly over their hosts, plus their part of the
    remainder.
    """
    each = np.floor(placed / hosts)
    lost: Column = each * max_items_in_groups(hosts, zones, zones_lost) + max_items_in_groups(
        placed - hosts * each, zones, zones_lost
    )
    return lost


def surviving_replicas(redundancy: Redundancy, placed: Column, hosts: Column) -> Column:
    """Replicas that survive the worst of the planned losses."""
    lost = np.maximum(
        float(redundancy.domains_lost), max_items_in_groups(placed, hosts, float(redundancy.machines_lost))
    )
    if redundancy.zones_lost:
        gone = replicas_lost_with_zones(placed, hosts, float(redundancy.zones), float(redundancy.zones_lost))
        lost = np.maximum(lost, gone)
    left: Column = np.maximum(0.0, placed - lost)
    return left


def dependable_replicas(redundancy: Redundancy, placed: Column, hosts: Column) -> Column:
    """Replicas of given hardware that the plan relies on; all of them if none would survive the planned losses."""
    if not redundancy.domains_lost:
        return placed
    with suspend_recording():
        left = surviving_replicas(redundancy, placed, hosts)
    left = np.minimum(left, np.floor(placed / 2)) if redundancy.double else left
    return np.where(left >= 1, left, placed)


@formula(unit="machines")
def nodes(hosts: Column, nodes_per_replica: Column) -> Column:
    """Machines of all hosts: one each, or as many as a replica spans.

    Parameters:
        hosts: all hosts.
        nodes_per_replica: machines that one replica spans.
    Check:
        >>> float(nodes(3.0, 2.0))
        6.0
    """
    return hosts * nodes_per_replica


def plan_fleet(
    redundancy: Redundancy,
    accelerators_per_replica: Column,
    accelerators_per_node: Column,
    replicas: Column,
    *,
    spares: Column | None = None,
    machines: Column | None = None,
) -> Fleet:
    """Spare replicas, machines and billed accelerators, so that `replicas` remain after any planned loss.

    `spares` and `machines` that the request fixes are used as given.
    """
    zones, zones_lost = float(redundancy.zones), float(redundancy.zones_lost)
    machines_lost, times = float(redundancy.machines_lost), 2.0 if redundancy.double else 1.0
    across = nodes_per_replica(accelerators_per_replica, accelerators_per_node)
    inside = replicas_per_node(accelerators_per_replica, accelerators_per_node)
    needed = hosts_needed(replicas, inside)
    over_zones = hosts_over_zones(needed, zones, zones_lost)
    least = min_replicas_with_spares(replicas, float(redundancy.domains_lost), times)
    hosts = hosts_for_redundancy(needed, over_zones, least, inside, machines_lost, zones)
    if machines is not None or spares is not None:
        placed = replicas if spares is None else replicas + spares
        wanted = np.minimum(hosts, placed) if machines is None else np.floor(machines / across)
        hosts = np.maximum(wanted, np.ceil(placed / inside))
    lost = hosts_lost(hosts, machines_lost, zones, zones_lost)
    chosen = spares_for_redundancy(replicas, hosts, lost, least, inside, zones)
    bought = nodes(hosts, across)
    return Fleet(replicas, chosen if spares is None else spares, bought, bought * accelerators_per_node)
