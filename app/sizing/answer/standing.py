"""Placement of replicas on machines and zones, and which failures the service survives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.answer.cautions import AnswerContext
from app.sizing.decisions.placement import max_items_in_groups, nodes_per_replica, surviving_replicas
from app.sizing.hardware.parts import PricingModel
from app.sizing.product_names import provider_name
from app.sizing.question import Deployment
from app.sizing.result import Notice, Reason
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


def machine_failure_exceeds_redundancy(context: AnswerContext) -> Notice | None:
    """Warn if losing one machine, or as many machines as failure domains covered, leaves too few replicas."""
    if context.serving_workload is None or not context.serving_workload.redundancy.domains_lost:
        return None
    placement, redundancy = (
        replica_placement(context.serving_workload, context.estimate.deployment),
        context.serving_workload.redundancy,
    )
    machines = max(1, redundancy.machines_lost)
    if placement is None or (remaining := placement.replicas_after_loss(machines)) >= placement.needed_replicas:
        return None
    lost = "one machine" if machines == 1 else f"{machines} machines"
    text = (
        f"A machine runs up to {format_count(placement.most_replicas_per_host, 'replica')}. Losing {lost} "
        f"{describe_survivors(placement, remaining)}."
    )
    if redundancy.domain is FailureDomain.ACCELERATOR:
        text += " Redundancy covers accelerators only: set failure_domain to machine to survive a machine failure."
    else:
        text += " Use more machines, or omit nodes and spare_replicas."
    return Notice("machine_failure_exceeds_redundancy", text)


def zone_failure_exceeds_redundancy(context: AnswerContext) -> Notice | None:
    """Warn if fixed machines do not survive the zone failures that the redundancy covers."""
    if context.serving_workload is None or not context.serving_workload.redundancy.zones_lost:
        return None
    placement = replica_placement(context.serving_workload, context.estimate.deployment)
    if placement is None or placement.surviving_replicas >= placement.needed_replicas:
        return None
    text = (
        f"{describe_machines(placement)}. Losing {describe_covered_failures(placement.redundancy)} "
        f"{describe_survivors(placement, placement.surviving_replicas)}."
    )
    return Notice("zone_failure_exceeds_redundancy", f"{text} Omit nodes and spare_replicas to size enough of them.")


def no_redundancy(context: AnswerContext) -> Notice | None:
    """Warn if one failure stops the service: a single replica, or one machine that runs all replicas."""
    workload = context.serving_workload
    if workload is None or workload.redundancy.domains_lost or workload.is_personal:
        return None
    placement = replica_placement(workload, context.estimate.deployment)
    if workload.load not in (Load.OPEN, Load.CLOSED) or placement is None or placement.hosts > 1:
        return None
    stops = "the service is down" if workload.requests is None else "the run stops"
    failure = f"if this replica fails, {stops}"
    if placement.placed_replicas > 1:
        replicas = "both replicas" if placement.placed_replicas == 2 else f"all {placement.placed_replicas} replicas"
        failure = f"{replicas} run on one machine, and if it fails, {stops}"
    text = f"No redundancy: {failure}. Set redundancy to n+1 to price a deployment that survives a failure."
    return Notice("no_redundancy", text)


def zones_not_verified(context: AnswerContext) -> Notice | None:
    """Warn that the catalog does not list the zones of a provider."""
    workload, d = context.serving_workload, context.estimate.deployment
    rented = d.provider is not None and d.pricing_model not in (None, PricingModel.OWNED)
    if workload is None or workload.redundancy.zones == 1 or not rented:
        return None
    return Notice(
        "zones_not_verified",
        "The catalog lists regions but not their zones. "
        f"Check that {provider_name(d.provider or '')} offers {d.instance_type or d.accelerator} in "
        f"{workload.redundancy.zones} zones of {d.region}.",
    )
