"""Gradient buckets that replicas reduce, and gathered weights that a framework frees by number instead of by layer."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column, Mask
from app.sizing.formula import formula
from app.sizing.training.recipes import BYTES_16_BIT


@formula(
    unit="B",
    source="PyTorch's DistributedDataParallel (gradient_as_bucket_view); DeepSpeed's stage_1_and_2.py, stage3.py",
)
def gradient_bucket_bytes(bucket_bytes: Column, whole_gradient_bytes: Column, exchanges: Mask) -> Column:
    """Buckets of gradients that are being reduced, at most as large as the gradients.

    PyTorch's DDP keeps every bucket in addition to the gradients, unless gradients are views of the buckets.
    DeepSpeed fills one bucket at a time. Megatron reduces in place.

    Parameters:
        bucket_bytes: size of the buckets, bytes.
        whole_gradient_bytes: gradients of the rank, bytes.
        exchanges: whether replicas reduce gradients in buckets.
    Check: a bucket of 1 GB with 0.4 and 16 GB of gradients, and one accelerator without replicas.
        >>> gradient_bucket_bytes(col(1e9, 1e9, 1e9), col(0.4e9, 16e9, 16e9), np.array([True, True, False])).tolist()
        [400000000.0, 1000000000.0, 0.0]
    """
    return np.where(exchanges, np.minimum(bucket_bytes, whole_gradient_bytes), 0.0)


@formula(unit="parameters", source="DeepSpeed's partitioned_param_coordinator.py; PyTorch's fully_shard")
def gathered_unit_params(
    layer_params_per_rank: Column, largest_matrix_params: float, tensor_parallel: Column, live_params: Column
) -> Column:
    """Parameters that are gathered and freed together: a layer, or one matrix where the framework frees by number.

    PyTorch's `fully_shard` gathers a layer; DeepSpeed's parameter coordinator gathers what one module holds.

    Parameters:
        layer_params_per_rank: parameters of one layer on a model-parallel rank.
        largest_matrix_params: parameters of the model's largest matrix.
        tensor_parallel: ranks that share each matrix.
        live_params: most parameters that stay gathered; 0 where units are freed.
    Check: a layer of four matrices.
        >>> gathered_unit_params(col(8e8, 8e8), 2e8, col(1, 1), col(0, 1e9)).tolist()
        [800000000.0, 200000000.0]
    """
    matrix = np.minimum(layer_params_per_rank, largest_matrix_params / tensor_parallel)
    return np.where(live_params > 0, matrix, layer_params_per_rank)


@formula(unit="B", source="DeepSpeed's partitioned_param_coordinator.py (max_live_parameters, max_reuse_distance)")
def live_bytes(gathers: Mask, rank_params: Column, live_params: Column) -> Column:
    """Gathered weights that stay in memory where a framework frees them by number.

    Weights that are used again soon stay, up to `stage3_max_live_parameters`.

    Parameters:
        gathers: whether weights are gathered from other ranks (ZeRO-3).
        rank_params: parameters of the model-parallel rank.
        live_params: most parameters that stay gathered; 0 where units are freed.
    Check: 1e9 parameters of 8e9 may stay; all of 0.5e9 stay; none where units are freed.
        >>> live_bytes(np.array([True, True, True]), col(8e9, 0.5e9, 8e9), col(1e9, 1e9, 0)).tolist()
        [2000000000.0, 1000000000.0, 0.0]
    """
    return np.where(gathers, np.minimum(rank_params, live_params) * BYTES_16_BIT, 0.0)
