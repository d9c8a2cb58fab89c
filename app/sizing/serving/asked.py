"""What a caller fixed of a deployment: settings of the engine, replicas, drafting."""

from __future__ import annotations

import numpy as np

from app.errors import Conflict
from app.sizing.columns import Column
from app.sizing.question import Deployment, Drafting
from app.sizing.serving.measured import Memory, Settings, Speed
from app.sizing.serving.plans import Plans
from app.sizing.workload import InferenceWorkload, Load


def sequences_of(workload: InferenceWorkload, memory: Memory, speed: Speed) -> Column:
    """Most sequences at once where the caller fixed none: what meets the limits at a request rate, else all."""
    most = speed.slo_batch if workload.load is Load.OPEN else memory.sequences
    return np.maximum(1.0, most)


def settings_asked(deployment: Deployment, plans: Plans) -> Settings:
    """What the caller fixed of the engine and the fleet."""

    def fixed(value: float | None) -> Column | None:
        return None if value is None else np.full(len(plans), float(value))

    return Settings(
        max_sequences=fixed(deployment.max_batch),
        max_batched_tokens=fixed(deployment.max_batched_tokens),
        memory_fraction=fixed(deployment.memory_fraction),
        replicas=replicas_asked(deployment, plans),
        spare_replicas=fixed(deployment.spare_replicas),
    )


def check_speculation(d: Deployment, workload: InferenceWorkload) -> None:
    """Refuse drafting that the model or the workload has no use for."""
    if d.speculative is None:
        return
    if workload.single_pass:
        raise Conflict("speculative decoding goes with models that generate tokens.")
    if d.speculative.method is Drafting.MTP and not workload.model.mtp_params:
        raise Conflict(f"{workload.model.name} has no multi-token prediction layer; use draft_model, eagle or ngram.")


def replicas_asked(deployment: Deployment, plans: Plans) -> Column | None:
    """Replicas the caller fixed: by their number, or by the accelerators or machines they fill."""
    if deployment.replicas is not None:
        return np.full(len(plans), float(deployment.replicas))
    spare = deployment.spare_replicas or 0
    total: Column | None = None
    if deployment.total_accelerators is not None:
        total = np.full(len(plans), float(deployment.total_accelerators))
    elif deployment.nodes is not None:
        total = deployment.nodes * plans.accelerators_per_node
    return None if total is None else np.maximum(1.0, np.floor(total / plans.accelerators_per_replica) - spare)
