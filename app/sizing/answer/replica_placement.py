"""Spread of the replicas of a service over machines and zones, and those that remain after a failure, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.decisions.placement import max_items_in_groups, nodes_per_replica, surviving_replicas
from app.sizing.question import Deployment
from app.sizing.result import Reason
from app.sizing.words import format_count
from app.sizing.workload import FailureDomain, InferenceWorkload, Load, Redundancy


@dataclass(frozen=True, slots=True)
class ReplicaPlacement:
    """Replicas spread over hosts, and hosts over zones, as evenly as possible."""

    redundancy: Redundancy
    needed_replicas: int  # replicas that carry the load
    placed_replicas: int  # replicas including spares
    hosts: int  # machines, or groups of machines where a replica spans several
    machines_per_host: int
    needed_when: str  # when the replicas are needed: "at peak" or "for the load"

    @property
    def surviving_replicas(self) -> int:
        """Replicas that remain after the worst failure that the redundancy covers."""
        return int(surviving_replicas(self.redundancy, np.array([self.placed_replicas]), np.array([self.hosts]))[0])

    def replicas_after_loss(self, machines: int) -> int:
        """Replicas that remain after the loss of this many machines."""
        return max(
            0,
            self.placed_replicas
            - int(max_items_in_groups(np.array([self.placed_replicas]), np.array([self.hosts]), machines)[0]),
        )

    @property
    def most_replicas_per_host(self) -> int:
        """Most replicas on one host."""
        return -(-self.placed_replicas // self.hosts)


def replica_placement(workload: InferenceWorkload, d: Deployment) -> ReplicaPlacement | None:
    """Placement of a deployment; None if its machines are unknown."""
    if not d.replicas or not d.nodes or not d.total_accelerators:
        return None
    size, each = np.array([d.accelerators_per_replica or 1]), np.array([d.total_accelerators / d.nodes])
    across = int(nodes_per_replica(size, each)[0])
    load = "at peak" if workload.load is Load.OPEN else "for the load"
    placed = d.replicas + (d.spare_replicas or 0)
    return ReplicaPlacement(workload.redundancy, d.replicas, placed, max(1, d.nodes // across), across, load)


def describe_machines(placement: ReplicaPlacement) -> str:
    """Machines per zone and replicas per machine: "2 machines in each of 3 zones, 1 replica per machine"."""
    zones, across = placement.redundancy.zones, placement.machines_per_host
    each, odd = divmod(placement.hosts, zones)
    if zones == 1:
        where = format_count(placement.hosts * across, "machine")
    elif not odd:
        where = f"{format_count(each * across, 'machine')} in each of {zones} zones"
    else:
        by_zone = ", ".join(str((each + (zone < odd)) * across) for zone in range(zones))
        where = f"{format_count(placement.hosts * across, 'machine')} across {zones} zones ({by_zone})"
    if across > 1:
        return f"{where}, {across} machines per replica"
    held = format_count(placement.most_replicas_per_host, "replica")
    if placement.hosts == 1:
        return f"{where} with {held}"
    return f"{where}, {'at most ' if placement.placed_replicas % placement.hosts else ''}{held} per machine"


def describe_covered_failures(redundancy: Redundancy) -> str:
    """Failures that the redundancy covers: "any one zone or any 2 machines"."""

    def any_of(count: int, domain: FailureDomain) -> str:
        return f"any {'one' if count == 1 else count} {domain.value}{'' if count == 1 else 's'}"

    several = redundancy.domain is not FailureDomain.ZONE and redundancy.domains_lost > 1
    losses = [any_of(redundancy.zones_lost, FailureDomain.ZONE)] if redundancy.zones_lost else []
    if several or not losses:
        losses.append(any_of(redundancy.domains_lost, redundancy.domain))
    return " or ".join(losses)


def describe_survivors(placement: ReplicaPlacement, remaining: int) -> str:
    """Remaining replicas compared with those that the load needs."""
    if remaining == placement.needed_replicas:
        return f"leaves the {format_count(placement.needed_replicas, 'replica')} needed {placement.needed_when}"
    are = "is" if placement.needed_replicas == 1 else "are"
    return (
        f"leaves {format_count(remaining, 'replica')}, but {placement.needed_replicas} {are} needed "
        f"{placement.needed_when}"
    )


def placement_reasons(workload: InferenceWorkload, deployment: Deployment) -> list[Reason]:
    """Placement and survived failures; empty if neither redundancy nor zones were requested."""
    placement = replica_placement(workload, deployment)
    if placement is None or (not workload.redundancy.domains_lost and workload.redundancy.zones == 1):
        return []
    survived = (
        f"Losing {describe_covered_failures(placement.redundancy)} "
        f"{describe_survivors(placement, placement.surviving_replicas)}"
    )
    if not workload.redundancy.domains_lost:
        survived = "No redundancy was requested, so no failure is covered"
    text = f"{describe_machines(placement)}. {survived}."
    return [Reason("placement", text, "replicas_left", float(placement.surviving_replicas), "replicas")]
