"""Placement of replicas on machines and zones, and which failures the service survives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.answer.cautions import Told
from app.sizing.decisions.placement import most_held, nodes_per_replica, replicas_left
from app.sizing.hardware.parts import PricingModel
from app.sizing.product_names import provider_name
from app.sizing.question import Deployment
from app.sizing.result import Notice, Reason
from app.sizing.words import counted
from app.sizing.workload import FailureDomain, InferenceWorkload, Load, Redundancy


@dataclass(frozen=True, slots=True)
class Standing:
    """Replicas spread over hosts, and hosts over zones, as evenly as possible."""

    redundancy: Redundancy
    needed: int  # replicas that carry the load
    placed: int  # replicas including spares
    hosts: int  # machines, or groups of machines where a replica spans several
    machines_per_host: int
    load: str  # when the replicas are needed: "at peak" or "for the load"

    @property
    def surviving_replicas(self) -> int:
        """Replicas that remain after the worst failure that the redundancy covers."""
        return int(replicas_left(self.redundancy, np.array([self.placed]), np.array([self.hosts]))[0])

    def replicas_after_loss(self, machines: int) -> int:
        """Replicas that remain after the loss of this many machines."""
        return max(0, self.placed - int(most_held(np.array([self.placed]), np.array([self.hosts]), machines)[0]))

    @property
    def on_a_host(self) -> int:
        """Most replicas on one host."""
        return -(-self.placed // self.hosts)


def standing_of(workload: InferenceWorkload, d: Deployment) -> Standing | None:
    """Placement of a deployment; None if its machines are unknown."""
    if not d.replicas or not d.nodes or not d.total_accelerators:
        return None
    size, each = np.array([d.accelerators_per_replica or 1]), np.array([d.total_accelerators / d.nodes])
    across = int(nodes_per_replica(size, each)[0])
    load = "at peak" if workload.load is Load.OPEN else "for the load"
    placed = d.replicas + (d.spare_replicas or 0)
    return Standing(workload.redundancy, d.replicas, placed, max(1, d.nodes // across), across, load)


def machines_words(stands: Standing) -> str:
    """Machines per zone and replicas per machine: "2 machines in each of 3 zones, 1 replica per machine"."""
    zones, across = stands.redundancy.zones, stands.machines_per_host
    each, odd = divmod(stands.hosts, zones)
    if zones == 1:
        where = counted(stands.hosts * across, "machine")
    elif not odd:
        where = f"{counted(each * across, 'machine')} in each of {zones} zones"
    else:
        by_zone = ", ".join(str((each + (zone < odd)) * across) for zone in range(zones))
        where = f"{counted(stands.hosts * across, 'machine')} across {zones} zones ({by_zone})"
    if across > 1:
        return f"{where}, {across} machines per replica"
    held = counted(stands.on_a_host, "replica")
    if stands.hosts == 1:
        return f"{where} with {held}"
    return f"{where}, {'at most ' if stands.placed % stands.hosts else ''}{held} per machine"


def lost_words(redundancy: Redundancy) -> str:
    """Failures that the redundancy covers: "any one zone or any 2 machines"."""

    def any_of(count: int, domain: FailureDomain) -> str:
        return f"any {'one' if count == 1 else count} {domain.value}{'' if count == 1 else 's'}"

    several = redundancy.domain is not FailureDomain.ZONE and redundancy.domains_lost > 1
    losses = [any_of(redundancy.zones_lost, FailureDomain.ZONE)] if redundancy.zones_lost else []
    if several or not losses:
        losses.append(any_of(redundancy.domains_lost, redundancy.domain))
    return " or ".join(losses)


def left_words(stands: Standing, remaining: int) -> str:
    """Remaining replicas compared with those that the load needs."""
    if remaining == stands.needed:
        return f"leaves the {counted(stands.needed, 'replica')} needed {stands.load}"
    are = "is" if stands.needed == 1 else "are"
    return f"leaves {counted(remaining, 'replica')}, but {stands.needed} {are} needed {stands.load}"


def standing_reasons(workload: InferenceWorkload, deployment: Deployment) -> list[Reason]:
    """Placement and survived failures; empty if neither redundancy nor zones were requested."""
    stands = standing_of(workload, deployment)
    if stands is None or (not workload.redundancy.domains_lost and workload.redundancy.zones == 1):
        return []
    survived = f"Losing {lost_words(stands.redundancy)} {left_words(stands, stands.surviving_replicas)}"
    if not workload.redundancy.domains_lost:
        survived = "No redundancy was requested, so no failure is covered"
    text = f"{machines_words(stands)}. {survived}."
    return [Reason("placement", text, "replicas_left", float(stands.surviving_replicas), "replicas")]


def machine_failure_exceeds_redundancy(context: Told) -> Notice | None:
    """Warn if losing one machine, or as many machines as failure domains covered, leaves too few replicas."""
    if context.serving_workload is None or not context.serving_workload.redundancy.domains_lost:
        return None
    stands, redundancy = standing_of(context.serving_workload, context.estimate.deployment), context.serving_workload.redundancy
    machines = max(1, redundancy.machines_lost)
    if stands is None or (remaining := stands.replicas_after_loss(machines)) >= stands.needed:
        return None
    lost = "one machine" if machines == 1 else f"{machines} machines"
    text = f"A machine runs up to {counted(stands.on_a_host, 'replica')}. Losing {lost} {left_words(stands, remaining)}."
    if redundancy.domain is FailureDomain.ACCELERATOR:
        text += " Redundancy covers accelerators only: set failure_domain to machine to survive a machine failure."
    else:
        text += " Use more machines, or omit nodes and spare_replicas."
    return Notice("machine_failure_exceeds_redundancy", text)


def zone_failure_exceeds_redundancy(context: Told) -> Notice | None:
    """Warn if fixed machines do not survive the zone failures that the redundancy covers."""
    if context.serving_workload is None or not context.serving_workload.redundancy.zones_lost:
        return None
    stands = standing_of(context.serving_workload, context.estimate.deployment)
    if stands is None or stands.surviving_replicas >= stands.needed:
        return None
    text = f"{machines_words(stands)}. Losing {lost_words(stands.redundancy)} {left_words(stands, stands.surviving_replicas)}."
    return Notice("zone_failure_exceeds_redundancy", f"{text} Omit nodes and spare_replicas to size enough of them.")


def no_redundancy(context: Told) -> Notice | None:
    """Warn if one failure stops the service: a single replica, or one machine that runs all replicas."""
    workload = context.serving_workload
    if workload is None or workload.redundancy.domains_lost or workload.personal:
        return None
    stands = standing_of(workload, context.estimate.deployment)
    if workload.load not in (Load.OPEN, Load.CLOSED) or stands is None or stands.hosts > 1:
        return None
    failure = "if this replica fails, the service is down"
    if stands.placed > 1:
        failure = f"all {stands.placed} replicas run on one machine, and if it fails, the service is down"
    text = f"No redundancy: {failure}. Set redundancy to n+1 to price a service that survives a failure."
    return Notice("no_redundancy", text)


def zones_not_verified(context: Told) -> Notice | None:
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
