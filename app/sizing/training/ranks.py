"""What one rank of a layout holds and works on: its share of parameters, tokens, layers."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.training.plans import TrainingPlans
from app.sizing.workload import Method, TrainingWorkload

MAX_INTERLEAVE = 8.0


def interleave(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Model chunks per stage: as asked, else as many as there are layers to a stage, eight at most, where the framework
    interleaves.
    """
    if plans.chunks is not None:
        return np.where(plans.pipeline_parallel > 1, plans.chunks, 1.0)
    chunks = np.clip(np.floor(workload.model.num_layers / plans.pipeline_parallel), 1.0, MAX_INTERLEAVE)
    return np.where((plans.pipeline_parallel > 1) & plans.interleaves, chunks, 1.0)


def expert_shards(plans: TrainingPlans) -> Column:
    """Ranks that share a layer's routed experts: the expert group, else the tensor group."""
    return np.where(plans.expert_parallel > 1, plans.expert_parallel, plans.tensor_parallel)


def rank_params(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[Column, Column]:
    """(dense, routed) parameters of the fullest model-parallel rank: its share of the layers and an end of the model."""
    model, tp, pp = workload.model, plans.tensor_parallel, plans.pipeline_parallel
    embedding, head = model.parts.get("embedding", 0), model.parts.get("head", 0)
    ends, largest_end = embedding + head, max(embedding, head)
    routed = model.routed_params
    dense = (model.total_params - routed - ends) / (tp * pp) + np.where(pp > 1, largest_end, ends) / tp
    return dense, routed / (expert_shards(plans) * pp)


def trained_rank_params(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[Column, Column]:
    """(dense, routed) parameters of a rank that have gradients."""
    if workload.method is Method.FULL:
        return rank_params(workload, plans)
    adapters = workload.model.lora_params(workload.lora_rank, workload.lora_targets)
    return adapters / (plans.tensor_parallel * plans.pipeline_parallel), np.zeros(len(plans))


def routing_layers(model: ModelArchitecture) -> float:
    """Layers that send tokens to experts; with a single expert there is nowhere to send them."""
    return float(model.moe_layers if model.is_moe else 0)


def tokens_per_micro_batch(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Tokens of a micro-batch on one rank of the context group."""
    return plans.micro_batch * workload.units_per_sequence / plans.context_parallel


def sequence_split(plans: TrainingPlans) -> Column:
    """Ranks that share the tokens between matrices: the tensor group's, where sequences are split over it."""
    return np.where(plans.sequence_parallel, plans.tensor_parallel, 1.0)


def held_params(
    plans: TrainingPlans, data_parallel: Column, dense: Column, routed: Column, *, from_stage: int
) -> Column:
    """Of a rank's parameters those one device holds: its share where ZeRO shards them (states from stage 1, gradients
    2, weights 3).
    """
    shared = plans.zero_stage >= from_stage
    groups = data_group(plans, data_parallel), expert_group(plans, data_parallel)
    return dense / np.where(shared, groups[0], 1.0) + routed / np.where(shared, groups[1], 1.0)


def data_group(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Ranks that hold the same dense weights: replicas, and the context group with them."""
    return data_parallel * plans.context_parallel


def expert_group(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Ranks that hold the same routed experts."""
    ranks = data_parallel * plans.context_parallel * plans.tensor_parallel
    return np.maximum(1.0, ranks / expert_shards(plans))
