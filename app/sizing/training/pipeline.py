"""Contents of pipeline stages: whole layers, and micro-batches in flight.

The first stage keeps the most micro-batches; the last stage, which computes the loss, keeps the fewest.
"""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula


@formula(unit="micro-batches", source="Narayanan et al. 2021 (arXiv:2104.04473), section 2.2; Megatron-LM schedules")
def micro_batches_in_flight(micro_batches: Column, stages: Column, virtual_pipeline: Column, place: Column) -> Column:
    """Micro-batches whose activations a pipeline stage keeps.

    In the one-forward-one-backward (1F1B) schedule, a stage keeps one micro-batch for itself and for each later
    stage. In the interleaved schedule it keeps 2 (p - i - 1) + (v - 1) p + 1 chunks; each micro-batch has v chunks.
    The number never exceeds the micro-batches of a step.
    Parameters:
        micro_batches: micro-batches per step.
        stages: pipeline stages (p).
        virtual_pipeline: model chunks per stage (v).
        place: position of the stage (i), 0 for the first stage.
    Check: first and last of four stages with many micro-batches, without chunks and then with two chunks.
        >>> four, of = col(4, 4, 4, 4), col(0, 3, 0, 3)
        >>> micro_batches_in_flight(col(64, 64, 64, 64), four, col(1, 1, 2, 2), of).tolist()
        [4.0, 1.0, 5.5, 2.5]
    """
    behind = stages - 1 - place
    warm_up = np.where(
        virtual_pipeline > 1, (2 * behind + (virtual_pipeline - 1) * stages + 1) / virtual_pipeline, behind + 1
    )
    return np.minimum(micro_batches, warm_up)


@formula(unit="layers", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def stage_layers(num_layers: float, stages: Column) -> Column:
    """Layers of the fullest pipeline stage; stages hold whole layers.

    Parameters:
        num_layers: layers of the model.
        stages: pipeline stages.
    Check: 126 layers on sixteen stages put eight layers on the fullest stage.
        >>> stage_layers(126.0, col(1, 16)).tolist()
        [126.0, 8.0]
    """
    return np.ceil(num_layers / stages)


@formula(unit="1", source="definition")
def stage_share(num_layers: float, stages: Column) -> Column:
    """Share of a model's layers on the fullest pipeline stage.

    Parameters:
        num_layers: layers of the model.
        stages: pipeline stages.
    Check: 8 of 126 layers.
        >>> stage_share(126.0, col(1, 16)).round(4).tolist()
        [1.0, 0.0635]
    """
    share: Column = stage_layers(num_layers, stages) / np.maximum(1.0, num_layers)
    return share
