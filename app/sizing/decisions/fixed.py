"""Machines of a deployment that the request specifies, by the fields that it names."""

from __future__ import annotations

import numpy as np

from app.errors import Conflict
from app.sizing.decisions.machines import Candidates, find_candidates, unpriced_machine
from app.sizing.decisions.prices import UNINTERRUPTIBLE
from app.sizing.decisions.rejections import NullRejections
from app.sizing.hardware.prices import PriceKind
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def find_machines(
    question: Question, deployment: Deployment, catalog: Catalog, kinds: tuple[PriceKind, ...] = ()
) -> Candidates:
    """Listings that match the fields named in a deployment, or one unpriced machine if the catalog lists none.

    Raises `Conflict` if the named fields match no listing.
    """
    constraints = Constraints(
        accelerators=(deployment.accelerator,),
        pricing_models=(deployment.pricing_model,) if deployment.pricing_model else (),
        price_kinds=kinds,
    )
    unread, workload = NullRejections(catalog.accelerators), question.workload
    zones = workload.redundancy.zones if isinstance(workload, InferenceWorkload) else 1
    ends = isinstance(workload, TrainingWorkload) or workload.is_finite
    reads_host = isinstance(workload, InferenceWorkload) and workload.single_pass
    sought = (catalog, constraints, question.economics, question.assumptions, unread)
    machines = find_candidates(*sought, ends=ends, fixed=deployment, zones=zones, reads_host=reads_host)
    if not len(machines) and deployment.pricing_model is None:
        machines = find_candidates(
            *sought, pricing=UNINTERRUPTIBLE, fixed=deployment, zones=zones, reads_host=reads_host
        )
    if len(machines):
        return machines
    named = deployment.system or deployment.provider or deployment.region or deployment.instance_type
    if named or deployment.pricing_model:
        raise Conflict(
            "No catalog listing sells this accelerator with the given system, provider, region, instance type and "
            "pricing model. Omit them, or choose values from GET /catalog/offers."
            + (" With several zones, rented machines must be in named regions." if zones > 1 else "")
        )
    return unpriced_machine(catalog, deployment, question.assumptions)


def filter_by_size(machines: Candidates, question: Question, deployment: Deployment) -> Candidates:
    """For a service, the machines whose accelerator count matches `total_accelerators` divided by `nodes`."""
    training = isinstance(question.workload, TrainingWorkload)
    if training or deployment.nodes is None or deployment.total_accelerators is None:
        return machines
    held = machines.node.accelerators_per_node * deployment.nodes
    return machines.take(np.flatnonzero(held == deployment.total_accelerators))


def unlisted_machine(catalog: Catalog, deployment: Deployment, question: Question) -> Candidates:
    """An unpriced machine of the requested size; raises `Conflict` if no machine can have that size."""
    named = deployment.system or deployment.provider or deployment.region or deployment.instance_type
    total, nodes = deployment.total_accelerators or 0, deployment.nodes or 1
    if named or total % nodes:
        reason = "the named machine has another size" if named else "each would hold a fraction of an accelerator"
        raise Conflict(
            f"{nodes} nodes cannot hold exactly {total} accelerators: {reason}. Omit `nodes` or `total_accelerators`."
        )
    return unpriced_machine(catalog, deployment, question.assumptions)


def min_accelerators_per_machine(question: Question, deployment: Deployment) -> int:
    """Accelerators that one machine must carry: those of a replica or a small training run, or the requested total per
    machine.
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


def max_accelerators_per_machine(machines: Candidates) -> float:
    """Largest accelerator count of the given machines."""
    return float(machines.node.accelerators_per_node.max(initial=0.0))
