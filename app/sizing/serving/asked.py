"""What a request fixes of a deployment: engine settings, replicas and speculative decoding."""

from __future__ import annotations

import numpy as np

from app.errors import Conflict
from app.sizing.columns import Column, Mask
from app.sizing.decisions.placement import dependable_replicas, hosts_needed, replicas_per_node
from app.sizing.hardware.engines import ENGINES
from app.sizing.product_names import product_name
from app.sizing.question import Deployment, DraftMethod
from app.sizing.serving.layouts import context_splits
from app.sizing.serving.measured import Memory, Settings, Speed
from app.sizing.serving.plans import Plans
from app.sizing.workload import InferenceWorkload, Load, Redundancy


def default_max_sequences(workload: InferenceWorkload, memory: Memory, speed: Speed) -> Column:
    """Default limit of concurrent sequences (`max_num_seqs`) where the request fixes none.

    For open-loop and offline work it is the batch that meets the limits; otherwise it is every sequence that fits in
    memory.
    """
    most = speed.rank_batch if workload.load in (Load.OPEN, Load.OFFLINE) else memory.sequences
    return np.maximum(1.0, most)


def requested_settings(deployment: Deployment, plans: Plans, redundancy: Redundancy) -> Settings:
    """Engine and fleet settings that the request fixes."""

    def fixed_column(value: float | None) -> Column | None:
        return None if value is None else np.full(len(plans), float(value))

    return Settings(
        max_sequences=fixed_column(deployment.max_batch),
        max_batched_tokens=fixed_column(deployment.max_batched_tokens),
        memory_fraction=fixed_column(deployment.memory_fraction),
        replicas=requested_replicas(deployment, plans, redundancy),
        spare_replicas=fixed_column(deployment.spare_replicas),
        nodes=requested_nodes(deployment, plans),
    )


def check_speculation(d: Deployment, workload: InferenceWorkload) -> None:
    """Raise Conflict if the model or workload cannot use the requested speculative decoding."""
    if d.speculative is None:
        return
    if workload.single_pass:
        raise Conflict("Speculative decoding requires a model that generates tokens. Omit speculative.")
    if d.speculative.method is DraftMethod.MTP and not workload.model.mtp_params:
        raise Conflict(f"{workload.model.name} has no multi-token prediction layer. Use draft_model, eagle or ngram.")


def check_experts(d: Deployment, workload: InferenceWorkload) -> None:
    """Raise Conflict for data-parallel ranks in one replica of a model without routed experts."""
    if (d.data_parallel or 1) > 1 and not workload.model.is_moe:
        raise Conflict(
            f"{workload.model.name} has no routed experts for data-parallel ranks to share. "
            "Use replicas instead of data_parallel."
        )


def check_context(d: Deployment, workload: InferenceWorkload) -> None:
    """Raise Conflict for a `context_parallel` degree that the model, engine or tensor-parallel degree does not
    allow.
    """
    context = d.context_parallel or 1
    if context == 1:
        return
    splits = context_splits(workload.model)
    if workload.single_pass or not splits.kv_heads:
        raise Conflict(
            f"{workload.model.name} has no KV cache that context_parallel can split by tokens. "
            "No engine splits sliding windows or recurrent states."
        )
    able = [
        name
        for name, engine in ENGINES.items()
        if engine.context_parallel and splits.supports_engine(engine.context_parallel)
    ]
    if d.engine is not None and d.engine not in able:
        raise Conflict(
            f"{product_name(d.engine)} does not support context parallelism in decode for {workload.model.name}. "
            f"Set engine to one of: {', '.join(able)}."
        )
    tensor = d.tensor_parallel
    if tensor is not None and not splits.allows_split(tensor, context):
        raise Conflict(
            f"context_parallel must divide tensor_parallel {tensor} and be at most {splits.max_ranks(tensor)}. "
            f"It only splits copies of the {splits.kv_heads} key/value heads."
        )


def hardware_holds_replicas(deployment: Deployment, plans: Plans) -> Mask:
    """Mask of plans whose fixed machines or accelerators hold the fixed replicas and spares."""
    wanted = (deployment.replicas or 1) + (deployment.spare_replicas or 0)
    holds: Mask = np.ones(len(plans), dtype=bool)
    if deployment.nodes is not None:
        holds &= max_replicas_on(plans, np.full(len(plans), float(deployment.nodes))) >= wanted
    if deployment.total_accelerators is not None:
        holds &= wanted * plans.accelerators_per_replica <= deployment.total_accelerators
    return holds


def max_replicas_on(plans: Plans, machines: Column) -> Column:
    """Largest number of replicas on a number of machines."""
    return np.floor(machines / plans.nodes_per_replica) * replicas_per_host(plans)


def replicas_per_host(plans: Plans) -> Column:
    """Replicas per machine, or per group of machines that one replica spans."""
    return replicas_per_node(plans.accelerators_per_replica, plans.accelerators_per_node)


def replicas_filling_hardware(deployment: Deployment, plans: Plans) -> Column | None:
    """Replicas including spares that fill the fixed accelerators or machines; None where neither is fixed."""
    if deployment.total_accelerators is not None:
        total = np.full(len(plans), float(deployment.total_accelerators))
    elif deployment.nodes is not None:
        total = deployment.nodes * plans.accelerators_per_node
    else:
        return None
    size, each = plans.accelerators_per_replica, plans.accelerators_per_node
    machines = np.floor(total / each)
    inside = machines * replicas_per_host(plans) + np.floor((total - machines * each) / size)
    return np.maximum(1.0, np.where(size > each, np.floor(total / size), inside))


def requested_nodes(deployment: Deployment, plans: Plans) -> Column | None:
    """Machines that the request fixes, directly or by the number of accelerators; None where neither is fixed."""
    if deployment.nodes is not None:
        return np.full(len(plans), float(deployment.nodes))
    if deployment.total_accelerators is None:
        return None
    if deployment.replicas is not None:
        return np.floor(deployment.total_accelerators / plans.accelerators_per_node)
    placed = replicas_filling_hardware(deployment, plans)
    assert placed is not None
    return hosts_needed(placed, replicas_per_host(plans)) * plans.nodes_per_replica


def requested_replicas(deployment: Deployment, plans: Plans, redundancy: Redundancy) -> Column | None:
    """Replicas that the request fixes, directly or by hardware to fill; None where neither is fixed.

    On fixed hardware, the result leaves enough spare replicas for the failures that the redundancy must survive.
    """
    if deployment.replicas is not None:
        return np.full(len(plans), float(deployment.replicas))
    placed = replicas_filling_hardware(deployment, plans)
    if placed is None:
        return None
    if deployment.spare_replicas is not None:
        return np.maximum(1.0, placed - deployment.spare_replicas)
    machines = requested_nodes(deployment, plans)
    assert machines is not None
    return dependable_replicas(redundancy, placed, np.floor(machines / plans.nodes_per_replica))
