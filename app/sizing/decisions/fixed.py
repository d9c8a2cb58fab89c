"""Machines of a deployment that somebody names: by what of it is said."""

from __future__ import annotations

import numpy as np

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


def of_size(machines: Candidates, question: Question, deployment: Deployment) -> Candidates:
    """Of machines for a service, those that hold as many accelerators as the machines and accelerators given say
    together.
    """
    training = isinstance(question.workload, TrainingWorkload)
    if training or deployment.nodes is None or deployment.total_accelerators is None:
        return machines
    held = machines.node.accelerators_per_node * deployment.nodes
    return machines.take(np.flatnonzero(held == deployment.total_accelerators))


def unsold(market: Snapshot, deployment: Deployment, question: Question) -> Candidates:
    """A machine of the size given without a price, where nobody sells one; a conflict where there can be none."""
    named = deployment.system or deployment.provider or deployment.region or deployment.instance_type
    total, nodes = deployment.total_accelerators or 0, deployment.nodes or 1
    if named or total % nodes:
        whose = "the machines named are of another size" if named else "each would hold a part of one"
        raise Conflict(f"{nodes} nodes do not come to {total} accelerators: {whose}. Leave one of the two out.")
    return unpriced(market, deployment, question.assumptions)


def least_in_one(question: Question, deployment: Deployment) -> int:
    """Accelerators that one machine is to carry where one does: as many as a replica or a small run has, or as the
    machines given.
    """
    if deployment.nodes is not None and deployment.total_accelerators is not None:
        return deployment.total_accelerators // deployment.nodes
    size = deployment.accelerators_per_replica or deployment.tensor_parallel
    if isinstance(question.workload, TrainingWorkload):
        size = deployment.total_accelerators or size or 1
        return size if size <= question.assumptions.largest_host_accelerators else 1
    if deployment.accelerators_per_replica is None and deployment.data_parallel is not None:
        size = (size or 1) * deployment.data_parallel
    return size or 1


def most_in_one(machines: Candidates) -> float:
    """Most accelerators in one of some machines."""
    return float(machines.node.accelerators_per_node.max(initial=0.0))
