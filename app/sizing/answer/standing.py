"""Where replicas stand, in words: machines and zones, what survives their loss, and what does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.answer.cautions import Told
from app.sizing.decisions.placement import most_held, nodes_per_replica, replicas_left
from app.sizing.hardware.parts import PricingModel
from app.sizing.question import Deployment
from app.sizing.result import Notice, Reason
from app.sizing.words import counted
from app.sizing.workload import FailureDomain, InferenceWorkload, Load, Redundancy


@dataclass(frozen=True, slots=True)
class Standing:
    """A deployment as it stands: its replicas spread over hosts, and those over zones, as evenly as they go."""

    redundancy: Redundancy
    needed: int  # replicas that carry the load
    placed: int  # with spares
    hosts: int  # machines, or groups of them that a replica spans
    machines_per_host: int
    load: str  # what needs them

    @property
    def left(self) -> int:
        """Replicas that stay whatever is to be survived is lost."""
        return int(replicas_left(self.redundancy, np.array([self.placed]), np.array([self.hosts]))[0])

    def left_without(self, machines: int) -> int:
        """Replicas that stay when so many machines are lost."""
        return max(0, self.placed - int(most_held(np.array([self.placed]), np.array([self.hosts]), machines)[0]))

    @property
    def on_a_host(self) -> int:
        """The most replicas that one holds."""
        return -(-self.placed // self.hosts)


def standing_of(workload: InferenceWorkload, d: Deployment) -> Standing | None:
    """How a deployment stands; None where it is not known to."""
    if not d.replicas or not d.nodes or not d.total_accelerators:
        return None
    size, each = np.array([d.accelerators_per_replica or 1]), np.array([d.total_accelerators / d.nodes])
    across = int(nodes_per_replica(size, each)[0])
    load = "peak" if workload.load is Load.OPEN else "load"
    placed = d.replicas + (d.spare_replicas or 0)
    return Standing(workload.redundancy, d.replicas, placed, max(1, d.nodes // across), across, load)


def machines_words(stands: Standing) -> str:
    """How many machines stand where, with what on each."""
    zones, across = stands.redundancy.zones, stands.machines_per_host
    each, odd = divmod(stands.hosts, zones)
    if zones == 1:
        where = counted(stands.hosts * across, "machine")
    elif not odd:
        where = f"{counted(each * across, 'machine')} in each of {zones} zones"
    else:
        by_zone = ", ".join(str((each + (zone < odd)) * across) for zone in range(zones))
        where = f"{counted(stands.hosts * across, 'machine')} over {zones} zones ({by_zone})"
    if across > 1:
        return f"{where}, {across} to a replica"
    held = counted(stands.on_a_host, "replica")
    if stands.hosts == 1:
        return f"{where} with {held}"
    return f"{where}, {'at most ' if stands.placed % stands.hosts else ''}{held} on each"


def lost_words(redundancy: Redundancy) -> str:
    """What may be lost, without what a larger loss includes."""

    def any_of(count: int, domain: FailureDomain) -> str:
        return f"any {'one' if count == 1 else count} {domain.value}{'' if count == 1 else 's'}"

    several = redundancy.domain is not FailureDomain.ZONE and redundancy.lost > 1
    told = [any_of(redundancy.zones_lost, FailureDomain.ZONE)] if redundancy.zones_lost else []
    if several or not told:
        told.append(any_of(redundancy.lost, redundancy.domain))
    return " or ".join(told)


def left_words(stands: Standing, left: int) -> str:
    """What is left, beside what the load needs."""
    needed = counted(stands.needed, "replica")
    if left == stands.needed:
        return f"leaves the {needed} that the {stands.load} needs"
    return f"leaves {counted(left, 'replica')}, and the {stands.load} needs {stands.needed}"


def standing_reasons(workload: InferenceWorkload, deployment: Deployment) -> list[Reason]:
    """What stands where, and what survives; told where either was asked for."""
    stands = standing_of(workload, deployment)
    if stands is None or (not workload.redundancy.lost and workload.redundancy.zones == 1):
        return []
    survived = f"losing {lost_words(stands.redundancy)} {left_words(stands, stands.left)}"
    if not workload.redundancy.lost:
        survived = "without redundancy nothing is promised when one is lost"
    text = f"{machines_words(stands)}; {survived}."
    return [Reason("placement", text, "replicas_left", float(stands.left), "replicas")]


def machine_failure_exceeds_redundancy(told: Told) -> Notice | None:
    """Redundancy that the loss of as many machines as domains, or of one, goes beyond."""
    if told.serving is None or not told.serving.redundancy.lost:
        return None
    stands, redundancy = standing_of(told.serving, told.estimate.deployment), told.serving.redundancy
    machines = max(1, redundancy.machines_lost)
    if stands is None or (left := stands.left_without(machines)) >= stands.needed:
        return None
    lost = "one" if machines == 1 else machines
    text = f"A machine holds {counted(stands.on_a_host, 'replica')}: losing {lost} {left_words(stands, left)}."
    if redundancy.domain is FailureDomain.ACCELERATOR:
        text += " Only accelerators were to be survived; failure_domain machine prices what survives a machine."
    else:
        text += " Spread them over more machines, or leave nodes and spares open."
    return Notice("machine_failure_exceeds_redundancy", text)


def zone_failure_exceeds_redundancy(told: Told) -> Notice | None:
    """A caller's own machines that do not survive the zones they were to."""
    if told.serving is None or not told.serving.redundancy.zones_lost:
        return None
    stands = standing_of(told.serving, told.estimate.deployment)
    if stands is None or stands.left >= stands.needed:
        return None
    text = f"{machines_words(stands)}: losing {lost_words(stands.redundancy)} {left_words(stands, stands.left)}."
    return Notice("zone_failure_exceeds_redundancy", f"{text} Leave nodes and spares open to see what would do.")


def no_redundancy(told: Told) -> Notice | None:
    """A service that one loss ends: its only replica, or the one machine that holds all."""
    workload = told.serving
    if workload is None or workload.redundancy.lost or workload.personal:
        return None
    stands = standing_of(workload, told.estimate.deployment)
    if workload.load not in (Load.OPEN, Load.CLOSED) or stands is None or stands.hosts > 1:
        return None
    alone = "One replica carries the service"
    if stands.placed > 1:
        alone = f"All {stands.placed} replicas stand on one machine"
    text = f"{alone}: its loss is an outage. Ask for redundancy n+1 to price what survives it."
    return Notice("no_redundancy", text)


def zones_not_verified(told: Told) -> Notice | None:
    """Zones of a provider, of which the catalogue knows nothing."""
    workload, d = told.serving, told.estimate.deployment
    rented = d.provider is not None and d.pricing_model not in (None, PricingModel.OWNED)
    if workload is None or workload.redundancy.zones == 1 or not rented:
        return None
    return Notice(
        "zones_not_verified",
        f"The catalogue knows regions, not their zones: check that {d.provider} has {d.instance_type or d.accelerator} "
        f"in {workload.redundancy.zones} zones of {d.region}.",
    )
