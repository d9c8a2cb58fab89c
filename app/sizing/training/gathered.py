"""Weights beside those that an accelerator holds: gathered from other ranks, and 16-bit copies of those in 32 bit."""

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
    """Parameters of a layer on one model-parallel rank, of those with experts where some have none.

    Source: definition.
    """
    ends = counts.embedding_params + counts.head_params
    dense = (counts.total_params - counts.routed_params - ends) / plans.tensor_parallel
    routed = counts.routed_params / (expert_shards * np.maximum(1.0, counts.routing_layers))
    found: Column = dense / np.maximum(1.0, counts.weight_layers) + routed
    return found


@formula(unit="parameters", source="definition")
def end_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Parameters of embedding and head on one rank; the larger of them where stages share the layers.

    Source: definition.
    """
    both = counts.embedding_params + counts.head_params
    larger = np.maximum(counts.embedding_params, counts.head_params)
    return np.where(plans.pipeline_parallel > 1, larger, both) / plans.tensor_parallel


@formula(unit="B", source="Zhao et al. 2023 (arXiv:2304.11277)")
def gathered_bytes(
    gathers: Mask, end_params_per_rank: Column, gathered_unit_params: Column, units: Column, params: ParamBytes
) -> Column:
    """ZeRO-3: embedding and head stay gathered through the loss, and with them the layers in use and fetched ahead.

    Source: Zhao et al. 2023 (arXiv:2304.11277), section 4.3; traced steps of PyTorch 2.15 (`fully_shard`).
    """
    gathered = end_params_per_rank * params.ends + units * gathered_unit_params * params.gathered
    return np.where(gathers, gathered, 0.0)


@formula(unit="B", source="PyTorch's documentation of autocast")
def cast_bytes(counts: Counts, plans: TrainingPlans, params: ParamBytes) -> Column:
    """16-bit copies of layers' weights in 32 bit, which autocast keeps until backward; none where layers are recomputed
    or sharded.

    Source: PyTorch's documentation of autocast; traced steps of PyTorch 2.15.
    """
    passing = (plans.activation_checkpointing == FULL) | (plans.zero_stage >= 3)
    layers = counts.linear_params * params.casts / (plans.pipeline_parallel * plans.tensor_parallel)
    return np.where(passing, 0.0, layers)


@formula(unit="B", source="PyTorch's documentation of autocast")
def head_cast_bytes(
    counts: Counts, plans: TrainingPlans, framework: Recipes, params: ParamBytes, recipe: Recipe
) -> Column:
    """16-bit copies of a head in 32 bit: autocast keeps one of what is trained, and makes one for each product of what
    is not, each of a loss in chunks among them.

    Source: PyTorch's documentation of autocast (its cache holds leaves that need gradients); traced steps.
    Check: a frozen head of 1000 parameters under a loss in eight chunks.
        >>> counts, chunked = row(head_matmul_params=1000), row(loss=col(CHUNKED), loss_chunks=col(8))
        >>> head_cast_bytes(counts, row(tensor_parallel=col(1)), chunked, row(head_casts=2), row(frozen=True)).tolist()
        [16000.0]
    """
    copies = np.where(recipe.frozen & (framework.loss == CHUNKED), framework.loss_chunks, 1.0)
    return copies * counts.head_matmul_params * params.head_casts / plans.tensor_parallel
