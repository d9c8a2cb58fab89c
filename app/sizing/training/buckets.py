"""Buffers in which replicas exchange gradients, and weights that lie gathered by number rather than by layer."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column, Mask
from app.sizing.formula import formula
from app.sizing.training.recipes import BYTES_16_BIT


@formula(unit="B", source="PyTorch's DDP; DeepSpeed's reduce_bucket_size")
def gradient_bucket_bytes(bucket_bytes: Column, whole_gradient_bytes: Column, exchanges: Mask) -> Column:
    """Buckets of gradients on their way to other replicas, never more than the gradients themselves.

    PyTorch's DDP keeps every bucket beside the gradients unless these are views of it; DeepSpeed fills one bucket at a
    time; Megatron reduces in place.
    Source: PyTorch's DistributedDataParallel (gradient_as_bucket_view); DeepSpeed's stage_1_and_2.py and stage3.py.
    Check: a bucket of 1 GB beside 0.4 and 16 GB of gradients, and one accelerator that exchanges nothing.
        >>> gradient_bucket_bytes(col(1e9, 1e9, 1e9), col(0.4e9, 16e9, 16e9), np.array([True, True, False])).tolist()
        [400000000.0, 1000000000.0, 0.0]
    """
    return np.where(exchanges, np.minimum(bucket_bytes, whole_gradient_bytes), 0.0)


@formula(unit="parameters", source="DeepSpeed's parameter coordinator; PyTorch's fully_shard")
def gathered_unit_params(
    layer_params_per_rank: Column, largest_matrix_params: float, tensor_parallel: Column, live_params: Column
) -> Column:
    """Weights that are gathered and let go of together: a layer, or a matrix where that goes by number.

    Source: DeepSpeed's partitioned_param_coordinator.py fetches what one module holds; PyTorch's fully_shard a layer.
    Check: a layer of four matrices.
        >>> gathered_unit_params(col(8e8, 8e8), 2e8, col(1, 1), col(0, 1e9)).tolist()
        [800000000.0, 200000000.0]
    """
    matrix = np.minimum(layer_params_per_rank, largest_matrix_params / tensor_parallel)
    return np.where(live_params > 0, matrix, layer_params_per_rank)


@formula(unit="B", source="DeepSpeed's stage3_max_live_parameters")
def live_bytes(gathers: Mask, rank_params: Column, live_params: Column) -> Column:
    """Weights that lie gathered where a framework lets go of them by number: those that are used again soon stay, up to
    the most that may be live.

    Source: DeepSpeed's partitioned_param_coordinator.py: max_live_parameters, max_reuse_distance.
    Check: 1e9 parameters of eight may be live; of a model of half of that all are; none where units are let go of.
        >>> live_bytes(np.array([True, True, True]), col(8e9, 0.5e9, 8e9), col(1e9, 1e9, 0)).tolist()
        [2000000000.0, 1000000000.0, 0.0]
    """
    return np.where(gathers, np.minimum(rank_params, live_params) * BYTES_16_BIT, 0.0)
