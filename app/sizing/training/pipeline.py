"""What a pipeline's stages hold: whole layers; micro-batches, most on the first, fewest where the loss is formed."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula


@formula(unit="micro-batches", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def micro_batches_in_flight(micro_batches: Column, stages: Column, virtual_pipeline: Column, place: Column) -> Column:
    """Micro-batches whose activations a stage holds; the first stage's place is 0.

    One forward, one backward: as many as there are stages from it on. Interleaved: 2 (p - i - 1) + (v - 1) p + 1
    chunks, of which a micro-batch has v. Never more than a step has.
    Source: Narayanan et al. 2021 (arXiv:2104.04473), section 2.2; Megatron-LM's schedules.
    Check: four stages of many micro-batches, the first and the last: without chunks, then with two.
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
    """Layers of a pipeline's fullest stage: whole ones.

    Source: Narayanan et al. 2021 (arXiv:2104.04473).
    Check: 126 layers on sixteen stages: eight.
        >>> stage_layers(126.0, col(1, 16)).tolist()
        [126.0, 8.0]
    """
    return np.ceil(num_layers / stages)


@formula(unit="1", source="definition")
def stage_share(num_layers: float, stages: Column) -> Column:
    """Share of a model's layers on the fullest stage.

    Source: definition.
    Check:
        >>> stage_share(126.0, col(1, 16)).round(4).tolist()
        [1.0, 0.0635]
    """
    share: Column = stage_layers(num_layers, stages) / np.maximum(1.0, num_layers)
    return share
