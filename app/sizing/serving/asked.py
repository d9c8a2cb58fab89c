"""What a caller fixed of a deployment: settings of the engine, replicas, drafting."""

from __future__ import annotations

import numpy as np

from app.errors import Conflict
from app.sizing.columns import Column, Mask
from app.sizing.decisions.placement import hosts_needed, replicas_held, replicas_per_node
from app.sizing.hardware.engines import ENGINES
from app.sizing.question import Deployment, Drafting
from app.sizing.serving.layouts import splits_of
from app.sizing.serving.measured import Memory, Settings, Speed
from app.sizing.serving.plans import Plans
from app.sizing.workload import InferenceWorkload, Load, Redundancy


def sequences_of(workload: InferenceWorkload, memory: Memory, speed: Speed) -> Column:
    """Most sequences at once where the caller fixed none: what meets the limits where it is for the engine to say, else
    all.
    """
    most = speed.rank_batch if workload.load in (Load.OPEN, Load.OFFLINE) else memory.sequences
    return np.maximum(1.0, most)


def settings_asked(deployment: Deployment, plans: Plans, redundancy: Redundancy) -> Settings:
    """What the caller fixed of the engine and the fleet."""

    def fixed(value: float | None) -> Column | None:
        return None if value is None else np.full(len(plans), float(value))

    return Settings(
        max_sequences=fixed(deployment.max_batch),
        max_batched_tokens=fixed(deployment.max_batched_tokens),
        memory_fraction=fixed(deployment.memory_fraction),
        replicas=replicas_asked(deployment, plans, redundancy),
        spare_replicas=fixed(deployment.spare_replicas),
        nodes=nodes_asked(deployment, plans),
    )


def check_speculation(d: Deployment, workload: InferenceWorkload) -> None:
    """Refuse drafting that the model or the workload has no use for."""
    if d.speculative is None:
        return
    if workload.single_pass:
        raise Conflict("speculative decoding goes with models that generate tokens.")
    if d.speculative.method is Drafting.MTP and not workload.model.mtp_params:
        raise Conflict(f"{workload.model.name} has no multi-token prediction layer; use draft_model, eagle or ngram.")


def check_experts(d: Deployment, workload: InferenceWorkload) -> None:
    """Refuse data-parallel ranks of one replica where no routed experts join them."""
    if (d.data_parallel or 1) > 1 and not workload.model.is_moe:
        raise Conflict(
            f"{workload.model.name} has no routed experts that data-parallel ranks would share: each rank is a "
            "replica; give replicas."
        )


def check_context(d: Deployment, workload: InferenceWorkload) -> None:
    """Refuse a context split over ranks where the model, the engine or the tensor-parallel degree allows none."""
    context = d.context_parallel or 1
    if context == 1:
        return
    splits = splits_of(workload.model)
    if workload.single_pass or not splits.kv_heads:
        raise Conflict(
            f"{workload.model.name} keeps no cache that context_parallel could split by tokens: no engine does so with "
            "sliding windows or recurrent states."
        )
    able = [
        name for name, engine in ENGINES.items() if engine.context_parallel and splits.suit(engine.context_parallel)
    ]
    if d.engine is not None and d.engine not in able:
        raise Conflict(
            f"{d.engine} splits no context of {workload.model.name} in decoding; these do: {', '.join(able)}."
        )
    tensor = d.tensor_parallel
    if tensor is not None and not splits.by(tensor, context):
        raise Conflict(
            f"context_parallel takes the place of copies of the cache: with tensor_parallel {tensor} and "
            f"{splits.kv_heads} key/value heads it may be at most {splits.most(tensor)}, and must divide the former."
        )


def holding(deployment: Deployment, plans: Plans) -> Mask:
    """Plans whose machines and accelerators, where their number is fixed, hold the replicas and spares that are."""
    wanted = (deployment.replicas or 1) + (deployment.spare_replicas or 0)
    held: Mask = np.ones(len(plans), dtype=bool)
    if deployment.nodes is not None:
        held &= most_on(plans, np.full(len(plans), float(deployment.nodes))) >= wanted
    if deployment.total_accelerators is not None:
        held &= wanted * plans.accelerators_per_replica <= deployment.total_accelerators
    return held


def most_on(plans: Plans, machines: Column) -> Column:
    """Replicas that fill so many machines."""
    return np.floor(machines / plans.nodes_per_replica) * per_host(plans)


def per_host(plans: Plans) -> Column:
    """Replicas on a machine, or on the machines that one spans."""
    return replicas_per_node(plans.accelerators_per_replica, plans.accelerators_per_node)


def placed_asked(deployment: Deployment, plans: Plans) -> Column | None:
    """Replicas with spares that fill the accelerators or machines a caller fixed; None where neither is."""
    if deployment.total_accelerators is not None:
        total = np.full(len(plans), float(deployment.total_accelerators))
    elif deployment.nodes is not None:
        total = deployment.nodes * plans.accelerators_per_node
    else:
        return None
    size, each = plans.accelerators_per_replica, plans.accelerators_per_node
    machines = np.floor(total / each)
    inside = machines * per_host(plans) + np.floor((total - machines * each) / size)
    return np.maximum(1.0, np.where(size > each, np.floor(total / size), inside))


def nodes_asked(deployment: Deployment, plans: Plans) -> Column | None:
    """Machines a caller fixed: by their number, or by the accelerators they hold."""
    if deployment.nodes is not None:
        return np.full(len(plans), float(deployment.nodes))
    if deployment.total_accelerators is None:
        return None
    if deployment.replicas is not None:
        return np.floor(deployment.total_accelerators / plans.accelerators_per_node)
    placed = placed_asked(deployment, plans)
    assert placed is not None
    return hosts_needed(placed, per_host(plans)) * plans.nodes_per_replica


def replicas_asked(deployment: Deployment, plans: Plans, redundancy: Redundancy) -> Column | None:
    """Replicas the caller fixed: by their number, or those that the accelerators or machines they fill are left with
    after any loss that is to be survived.
    """
    if deployment.replicas is not None:
        return np.full(len(plans), float(deployment.replicas))
    placed = placed_asked(deployment, plans)
    if placed is None:
        return None
    if deployment.spare_replicas is not None:
        return np.maximum(1.0, placed - deployment.spare_replicas)
    machines = nodes_asked(deployment, plans)
    assert machines is not None
    return replicas_held(redundancy, placed, np.floor(machines / plans.nodes_per_replica))
