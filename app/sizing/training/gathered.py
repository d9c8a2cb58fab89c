"""Weights in addition to an accelerator's own: all-gathered from other ranks, and 16-bit copies of FP32 weights."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column, Mask
from app.sizing.formula import formula
from app.sizing.hardware.recipes import Recipes
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import FULL
from app.sizing.training.loss import CHUNKED
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.recipes import Recipe
from app.sizing.training.widths import ParamBytes


@formula(unit="parameters", source="definition")
def layer_params_per_rank(counts: Counts, plans: TrainingPlans, expert_shards: Column) -> Column:
    """Parameters of one layer on a model-parallel rank, with experts where any layer has them.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        expert_shards: ranks that share the routed experts of a layer.
    Check: Llama-3.1-8B on one rank and on tensor parallel 8.
        >>> layout = row(tensor_parallel=col(1, 8))
        >>> layer_params_per_rank(PRETRAIN_COUNTS, layout, col(1, 1)).tolist()
        [218112128.0, 27264016.0]
    """
    ends = counts.embedding_params + counts.head_params
    dense = (counts.total_params - counts.routed_params - ends) / plans.tensor_parallel
    routed = counts.routed_params / (expert_shards * np.maximum(1.0, counts.routing_layers))
    params: Column = dense / np.maximum(1.0, counts.weight_layers) + routed
    return params


@formula(unit="parameters", source="definition")
def end_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Embedding and head parameters on one rank; the larger of the two where a pipeline separates them.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
    Check: Llama-3.1-8B without a pipeline and with four stages.
        >>> layout = row(pipeline_parallel=col(1, 4), tensor_parallel=col(1, 1))
        >>> end_params_per_rank(PRETRAIN_COUNTS, layout).tolist()
        [1050673152.0, 525336576.0]
    """
    both = counts.embedding_params + counts.head_params
    larger = np.maximum(counts.embedding_params, counts.head_params)
    return np.where(plans.pipeline_parallel > 1, larger, both) / plans.tensor_parallel


@formula(
    unit="B",
    source="Zhao et al. 2023 (arXiv:2304.11277), section 4.3; traced steps of PyTorch 2.15 (`fully_shard`)",
)
def gathered_bytes(
    gathers: Mask, end_params_per_rank: Column, gathered_unit_params: Column, units: Column, params: ParamBytes
) -> Column:
    """All-gathered weights with ZeRO-3: embedding and head stay through the loss, with the layers in use or prefetched.

    Parameters:
        gathers: whether weights are gathered from other ranks (ZeRO-3).
        end_params_per_rank: embedding and head parameters on a rank.
        gathered_unit_params: parameters that are gathered together.
        units: units in use or prefetched.
        params: bytes per parameter by use (`ParamBytes`).
    Check: Llama-3.1-8B in BF16: embedding and head, and two layers; nothing below ZeRO-3.
        >>> sharded, widths = np.array([True, False]), row(ends=2.0, gathered=2.0)
        >>> gathered_bytes(sharded, col(1.05e9), col(0.218e9), col(2), widths).tolist()
        [2972000000.0, 0.0]
    """
    gathered = end_params_per_rank * params.ends + units * gathered_unit_params * params.gathered
    return np.where(gathers, gathered, 0.0)


@formula(unit="B", source="PyTorch's documentation of autocast; traced steps of PyTorch 2.15")
def cast_bytes(counts: Counts, plans: TrainingPlans, params: ParamBytes) -> Column:
    """16-bit copies of FP32 layer weights that autocast keeps until backward.

    Autocast keeps none with full recomputation or sharded weights.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        params: bytes per parameter by use (`ParamBytes`).
    Check: 7e9 parameters in layers: no recomputation, full recomputation, ZeRO-3.
        >>> modes, stages = np.array([FULL - 1, FULL, FULL - 1]), col(0, 0, 3)
        >>> plans = row(activation_checkpointing=modes, zero_stage=stages, tensor_parallel=1, pipeline_parallel=1)
        >>> cast_bytes(row(linear_params=7e9), plans, row(casts=2.0)).tolist()
        [14000000000.0, 0.0, 0.0]
    """
    passing = (plans.activation_checkpointing == FULL) | (plans.zero_stage >= 3)
    layers = counts.linear_params * params.casts / (plans.pipeline_parallel * plans.tensor_parallel)
    return np.where(passing, 0.0, layers)


@formula(unit="B", source="PyTorch's documentation of autocast; traced steps of PyTorch 2.15")
def head_cast_bytes(
    counts: Counts, plans: TrainingPlans, framework: Recipes, params: ParamBytes, recipe: Recipe
) -> Column:
    """16-bit copies of an FP32 head.

    Autocast caches one copy of trained weights, because its cache holds leaves that need gradients. It makes a new
    copy of frozen weights for each product, including each chunk of a chunked loss.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        framework: framework recipes (`Recipes`).
        params: bytes per parameter by use (`ParamBytes`).
        recipe: bytes and products per parameter, from method, precision and optimizer (`Recipe`).
    Check: a frozen head of 1000 parameters under a loss in eight chunks.
        >>> counts, chunked = row(head_matmul_params=1000), row(loss=col(CHUNKED), loss_chunks=col(8))
        >>> head_cast_bytes(counts, row(tensor_parallel=col(1)), chunked, row(head_casts=2), row(frozen=True)).tolist()
        [16000.0]
    """
    copies = np.where(recipe.frozen & (framework.loss == CHUNKED), framework.loss_chunks, 1.0)
    return copies * counts.head_matmul_params * params.head_casts / plans.tensor_parallel
