"""Machines of a deployment that somebody names: by what of it is said."""

from __future__ import annotations

from app.errors import Conflict
from app.sizing.decisions.machines import Candidates, candidates, unpriced
from app.sizing.decisions.prices import UNINTERRUPTED
from app.sizing.decisions.rejections import Unread
from app.sizing.hardware.prices import PriceKind
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.snapshot import Snapshot
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def machines_for(
    question: Question, deployment: Deployment, market: Snapshot, kinds: tuple[PriceKind, ...] = ()
) -> Candidates:
    """Machines that are sold or can be owned with a deployment, by what of it is named."""
    constraints = Constraints(
        accelerators=(deployment.accelerator,),
        pricing_models=(deployment.pricing_model,) if deployment.pricing_model else (),
        price_kinds=kinds,
    )
    unread, workload = Unread(market.accelerators), question.workload
    zones = workload.redundancy.zones if isinstance(workload, InferenceWorkload) else 1
    ends = isinstance(workload, TrainingWorkload) or workload.ends
    reads_host = isinstance(workload, InferenceWorkload) and workload.single_pass
    sought = (market, constraints, question.economics, question.assumptions, unread)
    machines = candidates(*sought, ends=ends, fixed=deployment, zones=zones, reads_host=reads_host)
    if not len(machines) and deployment.pricing_model is None:
        machines = candidates(*sought, pricing=UNINTERRUPTED, fixed=deployment, zones=zones, reads_host=reads_host)
    if len(machines):
        return machines
    named = deployment.system or deployment.provider or deployment.region or deployment.instance_type
    if named or deployment.pricing_model:
        raise Conflict(
            "The catalogue has no such listing: the system and offer named do not sell this accelerator together. "
            "Leave them out, or take both from GET /catalog/offers."
            + (" Several zones take rented machines of named regions only." if zones > 1 else "")
        )
    return unpriced(market, deployment, question.assumptions)


def least_in_one(question: Question, deployment: Deployment) -> int:
    """Accelerators that one machine is to carry: as many as a replica or a small run has, or as the machines given."""
    if deployment.nodes is not None and deployment.total_accelerators is not None:
        return deployment.total_accelerators // deployment.nodes
    size = deployment.accelerators_per_replica or deployment.tensor_parallel
    if isinstance(question.workload, TrainingWorkload):
        size = deployment.total_accelerators or size
    elif deployment.accelerators_per_replica is None and deployment.data_parallel is not None:
        size = (size or 1) * deployment.data_parallel
    return size if size is not None and size <= question.assumptions.largest_host_accelerators else 1


def most_in_one(machines: Candidates) -> float:
    """Most accelerators in one of some machines."""
    return float(machines.node.accelerators_per_node.max(initial=0.0))
